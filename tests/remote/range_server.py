#!/usr/bin/env python3
"""A plain web server of a folder: GET and HEAD with ranges, nothing else.

    python range_server.py FOLDER [--port 0] [--certificate FILE --key FILE]

The first line of standard output is its URL. HTTP/1.1 with kept connections, an
ETag that changes with the file, If-Match and If-Range, 416 past the end.
Folders are 404, as on servers without listings. /redirect/X redirects to /X.
"""

from __future__ import annotations

import argparse
import http.server
import os
import re
import ssl
import sys
import threading
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    root = Path()

    def do_GET(self) -> None:  # noqa: N802
        """Sends the file or a part of it."""
        self._serve(has_body=True)

    def do_HEAD(self) -> None:  # noqa: N802
        """Sends the answer to a GET without its body."""
        self._serve(has_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Logs nothing."""

    def _serve(self, *, has_body: bool) -> None:
        name = unquote(urlsplit(self.path).path).lstrip("/")
        if name.startswith("redirect/"):
            self._head(302, 0, Location="/" + name.removeprefix("redirect/"))
            return
        path = (self.root / name).resolve()
        if not path.is_relative_to(self.root) or not path.is_file():
            self._refuse(404)
            return
        with path.open("rb") as file:
            self._serve_file(file.fileno(), has_body=has_body)

    def _serve_file(self, file: int, *, has_body: bool) -> None:
        facts = os.fstat(file)
        size = facts.st_size
        tag = f'"{facts.st_mtime_ns:x}-{facts.st_ino:x}-{size:x}"'
        wanted = self.headers.get("If-Match", "*").strip()
        if wanted != "*" and wanted.strip('"') != tag.strip('"'):
            self._refuse(412)
            return
        facts_told = {"ETag": tag, "Accept-Ranges": "bytes",
                      "Last-Modified": self.date_time_string(
                          int(facts.st_mtime))}
        asked = self._range(size)
        if self.headers.get("If-Range", tag) != tag:
            asked = None
        if asked is None:
            self._head(200, size, **facts_told)
            first, count = 0, size
        elif asked[1] <= 0:
            self._head(416, 0, **{"Content-Range": f"bytes */{size}"})
            return
        else:
            first, count = asked
            told = f"bytes {first}-{first + count - 1}/{size}"
            self._head(206, count, **facts_told, **{"Content-Range": told})
        if has_body:
            self._send(file, first, count)

    def _send(self, file: int, first: int, count: int) -> None:
        while count > 0:
            piece = os.pread(file, min(count, 1 << 20), first)
            if not piece:
                break
            self.wfile.write(piece)
            first += len(piece)
            count -= len(piece)
        self.wfile.flush()

    def _range(self, size: int) -> tuple[int, int] | None:
        """Returns offset and count of the requested range; None for all."""
        text = self.headers.get("Range", "")
        match = re.fullmatch(r"bytes=(\d*)-(\d*)", text)
        if not match or not (match[1] or match[2]):
            return None
        if not match[1]:
            first = max(size - int(match[2]), 0)
            return first, size - first
        first = int(match[1])
        last = min(int(match[2]) if match[2] else size - 1, size - 1)
        return first, last + 1 - first

    def _refuse(self, status: int) -> None:
        self._head(status, 0)

    def _head(self, status: int, byte_count: int, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(byte_count))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.flush()


class Server(http.server.ThreadingHTTPServer):
    """Serves `folder`, in its own thread after start()."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, folder: str | Path, port: int = 0,
                 certificate: str = "", key: str = ""):
        handler = type("FolderHandler", (Handler,),
                       {"root": Path(folder).resolve()})
        super().__init__(("127.0.0.1", port), handler)
        scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.socket = context.wrap_socket(
                self.socket, server_side=True, do_handshake_on_connect=False)
            scheme = "https"
        self.url = f"{scheme}://127.0.0.1:{self.server_address[1]}"

    def start(self) -> Server:
        """Serves from now on."""
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores errors, because clients may disconnect."""


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--certificate", default="")
    parser.add_argument("--key", default="")
    arguments = parser.parse_args()
    server = Server(arguments.folder, arguments.port, arguments.certificate,
                    arguments.key)
    print(server.url, flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
