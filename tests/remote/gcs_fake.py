"""A small Google Cloud Storage for tests: the JSON API, from one file, in memory.

Stand-alone: Python's standard library only (google_crc32c is used where it is
installed). One thread a connection, kept alive, bodies moved without copies.

    python gcs_fake.py --port 0 --bucket test [--port-file F] [--require-token]

The first line of standard output is "http://127.0.0.1:PORT". Buckets are made
by --bucket or by POST /storage/v1/b.

What it takes from Google's documents (cloud.google.com/storage/docs: json_api,
performing-resumable-uploads, request-preconditions, batch, composite-objects,
requester-pays) and from how googleapis/storage-testbench answers:
- Object names are one escaped path segment. A new object gets a new generation
  (microseconds, increasing) and metageneration 1.
- ifGenerationMatch=0: there must be no live object; else that generation must
  be live. Broken: 412 conditionNotMet, whether the object is there or not.
  ifGenerationNotMatch broken on a get: 304.
- alt=media answers 206 with Content-Range for ranges that can be met, 416 with
  "bytes */SIZE" for others, and errors as plain text; x-goog-generation,
  -metageneration, -hash (crc32c, md5), -stored-content-length always come.
- Lists: by name; maxResults counts items and prefixes together; startOffset is
  inclusive, endOffset exclusive.
- Resumable uploads: 200 with Location; chunks of a multiple of 256 KiB except
  the last; 308 with "Range: bytes=0-N" (no Range when nothing is persisted);
  "bytes */*" asks; bytes before the persisted offset are ignored; a finished
  session answers with the metadata again; DELETE answers 499; preconditions of
  the session's start are checked at the start and at the end.
- Batches: at most 100 parts; no uploads and no media; the answers carry
  Content-ID "response-" + the request's.
- compose: at most 32 sources, componentCount, no md5. rewrite: a token while it
  isn't done. delete: 204.
- Requester pays without userProject: 400 "required" ... UserProjectMissing.
- No storage.objects.list: a get of what is not there is 403 and no 404;
  replacing an object needs storage.objects.delete too.

For tests, all POST with a JSON body (see the handlers of `Control`):
/_fake/throttle, deny, tokens, lose, persist, quirk, service_account, reset, and
GET /_fake/counters. Quirks: ignore_range, ignore_preconditions, wrong_hash,
no_batch (true or false); rewrite_bytes, delay_ms (numbers).
Also here, for application-default credentials: POST /token (RFC 7523 assertions
whose RS256 signature is checked, refresh tokens), /computeMetadata/..., the STS
exchange /v1/token and generateAccessToken.
"""

from __future__ import annotations

import argparse
import base64
import bisect
import hashlib
import itertools
import json
import secrets
import socket
import struct
import sys
import threading
import time
import zlib
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import Any, Callable
from urllib.parse import parse_qsl, quote, unquote

try:
    import google_crc32c  # type: ignore[import-not-found,import-untyped,unused-ignore]
except ImportError:
    google_crc32c = None

MIB = 1 << 20
CHUNK_UNIT = 256 << 10
BATCH_PARTS_MAX = 100
COMPOSE_SOURCES_MAX = 32
MD5_BYTES_MAX = 8 * MIB  # larger ones are without, as composed objects are
SLOW_CRC_BYTES_MAX = 4 * MIB


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = (byte >> 1) ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_CRC_TABLE = _crc_table()


def crc32c(data: Any) -> int | None:
    """CRC-32C of bytes; None where it would take too long."""
    if google_crc32c is not None:
        view, found = memoryview(data), 0
        for at in range(0, len(view), MIB):
            found = google_crc32c.extend(found, bytes(view[at : at + MIB]))
        return int(found)
    if len(data) > SLOW_CRC_BYTES_MAX:
        return None
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


class ApiError(Exception):
    """An answer of Google's error form."""

    def __init__(self, status: int, reason: str, message: str, **more: Any) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.more = status, reason, message, more


@dataclass
class Request:
    method: str
    path: str  # still escaped
    query: dict[str, str]
    headers: dict[str, str]  # names in lower case
    body: Any  # bytes-like
    segments: list[str] = field(default_factory=list)  # unescaped

    def json(self) -> dict[str, Any]:
        try:
            value = json.loads(bytes(self.body) or b"{}")
        except ValueError as error:
            raise ApiError(400, "parseError", "Parse Error") from error
        if not isinstance(value, dict):
            raise ApiError(400, "parseError", "Parse Error")
        return value


@dataclass
class Reply:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = b""

    @staticmethod
    def of(value: Any, status: int = 200) -> "Reply":
        body = json.dumps(value, separators=(",", ":")).encode()
        return Reply(status, {"Content-Type": "application/json; charset=UTF-8"}, body)


