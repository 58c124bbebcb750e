"""Google's token endpoints and metadata server for gcs_fake.py."""

from __future__ import annotations

import base64
import hashlib
import json
import time
from urllib.parse import parse_qsl

from gcs_fake_state import ApiError, Control, Reply, Request


def unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Credentials:
    """Google's token endpoints and the metadata server."""

    def __init__(self, control: Control) -> None:
        self.control = control

    def answer(self, request: Request, parts: list[str]) -> Reply:
        self.control.count(
            "/".join(parts[:2]) if parts[0] == "v1" else parts[0]
        )
        rule = self.control.take(self.control.throttles, "token")
        if rule is not None:
            return Reply.of(
                {"error": "internal_failure"}, rule.get("status", 503)
            )
        if parts[0] == "computeMetadata":
            return self.metadata(request, parts)
        if parts[0] == "v1" and parts[-1].endswith(":generateAccessToken"):
            self.bearer(request)
            issued = self.control.issue_token()
            expires = time.strftime(
                "%Y-%m-%dT%H:%M:%SZ",
                time.gmtime(time.time() + issued["expires_in"]),
            )
            return Reply.of(
                {"accessToken": issued["access_token"], "expireTime": expires}
            )
        form = dict(parse_qsl(bytes(request.body).decode()))
        grant = form.get("grant_type", "")
        if grant == "urn:ietf:params:oauth:grant-type:jwt-bearer":
            return self.assertion(form.get("assertion", ""))
        if grant == "refresh_token":
            if self.control.refresh_tokens.get(
                form.get("refresh_token", "")
            ) != form.get("client_id"):
                return Reply.of(
                    {
                        "error": "invalid_grant",
                        "error_description": "Bad Request",
                    },
                    400,
                )
            return Reply.of(self.control.issue_token())
        if grant == "urn:ietf:params:oauth:grant-type:token-exchange":
            if form.get(
                "subject_token"
            ) not in self.control.refresh_tokens or not form.get("audience"):
                return Reply.of(
                    {
                        "error": "invalid_grant",
                        "error_description": "bad subject token",
                    },
                    400,
                )
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
            return Reply(
                200,
                {**flavor, "Content-Type": "text/plain"},
                b"vm@project.iam.gserviceaccount.com",
            )
        if parts[-1] == "project-id":
            return Reply(
                200,
                {**flavor, "Content-Type": "text/plain"},
                b"metadata-project",
            )
        return Reply(200, flavor, b"")

    def assertion(self, jwt: str) -> Reply:
        """Answers an RFC 7523 assertion; checks RS256 (PKCS #1 v1.5 over
        SHA-256) itself."""
        try:
            head, claims, signature = jwt.split(".")
            header = json.loads(unbase64(head))
            claim = json.loads(unbase64(claims))
            modulus, exponent = self.control.service_accounts[claim["iss"]]
            size = (modulus.bit_length() + 7) // 8
            opened = pow(
                int.from_bytes(unbase64(signature), "big"), exponent, modulus
            ).to_bytes(size, "big")
            digest = hashlib.sha256(f"{head}.{claims}".encode()).digest()
            info = (
                bytes.fromhex("3031300d060960864801650304020105000420") + digest
            )
            right = (
                b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info
            )
            fresh = (
                claim["iat"] - 300
                <= time.time()
                <= claim["exp"]
                <= claim["iat"] + 3600
            )
            if (
                header.get("alg") != "RS256"
                or opened != right
                or not fresh
                or not claim.get("scope")
            ):
                raise ValueError("refused")
        except (ValueError, KeyError):
            return Reply.of(
                {
                    "error": "invalid_grant",
                    "error_description": "Invalid JWT Signature.",
                },
                400,
            )
        return Reply.of(self.control.issue_token())
