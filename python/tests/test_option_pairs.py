"""Every pair of options of save, convert, view, materialize, merge and rescue:
both take effect, or the call is refused with a message that names one of them.

Each function has a table with a row for each option. A row has a value other
than the default, and a check whether the result shows the option's effect.
`REFUSED` lists the pairs that are refused.
"""

from __future__ import annotations

import dataclasses
import inspect
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import thread_ranks

import holdfast
from holdfast import _api

SAFETENSORS = "safetensors"
CHUNK_BYTES = 64 << 10  # the smallest size of chunks in safetensors files
DATA_FILE_BYTES = 5000


def _tree(step: int) -> dict[str, Any]:
    random = np.random.default_rng(step)

    def floats(*shape: int) -> Any:
        return random.standard_normal(shape).astype(np.float32)

    return {
        "a": floats(64, 32),
        "w": {"0": floats(64, 32), "1": floats(64, 32)},
        "c": floats(64, 32),  # is cast
        "large": np.ones((256, 256), np.float32),  # is cut into chunks
        "i": np.array([step], np.int32),
        "m": floats(8),  # is mapped
        "r": floats(3),  # is renamed
        "x": floats(2),  # is not selected
        "y": floats(2),  # is dropped
        "p.q": floats(5),  # is nested
        "note": "n",
    }


FORWARD = {"from": "m", "to": "mapped"}
SIZED = {"from": "m", "to": "sized", "axes": "(k j) -> k j"}
BACKWARD = {"from": "back", "to": "m", "axes": "k j -> (k j)"}


@dataclasses.dataclass
class Sources:
    """The checkpoints that the calls read and must not change."""

    folder: Path

    def __post_init__(self) -> None:
        folder = self.folder
        for step in (1, 2):
            holdfast.save(folder / "plain" / str(step), _tree(step))
            both = folder / "both" / str(step)
            holdfast.save(both, _tree(step), also=SAFETENSORS)
            unsummed = folder / "unsummed" / str(step)
            shutil.copytree(both, unsummed)
            (unsummed / "_HOLDFAST_DIGESTS").unlink()
            holdfast.view(both, folder / "views" / str(step))
            self._save_composite(step)
        for name, rule in (
            ("forward", FORWARD),
            ("sized", SIZED),
            ("backward", BACKWARD),
        ):
            recipe = {"recipe": 1, "rest": "keep", "rules": [rule]}
            (folder / f"{name}.json").write_text(json.dumps(recipe))
        other = {"only": {"other": np.ones(4, np.float32)}}
        holdfast.save(folder / "other", other)
        holdfast.save(folder / "same", _tree(2) | {"a": _tree(1)["a"]})
        nine = np.array([9], np.int32)
        holdfast.save(
            folder / "unlike", _tree(2) | {"a": _tree(1)["a"], "i": nine}
        )
        damaged = folder / "damaged"
        holdfast.save(damaged, _tree(2), ocdbt=False, compression=None)
        chunk = damaged / "a" / "0.0"
        chunk.write_bytes(bytes(len(chunk.read_bytes())))

    def _save_composite(self, step: int) -> None:
        """Saves two items, as Orbax's manager does."""
        for item, tree in (
            ("state", _tree(step)),
            ("state2", {"second": np.ones(3)}),
        ):
            whole = self.folder / "items" / str(step)
            one = self.folder / f"{item}{step}"
            holdfast.save(one, tree, format="orbax-v1", also=SAFETENSORS)
            if whole.exists():
                shutil.copytree(one / "state", whole / item)
            else:
                shutil.copytree(one, whole)
        # The items are from two saves, so no list of checksums fits both.
        for digests in whole.rglob("_HOLDFAST_DIGESTS"):
            digests.unlink()


@dataclasses.dataclass
class Done:
    """A call that has returned, and where its result is."""

    folder: Path
    names: set[str]  # the names of the options
    target: Path
    result: Any = None
    whole: Path | None = None  # for a run of deltas, its full step
    events: list[tuple[str, int, int]] = dataclasses.field(default_factory=list)
    counts: dict[str, int] = dataclasses.field(default_factory=dict)

    @property
    def opened(self) -> Any:
        return holdfast.open(self.target)

    @property
    def opened_whole(self) -> Any:
        return holdfast.open(self.whole or self.target)

    def leaf(self, name: str) -> Any:
        return _leaves(self.opened)[name]

    def has(self, name: str) -> bool:
        return name in _leaves(self.opened)


