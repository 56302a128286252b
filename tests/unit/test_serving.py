"""The service that a reference shows: taken from the page, run, and asked."""

import re
import sys

import pytest
import torch

from bert_pytorch.inference.embedding import Embedder
from bert_pytorch.interop.huggingface import export_model

from .examples import ROOT, make_vocab, story_pairs
from .hub_folders import make_lm

for package in ("fastapi", "sentence_transformers"):
    pytest.importorskip(package)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_service_of_the_reference_answers_with_our_vectors(tmp_path, monkeypatch):
    text = (ROOT / "skills/inference-and-export/references/serving.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", text, re.M | re.S)
    vocab = make_vocab(story_pairs())
    model = make_lm(len(vocab))
    monkeypatch.chdir(tmp_path)
    export_model(model, vocab, "served")
    (tmp_path / "service_of_the_page.py").write_text(block)
    monkeypatch.syspath_prepend(tmp_path)
    import service_of_the_page as service

    lines = ["a1 b1 c d", "e"]
    answer = service.embed(service.Request(texts=lines))
    expected = Embedder(model.bert, vocab, normalize=True)(lines)
    torch.testing.assert_close(torch.tensor(answer["vectors"]), expected, atol=1e-5, rtol=1e-5)
    assert [route.path for route in service.app.routes if "embed" in route.path] == ["/embed"]
    with pytest.raises(ValueError, match="at least 1 item"):
        service.Request(texts=[])
    del sys.modules["service_of_the_page"]
