"""Tests that faulty servers lead to right bytes or a clear error.

bucket_client (a Store on a bucket, with short waits) and the holdfast command
use S3, Google's store and plain web servers through the chaos proxy, which
loses, cuts, repeats and refuses. Each test states whether the client must
survive its fault. If an error is allowed, wrong bytes are not.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import servers

ROOT = Path(__file__).resolve().parents[2]
MIB = 1 << 20
# "large" objects need several parts and several ranged reads.
SIZES = {"large": 17 * MIB + 12345, "small": 70_000, "empty": 0}
# Faults that a client survives by sending the request again.
LOSSES = ["lose_request", "lose_answer", "reset_body", "truncate_body",
          "duplicate_request", "duplicate_answer"]
# The quick run tests large objects only with these faults, --long with all.
QUICK_LARGE = ("lose_answer", "reset_body")
LIES = ["ignore_range", "shift_range", "short_range"]


@dataclass
class Told:
    """The last line of bucket_client's output, and its complete output."""

    status: str
    message: str
    counters: dict[str, Any]
    text: str


def same(read: bytes, written: bytes) -> bool:
    """Whether both are equal. Used because pytest would take minutes to show a
    difference."""
    return read == written


class Client:
    """Runs bucket_client against one server, through a proxy."""

    def __init__(self, program: str, server: servers.Server,
                 proxy: servers.Chaos, folder: Path):
        self.program = program
        self.server = server
        self.proxy = proxy
        self.folder = folder
        self.root = f"{proxy.root}/{uuid.uuid4().hex}"
        self.seen_text = ""

    def __call__(self, verb: str, name: str, file: Path | None = None,
                 server: servers.Server | None = None,
                 **options: str) -> Told:
        variables = {f"HOLDFAST_TEST_{k.upper()}": v
                     for k, v in options.items()}
        words = [self.program, verb, f"{self.root}/{name}"]
        done = subprocess.run(
            words + ([str(file)] if file else []), capture_output=True,
            text=True, check=False, timeout=120,
            env=(server or self.proxy).environment(**variables))
        text = done.stdout + done.stderr
        self.seen_text += text
        assert done.returncode in (0, 1), text
        told = json.loads(done.stdout.splitlines()[-1])
        assert (told["status"] == "OK") == (done.returncode == 0)
        return Told(told["status"], told["message"], told, text)

    def path(self, name: str) -> Path:
        """Returns the path of a file in the test's folder."""
        return self.folder / name

    def put(self, name: str, size: int, *, verb: str = "put",
            may_fail: tuple[str, ...] = ()) -> bytes:
        """Writes random bytes to the server, and returns them."""
        content = random.Random(f"{name} {size}").randbytes(size)
        self.path("in").write_bytes(content)
        told = self(verb, name, self.path("in"))
        assert told.status in ("OK", *may_fail), told.message
        return content

    def get(self, name: str, **options: str) -> tuple[Told, bytes]:
        """Returns the outcome of reading, and the bytes read, if any."""
        self.path("out").unlink(missing_ok=True)
        told = self("get", name, self.path("out"), **options)
        if told.status != "OK":
            assert not self.path("out").exists()
            return told, b""
        return told, self.path("out").read_bytes()

    def direct(self, name: str) -> bytes:
        """Returns the server's bytes, read without the proxy's faults."""
        self.proxy.set()
        told, content = self.get(name)
        assert told.status == "OK", told.message
        return content


@pytest.fixture(scope="session")
def bucket_client(cli: str) -> str:
    """Returns the program, which is in the command's build."""
    return str(Path(cli).parents[1] / "tests/remote/bucket_client")


KINDS = ["moto", "gcs", pytest.param("ceph", marks=pytest.mark.long)]


@pytest.fixture(scope="session")
def proxies() -> Iterator[Callable[[servers.Server], servers.Chaos]]:
    """Yields a function that returns a server's proxy, the same for all
    tests."""
    running: dict[str, tuple[Any, servers.Chaos]] = {}

    def of(server: servers.Server) -> servers.Chaos:
        if server.url not in running:
            context = servers.chaos(server)
            running[server.url] = context, context.__enter__()
        return running[server.url][1]
    yield of
    for context, _ in running.values():
        context.__exit__(None, None, None)


def client_of(request: pytest.FixtureRequest, kind: str,
              folder: Path) -> Iterator[Client]:
    """Yields a client of the server `kind`; checks at the end that no secret
    was printed."""
    server = request.getfixturevalue(kind)
    proxy = request.getfixturevalue("proxies")(server)
    proxy.reset()
    client = Client(request.getfixturevalue("bucket_client"), server, proxy,
                    folder)
    yield client
    proxy.reset()
    if server.secret_key:
        assert server.secret_key not in client.seen_text
    assert "Authorization" not in client.seen_text
    assert "Signature" not in client.seen_text


@pytest.fixture(params=KINDS)
def client(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Client]:
    """Yields a client of an object store."""
    yield from client_of(request, request.param, tmp_path)


