"""A small Google Cloud Storage for tests, with the JSON API, in memory.

Needs only the gcs_fake_*.py next to it and Python's standard library
(google_crc32c is used if it is installed). Each connection has one thread and
is kept alive; bodies are not copied.

    python gcs_fake.py --port 0 --bucket test [--port-file F] [--require-token]

The first line of standard output is "http://127.0.0.1:PORT". Buckets are
created by --bucket or by POST /storage/v1/b.

Rules from Google's documents (cloud.google.com/storage/docs: json_api,
performing-resumable-uploads, request-preconditions, batch, composite-objects,
requester-pays) and from how googleapis/storage-testbench answers:
- Object names are one escaped path segment. A new object gets a new generation
  (microseconds, increasing) and metageneration 1.
- ifGenerationMatch=0 requires that there is no live object. Any other number
  requires that this generation is live. Otherwise the answer is 412
  conditionNotMet, whether or not the object exists. A get that violates
  ifGenerationNotMatch gets 304.
- alt=media answers 206 with Content-Range for ranges that can be met, 416 with
  "bytes */SIZE" for others, and errors as plain text. x-goog-generation,
  -metageneration, -hash (crc32c, md5), -stored-content-length are always sent.
- Lists are sorted by name; maxResults counts items and prefixes together;
  startOffset is inclusive, endOffset exclusive.
- Resumable uploads: the start answers 200 with Location. The size of each chunk
  except the last is a multiple of 256 KiB. A chunk answers 308 with "Range:
  bytes=0-N", without Range if nothing is persisted. "bytes */*" asks for the
  state. Bytes before the persisted offset are ignored. A finished session
  answers with the metadata again, and DELETE with 499. The preconditions of the
  session's start are checked at the start and at the end.
- Batches: at most 100 parts; no uploads and no media; the answers carry
  Content-ID "response-" + the request's.
- compose: at most 32 sources, componentCount, no md5. rewrite: a token until it
  is done. delete: 204.
- Requester pays without userProject: 400 "required" ... UserProjectMissing.
- Without storage.objects.list, a get of an absent object is 403, not 404;
  replacing an object also needs storage.objects.delete.

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
import itertools
import secrets
import socket
import sys
import threading
import time
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from urllib.parse import quote, unquote

sys.path.insert(0, str(Path(__file__).resolve().parent))

from gcs_fake_http import (  # noqa: E402
    Connection,
    check_hashes,
    parameter,
    parse_content_range,
    parse_head,
    parse_range,
    parse_related,
    split_multipart,
)
from gcs_fake_state import (  # noqa: E402
    ApiError,
    Bucket,
    Object,
    Reply,
    Request,
    Session,
    Storage,
    list_page,
)
from gcs_fake_tokens import Credentials  # noqa: E402

BATCH_PARTS_MAX = 100
CHUNK_UNIT = 256 << 10
COMPOSE_SOURCES_MAX = 32


class Api:
    """Routes requests to handlers, called with (request, rest of the path)."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.control = storage.control

    # Routing.

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
            headers["WWW-Authenticate"] = (
                'Bearer realm="https://accounts.google.com/"'
            )
        if request.query.get("alt") == "media":
            headers["Content-Type"] = "text/html; charset=UTF-8"
            return Reply(error.status, headers, error.message.encode())
        detail = {
            "message": error.message,
            "domain": "global",
            "reason": error.reason,
            **error.more,
        }
        reply = Reply.of(
            {
                "error": {
                    "code": error.status,
                    "message": error.message,
                    "errors": [detail],
                }
            },
            error.status,
        )
        reply.headers.update(headers)
        return reply

    def dispatch(self, request: Request, in_batch: bool) -> Reply:
        parts = [
            unquote(part, errors="surrogateescape")
            for part in request.path.split("/")[1:]
        ]
        if parts[0] == "_fake":
            return Reply.of(self.control.handle(parts[1], request.json()))
        if parts[0] in ("token", "computeMetadata", "v1"):
            return Credentials(self.control).answer(request, parts)
        method, handler, rest = self.route(request, parts)
        if in_batch and (
            parts[0] == "upload" or request.query.get("alt") == "media"
        ):
            raise ApiError(
                400, "badRequest", "no uploads or downloads in a batch"
            )
        self.control.count(method)
        rule = self.control.take(self.control.throttles, method)
        if rule is not None:
            self.control.count("throttled")
            more = (
                {"retry_after": rule["retry_after"]}
                if "retry_after" in rule
                else {}
            )
            raise ApiError(
                rule.get("status", 503),
                rule.get("reason", "backendError"),
                "We encountered an internal error.",
                **more,
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
                "Anonymous caller does not have storage.objects.get access "
                "to the Google Cloud Storage object.",
                locationType="header",
                location="Authorization",
            )
        expires = self.control.tokens.get(given.removeprefix("Bearer "))
        if expires is None or expires < time.time():
            raise ApiError(
                401,
                "authError",
                "Invalid Credentials",
                locationType="header",
                location="Authorization",
            )

    def route(
        self, request: Request, parts: list[str]
    ) -> tuple[str, Callable[[Request, list[str]], Reply], list[str]]:
        verb, count = request.method, len(parts)
        if (
            parts[:3] == ["batch", "storage", "v1"]
            and verb == "POST"
            and not self.control.quirks.get("no_batch")
        ):
            return "batch", self.batch, []
        if (
            parts[:4] == ["upload", "storage", "v1", "b"]
            and count == 6
            and parts[5] == "o"
        ):
            handler = {
                "POST": self.upload,
                "PUT": self.upload_chunk,
                "DELETE": self.upload_cancel,
            }.get(verb)
            if handler:
                return (
                    {"POST": "insert", "PUT": "chunk", "DELETE": "cancel"}[
                        verb
                    ],
                    handler,
                    [parts[4]],
                )
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
                known = {
                    "GET": self.get_object,
                    "DELETE": self.delete_object,
                    "PATCH": self.patch_object,
                }
                if verb in known:
                    return (
                        {"GET": "get", "DELETE": "delete", "PATCH": "patch"}[
                            verb
                        ],
                        known[verb],
                        rest,
                    )
            if len(rest) == 4 and rest[3] == "compose" and verb == "POST":
                return "compose", self.compose, rest
            if (
                len(rest) == 8
                and rest[3] in ("rewriteTo", "copyTo")
                and rest[4::2][:2] == ["b", "o"]
                and verb == "POST"
            ):
                return (
                    "rewrite" if rest[3] == "rewriteTo" else "copy",
                    self.rewrite,
                    rest,
                )
        # XML style: /bucket/object.
        if (
            count >= 2
            and verb in ("GET", "HEAD")
            and parts[0] in self.storage.buckets
        ):
            request.query.setdefault("alt", "media")
            return "get", self.get_object, [parts[0], "o", "/".join(parts[1:])]
        raise ApiError(404, "notFound", "Not Found")

    # Buckets and objects.

    def make_bucket(self, request: Request, rest: list[str]) -> Reply:
        body = request.json()
        name = body.get("name", "")
        if name in self.storage.buckets:
            raise ApiError(409, "conflict", "You already own this bucket.")
        self.storage.buckets[name] = Bucket(
            name, bool(body.get("billing", {}).get("requesterPays"))
        )
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
            self.storage.check(
                bucket.objects.get(rest[2]), request.query, read=True
            )
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
            "x-goog-hash": ",".join(
                f"{name}={value}" for name, value in hashes.items()
            ),
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
            return Reply(
                416, headers, b"The requested range cannot be satisfied."
            )
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
            raise ApiError(
                400,
                "invalid",
                "The number of source components provided must be in [1, 32].",
            )
        with self.storage.lock:
            self.storage.allow("storage.objects.get", "object")
            found = []
            for source in sources:
                query = (
                    {"generation": str(source["generation"])}
                    if "generation" in source
                    else {}
                )
                one = self.storage.live(bucket, source["name"], query)
                conditions = {
                    k: str(v)
                    for k, v in source.get("objectPreconditions", {}).items()
                }
                self.storage.check(one, conditions)
                found.append(one)
            data = b"".join(one.data for one in found)
            made = self.storage.put(
                bucket,
                rest[2],
                data,
                body.get("destination", {}),
                request.query,
            )
            made.component_count = sum(
                max(one.component_count, 1) for one in found
            )
        return Reply.of(self.storage.resource(bucket, made))

    def rewrite(self, request: Request, rest: list[str]) -> Reply:
        """rewriteTo, copyTo: [bucket, o, name, verb, b, bucket, o, name]."""
        source_bucket = self.storage.bucket(rest[0], request)
        target_bucket = self.storage.bucket(rest[5], request)
        with self.storage.lock:
            self.storage.allow("storage.objects.get", "object")
            query = (
                {"generation": request.query["sourceGeneration"]}
                if "sourceGeneration" in request.query
                else {}
            )
            found = self.storage.live(source_bucket, rest[2], query)
            self.storage.check(found, request.query, "ifSource")
            size = len(found.data)
            if rest[3] == "rewriteTo":
                token = request.query.get("rewriteToken")
                if token and token not in self.storage.rewrites:
                    raise ApiError(400, "invalid", "Invalid rewrite token")
                step = int(
                    request.query.get("maxBytesRewrittenPerCall", size) or size
                )
                step = min(step, self.control.quirks.get("rewrite_bytes", step))
                done = self.storage.rewrites.pop(token or "", 0) + step
                if done < size:
                    token = secrets.token_hex(8)
                    self.storage.rewrites[token] = done
                    partial = {
                        "kind": "storage#rewriteResponse",
                        "done": False,
                        "rewriteToken": token,
                    }
                    return Reply.of(
                        {
                            **partial,
                            "totalBytesRewritten": str(done),
                            "objectSize": str(size),
                        }
                    )
            meta = {
                "contentType": found.content_type,
                "metadata": found.metadata,
                **request.json(),
            }
            made = self.storage.put(
                target_bucket, rest[7], found.data, meta, request.query
            )
            made.component_count = found.component_count
        value = self.storage.resource(target_bucket, made)
        if rest[3] == "rewriteTo":
            sizes = {"totalBytesRewritten": str(size), "objectSize": str(size)}
            value = {
                "kind": "storage#rewriteResponse",
                "done": True,
                **sizes,
                "resource": value,
            }
        return Reply.of(value)

    # Uploads.

    def upload(self, request: Request, rest: list[str]) -> Reply:
        bucket = self.storage.bucket(rest[0], request)
        kind = request.query.get("uploadType")
        if kind == "media":
            meta = {
                "contentType": request.headers.get(
                    "content-type", "application/octet-stream"
                )
            }
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
        meta.setdefault(
            "contentType",
            request.headers.get(
                "x-upload-content-type", "application/octet-stream"
            ),
        )
        name = request.query.get("name") or meta.get("name", "")
        self.storage.check_name(name)
        self.storage.allow("storage.objects.create", "object")
        self.storage.check(bucket.objects.get(name), request.query)
        upload_id = "ABPnz" + secrets.token_urlsafe(24)
        self.storage.sessions[upload_id] = Session(
            bucket.name, name, dict(request.query), meta
        )
        # The host as the client named it, since there may be a proxy.
        host = request.headers.get("host", self.storage.base_url[7:])
        location = (
            f"http://{host}/upload/storage/v1/b/{bucket.name}/o"
            f"?uploadType=resumable&name={quote(name, safe='')}"
            f"&upload_id={upload_id}"
        )
        return Reply(
            200, {"Location": location, "X-GUploader-UploadID": upload_id}
        )

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

    def take_chunk(
        self, session: Session, bucket: Bucket, request: Request
    ) -> None:
        size = len(request.body)
        begin, end, total = parse_content_range(
            request.headers.get("content-range"), session.persisted, size
        )
        if end - begin != size:
            raise ApiError(
                400, "invalid", "Content-Range does not fit the body"
            )
        if size:
            if begin > session.persisted:
                raise ApiError(
                    400,
                    "invalid",
                    f"Offset {begin} is after {session.persisted}.",
                )
            is_last = total is not None and end == total
            if not is_last and size % CHUNK_UNIT:
                raise ApiError(
                    400,
                    "invalid",
                    "Chunk size must be a multiple of 262144 bytes.",
                )
            fresh = memoryview(request.body)[session.persisted - begin :]
            if self.control.persist_bytes:
                fresh = fresh[: self.control.persist_bytes.pop(0)]
            session.pieces.append(fresh)
            session.persisted += len(fresh)
            self.control.count("bytes_in", len(fresh))
        if total is not None and session.persisted == total:
            data = b"".join(session.pieces)
            session.pieces = []
            session.done = self.storage.put(
                bucket, session.name, data, session.meta, session.query
            )

    # Batches.

    def batch(self, request: Request, rest: list[str]) -> Reply:
        boundary = parameter(
            request.headers.get("content-type", ""), "boundary"
        )
        answers = []
        parts = split_multipart(bytes(request.body), boundary)
        if len(parts) > BATCH_PARTS_MAX:
            raise ApiError(
                400, "badRequest", "The batch request has more than 100 parts."
            )
        for headers, body in parts:
            inner = parse_head(body, dict(request.headers))
            reply = self.answer(inner, in_batch=True)
            call = headers.get("content-id", "").strip("<>")
            head = (
                "Content-Type: application/http\r\n"
                f"Content-ID: <response-{call}>\r\n\r\n"
            )
            lines = (
                f"HTTP/1.1 {reply.status} X\r\n"
                f"Content-Length: {len(reply.body)}\r\n"
            )
            lines += "".join(
                f"{name}: {value}\r\n" for name, value in reply.headers.items()
            )
            answers.append(
                (head + lines + "\r\n").encode() + bytes(reply.body) + b"\r\n"
            )
        mark = "batch_" + secrets.token_hex(8)
        text = (
            b"".join(b"--" + mark.encode() + b"\r\n" + one for one in answers)
            + b"--"
            + mark.encode()
            + b"--\r\n"
        )
        return Reply(
            200, {"Content-Type": f"multipart/mixed; boundary={mark}"}, text
        )


class Server:
    """Listens from construction on; serves from start() until stop()."""

    def __init__(
        self,
        port: int = 0,
        buckets: tuple[str, ...] = (),
        host: str = "127.0.0.1",
    ) -> None:
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
            threading.Thread(
                target=Connection(peer, self.api).run, daemon=True
            ).start()

    def start(self) -> Server:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def stop(self) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description="A small Google Cloud Storage for tests"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--bucket", action="append", default=[])
    parser.add_argument(
        "--port-file",
        default="",
        help="the port is written here once it listens",
    )
    parser.add_argument(
        "--require-token",
        action="store_true",
        help="401 without a token issued here",
    )
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
