"""The state of gcs_fake.py: buckets, objects, lists, and the values that tests
set (`Control`). gcs_fake.py names the sources of the rules.
"""

from __future__ import annotations

import base64
import bisect
import hashlib
import json
import secrets
import struct
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


def _fast_crc32c() -> Any:
    """Returns google_crc32c's function if it is installed."""
    try:
        import google_crc32c
    except ImportError:
        return None
    return google_crc32c


_FAST_CRC32C = _fast_crc32c()
MIB = 1 << 20
MD5_BYTES_MAX = 8 * MIB  # larger objects have no MD5, like composed objects
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
    """Returns the CRC-32C of bytes, or None if it would take too long."""
    if _FAST_CRC32C is not None:
        view, found = memoryview(data), 0
        for at in range(0, len(view), MIB):
            found = _FAST_CRC32C.extend(found, bytes(view[at : at + MIB]))
        return int(found)
    if len(data) > SLOW_CRC_BYTES_MAX:
        return None
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


class ApiError(Exception):
    """An answer in Google's form for errors."""

    def __init__(
        self, status: int, reason: str, message: str, **more: Any
    ) -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.more = (
            status,
            reason,
            message,
            more,
        )


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
    def of(value: Any, status: int = 200) -> Reply:
        body = json.dumps(value, separators=(",", ":")).encode()
        return Reply(
            status, {"Content-Type": "application/json; charset=UTF-8"}, body
        )


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
                found["crc32c"] = base64.b64encode(
                    struct.pack(">I", crc)
                ).decode()
            if not self.component_count and len(self.data) <= MD5_BYTES_MAX:
                found["md5"] = base64.b64encode(
                    hashlib.md5(self.data).digest()
                ).decode()
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
    """The values that tests set, and the counters that they read."""

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
        return {
            "access_token": token,
            "expires_in": int(self.token_seconds),
            "token_type": "Bearer",
        }

    def take(
        self, wanted: list[dict[str, Any]], method: str
    ) -> dict[str, Any] | None:
        """Returns the first rule for the method, and uses it once."""
        with self.lock:
            for rule in wanted:
                if (
                    rule.get("method", "*") in ("*", method)
                    and rule.get("count", 1) > 0
                ):
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
        elif (
            verb == "lose"
        ):  # {method, count, skip}: acts, but loses the answer
            self.losses.append(body)
        elif (
            verb == "persist"
        ):  # {bytes: [n, ...]}: keeps n bytes of each next chunk
            self.persist_bytes = list(body.get("bytes", []))
        elif verb == "quirk":  # see gcs_fake.py
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
            self.service_accounts[body["email"]] = (
                int(body["modulus"], 16),
                body["exponent"],
            )
        elif verb == "refresh_token":  # {token, client_id}
            self.refresh_tokens[body["token"]] = body.get("client_id", "")
        else:
            raise ApiError(404, "notFound", f"no control {verb}")
        return {}


