"""A server of the Hugging Face hub's paths on this machine, which misbehaves as a test says.
Standard library only.

    hub = FakeHub({"models/org/name": {"config.json": b"{}"}})
    hub.endpoint                        # "http://127.0.0.1:PORT"
    hub.trouble = lambda ask: ...       # see Ask; None: answer as the hub does
"""
import hashlib
import http.server
import json
import threading
import urllib.parse
from dataclasses import dataclass

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = 1000  # bytes from which a file is kept in LFS and redirected to the CDN


@dataclass
class Ask:
    """One request, and the answer that a test may give to it."""
    handler: http.server.BaseHTTPRequestHandler
    path: str
    cdn: bool       # True if it came to the second port, where redirects lead
    count: int      # requests of this path before
    content: bytes  # the file, or the listing

    def send(self, status: int, headers: dict, body: bytes = b"") -> bool:
        self.handler.send_response(status)
        for name, value in ({"Content-Length": str(len(body))} | headers).items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        if self.handler.command != "HEAD":
            self.handler.wfile.write(body)
        return True


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def etag(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest() if len(content) >= LARGE else git_hash(content)


class FakeHub:
    def __init__(self, repositories: dict, revisions: dict | None = None, blobs: bool = True):
        self.repositories, self.blobs = repositories, blobs
        self.revisions = revisions or {"main": COMMIT, COMMIT: COMMIT}
        self.trouble = None
        self.seen = []      # (cdn, method, path, Authorization, Range)
        self.counts = {}
        self.token = None   # required in Authorization
        self.ports = [self._serve(cdn) for cdn in (False, True)]
        self.endpoint = f"http://127.0.0.1:{self.ports[0].server_port}"
        self.cdn = f"http://127.0.0.1:{self.ports[1].server_port}"

    def close(self):
        for server in self.ports:
            server.shutdown()
            server.server_close()

    def asked(self, text: str) -> list:
        return [one for one in self.seen if text in one[2]]

    def _serve(self, cdn: bool):
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                try:
                    hub.answer(self, cdn)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            do_HEAD = do_GET

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def answer(self, handler, cdn: bool):
        path = urllib.parse.unquote(handler.path)
        count = self.counts.get((cdn, path), 0)
        self.counts[cdn, path] = count + 1
        self.seen.append((cdn, handler.command, path, handler.headers.get("Authorization"), handler.headers.get("Range")))
        content = self.content_of(path, cdn)
        ask = Ask(handler, path, cdn, count, content if isinstance(content, bytes) else b"")
        if self.trouble and self.trouble(ask):
            return
        if self.token and not cdn and handler.headers.get("Authorization") != f"Bearer {self.token}":
            ask.send(401, {"X-Error-Code": "GatedRepo"})
        elif isinstance(content, str):
            ask.send(404, {"X-Error-Code": content})
        elif "/resolve/" in path and not cdn and len(content) >= LARGE:
            ask.send(302, {"Location": self.cdn + handler.path, "X-Linked-Etag": f'"{etag(content)}"', "X-Linked-Size": str(len(content)),
                           "X-Repo-Commit": COMMIT, "ETag": '"of-the-redirect"'})
        else:
            self.send_content(ask)

    def send_content(self, ask: Ask):
        headers = {"ETag": f'"{etag(ask.content)}"'}
        asked = ask.handler.headers.get("Range")
        if not asked:
            ask.send(200, headers, ask.content)
            return
        begin = int(asked.removeprefix("bytes=").split("-")[0])
        if begin >= len(ask.content):
            ask.send(416, headers)
            return
        ask.send(206, headers | {"Content-Range": f"bytes {begin}-{len(ask.content) - 1}/{len(ask.content)}"}, ask.content[begin:])

    def content_of(self, path: str, cdn: bool):
        """Returns the bytes, or the hub's error for a missing path."""
        if path.startswith("/api/"):
            name, _, revision = path.removeprefix("/api/").split("?")[0].partition("/revision/")
            return self.listing(name, revision or "main")
        name, _, rest = path.removeprefix("/").partition("/resolve/")
        name = name if name.startswith("datasets/") else f"models/{name}"
        files = self.repositories.get(name)
        if files is None:
            return "RepoNotFound"
        return files.get(rest.partition("/")[2], "EntryNotFound")

    def listing(self, name: str, revision: str):
        if name not in self.repositories:
            return "RepoNotFound"
        if revision not in self.revisions:
            return "RevisionNotFound"
        siblings = []
        for path, content in self.repositories[name].items():
            one = {"rfilename": path}
            if self.blobs:
                one |= {"size": len(content), "blobId": git_hash(content)}
                if len(content) >= LARGE:
                    one["lfs"] = {"sha256": etag(content), "size": len(content), "pointerSize": 130}
            siblings.append(one)
        return json.dumps({"id": name, "sha": self.revisions[revision], "siblings": siblings}).encode()
