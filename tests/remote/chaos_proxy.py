#!/usr/bin/env python3
"""An HTTP proxy for tests that injects faults between clients and a server.

    python chaos_proxy.py --upstream http://127.0.0.1:9000 [--port 0]
                          [--rules JSON]

The first line of standard output is "http://127.0.0.1:PORT". Standard library
only. Requests are forwarded unchanged (with their Host, so that signatures stay
valid), over one kept connection to the server per client connection. A server
that closes every connection looks to clients as if it kept them.

Control, on the same port:
    POST /_chaos/rules      replaces all rules (below)
    GET  /_chaos/counters   counts since the last reset
    POST /_chaos/reset      sets counters to 0, and removes all rules
    GET  /_chaos/requests   the last 10,000 requests: "GET /b/k bytes=0-9 206"

Rules are a JSON object:
    latency_ms         delay before each request is forwarded
    bytes_per_second   limit for each connection's answers; 0: no limit
    date_offset_s      how far the clock in the server's Date headers is ahead;
                       a request whose x-amz-date is more than 15 minutes from
                       that clock is answered RequestTimeTooSkewed
    faults             a list of objects; the first that applies is used:
        kind           see below
        match          a regular expression searched in "METHOD TARGET"; "": all
        skip           the number of matching requests to let through first
        every          N: only each N-th matching request; 1: all
        times          the most requests to affect; 0: no limit
        seconds        duration, from the first request on; 0: no limit
        status, retry_after_s   of a throttle
        after_bytes    bytes of an answer's body that still go through

Kinds:
    throttle           answers 503 (or `status`), with Retry-After if given
    lose_request       resets the connection; the server never sees the request
    lose_answer        the server acts; then the connection is reset
    reset_body         resets the connection in the middle of the answer's body
    truncate_body      closes the connection properly there
    stall_body         sends nothing more, but keeps the connection
    ignore_range       the server never sees the Range: 200 with everything
    shift_range        the server gets, and answers with, a later range
    short_range        the server gets, and answers with, a shorter range
    duplicate_request  sends the request twice; the second answer counts
    duplicate_answer   sends the answer twice on the connection
    ignore_conditions  the server never sees If-*, x-goog-if-*, ifGeneration*
    flip_bit           flips a bit in the middle of the answer's body
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import re
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone
from email.utils import formatdate, parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

PIECE_BYTES = 256 << 10
HEAD_BYTES_MAX = 1 << 20
SKEW_SECONDS_MAX = 15 * 60
REQUESTS_KEPT = 10_000

Headers = list[tuple[str, str]]


def header(headers: Headers, name: str) -> str | None:
    """Returns the value of the first header `name` (lower case), or None."""
    for key, value in headers:
        if key.lower() == name:
            return value
    return None


def without(headers: Headers, *names: str) -> Headers:
    """Returns the headers without these names (lower case)."""
    return [item for item in headers if item[0].lower() not in names]


@dataclass
class Message:
    """The head of a request or an answer."""

    first: str
    headers: Headers

    @property
    def method(self) -> str:
        return self.first.split(" ", 1)[0]

    @property
    def target(self) -> str:
        return self.first.split(" ")[1]

    @property
    def status(self) -> int:
        return int(self.first.split(" ")[1])

    def encoded(self) -> bytes:
        lines = [self.first] + [f"{k}: {v}" for k, v in self.headers]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@dataclass
class Fault:
    """One entry of `faults`; its fields are the JSON's."""

    kind: str
    match: str = ""
    skip: int = 0
    every: int = 1
    times: int = 0
    seconds: float = 0
    status: int = 503
    retry_after_s: int | None = None
    after_bytes: int = 1000
    seen: int = field(default=0, init=False)
    done: int = field(default=0, init=False)
    begun: float = field(default=0, init=False)

    def applies(self, request: Message) -> bool:
        """Whether the fault applies to this request; counts it if so."""
        text = f"{request.method} {request.target}"
        if self.kind in ("ignore_range", "shift_range", "short_range"):
            if header(request.headers, "range") is None:
                return False
        if not re.search(self.match, text):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.seen - self.skip) % self.every:
            return False
        if self.times and self.done >= self.times:
            return False
        now = time.monotonic()
        self.begun = self.begun or now
        if self.seconds and now - self.begun > self.seconds:
            return False
        self.done += 1
        return True


