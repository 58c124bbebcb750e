#!/usr/bin/env python3
"""Recompresses the members of wheels with zopfli, which saves a twentieth.

usage: pack_wheel.py WHEEL...

Names, contents, modes and order stay. RECORD stays valid, because its digests
are those of uncompressed contents. Each wheel is read back and compared before
it is replaced.
"""

from __future__ import annotations

import os
import sys
import zipfile

import zopfli.zlib


def members(path: str) -> list[tuple[zipfile.ZipInfo, bytes]]:
    with zipfile.ZipFile(path) as archive:
        return [(info, archive.read(info)) for info in archive.infolist()]


class Deflater:
    """The compressor that zipfile uses for a member."""

    def __init__(self, *_: object) -> None:
        self._parts: list[bytes] = []

    def compress(self, part: bytes) -> bytes:
        self._parts.append(bytes(part))
        return b""

    def flush(self) -> bytes:
        stream = zopfli.zlib.compress(b"".join(self._parts), numiterations=5)
        return stream[2:-4]  # without zlib's header and checksum


def pack(path: str) -> None:
    before = members(path)
    packed = f"{path}.packed"
    # zipfile has no public way to set another compressor; its output is read
    # back below.
    zipfile._get_compressor = Deflater
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for info, content in before:
            fresh = zipfile.ZipInfo(info.filename, info.date_time)
            fresh.external_attr = info.external_attr
            fresh.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(fresh, content)
    after = members(packed)
    for (old, old_content), (new, new_content) in zip(
            before, after, strict=True):
        assert old.filename == new.filename and old_content == new_content
        assert old.external_attr == new.external_attr, old.filename
    print(f"{path}: {os.path.getsize(path)} -> {os.path.getsize(packed)} bytes")
    os.replace(packed, path)


if __name__ == "__main__":
    for wheel in sys.argv[1:]:
        pack(wheel)
