"""Tiny local models, trained tokenizers and data for the tests of fine-tuning."""

import json
import random
from itertools import pairwise

import pytest
import torch

from bert_pytorch import BERT, BERTTrainer
from bert_pytorch.finetuning.run import finetune
from bert_pytorch.finetuning.settings import settings_of

from .examples import make_dataset

GOOD, BAD = ("good", "great", "fine", "lovely"), ("bad", "awful", "poor", "weak")
FILLING = ("the", "film", "was", "a", "plot", "and", "cast", "very", "quite")
NAMES = ("Mia", "Leo", "Ada")
QUIET = {"disable_tqdm": True, "num_train_epochs": 1, "max_length": 40, "learning_rate": 0.003, "logging_steps": 2}
LONGER = {"per_device_train_batch_size": 8, "num_train_epochs": 16, "learning_rate": 0.005}


def texts(n_rows=64, seed=0):
    """Texts of which one word tells the label."""
    draw = random.Random(seed)
    rows = []
    for i in range(n_rows):
        words = [draw.choice(FILLING) for _ in range(draw.randint(3, 9))]
        words.insert(draw.randint(0, len(words)), draw.choice(GOOD if i % 2 else BAD))
        rows.append((" ".join(words) + f" {i}", i % 2))
    return rows


def write_rows(path, head, rows, delimiter="\t"):
    lines = [delimiter.join(map(str, row)) for row in [head, *rows]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def write_task(folder, task, n_rows=64, seed=0):
    """A file of a task in a folder, which is made; returns its path."""
    folder.mkdir(exist_ok=True)
    rows = texts(n_rows, seed)
    draw = random.Random(seed + 1)
    if task == "sentence-pair":
        pairs = [(a, b, int((i + j) % 2)) for i, (a, _) in enumerate(rows) for j, (b, _) in enumerate(rows[i : i + 1])]
        return write_rows(folder / "pairs.tsv", ("sentence1", "sentence2", "label"), pairs)
    if task == "regression":
        return write_rows(folder / "scores.tsv", ("text", "score"), [(text, len(text) / 10) for text, _ in rows])
    if task == "multi-label":
        lines = [{"text": t, "labels": (["good"] if y else []) + (["film"] if "film" in t else [])} for t, y in rows]
        return write_lines(folder / "topics.jsonl", lines)
    if task == "token-classification":
        lines = []
        for text, _ in rows:
            words = [*text.split()[:4], draw.choice(NAMES), "Smith", "."]
            tags = ["O"] * (len(words) - 3) + ["B-person", "I-person", "O"]
            lines += [f"{w}\t{t}" for w, t in zip(words, tags, strict=True)] + ["\t"]
        (folder / "train.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(folder / "train.conll")
    if task == "question-answering":
        articles = []
        for i, (text, _) in enumerate(rows):
            name = draw.choice(NAMES)
            context = f"{text} and {name} was fine"
            answer = {"text": name, "answer_start": context.index(name)}
            asked = {"id": f"q{i}", "question": "was the film good", "answers": [answer]}
            articles.append({"title": str(i), "paragraphs": [{"context": context, "qas": [asked]}]})
        (folder / "questions.json").write_text(json.dumps({"version": "1.1", "data": articles}))
        return str(folder / "questions.json")
    if task == "seq2seq":
        lines = [{"source": t, "target": "good film" if y else "bad film"} for t, y in rows]
        return write_lines(folder / "rewrites.jsonl", lines)
    if task in ("masked-lm", "causal-lm"):
        return write_lines(folder / "texts.jsonl", [{"text": text} for text, _ in rows])
    return write_rows(folder / "train.tsv", ("sentence", "label"), rows)


def make_tokenizer(specials, template, names):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token=specials[1]))
    tokenizer.normalizer = tokenizers.normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    trainer = tokenizers.trainers.WordPieceTrainer(vocab_size=150, special_tokens=list(specials), show_progress=False)
    words = [text for text, _ in texts(200)] + [f"{name} Smith was fine ." for name in NAMES]
    tokenizer.train_from_iterator(words, trainer)
    if template:
        ids = [(word, i) for i, word in enumerate(specials) if word in " ".join(template)]
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=template[0], pair=template[1], special_tokens=ids
        )
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, model_max_length=64, **names)


def write_bert(folder):
    """A tiny BERT with its tokenizer, as a hub-style folder."""
    transformers = pytest.importorskip("transformers")
    specials = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), specials, strict=True))
    inputs = {"model_input_names": ["input_ids", "token_type_ids", "attention_mask"]}
    template = "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1"
    tokenizer = make_tokenizer(specials, template, {**names, **inputs})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **sizes)
    transformers.BertForPreTraining(config).save_pretrained(folder)
    return str(folder)


def write_gpt2(folder):
    transformers = pytest.importorskip("transformers")
    tokenizer = make_tokenizer(("<end>", "<unk>"), None, {"eos_token": "<end>", "unk_token": "<unk>"})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(tokenizer), n_positions=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return str(folder)


def write_t5(folder):
    transformers = pytest.importorskip("transformers")
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "eos_token": "</s>"}
    tokenizer = make_tokenizer(("<pad>", "<unk>", "</s>"), ("$A </s>", "$A </s> $B </s>"), names)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
    special = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2}
    transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=len(tokenizer), **sizes, **special)
    ).save_pretrained(folder)
    return str(folder)


def write_checkpoint(folder):
    """A checkpoint of this project with its vocabulary of words."""
    rows = [text for text, _ in texts(200)] + [f"{name} Smith was fine ." for name in NAMES]
    pairs = list(pairwise(rows))
    data = make_dataset(folder / "corpus.txt", pairs, seq_len=24)
    data.vocab.save_vocab(folder / "vocab.json")
    torch.manual_seed(0)
    bert = BERT(len(data.vocab), hidden=32, n_layers=2, attn_heads=4, max_len=64)
    trainer = BERTTrainer(bert, len(data.vocab), torch.utils.data.DataLoader(data, 32), with_cuda=False, max_steps=2)
    trainer.train(0)
    return trainer.save(0, str(folder / "pre.model")), str(folder / "vocab.json")


def run(folder, task, model, name="tuned", **settings):
    """Fine-tune on the data of a task; the report."""
    path = settings.pop("train_file", None) or write_task(folder, task)
    values = {"task": task, "model": model, "train_file": path, "output_dir": str(folder / name)}
    native = {} if settings.get("engine") != "native" else {"disable_tqdm": None}
    return finetune(settings_of({**QUIET, **native, **values, **settings}))
