"""Tests the fake of Google Cloud Storage: API rules, and real TensorStore."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from urllib.parse import quote

import pytest
import servers

OBJECTS = f"/storage/v1/b/{servers.BUCKET}/o"
UPLOADS = "/upload" + OBJECTS
UNIT = 256 << 10


class Answer:
    """Status, headers and body of one answer."""

    def __init__(
        self, status: int, headers: dict[str, str], body: bytes
    ) -> None:
        self.status, self.body = status, body
        self.headers = {name.lower(): value for name, value in headers.items()}

    def json(self) -> dict[str, object]:
        """Returns the body, which is a JSON object."""
        value: dict[str, object] = json.loads(self.body)
        return value


class Caller:
    """Sends plain HTTP to one server."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({})
        )

    def __call__(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Answer:
        """Sends a request; returns the answer, whatever its status. Header
        names have _ for -."""
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(
            url,
            body,
            {name.replace("_", "-"): value for name, value in headers.items()},
            method=method,
        )
        try:
            with self.opener.open(request, timeout=30) as answer:
                return Answer(
                    answer.status, dict(answer.headers), answer.read()
                )
        except urllib.error.HTTPError as error:
            return Answer(error.code, dict(error.headers), error.read())

    def put(self, name: str, data: bytes, condition: str = "") -> Answer:
        """Makes a simple upload."""
        query = f"?uploadType=media&name={quote(name, safe='')}{condition}"
        return self("POST", UPLOADS + query, data)


@pytest.fixture()
def call(gcs: servers.Server) -> Iterator[Caller]:
    """Yields a Caller of the server, without other tests' quirks and
    counters."""
    caller = Caller(gcs.url)
    caller("POST", "/_fake/reset", b"{}")
    yield caller
    caller("POST", "/_fake/reset", b"{}")


def test_generations_are_preconditions(call: Caller) -> None:
    """0 requires that the object is absent, another number requires that
    generation; the answer to a violation is 412."""
    first = call.put("f/gen", b"a", "&ifGenerationMatch=0")
    assert first.status == 200 and first.json()["metageneration"] == "1"
    assert call.put("f/gen", b"b", "&ifGenerationMatch=0").status == 412
    generation = str(first.json()["generation"])
    second = call.put("f/gen", b"b", "&ifGenerationMatch=" + generation)
    assert int(str(second.json()["generation"])) > int(generation)
    stale = call("DELETE", f"{OBJECTS}/f%2Fgen?ifGenerationMatch={generation}")
    assert stale.status == 412
    error = stale.json()["error"]
    assert isinstance(error, dict)
    assert error["errors"][0]["reason"] == "conditionNotMet"
    assert (
        call("GET", f"{OBJECTS}/f%2Fgen?generation={generation}").status == 404
    )
    assert call("DELETE", f"{OBJECTS}/f%2Fgen").status == 204
    assert call("DELETE", f"{OBJECTS}/f%2Fgen").status == 404


def test_media_has_ranges_and_hashes(call: Caller) -> None:
    """Answers have 206 with Content-Range, 416 past the end, and the crc32c of
    the full object."""
    call.put("f/media", b"123456789")
    path = f"{OBJECTS}/f%2Fmedia?alt=media"
    part = call("GET", path, Range="bytes=2-4")
    assert (part.status, part.body) == (206, b"345")
    assert part.headers["content-range"] == "bytes 2-4/9"
    # The published check value of CRC-32C, for "123456789".
    crc = base64.b64encode(0xE3069283.to_bytes(4, "big")).decode()
    assert f"crc32c={crc}" in part.headers["x-goog-hash"]
    assert part.headers["x-goog-stored-content-length"] == "9"
    assert call("GET", path, Range="bytes=9-").status == 416
    assert call("GET", path, Range="bytes=-2").body == b"89"
    missing = call("GET", f"{OBJECTS}/f%2Fnone?alt=media")
    assert missing.status == 404
    assert missing.body.startswith(b"No such object")


def test_lists_have_pages_prefixes_and_offsets(call: Caller) -> None:
    """maxResults counts prefixes too; startOffset is inclusive, endOffset
    exclusive."""
    names = ["l/a", "l/b/1", "l/b/2", "l/c", "l/d/1", "l/e"]
    for name in names:
        call.put(name, b"")
    seen: list[str] = []
    token, pages = "", 0
    while True:
        page = call(
            "GET",
            f"{OBJECTS}?prefix=l/&delimiter=/&maxResults=2"
            f"&pageToken={quote(token)}",
        ).json()
        items, prefixes = page.get("items", []), page.get("prefixes", [])
        assert isinstance(items, list) and isinstance(prefixes, list)
        assert len(items) + len(prefixes) <= 2
        seen += [item["name"] for item in items] + prefixes
        pages += 1
        token = str(page.get("nextPageToken", ""))
        if not token:
            break
    assert sorted(seen) == ["l/a", "l/b/", "l/c", "l/d/", "l/e"]
    assert pages == 3
    page = call("GET", f"{OBJECTS}?startOffset=l/b/2&endOffset=l/e").json()
    items = page["items"]
    assert isinstance(items, list)
    assert [item["name"] for item in items] == names[2:5]


def test_resumable_uploads(call: Caller) -> None:
    """308 reports the persisted bytes, overlaps are ignored, and a finished
    session still answers."""
    start = call(
        "POST",
        f"{UPLOADS}?uploadType=resumable&name=f/up&ifGenerationMatch=0",
        b"{}",
    )
    session = start.headers["location"]
    data = bytes(range(256)) * 3 * 1024  # three units
    assert call("PUT", session, b"", Content_Range="bytes */*").status == 308
    odd = call("PUT", session, data[:1000], Content_Range="bytes 0-999/*")
    assert odd.status == 400
    first = call(
        "PUT", session, data[:UNIT], Content_Range=f"bytes 0-{UNIT - 1}/*"
    )
    assert (
        first.status == 308 and first.headers["range"] == f"bytes=0-{UNIT - 1}"
    )
    gap = call(
        "PUT",
        session,
        data[2 * UNIT :],
        Content_Range=f"bytes {2 * UNIT}-{3 * UNIT - 1}/{3 * UNIT}",
    )
    assert gap.status == 400
    rest = call(
        "PUT",
        session,
        b"x" * UNIT + data[UNIT:],
        Content_Range=f"bytes 0-{3 * UNIT - 1}/{3 * UNIT}",
    )
    assert rest.status == 200
    again = call("PUT", session, b"", Content_Range="bytes */*")
    assert again.json()["generation"] == rest.json()["generation"]
    assert call("GET", f"{OBJECTS}/f%2Fup?alt=media").body == data
    other = call("POST", f"{UPLOADS}?uploadType=resumable&name=f/gone")
    assert call("DELETE", other.headers["location"]).status == 499
    assert call("PUT", other.headers["location"], b"x").status == 404


def test_compose_rewrite_and_batch(call: Caller) -> None:
    """Objects are composed, copied in steps, and deleted in batches."""
    for name in ("f/1", "f/2"):
        call.put(name, name.encode())
    body = {"sourceObjects": [{"name": "f/1"}, {"name": "f/2"}]}
    composed = call(
        "POST", f"{OBJECTS}/f%2Fsum/compose", json.dumps(body).encode()
    )
    assert composed.json()["componentCount"] == 2
    assert "md5Hash" not in composed.json()
    assert call("GET", f"{OBJECTS}/f%2Fsum?alt=media").body == b"f/1f/2"
    call("POST", "/_fake/quirk", b'{"rewrite_bytes":2}')
    target = f"{OBJECTS}/f%2F1/rewriteTo{OBJECTS[11:]}/f%2F3"
    token, steps = "", 0
    while True:
        step = call("POST", f"{target}?rewriteToken={token}", b"").json()
        steps += 1
        if step["done"]:
            break
        token = str(step["rewriteToken"])
    assert steps == 2
    parts = "".join(
        f"--x\r\nContent-Type: application/http\r\nContent-ID: <{i}>\r\n\r\n"
        f"DELETE {OBJECTS}/f%2F{i} HTTP/1.1\r\n\r\n\r\n"
        for i in (1, 2, 9)
    )
    answer = call(
        "POST",
        "/batch/storage/v1",
        (parts + "--x--\r\n").encode(),
        Content_Type="multipart/mixed; boundary=x",
    )
    text = answer.body.decode()
    assert [text.count(f"<response-{i}>") for i in (1, 2, 9)] == [1, 1, 1]
    assert text.count("HTTP/1.1 204") == 2 and text.count("HTTP/1.1 404") == 1


def test_tokens_and_permissions(call: Caller) -> None:
    """The answer is 401 without a valid token, and 403 with the name of a
    missing permission."""
    call.put("f/token", b"x")
    call("POST", "/_fake/tokens", b'{"require":true,"add":["good"]}')
    path = f"{OBJECTS}/f%2Ftoken"
    assert call("GET", path).status == 401
    assert call("GET", path, Authorization="Bearer bad").status == 401
    assert call("GET", path, Authorization="Bearer good").status == 200
    call("POST", "/_fake/reset", b"{}")
    call("POST", "/_fake/deny", b'{"permissions":["storage.objects.list"]}')
    denied = call("GET", OBJECTS)
    assert denied.status == 403 and b"storage.objects.list" in denied.body
    # Without the permission to list, the answer for an absent object is 403.
    assert call("GET", f"{OBJECTS}/f%2Fabsent").status == 403
    assert call("GET", path).status == 200


TENSORSTORE = """
import numpy as np
import tensorstore as ts
store = ts.KvStore.open("gs://BUCKET/ts/").result()
store["a b+/=\\u00e9"] = b"first"
read = store.read("a b+/=\\u00e9").result()
stamp = store.write("a b+/=\\u00e9", b"second", if_equal=read.stamp.generation).result()
assert stamp.generation != read.stamp.generation
stale = store.write("a b+/=\\u00e9", b"third", if_equal=read.stamp.generation).result()
assert store["a b+/=\\u00e9"] == b"second", stale
writes = [store.write(f"many/{i:04}", b"%d" % i) for i in range(1100)]
for write in writes:
    write.result()
assert store["many/1099"] == b"1099"
names = store.list(ts.KvStore.KeyRange("many/", "many0")).result()
assert len(names) == 1100, len(names)
store.delete_range(ts.KvStore.KeyRange("many/0100", "many0")).result()
assert len(store.list(ts.KvStore.KeyRange("many/", "many0")).result()) == 100
data = np.random.default_rng(0).random((300, 500)).astype("float32")
for driver in ("zarr", "zarr3"):
    for kvstore in (f"gs://BUCKET/ts/{driver}/",
                    {"driver": "ocdbt", "base": f"gs://BUCKET/ts/o{driver}/"}):
        spec = {"driver": driver, "kvstore": kvstore}
        array = ts.open(spec, create=True, dtype="float32", shape=data.shape,
                        chunk_layout=ts.ChunkLayout(chunk_shape=[64, 500])).result()
        array[...] = data
        array[10:20, 3] = 7
        want = data.copy()
        want[10:20, 3] = 7
        fresh = ts.open(spec, context=ts.Context()).result()
        assert (fresh.read().result() == want).all()
print("whole")
"""


def test_tensorstore_works_on_it(gcs: servers.Server, call: Caller) -> None:
    """Conditions, pages, ranges, OCDBT and zarr work, with a checked token."""
    call("POST", "/_fake/tokens", b'{"require":true,"add":["abc"]}')
    done = subprocess.run(
        [sys.executable, "-c", TENSORSTORE.replace("BUCKET", servers.BUCKET)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env=gcs.environment(GOOGLE_AUTH_TOKEN_FOR_TESTING="abc"),
    )
    assert done.stdout == "whole\n", done.stderr[-2000:]
