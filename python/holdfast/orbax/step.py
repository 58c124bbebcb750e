"""Names step directories and finds them: `orbax.checkpoint.step`.

Depending on its NameFormat, a step directory is called `5`, `0005`, `ckpt_5` or
`ckpt_0005`. Uncommitted directories are ignored unless an option includes them.
"""

from __future__ import annotations

import abc
import dataclasses
import datetime
import functools
import os
import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.orbax._checkpointer.paths import (
    TMP_DIR_SUFFIX,
    PathLike,
    commit_rule,
    handler_path,
    is_path_finalized,
    is_path_temporary,
)
from holdfast.orbax._processes.coroutines import run_sync
from holdfast.orbax._processes.operations import Processes
from holdfast.orbax.atomicity_types import TemporaryPath
from holdfast.orbax.metadata.step import (
    StepMetadata,
    deserialize,
    read_step_metadata,
)
from holdfast.orbax.multihost import process_count, process_index
from holdfast.orbax.options import AtomicityOptions
from holdfast.orbax.temporary_paths import (
    all_temporary_paths as _all_temporary_paths,
)
from holdfast.orbax.temporary_paths import temporary_path_names

ALLOWED_STEP_NAME_PATTERN = r"(.+)_(\d+)"
TMP_DIR_STEP_PATTERN = r".*?_*?(\d+)\.orbax-checkpoint-tmp"

is_checkpoint_finalized = is_path_finalized
is_tmp_checkpoint = is_path_temporary
tmp_checkpoints = temporary_path_names

__all__ = [
    "ALLOWED_STEP_NAME_PATTERN",
    "TMP_DIR_STEP_PATTERN",
    "TMP_DIR_SUFFIX",
    "Metadata",
    "MetadataT",
    "NameFormat",
    "all_temporary_paths",
    "any_checkpoint_step",
    "build_step_metadatas",
    "build_step_path",
    "checkpoint_steps",
    "checkpoint_steps_paths",
    "composite_name_format",
    "find_step_path",
    "get_save_directory",
    "is_checkpoint_finalized",
    "is_path_finalized",
    "is_path_temporary",
    "is_standard_name_format",
    "is_tmp_checkpoint",
    "latest_step_metadata",
    "maybe_find_step_metadata",
    "single_host_load_and_broadcast_name_format",
    "standard_name_format",
    "step_from_checkpoint_name",
    "step_metadata_of_checkpoint_path",
    "step_prefix_with_underscore",
    "tmp_checkpoints",
]


@dataclasses.dataclass(frozen=True)
class Metadata:
    """A committed step.

    Attributes:
        step: the step's number.
        path: the step's directory.
    """

    step: int
    path: Any

    @functools.cached_property
    def _checkpoint_metadata(self) -> StepMetadata | None:
        data = read_step_metadata(os.fspath(self.path))
        return None if data is None else deserialize(data)

    @property
    def init_timestamp_nsecs(self) -> int | None:
        """When the save began, in ns since 1970; None if not recorded."""
        metadata = self._checkpoint_metadata
        return None if metadata is None else metadata.init_timestamp_nsecs

    @property
    def commit_timestamp_nsecs(self) -> int | None:
        """When the save ended, in ns since 1970; None if not recorded."""
        metadata = self._checkpoint_metadata
        return None if metadata is None else metadata.commit_timestamp_nsecs

    @property
    def commit_timestamp(self) -> datetime.datetime:
        """When the save ended, in UTC; if not recorded, the directory's mtime.

        Raises:
            ValueError: `_CHECKPOINT_METADATA` has fields whose types differ
                from those that Orbax writes.
        """
        nsecs = self.commit_timestamp_nsecs
        # Orbax truncates a directory's mtime to seconds.
        seconds = (
            int(_files.stat(self.path).st_mtime)
            if nsecs is None
            else nsecs / 1e9
        )
        return datetime.datetime.fromtimestamp(
            seconds, tz=datetime.timezone.utc
        )


MetadataT = TypeVar("MetadataT", bound=Metadata)


