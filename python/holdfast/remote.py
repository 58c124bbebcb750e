"""Object stores: how they are reached, and counts of requests to them.

Every path that holdfast takes may be `gs://bucket/…`, `s3://bucket/…` or, for
reading, `https://…` and `hf://org/model[@revision][/path]`. Nothing has to be
set up: credentials, regions and endpoints come from the environment, as the
stores' own tools read it.

    import holdfast
    from holdfast import remote

    remote.configure(endpoint="http://minio:9000", region="eu-west-1")
    holdfast.save("s3://bucket/run/7", tree)
    remote.RemotePath("s3://bucket/run") / "7" / "notes.txt"

HTTP needs libcurl: the system's, or the one that `pip install pycurl` brings.

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
    """How object stores are reached; empty fields: as the environment says.

    Attributes:
        endpoint: URL of the server. s3: AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL,
            the profile's, Amazon's. gs: STORAGE_EMULATOR_HOST,
            TENSORSTORE_GCS_HTTP_URL, Google's.
        region: s3: AWS_REGION, AWS_DEFAULT_REGION, the profile's.
        profile: s3: AWS_PROFILE.
        anonymous: sign nothing, send no token.
        address_style: s3: "auto", "path" or "virtual".
        requester_pays: the caller pays for the requests.
        user_project: gs: the project that is billed.
        requests_in_flight_max: at once, to one bucket.
        attempt_count_max: of one request, the first one included.
        connect_seconds: until a connection stands.
        stall_seconds: without a byte, after which a connection is lost.
        request_seconds: for all attempts of a request.
        hedge: send reads that lag far behind the others a second time, as long
            as that is no more than 2 % of the bytes.
        ca_bundle: a file of trusted certificates. HOLDFAST_CA_BUNDLE,
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
    """The settings of this process."""
    return Settings(**_engine.remote_settings())


def configure(
    new: Settings | None = None, **changes: str | bool | int | float
) -> Settings:
    """Changes how this process reaches object stores.

    Checkpoints that are open keep the settings that they were opened with.

    Args:
        new: the settings; None: those that hold now.
        **changes: fields of Settings.

    Returns:
        What holds now.

    Raises:
        TypeError: there is no such setting.
        InvalidArgumentError: a value makes no sense; nothing is changed.
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
        requests: that callers made.
        attempts: that were sent.
        retries: attempts after the first one.
        throttled: answers that said "slow down" (429, 503).
        hedges: second copies of reads that lagged.
        hedge_bytes: of bodies, received twice.
        connections: that were made.
        sent_bytes: of bodies.
        received_bytes: of bodies.
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
    """The counters of this process; take two to measure what lies between."""
    return Counters(**_engine.remote_counters())
