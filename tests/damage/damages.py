"""Defines DAMAGES, the kinds of damage to a checkpoint's files.

Each entry is a function of a Scene that yields a Wound for every place where
the damage is possible. A Wound has a description, and a function that damages a
copy.
"""

from __future__ import annotations

import dataclasses
import os
import random
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import tensorstore as ts

PAGE_BYTES = 4096
ARRAY_METADATA = (".zarray", "zarr.json")
MARKERS = ("commit_success.txt", "orbax.checkpoint")


@dataclasses.dataclass(frozen=True)
class Place:
    """Some bytes of a file, and their role."""

    role: str
    file: str  # below the step
    offset: int
    size: int

    def __str__(self) -> str:
        return f"{self.file} [{self.offset}, {self.offset + self.size})"


@dataclasses.dataclass(frozen=True)
class Wound:
    """One way to damage a checkpoint; `deal` applies it to a copy."""

    role: str
    text: str
    deal: Callable[[Path], None]


@dataclasses.dataclass
class Scene:
    """A step, an older save of it, and the places of its files and chunks."""

    step: Path
    older: Path
    draw: random.Random

    def __post_init__(self) -> None:
        self.files = sorted(
            path.relative_to(self.step).as_posix()
            for path in self.step.rglob("*")
            if path.is_file()
        )
        self.directories = sorted(
            path.relative_to(self.step).as_posix()
            for path in self.step.rglob("*")
            if path.is_dir()
        )
        self.chunks = list(_chunks(self.step, self.files))
        in_chunks = {place.file for place in self.chunks}
        self.wholes = [
            Place(_role(name), name, 0, (self.step / name).stat().st_size)
            for name in self.files
            if name not in in_chunks or _role(name) == "data file"
        ]

    @property
    def places(self) -> list[Place]:
        return self.chunks + [each for each in self.wholes if each.size]

    def old_name(self, name: str) -> str | None:
        """Returns the older save's file of that name or at that position."""
        if (self.older / name).is_file():
            return name
        folder = Path(name).parent
        mine = [each for each in self.files if Path(each).parent == folder]
        if not (self.older / folder).is_dir():
            return None
        theirs = sorted(
            path.name
            for path in (self.older / folder).iterdir()
            if path.is_file()
        )
        if len(mine) != len(theirs):
            return None
        return (folder / theirs[mine.index(name)]).as_posix()


def _role(name: str) -> str:
    base = name.split("/")[-1]
    parts = name.split("/")
    if len(parts) > 1 and parts[-2] == "d":
        return "data file"
    if len(parts) > 1 and parts[-2] == "array_metadatas":
        return "array_metadatas"
    if base.endswith((".pt", ".distcp", ".safetensors", ".npz")):
        return base[base.rindex(".") :]
    return base


def _chunks(step: Path, files: list[str]) -> Iterator[Place]:
    """Yields the place of every chunk; finds chunks without holdfast."""
    for name in files:
        base = name.split("/")[-1]
        folder = name[: len(name) - len(base)]
        if base in ARRAY_METADATA:
            for other in files:
                kind = other.split("/")[-1]
                if other.startswith(folder) and (
                    kind not in ARRAY_METADATA and not kind.endswith(".pt")
                ):
                    size = (step / other).stat().st_size
                    yield Place("chunk", other, 0, size)
        elif base == "manifest.ocdbt" and "ocdbt.process_" not in folder:
            yield from _database_chunks(step, folder)


def _database_chunks(step: Path, folder: str) -> Iterator[Place]:
    base = ts.KvStore.open(f"file://{step}/{folder}").result()
    manifest = ts.ocdbt.dump(base).result()
    nodes = [manifest["versions"][-1]["root"]["location"]]
    while nodes:
        for entry in ts.ocdbt.dump(base, nodes.pop()).result()["entries"]:
            if "location" in entry:
                nodes.append(entry["location"])
            if "indirect_value" in entry:
                _, prefix, file, offset, size = entry["indirect_value"].split(
                    ":"
                )
                yield Place(
                    "chunk", f"{folder}{prefix}{file}", int(offset), int(size)
                )


