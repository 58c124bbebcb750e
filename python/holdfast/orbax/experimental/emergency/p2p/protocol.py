"""`orbax.checkpoint.experimental.emergency.p2p.protocol`: names alone."""

from __future__ import annotations

from typing import Any, TypeAlias

from holdfast.orbax.experimental.emergency._refusal import (
    Refused,
    refused_function,
)

__all__ = [
    "Manifest",
    "ManifestEntry",
    "OP_DOWNLOAD_FILE",
    "OP_ERROR",
    "OP_FILE_STREAM",
    "OP_GET_MANIFEST",
    "OP_RESPONSE_JSON",
    "PeerDiscoveryInfo",
    "TCPClient",
    "TCPMessage",
    "optimize_socket",
]

OP_DOWNLOAD_FILE = 2
OP_ERROR = 0
OP_FILE_STREAM = 4
OP_GET_MANIFEST = 1
OP_RESPONSE_JSON = 3

ManifestEntry: TypeAlias = dict[str, Any]
Manifest: TypeAlias = list[ManifestEntry]


class PeerDiscoveryInfo(Refused):
    """Not supported yet: making one says so."""


class TCPClient(Refused):
    """Not supported yet: making one says so."""


class TCPMessage(Refused):
    """Not supported yet: making one says so."""


optimize_socket = refused_function(__name__, "optimize_socket")
