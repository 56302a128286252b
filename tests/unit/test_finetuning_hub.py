"""`push_to_hub`, against a small hub of our own on this machine: what a real one would be sent."""

import base64
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from .examples import ROOT
from .finetuning_runs import write_bert, write_task

pytest.importorskip("transformers")
pytest.importorskip("accelerate")


class Hub(BaseHTTPRequestHandler):
    """Takes what is pushed; knows one user and one model."""

    def log_message(self, *_):
        """Say nothing."""

    def answer(self, content, status=200):
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self):
        self.server.calls.append(("GET", self.path))
        if self.path.startswith("/api/whoami-v2"):
            self.answer({"name": "me", "type": "user", "orgs": [], "auth": {"accessToken": {"role": "write"}}})
        elif self.path.startswith("/api/models/me/tuned"):
            self.answer({"id": "me/tuned", "modelId": "me/tuned", "sha": "a" * 40, "siblings": [], "private": True, "tags": []})
        else:
            self.answer({"error": "none"}, 404)

    do_HEAD = do_GET

    def do_POST(self):
        size = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(size)
        self.server.calls.append(("POST", self.path))
        if self.path.startswith("/api/repos/create"):
            self.server.created.append(json.loads(body))
            self.answer({"url": f"{self.server.url}/me/tuned", "id": "me/tuned", "name": "me/tuned"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self.answer({"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        elif "/commit/" in self.path:
            for line in body.splitlines():
                entry = json.loads(line)
                if entry["key"] == "file":
                    self.server.files[entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            self.answer({"commitUrl": f"{self.server.url}/me/tuned/commit/{'a' * 40}", "commitOid": "a" * 40, "success": True})
        else:
            self.answer({"errors": [], "warnings": []})


@pytest.fixture
def hub():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.calls, server.created, server.files = [], [], {}
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_the_model_its_tokenizer_and_its_card_reach_the_hub(hub, tmp_path):
    model = write_bert(tmp_path / "bert")
    words = ["task=sequence-classification", f"model={model}", f"train_file={write_task(tmp_path, 'sequence-classification')}"]
    words += [
        "output_dir=tuned",
        "max_length=24",
        "max_steps=2",
        "push_to_hub=true",
        "hub_model_id=me/tuned",
        "save_strategy=no",
    ]
    words += ["hub_private_repo=true", "hub_strategy=end", "hub_token=hf_x"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": hub.url, "HF_HUB_DISABLE_XET": "1", "HF_HOME": str(tmp_path / "home")}
    environment |= {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    script = ROOT / "skills/fine-tuning/scripts/finetune.py"
    done = subprocess.run(
        [sys.executable, script, *words, "--json"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["ok"] is True
    assert hub.created[0]["name"].rpartition("/")[2] == "tuned"
    assert hub.created[0].get("private") is True or hub.created[0].get("visibility") == "private"
    assert hub.files.keys() >= {"model.safetensors", "config.json", "tokenizer.json", "README.md"}
    assert hub.files["config.json"] == (tmp_path / "tuned" / "config.json").read_bytes()
    assert hub.files["model.safetensors"] == (tmp_path / "tuned" / "model.safetensors").read_bytes()
    assert b"hf_x" not in (tmp_path / "tuned" / "finetune.json").read_bytes()