def _edit(step: Path, name: str, change: Callable[[bytearray], None]) -> None:
    """Changes the bytes of a file. Other hard links to it keep the old
    bytes."""
    path = step / name
    data = bytearray(path.read_bytes())
    change(data)
    path.unlink()
    path.write_bytes(data)


def flip(scene: Scene) -> Iterable[Wound]:
    for place in scene.places:
        index = place.offset + scene.draw.randrange(place.size)
        bit = scene.draw.randrange(8)

        def change(data: bytearray, index: int = index, bit: int = bit) -> None:
            data[index] ^= 1 << bit

        yield Wound(
            place.role,
            f"{place.file} byte {index} bit {bit} flipped ({place})",
            lambda step, p=place, c=change: _edit(step, p.file, c),
        )


def truncation(scene: Scene) -> Iterable[Wound]:
    for place in scene.places:
        end = place.offset + scene.draw.randrange(place.size)
        yield Wound(
            place.role,
            f"{place.file} cut to {end} bytes",
            lambda step, p=place, end=end: _edit(
                step, p.file, lambda data: data.__delitem__(slice(end, None))
            ),
        )


def zeroed_page(scene: Scene) -> Iterable[Wound]:
    for place in scene.places:
        size = min(PAGE_BYTES, place.size)
        first = place.offset + scene.draw.randrange(place.size - size + 1)

        def change(
            data: bytearray, first: int = first, size: int = size
        ) -> None:
            data[first : first + size] = bytes(size)

        yield Wound(
            place.role,
            f"{place.file} zeros in [{first}, {first + size})",
            lambda step, p=place, c=change: _edit(step, p.file, c),
        )


def appended_bytes(scene: Scene) -> Iterable[Wound]:
    for name in scene.files:
        size = scene.draw.choice([1, 7, 4096])
        more = scene.draw.choice([b" ", b"\0", b"x"]) * size
        yield Wound(
            _role(name),
            f"{name} with {size} times {more[:1]!r} appended",
            lambda step, name=name, more=more: _edit(
                step, name, lambda data: data.extend(more)
            ),
        )


def _pairs(scene: Scene) -> Iterator[tuple[Place, Place]]:
    """Yields pairs of chunks with equal stored size, of one array or of two."""
    by_size: dict[int, list[Place]] = {}
    for place in scene.chunks:
        by_size.setdefault(place.size, []).append(place)
    for places in by_size.values():
        for i, first in enumerate(places):
            for second in places[i + 1 :]:
                if _bytes(scene.step, first) != _bytes(scene.step, second):
                    yield first, second


def _bytes(step: Path, place: Place) -> bytes:
    data = (step / place.file).read_bytes()
    return data[place.offset : place.offset + place.size]


def _put(step: Path, place: Place, value: bytes) -> None:
    def change(data: bytearray) -> None:
        data[place.offset : place.offset + place.size] = value

    _edit(step, place.file, change)


def swapped_chunks(scene: Scene) -> Iterable[Wound]:
    for first, second in _pairs(scene):

        def deal(
            step: Path, first: Place = first, second: Place = second
        ) -> None:
            kept = _bytes(step, first), _bytes(step, second)
            _put(step, first, kept[1])
            _put(step, second, kept[0])

        yield Wound("chunk", f"{first} and {second} swapped", deal)


def duplicated_chunk(scene: Scene) -> Iterable[Wound]:
    for first, second in _pairs(scene):
        if scene.draw.random() < 0.5:
            first, second = second, first
        yield Wound(
            "chunk",
            f"{first} copied over {second}",
            lambda step, a=first, b=second: _put(step, b, _bytes(step, a)),
        )