def _leaves(opened: Any) -> dict[str, Any]:
    return {leaf.name: leaf for leaf in opened.leaves}


@dataclasses.dataclass(frozen=True)
class Option:
    """A row: the value for an option, and the check that it takes effect.

    Attributes:
      name: the parameter.
      value: a value other than the default, or a function of (Sources, Done).
      shows: returns whether the result shows the effect; None if no result can,
        for the reason `why`.
      needs: other options without which this option is refused.
      label: distinguishes several rows for one option.
      is_guard: whether the option can only cause a refusal, so that the result
        is the same without it.
    """

    name: str
    value: Any
    shows: Callable[[Done], bool] | None = None
    why: str = ""
    needs: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    label: str = ""
    is_guard: bool = False

    def __str__(self) -> str:
        return self.label or self.name

    def words(self) -> list[str]:
        """Returns the words by which a refusal may name the option."""
        value = [self.value] if self.name == "format" else []
        return [self.name, *self.needs, *value]


@dataclasses.dataclass(frozen=True)
class Made:
    """A value that is made anew for each call; those with equal names are
    equal."""

    name: str
    make: Callable[[Sources, Done], Any] = dataclasses.field(compare=False)


def _file(name: str) -> Made:
    return Made(name, lambda sources, done: sources.folder / name)


def _recorder(sources: Sources, done: Done) -> Any:
    return lambda *event: done.events.append(event)


def _metadata(folder: Path) -> dict[str, Any]:
    """Returns the metadata of the only item in `folder`."""
    (file,) = folder.rglob("_METADATA")
    found: dict[str, Any] = json.loads(file.read_text())
    return found


def _is_also(done: Done) -> bool:
    models = [
        *done.target.rglob("model.safetensors"),
        *done.target.rglob("model.safetensors.index.json"),
    ]
    return any("large" in holdfast.open(model).keys() for model in models)


def _data_file_count(done: Done) -> int:
    """Returns the number of files with arrays, in a database or in
    safetensors."""
    return sum(
        file.suffix == ".safetensors" or file.stat().st_size > 5000
        for file in done.target.rglob("*")
        if file.is_file() and not file.name.startswith("_")
    )


def _has_small_chunks(opened: Any) -> bool:
    shape = _leaves(opened)["large"].chunk_shape
    return 4 * int(np.prod(shape)) <= CHUNK_BYTES


def _is_overwritten(done: Done) -> bool:
    return not done.has("old")


PROGRESS = Option(
    "progress", Made("progress", _recorder), lambda done: bool(done.events)
)
THREADS = Option("threads", 1, why="only how fast it goes")
MEMORY = Option("memory_bytes", 1 << 20, why="only how much is held at once")
DURABLE = Option("durable", False, why="seen only after a power cut")
RESTART = Option("restart", True, why="seen only where a call was cut off")
OVERWRITE = Option("overwrite", True, _is_overwritten, is_guard=True)
UNCHECKED = Option(
    "compare", False, lambda done: done.result.checked_bytes == 0
)
ZARR = Option(
    "zarr_format", 3, lambda done: _metadata(done.target)["use_zarr3"]
)
ZARR_2 = Option(
    "zarr_format", 2, lambda done: not _metadata(done.target)["use_zarr3"]
)
DIRECTORIES = Option(
    "ocdbt", False, lambda done: not _metadata(done.target)["use_ocdbt"]
)
FAST = Option(
    "compression",
    "fast",
    lambda done: "lz4" in _leaves(done.opened_whole)["a"].codecs,
)
CHUNKS = Option(
    "chunk_bytes",
    CHUNK_BYTES,
    lambda done: _has_small_chunks(done.opened_whole),
)


def _format(name: str, **needs: Any) -> Option:
    return Option(
        "format",
        name,
        lambda done: done.opened.format == name,
        needs=needs,
        label=f"format={name}",
    )


