"""The service that a reference shows: taken from the page, run as it says, and asked over HTTP."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
import torch

from bert_pytorch.interop.as_checkpoint import write_as_checkpoint
from bert_pytorch.interop.weights import read_tensors

from .examples import ROOT, load_script, make_vocab, story_pairs
from .hub_folders import make_lm

for package in ("fastapi", "sentence_transformers", "uvicorn"):
    pytest.importorskip(package)

LINES = ["a1 b1 c d", "e", "f1 g1 h zzz a2 b2 c", "A1"]
MOST_SECONDS = 120


def script(name, *words):
    assert load_script("inference-and-export", name).main([*words, "--json"]) == 0


def post(address, texts):
    """Status and document of a request."""
    body = json.dumps({"texts": texts}).encode()
    request = urllib.request.Request(f"{address}/embed", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
def address(tmp_path):
    """Where the service of the page answers, until the test ends."""
    page = (ROOT / "skills/inference-and-export/references/serving.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```python\n(.*?)^```$", page, re.M | re.S)
    (command,) = re.findall(r"`(python -m uvicorn [^`]*)`", page)
    (tmp_path / "service.py").write_text(block)
    vocab = make_vocab(story_pairs())
    vocab.save_vocab(tmp_path / "vocab.json")
    write_as_checkpoint(tmp_path / "model.ep0", make_lm(len(vocab)), vocab)
    model = ["--model", str(tmp_path / "model.ep0"), "--vocab_path", str(tmp_path / "vocab.json")]
    script("export", *model, "--to", "huggingface", "--output", str(tmp_path / "served"))
    (tmp_path / "lines.txt").write_text("\n".join(LINES) + "\n")
    vectors = ["--output", str(tmp_path / "v.safetensors"), "--normalize", "true", "--device", "cpu"]
    script("embed", *model, "--input", str(tmp_path / "lines.txt"), *vectors)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, *command.replace("8000", str(port)).split()[1:]]
    with open(tmp_path / "service.log", "w") as log:
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
        service = subprocess.Popen(words, cwd=tmp_path, stdout=log, stderr=log, env=environment)
    try:
        began = time.monotonic()
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                said = (tmp_path / "service.log").read_text()[-2000:]
                assert service.poll() is None, said
                assert time.monotonic() - began < MOST_SECONDS, said
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        service.terminate()
        service.wait(30)


def test_the_service_of_the_reference_answers_with_the_vectors_of_embed(address, tmp_path):
    status, answer = post(address, LINES)
    assert status == 200
    expected = read_tensors(tmp_path / "v.safetensors")["vectors"]
    assert expected.shape == (len(LINES), 20)
    assert (torch.tensor(answer["vectors"]) - expected).abs().max() < 1e-5
    assert post(address, LINES[1:2])[1]["vectors"][0] == pytest.approx(answer["vectors"][1], abs=1e-5)
    for wrong in ([], ["a"] * 257, [7]):
        assert post(address, wrong)[0] == 422
