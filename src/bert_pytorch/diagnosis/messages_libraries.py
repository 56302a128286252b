"""Messages of Transformers, datasets, safetensors and bert-pytorch 0.0.1a4, with their causes and what to do."""

from __future__ import annotations

from .rules import FIRST, Rule

TRANSFORMERS = (
    Rule(
        "hf-trainer-tokenizer",
        r"Trainer\.__init__\(\) got an unexpected keyword argument 'tokenizer'",
        "Transformers 5 renamed Trainer(tokenizer=) to processing_class",
        "Trainer(..., processing_class=tokenizer)",
    ),
    Rule(
        "hf-offline",
        r"We couldn't connect to '?https://huggingface\.co|offline mode is enabled|OfflineModeIsEnabled|"
        r"outgoing traffic has been disabled|is not a local folder and is not a valid model identifier|"
        r"Can't load (?:tokenizer|the model|the configuration) (?:for|of) |Couldn't reach '[^']*' on the Hub",
        "the name is no folder here, and the hub is not reached (or HF_HUB_OFFLINE=1 forbids it)",
        "give the path of a local folder (ls FOLDER/config.json); or, with a network: unset HF_HUB_OFFLINE, and "
        "{import_model} --model NAME --allow_network ...",
    ),
    Rule(
        "hf-not-allowed",
        r"40[13] (?:Client Error|Unauthorized|Forbidden)|gated repo|"
        r"Repository Not Found for url|RepositoryNotFoundError|GatedRepoError",
        "the hub has no such model, or this account may not read it",
        "hf auth login (or HF_TOKEN=...), and check the name on the hub: USER/NAME",
    ),
    Rule(
        "hf-padding",
        r"Unable to create tensor, you should probably activate truncation and/or padding",
        "texts of different lengths, or nested labels, are made into one tensor",
        "tokenizer(texts, padding=True, truncation=True, return_tensors='pt'); DataCollatorWithPadding(tokenizer)",
    ),
    Rule(
        "hf-no-pad-token",
        r"Asking to pad but the tokenizer does not have a padding token",
        "the tokenizer has no padding token",
        "tokenizer.pad_token = '[PAD]' ('<pad>' in folders exported here); or copy tokenizer_config.json of the model",
    ),
    Rule(
        "hf-no-mask",
        r"The tokenizer does not define a `mask_token`|No mask_token \(.*\) found on the input",
        "the text has no mask of this tokenizer: '<mask>' in folders exported here, '[MASK]' in BERT's own",
        "{fill_mask} --model MODEL --text 'a <mask> c'",
    ),
    Rule(
        "hf-accelerate",
        r"[Uu]sing the `?Trainer`? with `?PyTorch`? requires `?accelerate",
        "the Trainer needs the package accelerate",
        "python -m pip install accelerate",
    ),
    Rule(
        "hf-too-long",
        r"Token indices sequence length is longer than the specified maximum sequence length for this model \((\d+) > (\d+)\)|"
        r"The expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
        "a text of {1}{3} tokens, where the model takes {2}{4}",
        "tokenizer(..., truncation=True, max_length={2}{4}); finetune.py: max_length={2}{4}, which cuts and counts",
    ),
    Rule(
        "hf-new-head",
        r"newly initialized|were not initialized from the model checkpoint",
        "the head is new: its answers are noise until it is trained; expected before fine-tuning",
        "train it: {finetune} task=sequence-classification model=FOLDER train_file=rows.tsv output_dir=tuned",
    ),
    Rule(
        "hf-no-loss",
        r"The model did not return a loss from the inputs",
        "the rows have no labels under the name that the model takes",
        "rename the column to labels: dataset.rename_column('label', 'labels')",
    ),
    Rule(
        "hf-no-columns",
        r"No columns in the dataset match the model's forward method signature",
        "the rows are texts, not ids",
        "dataset.map(lambda row: tokenizer(row['text'], truncation=True)), or {finetune} ..., which reads the text file itself",
    ),
    Rule(
        "hf-best-strategy",
        r"load_best_model_at_end requires the save and eval strategy to match",
        "checkpoints are saved at other moments than the model is evaluated",
        "eval_strategy='epoch', save_strategy='epoch' (or both 'steps' with save_steps a multiple of eval_steps)",
    ),
    Rule(
        "hf-no-eval-data",
        r"You have set `args\.eval_strategy` to .* but you didn't pass an `eval_dataset`",
        "evaluation is asked for without held-out rows",
        "eval_dataset=... (finetune.py: validation_file=held_out.tsv), or eval_strategy='no'",
    ),
    Rule(
        "hf-no-checkpoint",
        r"No valid checkpoint found in output directory \((.*)\)",
        "{1} has no checkpoint-STEP to go on from: the first run saved none, or another folder was meant",
        "ls -d {1}/checkpoint-*; then leave resume_from_checkpoint out, or name the folder",
    ),
    Rule(
        "hf-unknown-model",
        r"Unrecognized model in (.*?)\. Should have a `model_type` key|does not recognize this architecture",
        "config.json does not say what model it is: not a folder of Transformers, or of a newer version",
        "{inspect_checkpoint} {1} says what it is; then {export} --model CHECKPOINT --to huggingface --output NEW",
    ),
    Rule(
        "hf-no-weights",
        r"Error no file named [^\n]{0,99}(?:model\.safetensors|pytorch_model\.bin)[^\n]{0,99}found in directory (\S+?)\.?$",
        "the folder has a config.json and no weights",
        "ls {1}; copy model.safetensors too, or {export} --model CHECKPOINT --to huggingface --output NEW",
    ),
    Rule(
        "hf-torch-version",
        r"upgrade torch to at least v?(2\.\d+)",
        "this Transformers reads .bin files with torch {1} or newer only",
        "python -m pip install 'torch>={1}'; or a folder with model.safetensors",
    ),
    Rule(
        "tokenizers-fork",
        r"The current process just got forked, after parallelism has already been used",
        "harmless: the tokenizer goes on with one thread in data workers",
        "export TOKENIZERS_PARALLELISM=false",
    ),
)

