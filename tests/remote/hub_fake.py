"""A fake of Hugging Face's hub: its API of commits and trees, and its files.

Like the real hub it has two servers: the hub, which lists files and redirects
to large ones, and a server of large files at another port, which must never see
a token. Both run in threads of this process:

    with hub_fake.Hub() as hub:
        hub.push("org/model", {"model.safetensors": content})
        subprocess.run([cli, "ls", "hf://org/model"], env=hub.environment())
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

import servers

LARGE_BYTES = 1000
TOKEN = "hf_thetokenofthetests"


@dataclass
class Repository:
    """The pushed files, and the rules for reading them."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    is_gated: bool = False
    is_private: bool = False


class Hub:
    """The state of both servers, while the context lasts."""

    def __init__(self, page_entry_count: int = 3):
        self.page_entry_count = page_entry_count
        self.repositories: dict[str, Repository] = {}  # by kind and id
        self.requests: list[str] = []  # "hub GET /target", "files GET ..."
        self.leaked_tokens: list[str] = []
        # Called before each answer with its line of `requests`.
        self.before_answer: Callable[[str], None] = lambda _: None
        self.change_tree: Callable[[list[Any]], list[Any]] = lambda tree: tree
        self.next_page_root = ""  # root of links to next pages
        self.ignores_ranges = False
        self.lock = threading.Lock()
        self._servers = [self._server(HubHandler), self._server(FilesHandler)]

    @property
    def url(self) -> str:
        """The URL of the hub."""
        return f"http://127.0.0.1:{self._servers[0].server_address[1]}"

    @property
    def files_url(self) -> str:
        """The URL of the server of large files."""
        return f"http://127.0.0.1:{self._servers[1].server_address[1]}"

    def _server(self, handler: type[Handler]
                ) -> http.server.ThreadingHTTPServer:
        server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), type("Bound", (handler,), {"hub": self}))
        server.daemon_threads = True
        return server

    def __enter__(self) -> Hub:
        for server in self._servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def environment(self, home: str = "/nonexistent",
                    **more: str) -> dict[str, str]:
        """Returns this process's environment, changed so that a client uses
        this hub."""
        clean = servers.Server("http", self.url).environment()
        clean = {name: value for name, value in clean.items()
                 if not name.startswith(("HF_", "HUGGING", "TRANSFORMERS_"))}
        return clean | {"HF_ENDPOINT": self.url, "HF_HOME": home} | more

    def push(self, name: str, files: dict[str, bytes], *refs: str) -> str:
        """Makes a new commit, moves `refs` (default: main) to it, and returns
        its hash."""
        with self.lock:
            repository = self.repositories.setdefault(name, Repository())
            text = f"{name} {len(repository.commits)}"
            commit = hashlib.sha1(text.encode()).hexdigest()
            repository.commits[commit] = dict(files)
            for ref in refs or ("main",):
                repository.refs[ref] = commit
        return commit


class Handler(http.server.BaseHTTPRequestHandler):
    """The common part of both servers."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    hub: Hub
    role = ""

    def do_GET(self) -> None:  # noqa: N802
        """Records the request, and answers it."""
        line = f"{self.role} {self.command} {self.path}"
        with self.hub.lock:
            self.hub.requests.append(line)
        self.hub.before_answer(line)
        self.answer()

    do_HEAD = do_GET  # noqa: N815

    def answer(self) -> None:
        """Answers the request; each server defines it."""
        raise NotImplementedError

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""

    def give(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Sends a complete answer."""
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.wfile.flush()

    def give_range(self, content: bytes) -> None:
        """Sends the requested part of a file."""
        asked = self.headers.get("Range", "")
        match = re.fullmatch(r"bytes=(\d+)-(\d*)", asked)
        if match is None or self.hub.ignores_ranges:
            self.give(200, content)
            return
        first = int(match[1])
        part = content[first:int(match[2]) + 1 if match[2] else len(content)]
        if not part:
            self.give(416, Content_Range=f"bytes */{len(content)}")
            return
        told = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
        self.give(206, part, Content_Range=told)