# The type variable is invariant, as in Orbax.
class NameFormat(Protocol, Generic[MetadataT]):  # type: ignore[misc]
    """Names step directories and finds them."""

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        """Supports `NameFormat[Metadata]`, which has no effect."""
        return types.GenericAlias(cls, item)

    def build_name(self, step: int) -> str:
        """Returns the directory name of a step."""

    @abc.abstractmethod
    def find_all(self, base_path: PathLike) -> Iterator[MetadataT]:
        """Yields the committed steps in `base_path`, in any order."""

    @abc.abstractmethod
    def find_step(self, base_path: PathLike, step: int) -> MetadataT:
        """Returns one committed step in `base_path`.

        Raises:
            ValueError: the step does not exist.
        """


def build_step_path(
    base_path: PathLike, name_format: NameFormat[Metadata], step: int
) -> Any:
    """Returns a step's path in `base_path`, whether or not it exists."""
    return handler_path(base_path) / name_format.build_name(step)


def build_step_metadatas(
    step_paths: Iterable[Any],
    build_metadata: Callable[[Any], MetadataT | None],
) -> Iterator[MetadataT]:
    """Yields the result of `build_metadata` for each path; skips None."""
    for path in step_paths:
        metadata = build_metadata(path)
        if metadata is not None:
            yield metadata


def step_prefix_with_underscore(step_prefix: str | None) -> str:
    """Returns `<prefix>_`, or an empty string for None."""
    return "" if step_prefix is None else f"{step_prefix}_"


def _is_place(path: PathLike) -> bool:
    """Returns whether steps may be found here: in a directory or at any URL."""
    return _files.is_url(path) or os.path.isdir(path)


@dataclasses.dataclass(frozen=True)
class _StandardNameFormat(NameFormat[Metadata]):
    """`<prefix>_<step>`, with or without leading zeros."""

    step_prefix: str | None = None
    step_format_fixed_length: int | None = None
    single_host_load_and_broadcast: bool = False
    temporary_path_cls: Any | None = None
    atomicity_options: AtomicityOptions | None = None

    def __str__(self) -> str:
        return f'StandardNameFormat("{self.build_name(1234)}")'

    def build_name(self, step: int) -> str:
        prefix = step_prefix_with_underscore(self.step_prefix)
        if self.step_format_fixed_length is None:
            return f"{prefix}{step}"
        return f"{prefix}{step:0{self.step_format_fixed_length}d}"

    def find_all(self, base_path: PathLike) -> Iterator[Metadata]:
        # process_count() comes last because it may initialize jax's devices.
        if (
            self.single_host_load_and_broadcast
            and _is_place(base_path)
            and process_count() > 1
        ):
            return iter(self._find_once_for_all(base_path))
        return iter(self._find_all(base_path))

    def _find_once_for_all(self, base_path: PathLike) -> list[Metadata]:
        """Returns the steps that the first process finds, on all processes."""
        found = []
        if process_index() == 0:
            found = [metadata.step for metadata in self._find_all(base_path)]
        operation = Processes().start(
            "single_host_load_and_broadcast", base_path, value=found
        )
        return [
            Metadata(step=step, path=build_step_path(base_path, self, step))
            for step in operation.values[0]
        ]

    def _find_all(self, base_path: PathLike) -> list[Metadata]:
        has_own_class = self.temporary_path_cls is not None
        rows = _engine.scan_steps(
            os.fspath(base_path),
            step_prefix=self.step_prefix,
            step_format_fixed_length=self.step_format_fixed_length,
            include_uncommitted=has_own_class,
            read_metadata=False,
            **commit_rule(self.atomicity_options),
        )
        base = handler_path(base_path)
        found = [Metadata(step=row[0], path=base / row[1]) for row in rows]
        if not has_own_class:
            return found
        return [
            metadata
            for metadata in found
            if TMP_DIR_SUFFIX not in metadata.path.name
            and self._is_committed(metadata.path)
        ]

    def find_step(self, base_path: PathLike, step: int) -> Metadata:
        if not _is_place(base_path):
            raise ValueError(
                f"Invalid base_path: {base_path} does not exist or is not a"
                " directory."
            )
        path = build_step_path(base_path, self, step)
        if self._is_committed(path):
            return Metadata(step=step, path=path)
        raise ValueError(
            f"No step path found with name={self.build_name(step)},"
            f" NameFormat={self} for step={step} under {base_path}."
        )

    def _is_committed(self, path: Any) -> bool:
        return is_path_finalized(
            path,
            temporary_path_cls=self.temporary_path_cls,
            atomicity_options=self.atomicity_options,
        )