SAVE = [
    _format("orbax-v1"),
    ZARR,
    DIRECTORIES,
    FAST,
    Option("also", SAFETENSORS, _is_also),
    OVERWRITE,
    Option("base", 0, lambda done: len(done.opened.bases) == 1),
    Option(
        "deltas",
        holdfast.DeltaPolicy(4),
        lambda done: len(done.opened.bases) == 1,
    ),
    Option("background", True, lambda done: done.counts.get("background") == 1),
    Option(
        "snapshot",
        "host",
        why="seen only with tensors on devices (test_devices.py)",
        needs={"background": True},
    ),
    PROGRESS,
    Option(
        "custom_metadata",
        {"k": 1},
        lambda done: done.opened.custom_metadata == {"k": 1},
    ),
    CHUNKS,
    Option(
        "data_file_bytes",
        DATA_FILE_BYTES,
        lambda done: _data_file_count(done) > 2,
    ),
    THREADS,
    MEMORY,
    DURABLE,
    Option(
        "fingerprints",
        True,
        lambda done: "a" in done.opened_whole.fingerprints(),
    ),
    Option(
        "check_replicas",
        True,
        lambda done: done.counts.get("check_replicas", 0) > 0,
    ),
    Option("group", "two", lambda done: done.counts.get("ranks") == 2),
    Option("timeout_seconds", 60.0, why="seen only when a rank does not come"),
]

RULES = [
    Option("step", 1, lambda done: _has_value(done, "i", [1])),
    Option("item", "state", lambda done: not _has_second(done)),
    Option("select", ["[!x]*"], lambda done: not done.has("x")),
    Option("drop", ["y"], lambda done: not done.has("y")),
    Option("rename", {"r": "renamed"}, lambda done: done.has("renamed")),
    Option(
        "cast",
        {"c": "float16"},
        lambda done: done.leaf("c").dtype == "float16",
    ),
    Option("nest", True, lambda done: done.leaf("p.q").key == ("p", "q")),
    Option("strict", True, why="seen only when a rule matches nothing"),
    Option("recipe", _file("forward.json"), lambda done: done.has("mapped")),
    Option(
        "reverse",
        True,
        lambda done: done.has("back"),
        needs={"recipe": _file("backward.json"), "sizes": {"k": 2}},
    ),
    Option(
        "sizes",
        {"k": 4},
        lambda done: done.leaf("sized").shape == (4, 2),
        needs={"recipe": _file("sized.json")},
    ),
]


def _has_value(done: Done, name: str, want: list[int]) -> bool:
    values = np.asarray(done.opened[name][...])
    return bool(values.tolist() == want)


def _has_second(done: Done) -> bool:
    return any("second" in leaf.name for leaf in done.opened.leaves)


CONVERT = [
    _format("orbax-v1"),
    _format("safetensors"),
    _format("npz"),
    _format("dcp"),
    _format("torch-dist"),
    _format("megatron-zarr"),
    *RULES,
    Option(
        "shards",
        {"a": (2, 1)},
        lambda done: tuple(done.leaf("a").chunk_shape) == (32, 32),
        needs={"format": "dcp"},
    ),
    ZARR,
    DIRECTORIES,
    FAST,
    CHUNKS,
    Option(
        "data_file_bytes",
        DATA_FILE_BYTES,
        lambda done: _data_file_count(done) > 2,
        needs={"format": SAFETENSORS},
    ),
    Option(
        "data_file_bytes",
        DATA_FILE_BYTES,
        lambda done: _data_file_count(done) > 2,
        needs={"also": SAFETENSORS},
        label="data_file_bytes of also",
    ),
    Option("also", SAFETENSORS, _is_also),
    OVERWRITE,
    RESTART,
    UNCHECKED,
    PROGRESS,
    THREADS,
    MEMORY,
    DURABLE,
]

VIEW = [
    _format("orbax-v1"),
    Option(
        "format",
        SAFETENSORS,
        lambda done: _is_also(done) and done.opened.format == SAFETENSORS,
        label="format=safetensors",
    ),
    *RULES,
    ZARR_2,
    Option(
        "link",
        "hard",
        lambda done: (
            not any(file.is_symlink() for file in done.target.rglob("*"))
        ),
    ),
    Option("checksums", True, lambda done: not _lacks_checksums(done)),
    Option("copy", False, lambda done: not done.result.copied, is_guard=True),
    Option(
        "compression",
        "fast",
        lambda done: "lz4" in done.leaf("c").codecs,
        needs={"cast": {"c": "float16"}},
    ),
    CHUNKS,
    OVERWRITE,
    PROGRESS,
    THREADS,
    MEMORY,
    DURABLE,
]


