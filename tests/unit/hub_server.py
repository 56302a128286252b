"""A small hub of our own on this machine: takes what is pushed; knows one user and one model."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ENVIRONMENT = {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1", "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}


class Hub(BaseHTTPRequestHandler):
    """Answers as the real one does, as far as pushing goes."""

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

    def is_refused(self):
        refused = self.server.token is not None and self.headers.get("Authorization") != f"Bearer {self.server.token}"
        if refused:
            self.answer({"error": "Invalid credentials"}, 401)
        return refused

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
        if self.is_refused():
            return
        if self.path.startswith("/api/repos/create"):
            self.server.created.append(json.loads(body))
            self.answer({"url": f"{self.server.url}/me/tuned", "id": "me/tuned", "name": "me/tuned"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes = {file["path"]: "lfs" if file["path"].endswith(self.server.large) else "regular" for file in files}
            self.answer({"files": [{"path": p, "uploadMode": mode, "shouldIgnore": False} for p, mode in modes.items()]})
        elif self.path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            actions = {each["oid"]: {"upload": {"href": f"{self.server.url}/lfs/{each['oid']}"}} for each in objects}
            self.answer({"objects": [{**each, "actions": actions[each["oid"]]} for each in objects], "transfer": "basic"})
        elif "/commit/" in self.path:
            self.commit([json.loads(line) for line in body.splitlines()])
        else:
            self.answer({"errors": [], "warnings": []})

    def do_PUT(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.server.objects[hashlib.sha256(body).hexdigest()] = body
        self.answer({})

    def commit(self, entries):
        for entry in entries:
            value = entry["value"]
            if entry["key"] == "file":
                self.server.files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                self.server.files[value["path"]] = self.server.objects[value["oid"]]
            elif entry["key"] == "header":
                self.server.messages.append(value["summary"])
        self.answer({"commitUrl": f"{self.server.url}/me/tuned/commit/{'a' * 40}", "commitOid": "a" * 40, "success": True})


@contextmanager
def running(token=None, large=()):
    """The hub while it runs: `url`, and `calls`, `created`, `files`, `messages` that it got.

    Args:
        token: Others are refused; None: any will do.
        large: Endings of names of files that go apart from the commit, as large ones do.
    """
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.calls, server.created, server.files, server.objects, server.messages = [], [], {}, {}, []
    server.token, server.large = token, tuple(large)
    server.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
