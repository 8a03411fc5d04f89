"""A hub on the loopback: the protocol of the Hugging Face Hub as far as a download uses it, with faults on demand."""

import hashlib
import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import NamedTuple
from urllib.parse import unquote, urlsplit


class Request(NamedTuple):
    """One request. range: the header, with which a client continues a file."""

    method: str
    path: str
    range: str


def git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """The files of a model, and what is wrong with it.

    refusal: status and error code of every answer. missing: listed files that are not served. cuts: per file, after how
    many bytes the connection breaks, for one request each. damaged: what is sent instead of a file.
    """

    files: dict[str, bytes]
    revisions: dict[str, str] = field(default_factory=lambda: {"main": "a" * 40})
    refusal: tuple[int, str] | None = None
    missing: set[str] = field(default_factory=set)
    cuts: dict[str, list[int]] = field(default_factory=dict)
    damaged: dict[str, bytes] = field(default_factory=dict)

    @classmethod
    def of_folder(cls, folder: Path) -> "Repository":
        return cls({str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()})

    def listing(self, commit: str) -> dict[str, object]:
        """The answer of the API with ?blobs=true."""
        siblings = []
        for name, content in self.files.items():
            entry: dict[str, object] = {"rfilename": name, "size": len(content), "blobId": git_hash(content)}
            if is_lfs(name):
                digest = hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"sha256": digest, "size": len(content), "pointerSize": 130}
            siblings.append(entry)
        return {"id": "served/model", "modelId": "served/model", "sha": commit, "siblings": siblings, "tags": []}


def is_lfs(name: str) -> bool:
    return name.endswith((".safetensors", ".bin", ".model"))


class LoopbackHub:
    """Repositories by OWNER/REPO, and the requests so far."""

    def __init__(self, repositories: Mapping[str, Repository] = ()) -> None:
        self.repositories = dict(repositories)
        self.requests: list[Request] = []
        self.endpoint = self.storage = ""

    def fetched(self, file: str) -> list[Request]:
        """The requests for the content of a file."""
        return [request for request in self.requests if request.method == "GET" and request.path.endswith(f"/{file}")]


@contextmanager
def serving(hub: LoopbackHub):
    """Serve on a free port of 127.0.0.1 until the block ends."""

    class Handler(_Handler):
        served = hub

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    hub.storage = f"http://localhost:{server.server_address[1]}"  # another host, as on the real hub
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    served: LoopbackHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *words: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.served.requests.append(Request(self.command, path, self.headers.get("Range", "")))
        words = path.strip("/").split("/")
        if len(words) < 4:
            return self._send(404, {})
        cdn, api = words[0] == "cdn", words[:2] == ["api", "models"]
        owner, name, *rest = words[1:] if cdn else words[2:] if api else words
        repository = self.served.repositories.get(f"{owner}/{name}")
        if repository is None:
            return self._send(404, {"X-Error-Code": "RepoNotFound"})
        if repository.refusal and not cdn:
            status, code = repository.refusal
            return self._send(status, {"X-Error-Code": code} if code else {})
        if cdn:
            return self._content(repository, "/".join(rest))
        revision, file = ("/".join(rest[1:]) or "main", "") if api else (rest[1], "/".join(rest[2:]))
        commit = repository.revisions.get(revision, revision if revision in repository.revisions.values() else None)
        if commit is None:
            return self._send(404, {"X-Error-Code": "RevisionNotFound"})
        if api:
            body = json.dumps(repository.listing(commit)).encode()
            return self._send(200, {"Content-Type": "application/json"}, body)
        return self._file(repository, f"{owner}/{name}", commit, file)

    def _file(self, repository: Repository, name: str, commit: str, file: str) -> None:
        """A file in git is sent at once; one in LFS is elsewhere, as on the real hub."""
        headers = {"X-Repo-Commit": commit}
        if file not in repository.files or file in repository.missing:
            return self._send(404, {**headers, "X-Error-Code": "EntryNotFound"})
        content = repository.files[file]
        if not is_lfs(file):
            return self._content(repository, file, {**headers, "ETag": f'"{git_hash(content)}"'})
        digest = hashlib.sha256(content).hexdigest()
        linked = {"X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{digest}"'}
        return self._send(302, {**headers, **linked, "Location": f"{self.served.storage}/cdn/{name}/{file}"})

    def _content(self, repository: Repository, file: str, headers: Mapping[str, str] = {}) -> None:
        content = repository.damaged.get(file, repository.files[file])
        start = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
        found = {"Content-Range": f"bytes {start}-{len(content) - 1}/{len(content)}"} if start else {}
        cuts = repository.cuts.get(file, []) if self.command == "GET" else []
        self._send(206 if start else 200, {**headers, **found}, content[start:], cuts.pop(0) if cuts else None)

    def _send(self, status: int, headers: Mapping[str, str], body: bytes = b"", cut: int | None = None) -> None:
        """Send a whole answer, or break the connection after `cut` bytes of its body."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:cut])
        self.close_connection = self.close_connection or cut is not None