def _lacks_checksums(done: Done) -> bool:
    notes = holdfast.verify(done.target).notes
    return any("have no checksum" in note for note in notes)


MATERIALIZE = [
    RULES[0],
    ZARR_2,
    DIRECTORIES,
    FAST,
    CHUNKS,
    OVERWRITE,
    RESTART,
    UNCHECKED,
    PROGRESS,
    THREADS,
    MEMORY,
    DURABLE,
]

MERGE = [
    Option("prefer", "last", lambda done: _is_like(done, "same")),
    Option(
        "average",
        [1.0, 3.0],
        lambda done: np.allclose(
            done.opened["a"][...],
            (_tree(2)["a"] + 3 * _tree(1)["a"]) / 4,
            atol=1e-6,
        ),
    ),
    Option(
        "take_first",
        True,
        lambda done: _has_value(done, "i", [2]),
        needs={"average": [1.0, 3.0]},
        is_guard=True,
    ),
    *[row for row in CONVERT if row.name == "format"],
    ZARR,
    DIRECTORIES,
    FAST,
    CHUNKS,
    OVERWRITE,
    UNCHECKED,
    PROGRESS,
    THREADS,
    MEMORY,
    DURABLE,
]


def _is_like(done: Done, name: str) -> bool:
    return np.array_equal(done.opened["a"][...], _tree(1)["a"])


RESCUE = [
    Option(
        "fill",
        _file("plain/2"),
        lambda done: done.result.filled_count == 1,
    ),
    dataclasses.replace(
        FAST, shows=lambda done: "lz4" in done.leaf("c").codecs
    ),
    PROGRESS,
    THREADS,
    MEMORY,
    DURABLE,
]

TABLES: dict[str, list[Option]] = {
    "save": SAVE,
    "convert": CONVERT,
    "view": VIEW,
    "materialize": MATERIALIZE,
    "merge": MERGE,
    "rescue": RESCUE,
}

# By function: the name of a row, and the rows that it is refused with.
LAYOUT = ["zarr_format", "ocdbt", "compression"]
BOTH = ["also", "data_file_bytes of also"]
REFUSED: dict[str, list[tuple[str, list[str]]]] = {
    "save": [
        ("also", ["ocdbt", "compression"]),
        ("base", ["format=orbax-v1", "also", "deltas", "group"]),
        ("base", ["compression", "chunk_bytes", "fingerprints"]),
        ("deltas", ["format=orbax-v1", "also", "group"]),
        ("data_file_bytes", ["ocdbt"]),
    ],
    "convert": [
        ("format=safetensors", [*LAYOUT, "chunk_bytes", *BOTH]),
        ("format=npz", [*LAYOUT, "chunk_bytes", *BOTH]),
        ("format=dcp", [*LAYOUT, "chunk_bytes", *BOTH]),
        ("format=torch-dist", [*LAYOUT, "chunk_bytes", *BOTH]),
        ("format=megatron-zarr", [*LAYOUT, *BOTH]),
        ("shards", [*LAYOUT, "chunk_bytes", *BOTH]),  # it needs dcp
        ("data_file_bytes", [*LAYOUT, "chunk_bytes", "also"]),
        ("also", ["ocdbt", "compression"]),
        ("data_file_bytes of also", ["ocdbt", "compression"]),
    ],
    "view": [
        (
            "format=safetensors",
            ["select", "drop", "rename", "cast", "nest", "recipe", "reverse"],
        ),
        (
            "format=safetensors",
            ["sizes", "zarr_format", "compression", "chunk_bytes"],
        ),
        # A view copies a tensor that is cast.
        ("copy", ["cast", "compression"]),
    ],
    "merge": [
        ("average", ["prefer"]),
        ("take_first", ["prefer"]),  # it needs average
        ("format=safetensors", [*LAYOUT, "chunk_bytes"]),
        ("format=npz", [*LAYOUT, "chunk_bytes"]),
        ("format=dcp", [*LAYOUT, "chunk_bytes"]),
        ("format=torch-dist", [*LAYOUT, "chunk_bytes"]),
        ("format=megatron-zarr", LAYOUT),
    ],
}