class FilesHandler(Handler):
    """Serves large files by their hash, to clients with a valid signature."""

    role = "files"

    def answer(self) -> None:
        """Sends the file; 400 for a request with a token."""
        if "Authorization" in self.headers:
            self.hub.leaked_tokens.append(self.path)
            self.give(400)
            return
        target = urlsplit(self.path)
        wanted = target.path.removeprefix("/blobs/")
        for repository in list(self.hub.repositories.values()):
            for files in list(repository.commits.values()):
                for content in files.values():
                    if (hashlib.sha256(content).hexdigest() == wanted
                            and target.query == "signature=of+the+hub"):
                        self.give_range(content)
                        return
        self.give(403)


class HubHandler(Handler):
    """Serves the API and /resolve/."""

    role = "hub"

    def answer(self) -> None:
        """Answers by the request's target."""
        target = urlsplit(self.path)
        api = re.fullmatch(
            r"/api/(models|datasets)/([^/]+/[^/]+)/(revision|tree)/([^/]+)",
            target.path)
        if api:
            name = api[2] if api[1] == "models" else f"{api[1]}/{api[2]}"
            found = self._find(name, unquote(api[4]))
            if found and api[3] == "revision":
                body = {"id": api[2], "sha": found[0]}
                self.give(200, json.dumps(body).encode())
            elif found:
                self._give_tree(found[1], parse_qs(target.query))
            return
        file = re.fullmatch(
            r"/((?:datasets/)?[^/]+/[^/]+)/resolve/([^/]+)/(.+)", target.path)
        if file is None:
            self.give(404)
            return
        found = self._find(file[1], unquote(file[2]))
        if found:
            self._give_file(file[1], found[1], unquote(file[3]))

    def _find(self, name: str, revision: str
              ) -> tuple[str, dict[str, bytes]] | None:
        repository = self.hub.repositories.get(name)
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if repository is None or (repository.is_private and not is_known):
            self.give(404 if is_known else 401, X_Error_Code="RepoNotFound")
            return None
        commit = repository.refs.get(revision, revision)
        if commit not in repository.commits:
            self.give(404, X_Error_Code="RevisionNotFound")
            return None
        return commit, repository.commits[commit]

    def _give_tree(self, files: dict[str, bytes],
                   query: dict[str, list[str]]) -> None:
        folders = {path.rsplit("/", 1)[0] for path in files if "/" in path}
        tree: list[Any] = [{"type": "directory", "oid": "0" * 40, "size": 0,
                            "path": folder} for folder in sorted(folders)]
        for path, content in sorted(files.items()):
            entry = {"type": "file", "oid": hashlib.sha1(content).hexdigest(),
                     "size": len(content), "path": path}
            if len(content) >= LARGE_BYTES:
                entry["lfs"] = {"oid": hashlib.sha256(content).hexdigest(),
                                "size": len(content), "pointerSize": 134}
            tree.append(entry)
        tree = self.hub.change_tree(tree)
        begin = int(query.get("cursor", ["0"])[0])
        end = begin + self.hub.page_entry_count
        headers = {}
        if end < len(tree):
            root = self.hub.next_page_root or self.hub.url
            path = urlsplit(self.path).path
            headers["Link"] = (f'<{root}{path}?recursive=true&cursor={end}>; '
                               'rel="next"')
        self.give(200, json.dumps(tree[begin:end]).encode(), **headers)

    def _give_file(self, name: str, files: dict[str, bytes], path: str) -> None:
        is_known = self.headers.get("Authorization") == f"Bearer {TOKEN}"
        if self.hub.repositories[name].is_gated and not is_known:
            self.give(401, X_Error_Code="GatedRepo")
        elif path not in files:
            self.give(404, X_Error_Code="EntryNotFound")
        elif len(files[path]) < LARGE_BYTES:
            self.give_range(files[path])
        else:
            digest = hashlib.sha256(files[path]).hexdigest()
            self.give(302, X_Linked_Size=str(len(files[path])),
                      X_Linked_ETag=quote(digest),
                      Location=f"{self.hub.files_url}/blobs/{digest}"
                               "?signature=of+the+hub")