@dataclass
class Rules:
    """The rules that the proxy follows now."""

    latency_ms: float = 0
    bytes_per_second: float = 0
    date_offset_s: float = 0
    faults: list[Fault] = field(default_factory=list)

    @staticmethod
    def parse(text: str) -> Rules:
        """Parses rules from JSON; ValueError or TypeError if malformed."""
        fields = json.loads(text)
        faults = [Fault(**fault) for fault in fields.pop("faults", [])]
        kinds = {name[len("_answer_"):] for name in dir(Connection)
                 if name.startswith("_answer_")}
        for fault in faults:
            if fault.kind not in kinds | CHANGES:
                raise ValueError(f"no fault {fault.kind!r}")
        return Rules(**fields, faults=faults)


# Faults that only change the request.
CHANGES = {"ignore_range", "shift_range", "short_range", "ignore_conditions"}


def moved_range(value: str, first_by: int, last_by: int) -> str:
    """Moves both ends of "bytes=A-B"; returns other values unchanged."""
    match = re.fullmatch(r"bytes=(\d+)-(\d+)", value)
    if not match:
        return value
    first, last = int(match[1]) + first_by, int(match[2]) + last_by
    return f"bytes={first}-{max(first, last)}"


def changed(request: Message, kind: str) -> Message:
    """Returns the request as the server should see it."""
    headers = request.headers
    first = request.first
    if kind == "ignore_range":
        headers = without(headers, "range")
    elif kind in ("shift_range", "short_range"):
        by = (7, 7) if kind == "shift_range" else (0, -7)
        headers = [(k, moved_range(v, *by) if k.lower() == "range" else v)
                   for k, v in headers]
    elif kind == "ignore_conditions":
        headers = [(k, v) for k, v in headers
                   if not k.lower().startswith(("if-", "x-goog-if-"))]
        first = re.sub(r"([?&])if(?:Meta)?[gG]eneration(?:Not)?Match=[^& ]*",
                       r"\1", first)
    return Message(first, headers)


class Lost(Exception):
    """A peer has closed its connection."""


async def read_head(reader: asyncio.StreamReader) -> Message:
    """Reads a head; raises Lost at the end of the connection."""
    try:
        text = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError,
            ConnectionError) as error:
        raise Lost from error
    first, *lines = text.decode("latin-1").rstrip("\r\n").split("\r\n")
    headers = []
    for line in lines:
        key, _, value = line.partition(":")
        headers.append((key, value.strip()))
    return Message(first, headers)


async def body_pieces(reader: asyncio.StreamReader, message: Message, *,
                      is_answer: bool, has_body: bool = True) -> Any:
    """Yields the body without its framing; raises Lost if it is cut."""
    if not has_body:
        return
    length = header(message.headers, "content-length")
    coding = header(message.headers, "transfer-encoding") or ""
    try:
        if "chunked" in coding.lower():
            while True:
                size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
                if size:
                    yield await reader.readexactly(size)
                await reader.readuntil(b"\r\n")
                if not size:
                    return
        if length is None and not is_answer:
            return
        left = int(length) if length is not None else None
        while left is None or left > 0:
            piece = await reader.read(min(left or PIECE_BYTES, PIECE_BYTES))
            if not piece:
                if left is None:
                    return
                raise Lost
            if left is not None:
                left -= len(piece)
            yield piece
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Lost from error