DATA = (
    Rule(
        "datasets-rows",
        r"Error tokenizing data\. C error: Expected (\d+) fields in line (\d+), saw (\d+)",
        "line {2} has {3} fields, the first line {1}: a separator within a text, or quotes that do not close",
        "sed -n '{2}p' FILE | cat -A; quote the text, or write it as JSONL; finetune.py: skip_bad_rows=true",
    ),
    Rule(
        "datasets-generate",
        r"An error occurred while generating the dataset|DatasetGenerationCastError|DatasetGenerationError",
        "a file's rows have other columns or types than those before it; the first lines of the traceback name it",
        "head -n 2 FILES: the same columns and types in each; one at a time: load_dataset('json', data_files=[FILE])",
    ),
    Rule(
        "datasets-column",
        r"Column name (\S+) not in the dataset\. Current columns in the dataset: (.*)|"
        r"Original column name (\S+) not in the dataset|"
        r"Column '([^']+)' doesn't exist",
        "there is no column {1}{3}{4}; there are {2}",
        "print(dataset.column_names); finetune.py: text_column=..., label_column=...",
    ),
    Rule(
        "datasets-script",
        r"Dataset scripts are no longer supported",
        "datasets 4 runs no loading scripts",
        "load the data files: load_dataset('csv', data_files={'train': 'rows.csv'}); or give the file to {finetune}",
    ),
    Rule(
        "safetensors-header",
        r"(?:Error while deserializing header|SafetensorError)\W+([\w ,]+)",
        "the file is no whole safetensors file ({1}): cut off, a Git LFS pointer, or a web page saved under this name",
        "ls -l FILE; head -c 200 FILE; then copy it again (git lfs pull)",
    ),
    Rule(
        "safetensors-shared",
        r"Some tensors share memory",
        "two names stand for one tensor, as the decoder and the embedding of a BERT do",
        "safetensors.torch.save_model(model, FILE); or {export} --model CHECKPOINT --to safetensors --output FILE",
    ),
    Rule(
        "text-not-utf8",
        r"'utf-?8' codec can't decode byte (0x\w+) in position (\d+)",
        "the file is not UTF-8 (byte {1} at {2}); 0xff or 0xfe at 0 is utf-16, 0x80..0xff mostly cp1252; 0x1f 0x8b is gzip",
        "{check_corpus} --corpus FILE; then iconv -f cp1252 -t utf-8 FILE > OUT, or --encoding NAME",
    ),
    Rule(
        "text-locale",
        r"'(?:ascii|charmap|cp1252|latin-1)' codec can't (?:encode|decode)",
        "the system's encoding is not UTF-8 and open() took it",
        "PYTHONUTF8=1 before the command; in code open(path, encoding='utf-8')",
    ),
)

ANCESTOR = (
    Rule(
        "ancestor-chance",
        r"total_acc=\s*(?:4[4-9]|5[0-5])\.\d+",
        "bert-pytorch 0.0.1a4: 'not next' never counts in its loss, so accuracy stays at 50 %; lr has no effect either",
        "python -m pip uninstall -y bert-pytorch && python -m pip install --no-deps {BUNDLE}, then the same script",
        FIRST,
    ),
    Rule(
        "ancestor-file-mode",
        r"self\.corpus_lines \+= 1|"
        r"'BERTDataset' object has no attribute '(?:random_file|file|lines)'|'NoneType' object has no attribute '__next__'",
        "bert-pytorch 0.0.1a4: on_memory=False never worked there",
        "python -m pip uninstall -y bert-pytorch && python -m pip install --no-deps {BUNDLE}, then the same script",
        FIRST,
    ),
    Rule(
        "ancestor-lines",
        r"bert_pytorch/dataset/dataset\.py[\s\S]{0,600}(?:list index out of range|not enough values to unpack)",
        "bert-pytorch 0.0.1a4 meets a line without exactly one tab",
        "{check_corpus} --corpus FILE --fix OUT; and install this library: python -m pip install --no-deps {BUNDLE}",
        FIRST,
    ),
)

LIBRARIES = (*TRANSFORMERS, *DATA, *ANCESTOR)