@dataclass
class Object:
    name: str
    data: Any
    generation: int
    content_type: str = "application/octet-stream"
    metadata: dict[str, str] = field(default_factory=dict)
    updated: float = field(default_factory=time.time)
    component_count: int = 0
    _hashes: dict[str, str] | None = None

    def hashes(self) -> dict[str, str]:
        if self._hashes is None:
            found = {}
            crc = crc32c(self.data)
            if crc is not None:
                found["crc32c"] = base64.b64encode(struct.pack(">I", crc)).decode()
            if not self.component_count and len(self.data) <= MD5_BYTES_MAX:
                found["md5"] = base64.b64encode(hashlib.md5(self.data).digest()).decode()
            self._hashes = found
        return self._hashes


@dataclass
class Session:
    """A resumable upload."""

    bucket: str
    name: str
    query: dict[str, str]
    meta: dict[str, Any]
    pieces: list[Any] = field(default_factory=list)
    persisted: int = 0
    done: Object | None = None
    lock: Any = field(default_factory=threading.Lock)


@dataclass
class Bucket:
    name: str
    requester_pays: bool = False
    objects: dict[str, Object] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # sorted as UTF-8


def byte_order(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


def rfc3339(seconds: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{whole}.{int(seconds * 1000) % 1000:03d}Z"


class Control:
    """What tests set, and what they read back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.throttles: list[dict[str, Any]] = []
        self.denied: set[str] = set()
        self.losses: list[dict[str, Any]] = []
        self.persist_bytes: list[int] = []
        self.quirks: dict[str, Any] = {}
        self.service_accounts: dict[str, tuple[int, int]] = {}
        self.refresh_tokens: dict[str, str] = {}
        self.require_token = False
        self.token_seconds = 3600.0
        self.tokens: dict[str, float] = {}  # token -> when it expires
        self.counters: dict[str, int] = {}

    def count(self, what: str, by: int = 1) -> None:
        with self.lock:
            self.counters[what] = self.counters.get(what, 0) + by

    def issue_token(self) -> dict[str, Any]:
        token = "ya29.fake-" + secrets.token_hex(12)
        with self.lock:
            self.tokens[token] = time.time() + self.token_seconds
        self.count("tokens")
        return {"access_token": token, "expires_in": int(self.token_seconds), "token_type": "Bearer"}

    def take(self, wanted: list[dict[str, Any]], method: str) -> dict[str, Any] | None:
        """The first rule that names the method, one use of it taken away."""
        with self.lock:
            for rule in wanted:
                if rule.get("method", "*") in ("*", method) and rule.get("count", 1) > 0:
                    if rule.get("skip", 0) > 0:
                        rule["skip"] -= 1
                        continue
                    rule["count"] = rule.get("count", 1) - 1
                    return rule
        return None

    def handle(self, verb: str, body: dict[str, Any]) -> Any:
        if verb == "counters":
            with self.lock:
                return dict(self.counters)
        if verb == "reset":
            self.reset()
        elif verb == "throttle":  # {status, count, method, retry_after, skip}
            self.throttles.append(body)
        elif verb == "deny":  # {permissions: ["storage.objects.list", ...]}
            self.denied = set(body.get("permissions", []))
        elif verb == "lose":  # {method, count, skip}: it acts, the answer is lost
            self.losses.append(body)
        elif verb == "persist":  # {bytes: [n, ...]}: of the next chunks only so much
            self.persist_bytes = list(body.get("bytes", []))
        elif verb == "quirk":  # see the head
            self.quirks = body
        elif verb == "tokens":  # {require, seconds, add: [token], expire: true}
            self.require_token = body.get("require", self.require_token)
            self.token_seconds = body.get("seconds", self.token_seconds)
            with self.lock:
                if body.get("expire"):
                    self.tokens.clear()
                for token in body.get("add", []):
                    self.tokens[token] = time.time() + self.token_seconds
        elif verb == "service_account":  # {email, modulus (hex), exponent}
            self.service_accounts[body["email"]] = (int(body["modulus"], 16), body["exponent"])
        elif verb == "refresh_token":  # {token, client_id}
            self.refresh_tokens[body["token"]] = body.get("client_id", "")
        else:
            raise ApiError(404, "notFound", f"no control {verb}")
        return {}


class Storage:
    """The buckets and what can be done with them; one lock for all state."""

    def __init__(self) -> None:
        self.control = Control()
        self.lock = threading.RLock()
        self.buckets: dict[str, Bucket] = {}
        self.sessions: dict[str, Session] = {}
        self.rewrites: dict[str, int] = {}
        self.last_generation = 0
        self.base_url = ""

    # Objects.

    def bucket(self, name: str, request: Request) -> Bucket:
        found = self.buckets.get(name)
        if found is None:
            raise ApiError(404, "notFound", "The specified bucket does not exist.")
        user_project = request.query.get("userProject") or request.headers.get("x-goog-user-project")
        if found.requester_pays and not user_project:
            raise ApiError(
                400,
                "required",
                "Bucket is a requester pays bucket but no user project provided.",
                domain="global",
            )
        return found

    def allow(self, permission: str, what: str) -> None:
        if permission in self.control.denied:
            raise ApiError(
                403,
                "forbidden",
                f"tester@example.com does not have {permission} access to the Google Cloud "
                f"Storage {what}. Permission '{permission}' denied on resource (or it may not exist).",
            )

    def live(self, bucket: Bucket, name: str, query: dict[str, str]) -> Object:
        found = bucket.objects.get(name)
        wanted = query.get("generation")
        if found is None or (wanted and int(wanted) != found.generation):
            self.allow("storage.objects.list", "object")
            label = f"{bucket.name}/{name}" + (f"#{wanted}" if wanted else "")
            raise ApiError(404, "notFound", f"No such object: {label}")
        return found

    def check(self, found: Object | None, query: dict[str, str], names: str = "if", read: bool = False) -> None:
        """Preconditions; `names` is "if" or "ifSource"."""
        if self.control.quirks.get("ignore_preconditions"):
            return
        generation = found.generation if found else 0
        metageneration = 1 if found else 0
        for key, have in (("GenerationMatch", generation), ("MetagenerationMatch", metageneration)):
            want = query.get(names + key)
            if want is not None and number(want, names + key) != have:
                raise ApiError(
                    412,
                    "conditionNotMet",
                    "At least one of the pre-conditions you specified did not hold.",
                    locationType="header",
                    location="If-Match",
                )
        unwanted = query.get(names + "GenerationNotMatch")
        if unwanted is not None and number(unwanted, "ifGenerationNotMatch") == generation:
            if read:
                raise ApiError(304, "notModified", "")
            raise ApiError(412, "conditionNotMet", "Precondition Failed")

    def check_name(self, name: str) -> None:
        if not name:
            raise ApiError(400, "required", "Required object name")
        try:
            text = name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ApiError(400, "invalid", "Object name is not valid UTF-8") from error
        if len(text) > 1024 or "\r" in name or "\n" in name:
            raise ApiError(400, "invalid", f"Invalid object name: {name[:64]!r}")

    def put(self, bucket: Bucket, name: str, data: Any, meta: dict[str, Any], query: dict[str, str]) -> Object:
        self.check_name(name)
        with self.lock:
            old = bucket.objects.get(name)
            self.allow("storage.objects.create", "object")
            self.check(old, query)
            if old is not None:
                self.allow("storage.objects.delete", "object")
            self.last_generation = max(self.last_generation + 1, time.time_ns() // 1000)
            made = Object(
                name,
                data,
                self.last_generation,
                meta.get("contentType", "application/octet-stream"),
                dict(meta.get("metadata", {})),
            )
            if old is None:
                bisect.insort(bucket.names, name, key=byte_order)
            bucket.objects[name] = made
            return made

    def remove(self, bucket: Bucket, name: str, query: dict[str, str]) -> None:
        with self.lock:
            self.allow("storage.objects.delete", "object")
            self.check(bucket.objects.get(name), query)
            self.live(bucket, name, query)
            del bucket.objects[name]
            del bucket.names[bisect.bisect_left(bucket.names, byte_order(name), key=byte_order)]

    def resource(self, bucket: Bucket, found: Object) -> dict[str, Any]:
        link = f"{self.base_url}/storage/v1/b/{bucket.name}/o/{quote(found.name, safe='')}"
        value: dict[str, Any] = {
            "kind": "storage#object",
            "id": f"{bucket.name}/{found.name}/{found.generation}",
            "selfLink": link,
            "mediaLink": f"{link}?generation={found.generation}&alt=media",
            "name": found.name,
            "bucket": bucket.name,
            "generation": str(found.generation),
            "metageneration": "1",
            "contentType": found.content_type,
            "storageClass": "STANDARD",
            "size": str(len(found.data)),
            "timeCreated": rfc3339(found.updated),
            "updated": rfc3339(found.updated),
            "etag": base64.b64encode(str(found.generation).encode()).decode(),
        }
        hashes = found.hashes()
        if "crc32c" in hashes:
            value["crc32c"] = hashes["crc32c"]
        if "md5" in hashes:
            value["md5Hash"] = hashes["md5"]
        if found.metadata:
            value["metadata"] = found.metadata
        if found.component_count:
            value["componentCount"] = found.component_count
        return value


def number(text: str, name: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        raise ApiError(400, "invalid", f"Invalid long value: '{text}' for {name}") from error


def list_page(storage: Storage, bucket: Bucket, query: dict[str, str]) -> dict[str, Any]:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    end = query.get("endOffset", "")
    count_max = min(max(number(query.get("maxResults", "1000"), "maxResults"), 1), 1000)
    start = max(query.get("startOffset", ""), prefix, key=byte_order)
    after_prefix = ""  # a prefix already given: skip all below it
    token = query.get("pageToken")
    if token:
        try:
            kind, last = json.loads(base64.urlsafe_b64decode(token))
        except ValueError as error:
            raise ApiError(400, "invalid", "Invalid page token") from error
        start = max(start, last, key=byte_order)
        after_prefix = last if kind == "p" else ""
    items: list[dict[str, Any]] = []
    prefixes: list[str] = []
    last_entry: tuple[str, str] | None = None
    with storage.lock:
        at = bisect.bisect_left(bucket.names, byte_order(start), key=byte_order)
        while at < len(bucket.names):
            name = bucket.names[at]
            at += 1
            if not name.startswith(prefix) or (end and byte_order(name) >= byte_order(end)):
                break
            if token and (name == last or (after_prefix and name.startswith(after_prefix))):
                continue
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            group = name[: cut + len(delimiter)] if cut >= 0 else ""
            if group and prefixes and prefixes[-1] == group:
                continue
            if len(items) + len(prefixes) == count_max:
                answer = {"kind": "storage#objects", "items": items, "prefixes": prefixes}
                text = json.dumps(last_entry).encode()
                answer["nextPageToken"] = base64.urlsafe_b64encode(text).decode()  # type: ignore[assignment]
                return answer
            if group:
                prefixes.append(group)
                last_entry = ("p", group)
            else:
                items.append(storage.resource(bucket, bucket.objects[name]))
                last_entry = ("o", name)
    answer = {"kind": "storage#objects"}  # type: ignore[dict-item]
    if items:
        answer["items"] = items
    if prefixes:
        answer["prefixes"] = prefixes
    return answer


class Api:
    """Requests to methods. Each handler takes (request, rest of the path)."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.control = storage.control

    # The front door.

    def answer(self, request: Request, in_batch: bool = False) -> Reply:
        try:
            return self.dispatch(request, in_batch)
        except ApiError as error:
            return self.error_reply(request, error)

    def error_reply(self, request: Request, error: ApiError) -> Reply:
        headers = {}
        if "retry_after" in error.more:
            headers["Retry-After"] = str(error.more.pop("retry_after"))
        if error.status == 304:
            return Reply(304, headers)
        if error.status == 401:
            headers["WWW-Authenticate"] = 'Bearer realm="https://accounts.google.com/"'
        if request.query.get("alt") == "media":
            headers["Content-Type"] = "text/html; charset=UTF-8"
            return Reply(error.status, headers, error.message.encode())
        detail = {"message": error.message, "domain": "global", "reason": error.reason, **error.more}
        reply = Reply.of(
            {"error": {"code": error.status, "message": error.message, "errors": [detail]}}, error.status
        )
        reply.headers.update(headers)
        return reply

    def dispatch(self, request: Request, in_batch: bool) -> Reply:
        parts = [unquote(part, errors="surrogateescape") for part in request.path.split("/")[1:]]
        if parts[0] == "_fake":
            return Reply.of(self.control.handle(parts[1], request.json()))
        if parts[0] in ("token", "computeMetadata", "v1"):
            return Credentials(self.control).answer(request, parts)
        method, handler, rest = self.route(request, parts)
        if in_batch and (parts[0] == "upload" or request.query.get("alt") == "media"):
            raise ApiError(400, "badRequest", "no uploads or downloads in a batch")
        self.control.count(method)
        rule = self.control.take(self.control.throttles, method)
        if rule is not None:
            self.control.count("throttled")
            more = {"retry_after": rule["retry_after"]} if "retry_after" in rule else {}
            raise ApiError(
                rule.get("status", 503), rule.get("reason", "backendError"), "We encountered an internal error.", **more
            )
        self.check_token(request)
        reply = handler(request, rest)
        if self.control.take(self.control.losses, method) is not None:
            self.control.count("lost")
            raise ConnectionAbortedError
        return reply

    def check_token(self, request: Request) -> None:
        given = request.headers.get("authorization", "")
        self.control.count("with_token" if given else "without_token")
        if not self.control.require_token:
            return
        if not given:
            raise ApiError(
                401,
                "required",
                "Anonymous caller does not have storage.objects.get access to the Google Cloud Storage object. "
                "Permission 'storage.objects.get' denied on resource (or it may not exist).",
                locationType="header",
                location="Authorization",
            )
        expires = self.control.tokens.get(given.removeprefix("Bearer "))
        if expires is None or expires < time.time():
            raise ApiError(401, "authError", "Invalid Credentials", locationType="header", location="Authorization")

    def route(self, request: Request, parts: list[str]) -> tuple[str, Callable[[Request, list[str]], Reply], list[str]]:
        verb, count = request.method, len(parts)
        if parts[:3] == ["batch", "storage", "v1"] and verb == "POST" and not self.control.quirks.get("no_batch"):
            return "batch", self.batch, []
        if parts[:4] == ["upload", "storage", "v1", "b"] and count == 6 and parts[5] == "o":
            handler = {"POST": self.upload, "PUT": self.upload_chunk, "DELETE": self.upload_cancel}.get(verb)
            if handler:
                return {"POST": "insert", "PUT": "chunk", "DELETE": "cancel"}[verb], handler, [parts[4]]
        if parts[0] == "download":
            parts = parts[1:]
            request.query.setdefault("alt", "media")
        if parts[:3] == ["storage", "v1", "b"]:
            rest = parts[3:]
            if len(rest) == 0 and verb == "POST":
                return "buckets.insert", self.make_bucket, rest
            if len(rest) == 1 and verb == "GET":
                return "buckets.get", self.get_bucket, rest
            if len(rest) == 2 and rest[1] == "o" and verb == "GET":
                return "list", self.list_objects, rest
            if len(rest) == 3 and rest[1] == "o":
                known = {"GET": self.get_object, "DELETE": self.delete_object, "PATCH": self.patch_object}
                if verb in known:
                    return {"GET": "get", "DELETE": "delete", "PATCH": "patch"}[verb], known[verb], rest
            if len(rest) == 4 and rest[3] == "compose" and verb == "POST":
                return "compose", self.compose, rest
            if len(rest) == 8 and rest[3] in ("rewriteTo", "copyTo") and rest[4::2][:2] == ["b", "o"] and verb == "POST":
                return "rewrite" if rest[3] == "rewriteTo" else "copy", self.rewrite, rest
        # XML style: /bucket/object.
        if count >= 2 and verb in ("GET", "HEAD") and parts[0] in self.storage.buckets:
            request.query.setdefault("alt", "media")
            return "get", self.get_object, [parts[0], "o", "/".join(parts[1:])]
        raise ApiError(404, "notFound", "Not Found")

    # Buckets and objects.

    def make_bucket(self, request: Request, rest: list[str]) -> Reply:
        body = request.json()
        name = body.get("name", "")
        if name in self.storage.buckets:
            raise ApiError(409, "conflict", "You already own this bucket.")
        self.storage.buckets[name] = Bucket(name, bool(body.get("billing", {}).get("requesterPays")))
        return Reply.of({"kind": "storage#bucket", "name": name})

    def get_bucket(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        self.storage.allow("storage.buckets.get", "bucket")
        return Reply.of(
            {
                "kind": "storage#bucket",
                "id": bucket.name,
                "name": bucket.name,
                "location": "NOWHERE",
                "locationType": "region",
                "storageClass": "STANDARD",
                "billing": {"requesterPays": bucket.requester_pays},
            }
        )

    def list_objects(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        self.storage.allow("storage.objects.list", "bucket")
        return Reply.of(list_page(self.storage, bucket, request.query))

    def get_object(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        self.storage.allow("storage.objects.get", "object")
        with self.storage.lock:
            self.storage.check(bucket.objects.get(rest[2]), request.query, read=True)
            found = self.storage.live(bucket, rest[2], request.query)
        if request.query.get("alt") != "media":
            return Reply.of(self.storage.resource(bucket, found))
        return self.media(request, found)

    def media(self, request: Request, found: Object) -> Reply:
        size = len(found.data)
        hashes = dict(found.hashes())
        if self.control.quirks.get("wrong_hash"):
            hashes["crc32c"] = "AAAAAA=="
        headers = {
            "Content-Type": found.content_type,
            "x-goog-generation": str(found.generation),
            "x-goog-metageneration": "1",
            "x-goog-hash": ",".join(f"{name}={value}" for name, value in hashes.items()),
            "x-goog-stored-content-encoding": "identity",
            "x-goog-stored-content-length": str(size),
            "x-goog-storage-class": "STANDARD",
            "ETag": base64.b64encode(str(found.generation).encode()).decode(),
            "Last-Modified": formatdate(found.updated, usegmt=True),
        }
        asked = parse_range(request.headers.get("range"), size)
        if asked is None or self.control.quirks.get("ignore_range"):
            return Reply(200, headers, found.data)
        begin, end = asked
        if begin >= end:
            headers["Content-Range"] = f"bytes */{size}"
            return Reply(416, headers, b"The requested range cannot be satisfied.")
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{size}"
        return Reply(206, headers, memoryview(found.data)[begin:end])

    def delete_object(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        self.storage.remove(bucket, rest[2], request.query)
        return Reply(204)

    def patch_object(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        with self.storage.lock:
            found = self.storage.live(bucket, rest[2], request.query)
            self.storage.check(found, request.query)
            found.metadata.update(request.json().get("metadata", {}))
        return Reply.of(self.storage.resource(bucket, found))

    def compose(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        body = request.json()
        sources = body.get("sourceObjects", [])
        if not 1 <= len(sources) <= COMPOSE_SOURCES_MAX:
            raise ApiError(400, "invalid", "The number of source components provided must be in [1, 32].")
        with self.storage.lock:
            self.storage.allow("storage.objects.get", "object")
            found = []
            for source in sources:
                query = {"generation": str(source["generation"])} if "generation" in source else {}
                one = self.storage.live(bucket, source["name"], query)
                conditions = {k: str(v) for k, v in source.get("objectPreconditions", {}).items()}
                self.storage.check(one, conditions)
                found.append(one)
            data = b"".join(one.data for one in found)
            made = self.storage.put(bucket, rest[2], data, body.get("destination", {}), request.query)
            made.component_count = sum(max(one.component_count, 1) for one in found)
        return Reply.of(self.storage.resource(bucket, made))

    def rewrite(self, request: Request, rest: list[str]) -> Reply:
        """rewriteTo and copyTo: [bucket, o, object, verb, b, bucket, o, object]."""
        source_bucket = self.storage.bucket(rest[0], request)
        target_bucket = self.storage.bucket(rest[5], request)
        with self.storage.lock:
            self.storage.allow("storage.objects.get", "object")
            query = {"generation": request.query["sourceGeneration"]} if "sourceGeneration" in request.query else {}
            found = self.storage.live(source_bucket, rest[2], query)
            self.storage.check(found, request.query, "ifSource")
            size = len(found.data)
            if rest[3] == "rewriteTo":
                token = request.query.get("rewriteToken")
                if token and token not in self.storage.rewrites:
                    raise ApiError(400, "invalid", "Invalid rewrite token")
                step = int(request.query.get("maxBytesRewrittenPerCall", size) or size)
                step = min(step, self.control.quirks.get("rewrite_bytes", step))
                done = self.storage.rewrites.pop(token or "", 0) + step
                if done < size:
                    token = secrets.token_hex(8)
                    self.storage.rewrites[token] = done
                    partial = {"kind": "storage#rewriteResponse", "done": False, "rewriteToken": token}
                    return Reply.of({**partial, "totalBytesRewritten": str(done), "objectSize": str(size)})
            meta = {"contentType": found.content_type, "metadata": found.metadata, **request.json()}
            made = self.storage.put(target_bucket, rest[7], found.data, meta, request.query)
            made.component_count = found.component_count
        value = self.storage.resource(target_bucket, made)
        if rest[3] == "rewriteTo":
            sizes = {"totalBytesRewritten": str(size), "objectSize": str(size)}
            value = {"kind": "storage#rewriteResponse", "done": True, **sizes, "resource": value}
        return Reply.of(value)

    # Uploads.

    def upload(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        kind = request.query.get("uploadType")
        if kind == "media":
            meta = {"contentType": request.headers.get("content-type", "application/octet-stream")}
            data = request.body
        elif kind == "multipart":
            meta, data = parse_related(request)
        elif kind == "resumable":
            return self.upload_start(request, bucket)
        else:
            raise ApiError(400, "invalid", f"Invalid uploadType {kind}")
        check_hashes(request, meta, data)
        name = request.query.get("name") or meta.get("name", "")
        made = self.storage.put(bucket, name, data, meta, request.query)
        self.control.count("bytes_in", len(data))
        return Reply.of(self.storage.resource(bucket, made))

    def upload_start(self, request: Request, bucket: Bucket) -> Reply:
        meta = request.json()
        meta.setdefault("contentType", request.headers.get("x-upload-content-type", "application/octet-stream"))
        name = request.query.get("name") or meta.get("name", "")
        self.storage.check_name(name)
        self.storage.allow("storage.objects.create", "object")
        self.storage.check(bucket.objects.get(name), request.query)
        upload_id = "ABPnz" + secrets.token_urlsafe(24)
        self.storage.sessions[upload_id] = Session(bucket.name, name, dict(request.query), meta)
        # As the client named the server: it may stand behind a proxy.
        host = request.headers.get("host", self.storage.base_url[7:])
        location = (
            f"http://{host}/upload/storage/v1/b/{bucket.name}/o"
            f"?uploadType=resumable&name={quote(name, safe='')}&upload_id={upload_id}"
        )
        return Reply(200, {"Location": location, "X-GUploader-UploadID": upload_id})

    def session(self, request: Request) -> Session:
        found = self.storage.sessions.get(request.query.get("upload_id", ""))
        if found is None:
            raise ApiError(404, "notFound", "No such upload session")
        return found

    def upload_cancel(self, request: Request, rest: list[str]) -> Reply:
        self.session(request)
        del self.storage.sessions[request.query["upload_id"]]
        return Reply(499)

    def upload_chunk(self, request: Request, rest: list[str]) -> Reply:
        session = self.session(request)
        bucket = self.storage.bucket(rest[0], request)
        with session.lock:
            if session.done is None:
                self.take_chunk(session, bucket, request)
            if session.done is not None:
                return Reply.of(self.storage.resource(bucket, session.done))
            headers = {"X-GUploader-UploadID": request.query["upload_id"]}
            if session.persisted:
                headers["Range"] = f"bytes=0-{session.persisted - 1}"
            return Reply(308, headers)

    def take_chunk(self, session: Session, bucket: Bucket, request: Request) -> None:
        size = len(request.body)
        begin, end, total = parse_content_range(request.headers.get("content-range"), session.persisted, size)
        if end - begin != size:
            raise ApiError(400, "invalid", "Content-Range does not fit the body")
        if size:
            if begin > session.persisted:
                raise ApiError(400, "invalid", f"Invalid request: offset {begin} is after {session.persisted}.")
            is_last = total is not None and end == total
            if not is_last and size % CHUNK_UNIT:
                raise ApiError(400, "invalid", "Chunk size must be a multiple of 262144 bytes.")
            fresh = memoryview(request.body)[session.persisted - begin :]
            if self.control.persist_bytes:
                fresh = fresh[: self.control.persist_bytes.pop(0)]
            session.pieces.append(fresh)
            session.persisted += len(fresh)
            self.control.count("bytes_in", len(fresh))
        if total is not None and session.persisted == total:
            data = b"".join(session.pieces)
            session.pieces = []
            session.done = self.storage.put(bucket, session.name, data, session.meta, session.query)

    # Batches.

    def batch(self, request: Request, rest: list[str]) -> Reply:
        boundary = parameter(request.headers.get("content-type", ""), "boundary")
        answers = []
        parts = split_multipart(bytes(request.body), boundary)
        if len(parts) > BATCH_PARTS_MAX:
            raise ApiError(400, "badRequest", "The batch request has more than 100 parts.")
        for headers, body in parts:
            inner = parse_head(body, dict(request.headers))
            reply = self.answer(inner, in_batch=True)
            head = f"Content-Type: application/http\r\nContent-ID: <response-{headers.get('content-id', '').strip('<>')}>\r\n\r\n"
            lines = f"HTTP/1.1 {reply.status} X\r\nContent-Length: {len(reply.body)}\r\n"
            lines += "".join(f"{name}: {value}\r\n" for name, value in reply.headers.items())
            answers.append((head + lines + "\r\n").encode() + bytes(reply.body) + b"\r\n")
        mark = "batch_" + secrets.token_hex(8)
        text = b"".join(b"--" + mark.encode() + b"\r\n" + one for one in answers) + b"--" + mark.encode() + b"--\r\n"
        return Reply(200, {"Content-Type": f"multipart/mixed; boundary={mark}"}, text)


class Credentials:
    """Google's token endpoints and the metadata server."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def answer(self, request: Request, parts: list[str]) -> Reply:
        self.control.count("/".join(parts[:2]) if parts[0] == "v1" else parts[0])
        rule = self.control.take(self.control.throttles, "token")
        if rule is not None:
            return Reply.of({"error": "internal_failure"}, rule.get("status", 503))
        if parts[0] == "computeMetadata":
            return self.metadata(request, parts)
        if parts[0] == "v1" and parts[-1].endswith(":generateAccessToken"):
            self.bearer(request)
            issued = self.control.issue_token()
            expires = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + issued["expires_in"]))
            return Reply.of({"accessToken": issued["access_token"], "expireTime": expires})
        form = dict(parse_qsl(bytes(request.body).decode()))
        grant = form.get("grant_type", "")
        if grant == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return self.assertion(form.get("assertion", ""))
        if grant == "refresh_token":
            if self.control.refresh_tokens.get(form.get("refresh_token", "")) != form.get("client_id"):
                return Reply.of({"error": "invalid_grant", "error_description": "Bad Request"}, 400)
            return Reply.of(self.control.issue_token())
        if grant == "urn:ietf:params:oauth:grant-type:token-exchange":
            if form.get("subject_token") not in self.control.refresh_tokens or not form.get("audience"):
                return Reply.of({"error": "invalid_grant", "error_description": "bad subject token"}, 400)
            return Reply.of(self.control.issue_token())
        return Reply.of({"error": "unsupported_grant_type"}, 400)

    def bearer(self, request: Request) -> None:
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token not in self.control.tokens:
            raise ApiError(401, "authError", "Invalid Credentials")

    def metadata(self, request: Request, parts: list[str]) -> Reply:
        if request.headers.get("metadata-flavor") != "Google":
            return Reply(403, {}, b"missing Metadata-Flavor")
        flavor = {"Metadata-Flavor": "Google"}
        if parts[-1] == "token":
            reply = Reply.of(self.control.issue_token())
            reply.headers.update(flavor)
            return reply
        if parts[-1] == "email":
            return Reply(200, {**flavor, "Content-Type": "text/plain"}, b"vm@project.iam.gserviceaccount.com")
        if parts[-1] == "project-id":
            return Reply(200, {**flavor, "Content-Type": "text/plain"}, b"metadata-project")
        return Reply(200, flavor, b"")

    def assertion(self, jwt: str) -> Reply:
        """RFC 7523 with RS256, checked by hand: PKCS #1 v1.5 over SHA-256."""
        try:
            head, claims, signature = jwt.split(".")
            header = json.loads(unbase64(head))
            claim = json.loads(unbase64(claims))
            modulus, exponent = self.control.service_accounts[claim["iss"]]
            size = (modulus.bit_length() + 7) // 8
            opened = pow(int.from_bytes(unbase64(signature), "big"), exponent, modulus).to_bytes(size, "big")
            digest = hashlib.sha256(f"{head}.{claims}".encode()).digest()
            info = bytes.fromhex("3031300d060960864801650304020105000420") + digest
            right = b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info
            fresh = claim["iat"] - 300 <= time.time() <= claim["exp"] <= claim["iat"] + 3600
            if header.get("alg") != "RS256" or opened != right or not fresh or not claim.get("scope"):
                raise ValueError("refused")
        except (ValueError, KeyError):
            return Reply.of({"error": "invalid_grant", "error_description": "Invalid JWT Signature."}, 400)
        return Reply.of(self.control.issue_token())


# Forms of requests.


def unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def parameter(value: str, name: str) -> bytes:
    for part in value.split(";")[1:]:
        key, _, text = part.strip().partition("=")
        if key.lower() == name:
            return text.strip('"').encode()
    raise ApiError(400, "badRequest", f"no {name} in {value}")


def split_multipart(body: bytes, boundary: bytes) -> list[tuple[dict[str, str], bytes]]:
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
    meta.setdefault("contentType", parts[1][0].get("content-type", "application/octet-stream"))
    return meta, parts[1][1]


def check_hashes(request: Request, meta: dict[str, Any], data: Any) -> None:
    wanted = dict(
        part.strip().split("=", 1) for part in request.headers.get("x-goog-hash", "").split(",") if "=" in part
    )
    crc = meta.get("crc32c") or wanted.get("crc32c")
    have = crc32c(data) if crc else None
    if have is not None and base64.b64encode(struct.pack(">I", have)).decode() != crc:
        raise ApiError(400, "invalid", f"Provided CRC32C \"{crc}\" doesn't match calculated CRC32C.")


def parse_range(text: str | None, size: int) -> tuple[int, int] | None:
    """[begin, end); None where the whole object is the answer."""
    if not text or not text.startswith("bytes=") or "," in text:
        return None
    begin, _, last = text[6:].partition("-")
    try:
        if not begin:
            return max(size - int(last), 0), size
        return int(begin), min(int(last) + 1, size) if last else size
    except ValueError:
        return None


def parse_content_range(text: str | None, persisted: int, size: int) -> tuple[int, int, int | None]:
    """[begin, end) and the total, None where it is not known yet."""
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
        raise ApiError(400, "invalid", f"Failed to parse Content-Range header {text}") from error


def parse_head(text: bytes, headers: dict[str, str]) -> Request:
    head, _, body = text.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    method, target = lines[0].split(" ")[:2]
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    path, _, query = target.partition("?")
    return Request(method, path, dict(parse_qsl(query, keep_blank_values=True)), headers, body)


# HTTP/1.1.


class Connection:
    def __init__(self, peer: socket.socket, api: Api) -> None:
        self.peer, self.api, self.ahead = peer, api, bytearray()

    def run(self) -> None:
        try:
            self.peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while self.serve_one():
                pass
        except (OSError, ValueError):
            pass  # the client left, or wrote what is no HTTP
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
            size = int(bytes(self.take(self.line_end(b"\r\n") + 2)).split(b";")[0], 16)
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
        head = [f"HTTP/1.1 {reply.status} {'OK' if reply.status < 300 else 'Other'}"]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        head.append(f"Date: {formatdate(usegmt=True)}")
        if reply.status not in (204, 304):
            head.append(f"Content-Length: {length}")
        keep = request.headers.get("connection", "").lower() != "close"
        head.append("Server: gcs_fake" + ("" if keep else "\r\nConnection: close"))
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


class Server:
    """Listens from construction on; serves from start() until stop()."""

    def __init__(self, port: int = 0, buckets: tuple[str, ...] = (), host: str = "127.0.0.1") -> None:
        self.storage = Storage()
        self.api = Api(self.storage)
        self.listener = socket.create_server((host, port), backlog=512)
        self.port: int = self.listener.getsockname()[1]
        self.url = self.storage.base_url = f"http://{host}:{self.port}"
        self.serial = itertools.count()
        for name in buckets:
            self.storage.buckets[name] = Bucket(name)

    def serve(self) -> None:
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=Connection(peer, self.api).run, daemon=True).start()

    def start(self) -> "Server":
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="A small Google Cloud Storage for tests")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bucket", action="append", default=[])
    parser.add_argument("--port-file", default="", help="the port is written here once it listens")
    parser.add_argument("--require-token", action="store_true", help="401 without a token issued here")
    options = parser.parse_args()
    server = Server(options.port, tuple(options.bucket))
    server.storage.control.require_token = options.require_token
    print(server.url, flush=True)
    if options.port_file:
        with open(options.port_file, "w", encoding="ascii") as file:
            file.write(str(server.port))
    try:
        server.serve()
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
