"""Object stores: settings for access, and counts of requests.

Every path that holdfast accepts may be `gs://bucket/…`, `s3://bucket/…` or, for
reading, `https://…` and `hf://org/model[@revision][/path]`. No setup is needed:
credentials, regions and endpoints come from the environment, as in the stores'
own tools.

    import holdfast
    from holdfast import remote

    remote.configure(endpoint="http://minio:9000", region="eu-west-1")
    holdfast.save("s3://bucket/run/7", tree)
    remote.RemotePath("s3://bucket/run") / "7" / "notes.txt"

HTTP needs libcurl: the system's, or the one from `pip install pycurl`.

Thread-safety: any number of threads. Units: bytes, seconds.
"""

from __future__ import annotations

import dataclasses
import os

from holdfast import _engine
from holdfast._remote_path import RemotePath, as_path

__all__ = [
    "Counters",
    "RemotePath",
    "Settings",
    "as_path",
    "configure",
    "counters",
    "settings",
]


@dataclasses.dataclass(frozen=True)
class Settings:
    """Settings for access to object stores.

    An empty field takes its value from the environment, in the given order.

    Attributes:
        endpoint: URL of the server. For s3: AWS_ENDPOINT_URL_S3,
            AWS_ENDPOINT_URL, the profile's, Amazon's. For gs:
            STORAGE_EMULATOR_HOST, TENSORSTORE_GCS_HTTP_URL, Google's.
        region: for s3: AWS_REGION, AWS_DEFAULT_REGION, the profile's.
        profile: for s3: AWS_PROFILE.
        anonymous: do not sign requests or send tokens.
        address_style: for s3: "auto", "path" or "virtual".
        requester_pays: the caller pays for the requests.
        user_project: for gs: the project to bill.
        requests_in_flight_max: concurrent requests to one bucket.
        attempt_count_max: attempts per request, including the first.
        connect_seconds: time limit for making a connection.
        stall_seconds: a connection is lost after this time without a byte.
        request_seconds: time limit for all attempts of a request.
        hedge: send a read a second time if it is much slower than others. At
            most 2 % of the bytes are requested twice.
        ca_bundle: a file of trusted certificates: HOLDFAST_CA_BUNDLE,
            AWS_CA_BUNDLE, SSL_CERT_FILE, CURL_CA_BUNDLE, the system's.
    """

    endpoint: str = ""
    region: str = ""
    profile: str = ""
    anonymous: bool = False
    address_style: str = "auto"
    requester_pays: bool = False
    user_project: str = ""
    requests_in_flight_max: int = 64
    attempt_count_max: int = 8
    connect_seconds: float = 10.0
    stall_seconds: float = 30.0
    request_seconds: float = 300.0
    hedge: bool = True
    ca_bundle: str | os.PathLike[str] = ""


_NAMES = frozenset(field.name for field in dataclasses.fields(Settings))


def settings() -> Settings:
    """Returns this process's settings."""
    return Settings(**_engine.remote_settings())


def configure(
    new: Settings | None = None, **changes: str | bool | int | float
) -> Settings:
    """Changes this process's settings for object stores.

    Open checkpoints keep the settings that they were opened with.

    Args:
        new: the new settings; None means the current ones.
        **changes: fields of Settings to change.

    Returns:
        The new settings.

    Raises:
        TypeError: there is no such setting.
        InvalidArgumentError: a value is invalid; nothing is changed.
    """
    unknown = sorted(changes.keys() - _NAMES)
    if unknown:
        raise TypeError(f"no such setting: {', '.join(unknown)}")
    base = settings() if new is None else new
    values = {**dataclasses.asdict(base), **changes}
    values["ca_bundle"] = os.fspath(values["ca_bundle"])
    _engine.set_remote_settings(values)
    return settings()


@dataclasses.dataclass(frozen=True)
class Counters:
    """Counts of this process's requests to object stores since it began.

    Attributes:
        requests: requests that callers made.
        attempts: attempts that were sent.
        retries: attempts after the first one.
        throttled: responses that said "slow down" (429, 503).
        hedges: second copies of slow reads.
        hedge_bytes: body bytes received twice.
        connections: connections that were opened.
        sent_bytes: body bytes sent.
        received_bytes: body bytes received.
    """

    requests: int
    attempts: int
    retries: int
    throttled: int
    hedges: int
    hedge_bytes: int
    connections: int
    sent_bytes: int
    received_bytes: int


def counters() -> Counters:
    """Returns this process's counters. The difference between two results
    counts what happened between the calls."""
    return Counters(**_engine.remote_counters())