@pytest.fixture(params=["lax_moto", "gcs"])
def unsigned(request: pytest.FixtureRequest,
             tmp_path: Path) -> Iterator[Client]:
    """Yields a client of a store that lets a proxy change requests."""
    yield from client_of(request, request.param, tmp_path)


def fault_cases(kinds: list[str]) -> list[Any]:
    """Returns (kind, "small") and (kind, "large") for each kind. Most of the
    large cases run only with --long."""
    large = [pytest.param(kind, "large", marks=()
                          if kind in QUICK_LARGE else pytest.mark.long)
             for kind in kinds]
    return [pytest.param(kind, "small") for kind in kinds] + large


@pytest.mark.parametrize("size", SIZES)
def test_clean(client: Client, size: str) -> None:
    """Without faults, there are no retries and few connections."""
    content = client.put(size, SIZES[size])
    told, read = client.get(size)
    assert same(read, content)
    assert told.counters["retries"] == 0
    assert told.counters["connections"] <= told.counters["requests"]
    listed = client("list", "").text
    assert f"{SIZES[size]} {size}" in listed


@pytest.mark.parametrize(("kind", "size"), fault_cases(LOSSES))
def test_reads_survive(client: Client, kind: str, size: str) -> None:
    """Every third answer is lost or repeated, but all bytes are right."""
    content = client.put(size, SIZES[size])
    client.proxy.set(faults=[{"kind": kind, "match": "^GET", "every": 3,
                              "after_bytes": SIZES[size] // 70}])
    for _ in range(3):
        told, read = client.get(size)
        assert told.status == "OK", told.message
        assert same(read, content)
    assert client.proxy.counters()[f"fault {kind}"] > 0


@pytest.mark.parametrize(("kind", "size"), fault_cases([*LOSSES, "throttle"]))
def test_writes_survive(client: Client, kind: str, size: str) -> None:
    """Writes survive. A conditional write that is sent again recognizes its
    own result."""
    client.proxy.set(faults=[{"kind": kind, "match": "^(PUT|POST|DELETE)",
                              "every": 2, "after_bytes": 10}])
    content = client.put("made", SIZES[size])
    # A proxy repeats a request that the client sent once. The client's own
    # object then already exists, which is an error, but no wrong result.
    may_fail = ("ALREADY_EXISTS",) if kind == "duplicate_request" else ()
    created = client.put("created", SIZES[size], verb="create",
                         may_fail=may_fail)
    assert client.proxy.counters()[f"fault {kind}"] > 0
    assert same(client.direct("made"), content)
    assert same(client.direct("created"), created)
    told = client("create", "created", client.path("in"))
    assert told.status == "ALREADY_EXISTS", told.message


@pytest.mark.parametrize("seconds", [
    1.5, pytest.param(30, marks=pytest.mark.long)])
def test_throttling(client: Client, seconds: float) -> None:
    """The client waits while a server answers 503 or 429, and sends fewer
    concurrent requests."""
    content = client.put("x", SIZES["large"])
    # The long case uses the real client's waits.
    waits = {} if seconds < 10 else {"backoff_ms": "100",
                                     "backoff_max_ms": "20000",
                                     "deadline_ms": "300000"}
    for fault in ({"status": 503}, {"status": 429, "retry_after_s": 1}):
        client.proxy.set(faults=[{"kind": "throttle", "seconds": seconds,
                                  **fault}])
        told, read = client.get("x", **waits)
        assert told.status == "OK", told.message
        assert same(read, content)
        assert told.counters["throttled"] > 0
        assert "asked to slow down" in told.text


def test_throttling_without_end(client: Client) -> None:
    """Attempts are bounded, and the message says why."""
    client.put("x", SIZES["small"])
    client.proxy.set(faults=[{"kind": "throttle"}])
    told, _ = client.get("x", attempts="5")
    assert told.status == "UNAVAILABLE"
    assert "503" in told.message or "slow" in told.message.lower()
    assert f"{client.root}/x" in told.message


def test_a_stalled_answer_is_asked_for_again(client: Client) -> None:
    """A request is repeated if no byte arrives within the stall deadline."""
    content = client.put("x", SIZES["small"])
    client.proxy.set(faults=[{"kind": "stall_body", "match": "^GET",
                              "times": 1, "after_bytes": 1000}])
    told, read = client.get("x", stall_ms="300")
    assert same(read, content)
    assert told.counters["retries"] == 1


@pytest.mark.parametrize("kind", LIES)
@pytest.mark.parametrize("size", ["small", "large"])
def test_lies_about_ranges(unsigned: Client, kind: str, size: str) -> None:
    """A server that ignores or changes ranges never causes wrong bytes."""
    content = unsigned.put(size, SIZES[size])
    for every in (1, 2):
        unsigned.proxy.set(faults=[{"kind": kind, "every": every}])
        told, read = unsigned.get(size)
        if told.status == "OK":
            assert same(read, content)
        else:
            assert told.status in ("DATA_LOSS", "OUT_OF_RANGE", "UNAVAILABLE",
                                   "FAILED_PRECONDITION"), told.message
            assert f"{unsigned.root}/{size}" in told.message


def test_a_clock_that_is_wrong(moto: servers.Server, tmp_path: Path,
                               request: pytest.FixtureRequest) -> None:
    """The client signs by the server's clock, or says that clocks differ."""
    for client in client_of(request, "moto", tmp_path):
        content = client.put("x", SIZES["small"])
        for hours in (-2, 5):
            client.proxy.set(date_offset_s=hours * 3600)
            told, read = client.get("x")
            if told.status == "OK":
                assert same(read, content)
            else:
                assert told.status == "PERMISSION_DENIED"
                assert "clock" in told.message or "time" in told.message


def test_a_server_that_goes_away(client: Client, tmp_path: Path) -> None:
    """The first request fails soon, with the server's address in the
    message."""
    gone = servers.Chaos(**{**vars(client.proxy),
                            "url": f"http://127.0.0.1:{servers.free_port()}"})
    told = client("get", "x", tmp_path / "out", gone)
    assert told.status == "UNAVAILABLE"
    assert "connect" in told.message.lower()
    assert told.counters["attempts"] <= 8


def test_tls(tmp_path: Path, bucket_client: str) -> None:
    """An untrusted certificate is refused; a trusted one is accepted."""
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "x").write_bytes(b"content")
    certificate, key = servers.self_signed(tmp_path)
    with servers.files(folder, certificate, key) as server:
        out = tmp_path / "out"
        command = [bucket_client, "get", f"{server.url}/x", str(out)]
        done = subprocess.run(command, capture_output=True, text=True,
                              check=False, env=server.environment())
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["status"] == "FAILED_PRECONDITION"
        assert "not trusted" in told["message"]
        assert told["attempts"] == 1
        assert not out.exists()
        done = subprocess.run(
            command, capture_output=True, text=True, check=False,
            env=server.environment(HOLDFAST_CA_BUNDLE=certificate))
        assert done.returncode == 0, done.stdout
        assert out.read_bytes() == b"content"
        # A trusted certificate for another name is refused.
        other = [*command[:2], command[2].replace("127.0.0.1", "localhost"),
                 str(out)]
        done = subprocess.run(
            other, capture_output=True, text=True, check=False,
            env=server.environment(HOLDFAST_CA_BUNDLE=certificate))
        assert "not trusted" in done.stdout


class TestWebServer:
    """Plain web servers, without listings and signature checks."""

    @pytest.fixture
    def web(self, files: servers.Server, bucket_client: str, tmp_path: Path,
            request: pytest.FixtureRequest) -> Client:
        proxy = request.getfixturevalue("proxies")(files)
        proxy.reset()
        client = Client(bucket_client, files, proxy, tmp_path)
        client.root = proxy.url
        return client

    def content_of(self, web: Client, size: str) -> bytes:
        """Writes a file into the server's folder; returns its content."""
        content = os.urandom(SIZES[size])
        assert web.server.folder is not None
        (web.server.folder / size).write_bytes(content)
        return content

    @pytest.mark.parametrize("size", SIZES)
    def test_clean(self, web: Client, size: str) -> None:
        content = self.content_of(web, size)
        assert same(web.get(size)[1], content)

    @pytest.mark.parametrize("kind", [*LOSSES, "throttle"])
    def test_survives(self, web: Client, kind: str) -> None:
        content = self.content_of(web, "large")
        web.proxy.set(faults=[{"kind": kind, "every": 3}])
        told, read = web.get("large")
        assert told.status == "OK", told.message
        assert same(read, content)

    @pytest.mark.parametrize("kind", LIES)
    def test_lies(self, web: Client, kind: str) -> None:
        content = self.content_of(web, "large")
        web.proxy.set(faults=[{"kind": kind}])
        told, read = web.get("large")
        assert told.status != "OK" or same(read, content)

    def test_redirect(self, web: Client) -> None:
        content = self.content_of(web, "small")
        web.root += "/redirect"
        told, read = web.get("small")
        assert told.status == "OK", told.message
        assert same(read, content)

    def test_another_file_meanwhile_is_no_mix(self, web: Client) -> None:
        """A file that is replaced between the ranges of one read does not give
        a mix of both."""
        old = self.content_of(web, "large")
        new = os.urandom(len(old))
        assert web.server.folder is not None
        web.proxy.set(latency_ms=0, bytes_per_second=40 * MIB)
        process = subprocess.Popen(
            [web.program, "get", f"{web.root}/large", str(web.path("out"))],
            stdout=subprocess.PIPE, text=True,
            env=web.proxy.environment(HOLDFAST_TEST_STALL_MS="10000"))
        while (process.poll() is None and
               not web.proxy.counters().get("sent_bytes")):
            pass
        other = web.server.folder / "other"
        other.write_bytes(new)
        other.replace(web.server.folder / "large")
        text, _ = process.communicate(timeout=60)
        told = json.loads(text.splitlines()[-1])
        if told["status"] == "OK":
            read = web.path("out").read_bytes()
            assert same(read, old) or same(read, new)
        else:
            assert told["status"] == "DATA_LOSS", told
