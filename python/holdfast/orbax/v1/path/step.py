"""Names of step directories: `orbax.checkpoint.v1.path.step`."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Generic, Protocol, TypeVar

from holdfast.orbax import step as _step_names
from holdfast.orbax._checkpointer.paths import PathLike
from holdfast.orbax.options import AtomicityOptions
from holdfast.orbax.v1._step_metadata import CheckpointMetadata

__all__ = ["NameFormat", "composite_name_format", "standard_name_format"]

MetadataT_co = TypeVar("MetadataT_co", covariant=True)


class NameFormat(Protocol, Generic[MetadataT_co]):
    """Names step directories and finds them."""

    def build_name(self, step: int) -> str:
        """Returns the directory name of a step."""

    @abc.abstractmethod
    def find_all(self, base_path: PathLike) -> Iterator[MetadataT_co]:
        """Yields the committed steps in `base_path`, in any order."""

    @abc.abstractmethod
    def find_step(self, base_path: PathLike, step: int) -> MetadataT_co:
        """Returns one committed step in `base_path`.

        Raises:
            ValueError: the step does not exist.
        """


class StandardNameFormat(NameFormat[CheckpointMetadata[None]]):
    """`<prefix>_<step>`, with or without leading zeros."""

    def __init__(
        self, names: _step_names.NameFormat[_step_names.Metadata]
    ) -> None:
        self._names = names

    def __str__(self) -> str:
        return str(self._names)

    def names(
        self, atomicity_options: AtomicityOptions
    ) -> _step_names.NameFormat[_step_names.Metadata]:
        """Returns the older interface's format, with these options."""
        assert dataclasses.is_dataclass(self._names)
        changed: Any = dataclasses.replace(
            self._names, atomicity_options=atomicity_options
        )
        return changed

    def build_name(self, step: int) -> str:
        return self._names.build_name(step)

    def find_all(
        self, base_path: PathLike
    ) -> Iterator[CheckpointMetadata[None]]:
        return map(_described, self._names.find_all(base_path))

    def find_step(
        self, base_path: PathLike, step: int
    ) -> CheckpointMetadata[None]:
        return _described(self._names.find_step(base_path, step))


def _described(found: _step_names.Metadata) -> CheckpointMetadata[None]:
    return CheckpointMetadata(
        found.step,
        found.path,
        metadata=None,
        init_timestamp_nsecs=found.init_timestamp_nsecs,
        commit_timestamp_nsecs=found.commit_timestamp_nsecs,
    )


def standard_name_format(
    *,
    step_prefix: str | None = None,
    step_format_fixed_length: int | None = None,
    single_host_load_and_broadcast: bool = False,
) -> NameFormat[CheckpointMetadata[None]]:
    """See `holdfast.orbax.step.standard_name_format`."""
    return StandardNameFormat(
        _step_names.standard_name_format(
            step_prefix=step_prefix,
            step_format_fixed_length=step_format_fixed_length,
            single_host_load_and_broadcast=single_host_load_and_broadcast,
        )
    )


def composite_name_format(
    write_name_format: NameFormat[CheckpointMetadata[None]],
    read_name_formats: Sequence[NameFormat[CheckpointMetadata[None]]],
) -> NameFormat[CheckpointMetadata[None]]:
    """See `holdfast.orbax.step.composite_name_format`."""
    formats: Any = (write_name_format, read_name_formats)
    composite: Any = _step_names.composite_name_format(*formats)
    found: NameFormat[CheckpointMetadata[None]] = composite
    return found