class Proxy:
    """Rules, counters, and the listener."""

    def __init__(self, upstream: str):
        parts = urlsplit(upstream)
        self.host = parts.hostname or "127.0.0.1"
        self.port = parts.port or 80
        self.rules = Rules()
        self.counters: collections.Counter[str] = collections.Counter()
        self.requests: collections.deque[str] = collections.deque(
            maxlen=REQUESTS_KEPT)
        self.stalled = asyncio.Event()  # set when stalled answers may end

    async def serve(self, port: int) -> asyncio.Server:
        """Listens; the port is in the returned server's sockets."""
        return await asyncio.start_server(
            self._serve_connection, "127.0.0.1", port, limit=HEAD_BYTES_MAX)

    async def _serve_connection(self, reader: asyncio.StreamReader,
                                writer: asyncio.StreamWriter) -> None:
        connection = Connection(self, reader, writer)
        self.counters["connections"] += 1
        try:
            await connection.run()
        except (Lost, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            connection.close()

    def control(self, request: Message, body: bytes) -> tuple[int, str]:
        """Answers a request below /_chaos."""
        name = request.target.removeprefix("/_chaos/")
        try:
            if name == "rules":
                self.rules = Rules.parse(body.decode())
                self._release()
            elif name == "reset":
                self.rules = Rules()
                self.counters.clear()
                self.requests.clear()
                self._release()
            elif name == "counters":
                return 200, json.dumps(self.counters)
            elif name == "requests":
                return 200, json.dumps(list(self.requests))
            else:
                return 404, "no such control"
        except (ValueError, TypeError) as error:
            return 400, str(error)
        return 200, "{}"

    def _release(self) -> None:
        self.stalled.set()
        self.stalled = asyncio.Event()

    def now(self) -> float:
        """Returns seconds since 1970, by the clock that the rules shift."""
        return time.time() + self.rules.date_offset_s


class Connection:
    """A client's connection and the one to the server behind it."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader,
                 writer: asyncio.StreamWriter):
        self.proxy = proxy
        self.reader = reader
        self.writer = writer
        self.up_reader: asyncio.StreamReader | None = None
        self.up_writer: asyncio.StreamWriter | None = None
        no_delay(writer)

    def close(self) -> None:
        """Closes both ends."""
        self.writer.close()
        self._drop_upstream()

    async def run(self) -> None:
        """Handles requests until a peer closes its connection."""
        while True:
            request = await read_head(self.reader)
            if "100-continue" in (header(request.headers, "expect") or ""):
                self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.headers = without(request.headers, "expect")
            if request.target.startswith("/_chaos/"):
                await self._control(request)
                continue
            await self._handle(request)

    async def _control(self, request: Message) -> None:
        body = await self._request_body(request)
        status, text = self.proxy.control(request, body)
        await self._reply(status, text.encode(), [])

    async def _handle(self, request: Message) -> None:
        proxy = self.proxy
        proxy.counters["requests"] += 1
        proxy.counters[f"requests {request.method}"] += 1
        rules = proxy.rules
        if rules.latency_ms:
            await asyncio.sleep(rules.latency_ms / 1000)
        if self._is_skewed(request):
            await self._request_body(request)
            await self._reply(403, SKEWED, [("Content-Type", "application/xml")])
            return
        fault = next((f for f in rules.faults if f.applies(request)), None)
        if fault is None:
            await self._pass_on(request)
            return
        proxy.counters[f"fault {fault.kind}"] += 1
        if fault.kind in CHANGES:
            await self._pass_on(changed(request, fault.kind), request)
            return
        await getattr(self, f"_answer_{fault.kind}")(request, fault)

    def _is_skewed(self, request: Message) -> bool:
        date = header(request.headers, "x-amz-date")
        if not self.proxy.rules.date_offset_s or date is None:
            return False
        when = datetime.strptime(date, "%Y%m%dT%H%M%SZ")
        seconds = when.replace(tzinfo=timezone.utc).timestamp()
        return abs(seconds - self.proxy.now()) > SKEW_SECONDS_MAX

    # The faults.

    async def _answer_throttle(self, request: Message, fault: Fault) -> None:
        await self._request_body(request)
        extra = [("Content-Type", "application/xml")]
        if fault.retry_after_s is not None:
            extra.append(("Retry-After", str(fault.retry_after_s)))
        self._note(request, fault.status)
        await self._reply(fault.status, SLOW_DOWN, extra)

    async def _answer_lose_request(self, request: Message, _: Fault) -> None:
        await self._request_body(request)
        self._note(request, 0)
        self._reset()

    async def _answer_lose_answer(self, request: Message, _: Fault) -> None:
        answer, pieces = await self._forward(request)
        async for _piece in pieces:
            pass
        self._note(request, answer.status)
        self._reset()

    async def _answer_reset_body(self, request: Message, fault: Fault) -> None:
        await self._begin_body(request, fault)
        self._reset()

    async def _answer_truncate_body(self, request: Message,
                                    fault: Fault) -> None:
        await self._begin_body(request, fault)
        raise Lost

    async def _answer_stall_body(self, request: Message, fault: Fault) -> None:
        stalled = self.proxy.stalled
        await self._begin_body(request, fault)
        await stalled.wait()
        raise Lost

    async def _answer_duplicate_request(self, request: Message,
                                        _: Fault) -> None:
        body = await self._request_body(request)
        answer, pieces = await self._forward(request, body)
        async for _piece in pieces:
            pass
        await self._pass_on(request, body=body)

    async def _answer_duplicate_answer(self, request: Message,
                                       _: Fault) -> None:
        answer, pieces = await self._forward(request)
        body = b"".join([piece async for piece in pieces])
        self._note(request, answer.status)
        self.writer.write(self._framed(answer, len(body)).encoded() + body)
        self.writer.write(self._framed(answer, len(body)).encoded() + body)
        await self._drain()

    async def _answer_flip_bit(self, request: Message, _: Fault) -> None:
        answer, pieces = await self._forward(request)
        body = bytearray(b"".join([piece async for piece in pieces]))
        if body:
            body[len(body) // 2] ^= 0x10
        self._note(request, answer.status)
        self.writer.write(self._framed(answer, len(body)).encoded() + body)
        await self._drain()

    # The content they are made of.

    async def _begin_body(self, request: Message, fault: Fault) -> None:
        answer, pieces = await self._forward(request)
        self._note(request, answer.status)
        self.writer.write(answer.encoded())
        left = fault.after_bytes
        async for piece in pieces:
            self.writer.write(piece[:left])
            left -= len(piece[:left])
        await self._drain()

    async def _pass_on(self, request: Message, shown: Message | None = None,
                       body: bytes | None = None) -> None:
        """Forwards a request to the server, and its answer to the client as it
        arrives."""
        answer, pieces = await self._forward(request, body)
        self._note(shown or request, answer.status)
        length = header(answer.headers, "content-length")
        is_bare = self._is_bare(request, answer)
        if length is None and not is_bare:
            whole = b"".join([piece async for piece in pieces])
            self.writer.write(self._framed(answer, len(whole)).encoded() + whole)
            await self._drain()
            return
        self.writer.write(answer.encoded())
        async for piece in pieces:
            self.proxy.counters["sent_bytes"] += len(piece)
            self.writer.write(piece)
            await self._drain()
            speed = self.proxy.rules.bytes_per_second
            if speed:
                await asyncio.sleep(len(piece) / speed)

    async def _forward(self, request: Message,
                       body: bytes | None = None) -> tuple[Message, Any]:
        """Returns the server's answer: its head, and an iterator over its
        body."""
        is_kept = self.up_writer is not None
        while True:
            try:
                await self._connect()
                return await self._ask(request, body)
            except (Lost, ConnectionError) as error:
                self._drop_upstream()
                has_body = body is None and self._has_body(request)
                if not is_kept or has_body:
                    raise Lost from error
                is_kept = False

    async def _ask(self, request: Message,
                   body: bytes | None) -> tuple[Message, Any]:
        assert self.up_writer is not None and self.up_reader is not None
        if body is not None:
            request = Message(request.first, without(
                request.headers, "transfer-encoding", "content-length") +
                [("Content-Length", str(len(body)))])
        is_chunked = body is None and self._is_chunked(request)
        self.up_writer.write(request.encoded())
        if body is not None:
            self.up_writer.write(body)
        elif self._has_body(request):
            async for piece in body_pieces(self.reader, request,
                                           is_answer=False):
                self.proxy.counters["received_bytes"] += len(piece)
                if is_chunked:
                    piece = b"%x\r\n%s\r\n" % (len(piece), piece)
                self.up_writer.write(piece)
                await self.up_writer.drain()
            if is_chunked:
                self.up_writer.write(b"0\r\n\r\n")
        await self.up_writer.drain()
        answer = await read_head(self.up_reader)
        while answer.status // 100 == 1:
            answer = await read_head(self.up_reader)
        return self._cleaned(answer), self._answer_pieces(request, answer)

    async def _answer_pieces(self, request: Message, answer: Message) -> Any:
        assert self.up_reader is not None
        async for piece in body_pieces(
                self.up_reader, answer, is_answer=True,
                has_body=not self._is_bare(request, answer)):
            yield piece
        closes = (header(answer.headers, "connection") or "").lower()
        if closes == "close" or answer.first.startswith("HTTP/1.0") or (
                header(answer.headers, "content-length") is None and
                not self._is_chunked(answer)):
            self._drop_upstream()

    def _cleaned(self, answer: Message) -> Message:
        first = re.sub(r"^HTTP/1\.\d", "HTTP/1.1", answer.first)
        headers = without(answer.headers, "connection", "keep-alive")
        if self.proxy.rules.date_offset_s:
            date = header(headers, "date")
            when = (parsedate_to_datetime(date).timestamp() if date
                    else time.time())
            headers = without(headers, "date") + [("Date", formatdate(
                when + self.proxy.rules.date_offset_s, usegmt=True))]
        return Message(first, headers)

    @staticmethod
    def _framed(answer: Message, byte_count: int) -> Message:
        headers = without(answer.headers, "transfer-encoding",
                          "content-length")
        return Message(answer.first,
                       headers + [("Content-Length", str(byte_count))])

    @staticmethod
    def _is_chunked(message: Message) -> bool:
        coding = header(message.headers, "transfer-encoding") or ""
        return "chunked" in coding.lower()

    def _has_body(self, request: Message) -> bool:
        length = header(request.headers, "content-length")
        return self._is_chunked(request) or (length or "0") != "0"

    @staticmethod
    def _is_bare(request: Message, answer: Message) -> bool:
        return request.method == "HEAD" or answer.status in (204, 304)

    async def _request_body(self, request: Message) -> bytes:
        pieces = body_pieces(self.reader, request, is_answer=False)
        return b"".join([piece async for piece in pieces])

    async def _reply(self, status: int, body: bytes, extra: Headers) -> None:
        headers = [("Content-Length", str(len(body))),
                   ("Date", formatdate(self.proxy.now(), usegmt=True)), *extra]
        head = Message(f"HTTP/1.1 {status} Chaos", headers).encoded()
        self.writer.write(head + body)
        await self._drain()

    async def _drain(self) -> None:
        try:
            await self.writer.drain()
        except ConnectionError as error:
            raise Lost from error

    def _note(self, request: Message, status: int) -> None:
        asked = header(request.headers, "range") or "-"
        self.proxy.counters[f"status {status}"] += 1
        self.proxy.requests.append(
            f"{request.method} {request.target} {asked} {status}")

    def _reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()
        raise Lost

    async def _connect(self) -> None:
        if self.up_writer is None:
            self.up_reader, self.up_writer = await asyncio.open_connection(
                self.proxy.host, self.proxy.port, limit=HEAD_BYTES_MAX)
            no_delay(self.up_writer)

    def _drop_upstream(self) -> None:
        if self.up_writer is not None:
            self.up_writer.close()
        self.up_reader = self.up_writer = None


def no_delay(writer: asyncio.StreamWriter) -> None:
    """Sends small messages immediately; gives large ones a large buffer."""
    writer.get_extra_info("socket").setsockopt(
        socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    writer.transport.set_write_buffer_limits(high=4 * PIECE_BYTES)


SLOW_DOWN = (b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>SlowDown'
             b"</Code><Message>Please reduce your request rate.</Message>"
             b"</Error>")
SKEWED = (b'<?xml version="1.0" encoding="UTF-8"?>\n<Error>'
          b"<Code>RequestTimeTooSkewed</Code><Message>The difference between "
          b"the request time and the server's time is too large.</Message>"
          b"</Error>")


async def run(upstream: str, port: int, rules: str) -> None:
    """Runs the proxy until it is killed."""
    proxy = Proxy(upstream)
    proxy.rules = Rules.parse(rules)
    server = await proxy.serve(port)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--upstream", required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--rules", default="{}")
    arguments = parser.parse_args()
    try:
        asyncio.run(run(arguments.upstream, arguments.port, arguments.rules))
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