# (function, option): options that are refused without another option.
ALONE = [
    ("save", "snapshot"),
    ("convert", "reverse"),
    ("convert", "sizes"),
    ("convert", "data_file_bytes"),
    ("convert", "shards"),
    ("view", "reverse"),
    ("view", "sizes"),
    ("merge", "take_first"),
]


def _refused() -> dict[str, set[frozenset[str]]]:
    return {
        function: {
            frozenset((one, other))
            for one, others in REFUSED.get(function, [])
            for other in others
        }
        for function in TABLES
    }


def _save(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    run = done.target.parent
    options = dict(options)
    if "base" in options:
        holdfast.save(run / "0", _tree(1))
    if "deltas" in options:
        done.whole = run / "0"
        _save_once(run / "0", _tree(1), done, options)
    done.counts.clear()
    done.events.clear()
    _save_once(done.target, _tree(2), done, options)


def _save_once(
    target: Path, tree: Any, done: Done, options: dict[str, Any]
) -> None:
    def save(rank: int, **group: Any) -> Any:
        made = holdfast.save(target, tree, **(options | group))
        if isinstance(made, holdfast.Future):
            done.counts["background"] = 1
            made = made.result()
        return made

    if "group" not in options:
        done.result = save(0)
        return
    groups = thread_ranks.groups_of(2)
    results = thread_ranks.on_all(
        2, lambda rank: save(rank, group=groups[rank])
    )
    for result in results:
        if isinstance(result, BaseException):
            raise result
    done.result = results[0]
    done.counts["ranks"] = len(results)


def _root(sources: Sources, done: Done, root: str) -> Path:
    return sources.folder / ("items" if "item" in done.names else root)


def _convert(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    source = _root(sources, done, "plain")
    done.result = holdfast.convert(source, done.target, **options)


def _view(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    is_unsummed = done.names & {"checksums", "chunk_bytes"}
    root = "unsummed" if is_unsummed else "both"
    source = _root(sources, done, root)
    done.result = holdfast.view(source, done.target, **options)


def _materialize(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    source = sources.folder / "views"
    done.result = holdfast.materialize(source, done.target, **options)


def _merge(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    other = "other"
    if {"prefer", "average"} & done.names:
        other = "same"
    if "take_first" in done.names:
        other = "unlike"
    paths = [sources.folder / "plain" / "2", sources.folder / other]
    done.result = holdfast.merge(paths, done.target, **options)


def _rescue(sources: Sources, done: Done, options: dict[str, Any]) -> None:
    source = sources.folder / "damaged"
    done.result = holdfast.rescue(source, done.target, **options)


CALLS = {
    "save": _save,
    "convert": _convert,
    "view": _view,
    "materialize": _materialize,
    "merge": _merge,
    "rescue": _rescue,
}


def _both(rows: tuple[Option, ...]) -> dict[str, Any] | None:
    """Returns the options of the rows, or None if they need different values of
    one option."""
    merged: dict[str, Any] = {}
    for row in rows:
        for name, value in {**row.needs, row.name: row.value}.items():
            if name in merged and merged[name] != value:
                return None
            merged[name] = value
    return merged


def _call(
    function: str,
    rows: tuple[Option, ...],
    sources: Sources,
    folder: Path,
    spy: pytest.MonkeyPatch,
    without: str = "",
) -> Done:
    """Calls the function with the options of `rows`, except `without`."""
    options = _both(rows)
    assert options is not None
    names = set(options)
    options = {k: v for k, v in options.items() if k != without}
    done = Done(folder, names, folder / "run" / "1")
    check = _api._fingerprint.check

    def counted(*arguments: Any) -> Any:
        done.counts["check_replicas"] = done.counts.get("check_replicas", 0) + 1
        return check(*arguments)

    spy.setattr(_api._fingerprint, "check", counted)
    done.target.parent.mkdir()
    if "overwrite" in options:
        holdfast.save(done.target, {"old": np.ones(3)})
    made = {
        name: value.make(sources, done) if isinstance(value, Made) else value
        for name, value in options.items()
    }
    CALLS[function](sources, done, made)
    return done


@pytest.fixture(scope="module")
def sources() -> Iterator[Sources]:
    with _memory_folder() as folder:
        yield Sources(folder)


@pytest.fixture
def folder() -> Iterator[Path]:
    with _memory_folder() as folder:
        yield folder


class _memory_folder:
    """A directory, in memory if the system has one, because there are many
    calls."""

    def __enter__(self) -> Path:
        memory = "/dev/shm"
        usable = os.access(memory, os.W_OK)
        self._made = tempfile.TemporaryDirectory(dir=memory if usable else None)
        return Path(self._made.name)

    def __exit__(self, *error: object) -> None:
        self._made.cleanup()


def _rows(takes: Callable[[Option], bool] = lambda row: True) -> list[Any]:
    return [
        pytest.param(function, row, id=f"{function}-{row}")
        for function, table in TABLES.items()
        for row in table
        if takes(row)
    ]


def _pairs() -> list[Any]:
    return [
        pytest.param(function, one, other, id=f"{function}-{one}-{other}")
        for function, table in TABLES.items()
        for one, other in itertools.combinations(table, 2)
        if one.name != other.name and _both((one, other)) is not None
    ]


@pytest.mark.parametrize("function", TABLES)
def test_table_names_every_option(function: str) -> None:
    parameters = inspect.signature(getattr(holdfast, function)).parameters
    names = {
        name
        for name, parameter in parameters.items()
        if parameter.kind == inspect.Parameter.KEYWORD_ONLY
    }
    assert {row.name for row in TABLES[function]} == names
    for row in TABLES[function]:
        assert row.value != parameters[row.name].default, row
        assert (row.shows is None) == bool(row.why), row


@pytest.mark.parametrize("function", TABLES)
def test_refused_pairs_are_pairs(function: str) -> None:
    pairs = {
        frozenset((str(one), str(other)))
        for one, other in itertools.combinations(TABLES[function], 2)
        if one.name != other.name and _both((one, other)) is not None
    }
    assert _refused()[function] <= pairs


@pytest.mark.parametrize(("function", "row"), _rows())
def test_option_shows(
    function: str,
    row: Option,
    sources: Sources,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done = _call(function, (row,), sources, folder, monkeypatch)
    assert row.shows is None or row.shows(done)


@pytest.mark.parametrize(
    ("function", "row"),
    _rows(lambda row: row.shows is not None and not row.is_guard),
)
def test_nothing_shows_without_the_option(
    function: str,
    row: Option,
    sources: Sources,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert row.shows is not None
    try:
        done = _call(
            function, (row,), sources, folder, monkeypatch, without=row.name
        )
        shows = row.shows(done)
    except (KeyError, ValueError):
        shows = False
    assert not shows


@pytest.mark.parametrize(("function", "name"), ALONE)
def test_option_of_another_is_refused_without_it(
    function: str,
    name: str,
    sources: Sources,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    row = next(row for row in TABLES[function] if row.name == name)
    bare = dataclasses.replace(row, needs={})
    with pytest.raises(ValueError, match=name):
        _call(function, (bare,), sources, folder, monkeypatch)


def test_mean_of_prefixed_sources_is_refused(
    sources: Sources, folder: Path
) -> None:
    paths = {
        "one": sources.folder / "plain" / "2",
        "two": sources.folder / "same",
    }
    with pytest.raises(ValueError, match=r"average.*prefix one"):
        holdfast.merge(paths, folder / "merged", average=True)


def test_deltas_of_a_run_do_without_what_its_whole_steps_have(
    folder: Path,
) -> None:
    for step in range(2):
        holdfast.save(
            folder / str(step),
            _tree(step),
            deltas=holdfast.DeltaPolicy(4),
            fingerprints=True,
            compression="fast",
        )
    assert holdfast.open(folder / "0").fingerprints()
    assert not holdfast.open(folder / "1").fingerprints()
    loaded = holdfast.load(folder / "1", fingerprints=True)
    assert loaded["i"].tolist() == [1]


@pytest.mark.parametrize(("function", "one", "other"), _pairs())
def test_pair_is_done_or_refused(
    function: str,
    one: Option,
    other: Option,
    sources: Sources,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = (one, other)
    if frozenset((str(one), str(other))) in _refused()[function]:
        with pytest.raises((ValueError, NotImplementedError)) as caught:
            _call(function, rows, sources, folder, monkeypatch)
        text = str(caught.value).lower()
        assert any(word in text for row in rows for word in row.words())
        return
    done = _call(function, rows, sources, folder, monkeypatch)
    for row in rows:
        assert row.shows is None or row.shows(done), row
