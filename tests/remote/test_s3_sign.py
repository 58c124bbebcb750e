"""Tests that holdfast's signatures equal those of botocore's own signer."""

from __future__ import annotations

import datetime
import hashlib
import json
import random
import subprocess
import urllib.parse
from pathlib import Path
from unittest import mock

import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

KEYS = ["a b", "a+b", "a=b&c", "é", "x//y", "x/../y", "../z", "100%", "%2F%20",
        "~tilde_-.", "semi;colon", "@:$,", "\U0001f600", "quote'\"()", "#?", " "]
VALUES = ["", "x", "a b", "a+b", "é/ü", "%", "=", "&", "~", "2~abc.-_", "/d/"]
NAMES = ["prefix", "delimiter", "uploads", "delete", "list-type", "partNumber",
         "uploadId", "continuation-token", "start-after", "A", "a"]
HEADERS = ["Range", "If-Match", "x-amz-copy-source", "x-amz-meta-x", "Content-MD5",
           "Content-Type", "User-Agent", "Expect", "x-amz-request-payer"]


def random_request(rng: random.Random) -> dict[str, object]:
    """Returns a possible S3 request, escaped as holdfast's client does."""
    path = "/".join(rng.choice(KEYS) for _ in range(rng.randint(0, 3)))
    pairs = [(rng.choice(NAMES), rng.choice(VALUES)) for _ in range(rng.randint(0, 5))]
    query = "&".join(
        urllib.parse.quote(name, safe="-_.~") + "=" + urllib.parse.quote(value, safe="-_.~")
        for name, value in pairs)
    host = rng.choice(["s3.eu-west-1.amazonaws.com", "127.0.0.1:9000", "b.s3.amazonaws.com"])
    names = rng.sample(HEADERS, rng.randint(0, 4))
    value = rng.choice(["v", " two  spaces ", "bytes=0-9", "d41d8cd98f00b204", "a,b"])
    return {
        "method": rng.choice(["GET", "PUT", "POST", "DELETE", "HEAD"]),
        "url": f"{rng.choice(['http', 'https'])}://{host}/"
               + urllib.parse.quote(path, safe="/-_.~") + (f"?{query}" if query else ""),
        "headers": [[name, value] for name in names],
        "seconds": rng.randint(1, 4_000_000_000),
        "region": rng.choice(["us-east-1", "eu-west-1", ""]),
        "key": "AKIA" + str(rng.randint(0, 3)), "secret": "s/+" + str(rng.randint(0, 3)),
        "token": rng.choice(["", "tok/en+=="]),
        "payload_hash": rng.choice(
            ["UNSIGNED-PAYLOAD", hashlib.sha256(rng.randbytes(3)).hexdigest()]),
    }


def botocore_signature(request: dict) -> str:
    """Returns the Authorization header that botocore makes for it."""
    signer = botocore.auth.S3SigV4Auth(
        Credentials(request["key"], request["secret"], request["token"] or None), "s3",
        request["region"])
    signed = AWSRequest(request["method"], request["url"])
    for name, value in request["headers"]:
        signed.headers[name] = value
    now = datetime.datetime.fromtimestamp(request["seconds"], datetime.timezone.utc)
    with (mock.patch.object(botocore.auth, "get_current_datetime",
                            lambda **_: now.replace(tzinfo=None)),
          mock.patch.object(signer, "payload", lambda _: request["payload_hash"])):
        signer.add_auth(signed)
    return str(signed.headers["Authorization"])


def test_signatures_are_those_of_botocore(cli: str) -> None:
    """Signs 3000 requests in one process, so that signing keys are reused."""
    program = Path(cli).parents[1] / "tests/remote/s3_sign"
    rng = random.Random(20261122)
    requests = [random_request(rng) for _ in range(3000)]
    answers = subprocess.run(
        [program], input="\n".join(map(json.dumps, requests)), text=True, check=True,
        capture_output=True).stdout.splitlines()
    assert len(answers) == len(requests)
    for request, answer in zip(requests, answers, strict=True):
        assert answer.replace(",", ", ") == botocore_signature(request), request