class Storage:
    """The buckets and their operations; one lock guards all state."""

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
            raise ApiError(
                404, "notFound", "The specified bucket does not exist."
            )
        user_project = request.query.get("userProject") or request.headers.get(
            "x-goog-user-project"
        )
        if found.requester_pays and not user_project:
            raise ApiError(
                400,
                "required",
                "Bucket is a requester pays bucket but no user project "
                "provided.",
                domain="global",
            )
        return found

    def allow(self, permission: str, what: str) -> None:
        if permission in self.control.denied:
            raise ApiError(
                403,
                "forbidden",
                f"tester@example.com does not have {permission} access to the "
                f"Google Cloud Storage {what}. Permission '{permission}' "
                "denied on resource (or it may not exist).",
            )

    def live(self, bucket: Bucket, name: str, query: dict[str, str]) -> Object:
        found = bucket.objects.get(name)
        wanted = query.get("generation")
        if found is None or (wanted and int(wanted) != found.generation):
            self.allow("storage.objects.list", "object")
            label = f"{bucket.name}/{name}" + (f"#{wanted}" if wanted else "")
            raise ApiError(404, "notFound", f"No such object: {label}")
        return found

    def check(
        self,
        found: Object | None,
        query: dict[str, str],
        names: str = "if",
        read: bool = False,
    ) -> None:
        """Checks preconditions; `names` is "if" or "ifSource"."""
        if self.control.quirks.get("ignore_preconditions"):
            return
        generation = found.generation if found else 0
        metageneration = 1 if found else 0
        for key, have in (
            ("GenerationMatch", generation),
            ("MetagenerationMatch", metageneration),
        ):
            want = query.get(names + key)
            if want is not None and number(want, names + key) != have:
                raise ApiError(
                    412,
                    "conditionNotMet",
                    "At least one of the pre-conditions you specified did not "
                    "hold.",
                    locationType="header",
                    location="If-Match",
                )
        unwanted = query.get(names + "GenerationNotMatch")
        if (
            unwanted is not None
            and number(unwanted, "ifGenerationNotMatch") == generation
        ):
            if read:
                raise ApiError(304, "notModified", "")
            raise ApiError(412, "conditionNotMet", "Precondition Failed")

    def check_name(self, name: str) -> None:
        if not name:
            raise ApiError(400, "required", "Required object name")
        try:
            text = name.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ApiError(
                400, "invalid", "Object name is not valid UTF-8"
            ) from error
        if len(text) > 1024 or "\r" in name or "\n" in name:
            raise ApiError(
                400, "invalid", f"Invalid object name: {name[:64]!r}"
            )

    def put(
        self,
        bucket: Bucket,
        name: str,
        data: Any,
        meta: dict[str, Any],
        query: dict[str, str],
    ) -> Object:
        self.check_name(name)
        with self.lock:
            old = bucket.objects.get(name)
            self.allow("storage.objects.create", "object")
            self.check(old, query)
            if old is not None:
                self.allow("storage.objects.delete", "object")
            self.last_generation = max(
                self.last_generation + 1, time.time_ns() // 1000
            )
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
            del bucket.names[
                bisect.bisect_left(
                    bucket.names, byte_order(name), key=byte_order
                )
            ]

    def resource(self, bucket: Bucket, found: Object) -> dict[str, Any]:
        name = quote(found.name, safe="")
        link = f"{self.base_url}/storage/v1/b/{bucket.name}/o/{name}"
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
        raise ApiError(
            400, "invalid", f"Invalid long value: '{text}' for {name}"
        ) from error


def list_page(
    storage: Storage, bucket: Bucket, query: dict[str, str]
) -> dict[str, Any]:
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
    end = query.get("endOffset", "")
    count_max = min(
        max(number(query.get("maxResults", "1000"), "maxResults"), 1), 1000
    )
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
            if not name.startswith(prefix) or (
                end and byte_order(name) >= byte_order(end)
            ):
                break
            if token and (
                name == last or (after_prefix and name.startswith(after_prefix))
            ):
                continue
            cut = name.find(delimiter, len(prefix)) if delimiter else -1
            group = name[: cut + len(delimiter)] if cut >= 0 else ""
            if group and prefixes and prefixes[-1] == group:
                continue
            if len(items) + len(prefixes) == count_max:
                text = json.dumps(last_entry).encode()
                return {
                    "kind": "storage#objects",
                    "items": items,
                    "prefixes": prefixes,
                    "nextPageToken": base64.urlsafe_b64encode(text).decode(),
                }
            if group:
                prefixes.append(group)
                last_entry = ("p", group)
            else:
                items.append(storage.resource(bucket, bucket.objects[name]))
                last_entry = ("o", name)
    answer: dict[str, Any] = {"kind": "storage#objects"}
    if items:
        answer["items"] = items
    if prefixes:
        answer["prefixes"] = prefixes
    return answer