def swapped_ranges(scene: Scene) -> Iterable[Wound]:
    """Swaps two blocks inside one chunk."""
    for place in scene.chunks:
        size = min(PAGE_BYTES, place.size // 4)
        if size < 16:
            continue
        first = place.offset + place.size // 8
        second = place.offset + place.size // 2

        def change(
            data: bytearray,
            first: int = first,
            second: int = second,
            size: int = size,
        ) -> None:
            kept = data[first : first + size]
            data[first : first + size] = data[second : second + size]
            data[second : second + size] = kept

        yield Wound(
            "chunk",
            f"{place}: {size} bytes at {first} and {second} swapped",
            lambda step, p=place, c=change: _edit(step, p.file, c),
        )


def swapped_files(scene: Scene) -> Iterable[Wound]:
    """Swaps two files of the same role, or of any role if there is only one."""
    for i, first in enumerate(scene.files):
        others = [name for name in scene.files[i + 1 :]]
        alike = [name for name in others if _role(name) == _role(first)]
        choice = alike or others
        if not choice:
            continue
        second = scene.draw.choice(choice)

        def deal(step: Path, first: str = first, second: str = second) -> None:
            kept = step / (first + ".swapped")
            (step / first).rename(kept)
            (step / second).rename(step / first)
            kept.rename(step / second)

        yield Wound(_role(first), f"{first} and {second} swapped", deal)


def stale_file(scene: Scene) -> Iterable[Wound]:
    """Replaces one of several files by the older save's. Leaves out a
    checkpoint of one file: the older file would be an undamaged checkpoint."""
    for name in scene.files if len(scene.files) > 1 else []:
        old = scene.old_name(name)
        if old is None:
            continue
        value = (scene.older / old).read_bytes()
        if value == (scene.step / name).read_bytes():
            continue

        def deal(step: Path, name: str = name, value: bytes = value) -> None:
            (step / name).unlink()
            (step / name).write_bytes(value)

        yield Wound(_role(name), f"{name} of the older save", deal)


def stale_chunk(scene: Scene) -> Iterable[Wound]:
    """Replaces a chunk by the same range of the older save's file."""
    for place in scene.chunks:
        old = scene.old_name(place.file)
        if old is None:
            continue
        value = _bytes(scene.older, dataclasses.replace(place, file=old))
        if len(value) == place.size and value != _bytes(scene.step, place):
            yield Wound(
                "chunk",
                f"{place} of the older save",
                lambda step, p=place, v=value: _put(step, p, v),
            )


def deleted_file(scene: Scene) -> Iterable[Wound]:
    for name in scene.files:
        yield Wound(
            _role(name),
            f"{name} deleted",
            lambda step, name=name: (step / name).unlink(),
        )


def deleted_directory(scene: Scene) -> Iterable[Wound]:
    for name in scene.directories:
        yield Wound(
            name.split("/")[-1],
            f"{name}/ deleted",
            lambda step, name=name: shutil.rmtree(step / name),
        )


def stale_directory(scene: Scene) -> Iterable[Wound]:
    for name in scene.directories:
        if not (scene.older / name).is_dir():
            continue

        def deal(step: Path, name: str = name) -> None:
            shutil.rmtree(step / name)
            shutil.copytree(scene.older / name, step / name)

        yield Wound(name.split("/")[-1], f"{name}/ of the older save", deal)


DAMAGES: dict[str, Callable[[Scene], Iterable[Wound]]] = {
    "bit flip": flip,
    "truncation": truncation,
    "zeroed page": zeroed_page,
    "appended bytes": appended_bytes,
    "swapped chunks": swapped_chunks,
    "swapped ranges": swapped_ranges,
    "swapped files": swapped_files,
    "duplicated chunk": duplicated_chunk,
    "stale chunk": stale_chunk,
    "stale file": stale_file,
    "stale directory": stale_directory,
    "deleted file": deleted_file,
    "deleted directory": deleted_directory,
}


def copy_of(source: Path, target: Path) -> None:
    """Makes a copy whose files are hard links. A Wound replaces the links of
    the files that it changes."""
    shutil.copytree(source, target, copy_function=os.link)
