"""Values to msgpack and back: https://github.com/msgpack/msgpack/spec.md.

Texts are UTF-8; integers take the fewest bytes; every float has 64 bits.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable
from typing import Any

# The byte before a length of 8, 16 or 32 bits; None: there is no such.
_TEXT = (0xD9, 0xDA, 0xDB)
_BYTES = (0xC4, 0xC5, 0xC6)
_ARRAY = (None, 0xDC, 0xDD)
_MAP = (None, 0xDE, 0xDF)
_EXTENSION = (0xC7, 0xC8, 0xC9)
_FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_LENGTHS = (">B", ">H", ">I")
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}


@dataclasses.dataclass(frozen=True)
class Extension:
    """A value of a kind that the program defines: 0 to 127."""

    code: int
    data: bytes


def pack(value: Any, default: Callable[[Any], Any]) -> bytes:
    """The bytes of a value.

    Args:
        value: of None, bool, int, float, str, bytes, list, dict, Extension;
            of these very classes.
        default: makes one of them of anything else.

    Raises:
        OverflowError: an integer of more than 64 bits.
        ValueError: too many levels; what `default` raises.
    """
    out = bytearray()
    try:
        _pack(out, value, default)
    except RecursionError as error:
        raise ValueError("recursion limit exceeded") from error
    return bytes(out)


def _pack(out: bytearray, value: Any, default: Callable[[Any], Any]) -> None:
    kind = type(value)
    if kind not in _PACKERS:
        _pack(out, default(value), default)
    elif kind is list:
        _pack_length(out, len(value), 0x90, 16, _ARRAY)
        for item in value:
            _pack(out, item, default)
    elif kind is dict:
        _pack_length(out, len(value), 0x80, 16, _MAP)
        for key, item in value.items():
            _pack(out, key, default)
            _pack(out, item, default)
    else:
        _PACKERS[kind](out, value)


def _pack_length(
    out: bytearray,
    length: int,
    short: int,
    short_end: int,
    codes: tuple[int | None, ...],
) -> None:
    """The length of what follows; below `short_end` it is in the byte."""
    if length < short_end:
        out.append(short | length)
        return
    for bits, code, pattern in zip((8, 16, 32), codes, _LENGTHS, strict=True):
        if code is not None and length < 1 << bits:
            out.append(code)
            out += struct.pack(pattern, length)
            return
    raise ValueError(f"msgpack has no room for {length} items or bytes")


def _pack_int(out: bytearray, value: int) -> None:
    if -32 <= value < 128:
        out += struct.pack(">b", value)
        return
    codes = range(0xCC, 0xD0) if value >= 0 else range(0xD0, 0xD4)
    for code in codes:
        try:
            packed = struct.pack(_NUMBERS[code], value)
        except struct.error:
            continue
        out.append(code)
        out += packed
        return
    raise OverflowError("Integer value out of range")


def _pack_text(out: bytearray, value: str) -> None:
    encoded = value.encode("utf-8")
    _pack_length(out, len(encoded), 0xA0, 32, _TEXT)
    out += encoded


def _pack_bytes(out: bytearray, value: bytes) -> None:
    _pack_length(out, len(value), 0, 0, _BYTES)
    out += value


def _pack_extension(out: bytearray, value: Extension) -> None:
    fixed = _FIXED_EXTENSIONS.get(len(value.data))
    if fixed is not None:
        out.append(fixed)
    else:
        _pack_length(out, len(value.data), 0, 0, _EXTENSION)
    out.append(value.code)
    out += value.data


def _pack_float(out: bytearray, value: float) -> None:
    out += struct.pack(">Bd", 0xCB, value)


_PACKERS: dict[type, Callable[[bytearray, Any], None]] = {
    type(None): lambda out, _: out.append(0xC0),
    bool: lambda out, value: out.append(0xC3 if value else 0xC2),
    int: _pack_int,
    float: _pack_float,
    str: _pack_text,
    bytes: _pack_bytes,
    list: lambda out, _: None,  # `_pack` does these two
    dict: lambda out, _: None,
    Extension: _pack_extension,
}


def unpack(
    data: bytes,
    extension: Callable[[int, bytes], Any],
    *,
    texts_are_bytes: bool = False,
) -> Any:
    """The value of bytes.

    Args:
        data: of one value.
        extension: makes the value of an extension's code and bytes.
        texts_are_bytes: do not decode texts.

    Raises:
        ValueError: the bytes end too early, or go on; too many levels.
    """
    reader = _Reader(data, extension, texts_are_bytes)
    try:
        value = reader.value()
    except (struct.error, IndexError) as error:
        raise ValueError("msgpack data ends too early") from error
    except RecursionError as error:
        raise ValueError("msgpack data has too many levels") from error
    if reader.at != len(data):
        raise ValueError("msgpack data goes on after its value")
    return value


class _Reader:
    def __init__(
        self,
        data: bytes,
        extension: Callable[[int, bytes], Any],
        texts_are_bytes: bool,
    ) -> None:
        self.at = 0
        self._data = data
        self._extension = extension
        self._texts_are_bytes = texts_are_bytes

    def value(self) -> Any:
        code = self._number(">B")
        if code < 0x80 or code >= 0xE0:
            return code if code < 0x80 else code - 0x100
        if code < 0x90:
            return self._map(code & 0xF)
        if code < 0xA0:
            return self._array(code & 0xF)
        if code < 0xC0:
            return self._text(code & 0x1F)
        if code in _NUMBERS:
            return self._number(_NUMBERS[code])
        if code in (0xC0, 0xC2, 0xC3):
            return {0xC0: None, 0xC2: False, 0xC3: True}[code]
        for size, fixed in _FIXED_EXTENSIONS.items():
            if code == fixed:
                return self._read_extension(size)
        return self._long(code)

    def _long(self, code: int) -> Any:
        """A value whose length has bytes of its own."""
        for codes in (_TEXT, _BYTES, _ARRAY, _MAP, _EXTENSION):
            if code not in codes:
                continue
            length = self._number(_LENGTHS[codes.index(code)])
            if codes is _ARRAY:
                return self._array(length)
            if codes is _MAP:
                return self._map(length)
            if codes is _EXTENSION:
                return self._read_extension(length)
            return self._text(length) if codes is _TEXT else self._take(length)
        raise ValueError(f"msgpack has no values of code {code:#x}")

    def _number(self, pattern: str) -> Any:
        (number,) = struct.unpack_from(pattern, self._data, self.at)
        self.at += struct.calcsize(pattern)
        return number

    def _take(self, length: int) -> bytes:
        taken = self._data[self.at : self.at + length]
        if len(taken) != length:
            raise IndexError(length)
        self.at += length
        return taken

    def _text(self, length: int) -> str | bytes:
        taken = self._take(length)
        return taken if self._texts_are_bytes else taken.decode("utf-8")

    def _array(self, length: int) -> list[Any]:
        return [self.value() for _ in range(length)]

    def _map(self, length: int) -> dict[Any, Any]:
        entries = {}
        for _ in range(length):
            key = self.value()
            entries[key] = self.value()
        return entries

    def _read_extension(self, length: int) -> Any:
        code = self._number(">b")
        return self._extension(code, self._take(length))
