"""Name formats: how step directories are called, and finding them."""

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
from holdfast.orbax._paths import (
    TMP_DIR_SUFFIX,
    PathLike,
    commit_rule,
    handler_path,
    is_path_finalized,
)
from holdfast.orbax._processes import Processes
from holdfast.orbax.metadata.step import (
    StepMetadata,
    deserialize,
    read_step_metadata,
)
from holdfast.orbax.multihost import process_count, process_index
from holdfast.orbax.options import AtomicityOptions


@dataclasses.dataclass(frozen=True)
class Metadata:
    """A committed step.

    Attributes:
        step: its number.
        path: its directory.
    """

    step: int
    path: Any

    @functools.cached_property
    def _checkpoint_metadata(self) -> StepMetadata | None:
        data = read_step_metadata(os.fspath(self.path))
        return None if data is None else deserialize(data)

    @property
    def init_timestamp_nsecs(self) -> int | None:
        """Start of the save, nanoseconds since 1970; None if not recorded."""
        metadata = self._checkpoint_metadata
        return None if metadata is None else metadata.init_timestamp_nsecs

    @property
    def commit_timestamp_nsecs(self) -> int | None:
        """End of the save, nanoseconds since 1970; None if not recorded."""
        metadata = self._checkpoint_metadata
        return None if metadata is None else metadata.commit_timestamp_nsecs

    @property
    def commit_timestamp(self) -> datetime.datetime:
        """End of the save in UTC; the directory's time if not recorded.

        Raises:
            ValueError: `_CHECKPOINT_METADATA` has fields of other types than
                Orbax writes.
        """
        nsecs = self.commit_timestamp_nsecs
        # Whole seconds, as Orbax takes them from a directory.
        seconds = (
            int(_files.stat(self.path).st_mtime)
            if nsecs is None
            else nsecs / 1e9
        )
        return datetime.datetime.fromtimestamp(
            seconds, tz=datetime.timezone.utc
        )


MetadataT = TypeVar("MetadataT", bound=Metadata)


# The type variable is invariant, as Orbax's.
class NameFormat(Protocol, Generic[MetadataT]):  # type: ignore[misc]
    """Names of steps, and how to find the directories that bear them."""

    def __class_getitem__(cls, item: Any) -> types.GenericAlias:
        """`NameFormat[Metadata]`, which nothing depends on."""
        return types.GenericAlias(cls, item)

    def build_name(self, step: int) -> str:
        """The directory name of a step."""

    @abc.abstractmethod
    def find_all(self, base_path: PathLike) -> Iterator[MetadataT]:
        """The committed steps in `base_path`, in any order."""

    @abc.abstractmethod
    def find_step(self, base_path: PathLike, step: int) -> MetadataT:
        """One committed step in `base_path`.

        Raises:
            ValueError: there is none.
        """


def build_step_path(
    base_path: PathLike, name_format: NameFormat[Metadata], step: int
) -> Any:
    """The path that a step has in `base_path`, whether it exists or not."""
    return handler_path(base_path) / name_format.build_name(step)


def build_step_metadatas(
    step_paths: Iterable[Any],
    build_metadata: Callable[[Any], MetadataT | None],
) -> Iterator[MetadataT]:
    """The results of `build_metadata` for the paths, except for None."""
    for path in step_paths:
        metadata = build_metadata(path)
        if metadata is not None:
            yield metadata


def step_prefix_with_underscore(step_prefix: str | None) -> str:
    """`<prefix>_`, or nothing for None."""
    return "" if step_prefix is None else f"{step_prefix}_"


def _is_place(path: PathLike) -> bool:
    """Whether it is a directory; a bucket's is one, with steps or without."""
    return _files.is_url(path) or os.path.isdir(path)


@dataclasses.dataclass(frozen=True)
class _StandardNameFormat(NameFormat[Metadata]):
    """`<prefix>_<step>`, the step with leading zeros or without."""

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
        # In this order: asking for processes may start jax's devices.
        if (
            self.single_host_load_and_broadcast
            and _is_place(base_path)
            and process_count() > 1
        ):
            return iter(self._find_once_for_all(base_path))
        return iter(self._find_all(base_path))

    def _find_once_for_all(self, base_path: PathLike) -> list[Metadata]:
        """The steps that the first process finds, on all of them."""
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
    """The format of names like `23`, `0023`, `step_23` and `step_0023`.

    Args:
        step_prefix: comes first, with an underscore behind it.
        step_format_fixed_length: least number of digits.
        single_host_load_and_broadcast: the first process lists for all, which
            all have to call `find_all` for.
        temporary_path_cls: knows which steps are committed.
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
    """Writes names of one format, finds those of several."""

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
                # A user's format may raise anything; the next may still fit.
                log.info("%s does not find step %s", name_format, step)
                problems.append(str(error))
        raise ValueError("\n".join(problems))


def composite_name_format(
    write_name_format: NameFormat[Metadata],
    read_name_formats: Sequence[NameFormat[Metadata]],
) -> NameFormat[Metadata]:
    """A format that reads several formats and writes one of them.

    Args:
        write_name_format: names that are made.
        read_name_formats: names that are found, the preferred one first.

    Raises:
        ValueError: steps with the written name would not be found.
    """
    return _CompositeNameFormat(write_name_format, read_name_formats)


def is_standard_name_format(name_format: NameFormat[Metadata]) -> bool:
    """Whether `standard_name_format` made it."""
    return isinstance(name_format, _StandardNameFormat)


def single_host_load_and_broadcast_name_format(
    name_format: NameFormat[Metadata],
) -> NameFormat[Metadata]:
    """The same format, with `single_host_load_and_broadcast`.

    Raises:
        ValueError: it is no standard format.
    """
    if not isinstance(name_format, _StandardNameFormat):
        raise ValueError(
            "single_host_load_and_broadcast is only supported for standard"
            f" name formats. Got {name_format}."
        )
    return dataclasses.replace(name_format, single_host_load_and_broadcast=True)