def standard_name_format(
    *,
    step_prefix: str | None = None,
    step_format_fixed_length: int | None = None,
    single_host_load_and_broadcast: bool = False,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> NameFormat[Metadata]:
    """Makes a format for names like `23`, `0023`, `step_23` and `step_0023`.

    Args:
        step_prefix: precedes the number, followed by an underscore.
        step_format_fixed_length: minimum number of digits.
        single_host_load_and_broadcast: the first process lists the steps for
            all processes, so all of them must call `find_all`.
        temporary_path_cls: decides which steps are committed.
        atomicity_options: how steps are committed.
    """
    return _StandardNameFormat(
        step_prefix=step_prefix,
        step_format_fixed_length=step_format_fixed_length,
        single_host_load_and_broadcast=single_host_load_and_broadcast,
        temporary_path_cls=temporary_path_cls,
        atomicity_options=atomicity_options,
    )


@dataclasses.dataclass(frozen=True)
class _CompositeNameFormat(NameFormat[Metadata]):
    """Writes names in one format and finds names in several."""

    write_name_format: NameFormat[Metadata]
    read_name_formats: Sequence[NameFormat[Metadata]]

    def __post_init__(self) -> None:
        if self.write_name_format not in self.read_name_formats:
            formats = ",".join(str(f) for f in self.read_name_formats)
            raise ValueError(
                f"write_name_format: {self.write_name_format} must be present"
                f" in read_name_formats: [{formats}]."
            )

    def __str__(self) -> str:
        formats = ",".join(str(f) for f in self.read_name_formats)
        return f"Composite([{formats}])"

    def build_name(self, step: int) -> str:
        return self.write_name_format.build_name(step)

    def find_all(self, base_path: PathLike) -> Iterator[Metadata]:
        found = set()
        for name_format in self.read_name_formats:
            for metadata in name_format.find_all(base_path):
                if metadata.path not in found:
                    found.add(metadata.path)
                    yield metadata

    def find_step(self, base_path: PathLike, step: int) -> Metadata:
        problems = []
        for name_format in self.read_name_formats:
            try:
                return name_format.find_step(base_path, step)
            except Exception as error:
                # A user's format may raise any error. Try the other formats.
                log.info("%s does not find step %s", name_format, step)
                problems.append(str(error))
        raise ValueError("\n".join(problems))


def composite_name_format(
    write_name_format: NameFormat[Metadata],
    read_name_formats: Sequence[NameFormat[Metadata]],
) -> NameFormat[Metadata]:
    """Returns a format that reads several formats and writes one of them.

    Args:
        write_name_format: the format of new names.
        read_name_formats: the formats of names to find, preferred first.

    Raises:
        ValueError: `read_name_formats` does not include `write_name_format`.
    """
    return _CompositeNameFormat(write_name_format, read_name_formats)


def is_standard_name_format(name_format: NameFormat[Metadata]) -> bool:
    """Returns whether `standard_name_format` made the format."""
    return isinstance(name_format, _StandardNameFormat)


def single_host_load_and_broadcast_name_format(
    name_format: NameFormat[Metadata],
) -> NameFormat[Metadata]:
    """Returns the format with `single_host_load_and_broadcast` enabled.

    Raises:
        ValueError: `name_format` is not a standard format.
    """
    if not isinstance(name_format, _StandardNameFormat):
        raise ValueError(
            "single_host_load_and_broadcast is only supported for standard"
            f" name formats. Got {name_format}."
        )
    return dataclasses.replace(name_format, single_host_load_and_broadcast=True)


def all_temporary_paths(
    root_directory: PathLike,
    *,
    temporary_path_cls: type[TemporaryPath] | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> Iterable[TemporaryPath]:
    """Does the work of the coroutine in `temporary_paths` synchronously."""
    return run_sync(
        _all_temporary_paths(
            root_directory,
            temporary_path_cls=temporary_path_cls,
            atomicity_options=atomicity_options,
        )
    )


def latest_step_metadata(
    root_path: PathLike, name_format: NameFormat[Metadata]
) -> Metadata | None:
    """Returns the highest step in `root_path`, or None without steps."""
    return max(
        name_format.find_all(root_path),
        default=None,
        key=lambda found: (found.step, found.path.name),
    )


def step_metadata_of_checkpoint_path(
    checkpoint_path: PathLike, name_format: NameFormat[Metadata]
) -> Metadata:
    """Returns the step whose directory is `checkpoint_path`.

    Raises:
        ValueError: the path is not a committed step in that format.
    """
    path = handler_path(checkpoint_path)
    found = list(name_format.find_all(path.parent))
    for metadata in found:
        if metadata.path.name == path.name:
            return metadata
    raise ValueError(
        "Failed to resolve step metadata of checkpoint path with"
        f" NameFormat={name_format}, checkpoint path={path}, path"
        f" name({path.name}) did not match with available step names:"
        f" {[metadata.path.name for metadata in found]}. Please check if the"
        " given path is really a checkpoint path."
    )


def find_step_path(
    base_path: PathLike,
    name_format: NameFormat[Metadata],
    *,
    step: int,
    include_uncommitted: bool = False,
) -> Any:
    """Returns the directory of a step.

    Args:
        base_path: the directory of the steps.
        name_format: the format of the step's name.
        step: the step's number.
        include_uncommitted: prefers an uncommitted directory of the step.

    Raises:
        ValueError: the step does not exist.
    """
    if include_uncommitted:
        final_name = name_format.build_name(step)
        for name in tmp_checkpoints(base_path):
            if name.split(TMP_DIR_SUFFIX)[0] == final_name:
                return handler_path(base_path) / name
    return name_format.find_step(base_path, step).path


def maybe_find_step_metadata(
    base_path: PathLike, name_format: NameFormat[Metadata], *, step: int
) -> Metadata | None:
    """Returns the committed step, or None."""
    try:
        return name_format.find_step(base_path, step)
    except ValueError:
        return None


def get_save_directory(
    step: int,
    directory: PathLike,
    name: str | None = None,
    step_prefix: str | None = None,
    override_directory: PathLike | None = None,
    step_format_fixed_length: int | None = None,
    step_name_format: NameFormat[Metadata] | None = None,
) -> Any:
    """Returns the directory of a step, or of an item in the step.

    Args:
        step: the step's number.
        directory: the directory of all steps.
        name: the item's name; None means the step itself.
        step_prefix: the name's prefix if there is no `step_name_format`.
        override_directory: the step's directory, which overrides `step`,
            `directory` and the name options.
        step_format_fixed_length: minimum number of digits if there is no
            `step_name_format`.
        step_name_format: the format of step names.

    Raises:
        ValueError: `directory` is None.
    """
    if directory is None:
        raise ValueError("Directory cannot be None.")
    if override_directory is not None:
        path = handler_path(override_directory)
    else:
        name_format = step_name_format or standard_name_format(
            step_prefix=step_prefix,
            step_format_fixed_length=step_format_fixed_length,
        )
        path = build_step_path(directory, name_format, step)
    return path if name is None else path / name


def step_from_checkpoint_name(name: str) -> int:
    """Returns the step number in a directory's name, committed or not.

    Raises:
        ValueError: the name contains no step number.
    """
    return _engine.step_from_checkpoint_name(name)


def checkpoint_steps_paths(checkpoint_dir: PathLike) -> list[Any]:
    """Returns the paths of committed steps, in any name format."""
    directory = handler_path(checkpoint_dir)
    rows = _engine.scan_steps(
        os.fspath(directory), any_format=True, read_metadata=False
    )
    return [directory / name for _, name, _, _, _ in rows]


def checkpoint_steps(checkpoint_dir: PathLike) -> list[int]:
    """Returns the step numbers of `checkpoint_steps_paths`."""
    rows = _engine.scan_steps(
        os.fspath(checkpoint_dir), any_format=True, read_metadata=False
    )
    return [row[0] for row in rows]


def any_checkpoint_step(checkpoint_dir: PathLike) -> int | None:
    """Returns any committed step number in a directory, or None."""
    return next(iter(checkpoint_steps(checkpoint_dir)), None)
