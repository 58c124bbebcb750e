"""HTTP/1.1, and the parsing of requests, for gcs_fake.py."""

from __future__ import annotations

import base64
import json
import socket
import struct
import time
import zlib
from email.utils import formatdate
from typing import Any
from urllib.parse import parse_qsl

from gcs_fake_state import ApiError, Request, crc32c

# Parsing of requests.


def parameter(value: str, name: str) -> bytes:
    for part in value.split(";")[1:]:
        key, _, text = part.strip().partition("=")
        if key.lower() == name:
            return text.strip('"').encode()
    raise ApiError(400, "badRequest", f"no {name} in {value}")


def split_multipart(
    body: bytes, boundary: bytes
) -> list[tuple[dict[str, str], bytes]]:
    parts = []
    for piece in (b"\r\n" + body).split(b"\r\n--" + boundary)[1:]:
        if piece.startswith(b"--"):
            break
        head, _, rest = piece.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        headers = {}
        for line in head.decode().split("\r\n"):
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        parts.append((headers, rest))
    return parts


def parse_related(request: Request) -> tuple[dict[str, Any], bytes]:
    boundary = parameter(request.headers.get("content-type", ""), "boundary")
    parts = split_multipart(bytes(request.body), boundary)
    if len(parts) != 2:
        raise ApiError(400, "badRequest", "a multipart upload has two parts")
    meta = json.loads(parts[0][1])
    meta.setdefault(
        "contentType",
        parts[1][0].get("content-type", "application/octet-stream"),
    )
    return meta, parts[1][1]


def check_hashes(request: Request, meta: dict[str, Any], data: Any) -> None:
    wanted = dict(
        part.strip().split("=", 1)
        for part in request.headers.get("x-goog-hash", "").split(",")
        if "=" in part
    )
    crc = meta.get("crc32c") or wanted.get("crc32c")
    have = crc32c(data) if crc else None
    if (
        have is not None
        and base64.b64encode(struct.pack(">I", have)).decode() != crc
    ):
        raise ApiError(
            400,
            "invalid",
            f'Provided CRC32C "{crc}" doesn\'t match calculated CRC32C.',
        )


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Returns [begin, end), or None if the complete object is the answer."""
    if not text or not text.startswith("bytes=") or "," in text:
        return None
    begin, _, last = text[6:].partition("-")
    try:
        if not begin:
            return max(size - int(last), 0), size
        return int(begin), min(int(last) + 1, size) if last else size
    except ValueError:
        return None


def parse_content_range(
    text: str | None, persisted: int, size: int
) -> tuple[int, int, int | None]:
    """Returns [begin, end) and the total, which is None if not yet known."""
    if text is None:
        return persisted, persisted + size, persisted + size
    try:
        span, _, total = text.removeprefix("bytes ").partition("/")
        whole = None if total == "*" else int(total)
        if span == "*":
            return persisted, persisted, whole
        begin, _, last = span.partition("-")
        return int(begin), int(last) + 1, whole
    except ValueError as error:
        raise ApiError(
            400, "invalid", f"Failed to parse Content-Range header {text}"
        ) from error


def parse_head(text: bytes, headers: dict[str, str]) -> Request:
    head, _, body = text.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target = lines[0].split(" ")[:2]
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    path, _, query = target.partition("?")
    return Request(
        method,
        path,
        dict(parse_qsl(query, keep_blank_values=True)),
        headers,
        body,
    )


# HTTP/1.1.


class Connection:
    def __init__(self, peer: socket.socket, api: Any) -> None:
        self.peer, self.api, self.ahead = peer, api, bytearray()

    def run(self) -> None:
        try:
            self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self.serve_one():
                pass
        except (OSError, ValueError):
            pass  # the client left, or sent invalid HTTP
        finally:
            self.peer.close()

    def fill(self) -> bool:
        data = self.peer.recv(1 << 16)
        self.ahead += data
        return bool(data)

    def line_end(self, mark: bytes) -> int:
        while (at := self.ahead.find(mark)) < 0:
            if len(self.ahead) > 1 << 20 or not self.fill():
                return -1
        return at

    def take(self, count: int) -> Any:
        if count <= len(self.ahead):
            data = bytes(self.ahead[:count])
            del self.ahead[:count]
            return data
        body = bytearray(count)
        have = len(self.ahead)
        body[:have] = self.ahead
        self.ahead.clear()
        view = memoryview(body)
        while have < count:
            got = self.peer.recv_into(view[have:])
            if not got:
                raise ConnectionResetError
            have += got
        return body

    def read_body(self, headers: dict[str, str]) -> Any:
        if headers.get("expect", "").lower() == "100-continue":
            self.peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return self.take(int(headers.get("content-length", "0")))
        pieces = []
        while True:
            size = int(
                bytes(self.take(self.line_end(b"\r\n") + 2)).split(b";")[0], 16
            )
            pieces.append(self.take(size))
            self.take(2)
            if size == 0:
                return b"".join(pieces)

    def serve_one(self) -> bool:
        end = self.line_end(b"\r\n\r\n")
        if end < 0:
            return False
        request = parse_head(bytes(self.take(end + 4)), {})
        request.body = self.read_body(request.headers)
        if request.headers.get("content-encoding") == "gzip":
            request.body = zlib.decompress(bytes(request.body), 31)
        reply = self.api.answer(request)
        delay_ms = self.api.control.quirks.get("delay_ms", 0)
        if delay_ms and not request.path.startswith("/_fake/"):
            time.sleep(delay_ms / 1000)
        length = len(reply.body)
        head = [
            f"HTTP/1.1 {reply.status} {'OK' if reply.status < 300 else 'Other'}"
        ]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        head.append(f"Date: {formatdate(usegmt=True)}")
        if reply.status not in (204, 304):
            head.append(f"Content-Length: {length}")
        keep = request.headers.get("connection", "").lower() != "close"
        head.append(
            "Server: gcs_fake" + ("" if keep else "\r\nConnection: close")
        )
        text = "\r\n".join(head).encode("latin-1", "replace") + b"\r\n\r\n"
        if request.method == "HEAD" or not length:
            self.peer.sendall(text)
        elif length < 1 << 16:
            self.peer.sendall(text + bytes(reply.body))
        else:
            self.peer.sendall(text)
            self.peer.sendall(reply.body)
        self.api.control.count("bytes_out", length)
        return keep
