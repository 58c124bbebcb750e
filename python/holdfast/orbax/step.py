"""Names of step directories, and finding them: `orbax.checkpoint.step`.

A step directory is called `5`, `0005`, `ckpt_5` or `ckpt_0005`, as its
NameFormat says; directories that were never committed are not found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from holdfast import _engine
from holdfast.orbax._coroutines import run_sync
from holdfast.orbax._paths import (
    TMP_DIR_SUFFIX,
    PathLike,
    handler_path,
    is_path_finalized,
    is_path_temporary,
)
from holdfast.orbax._step_names import (
    Metadata,
    MetadataT,
    NameFormat,
    build_step_metadatas,
    build_step_path,
    composite_name_format,
    is_standard_name_format,
    single_host_load_and_broadcast_name_format,
    standard_name_format,
    step_prefix_with_underscore,
)
from holdfast.orbax.atomicity_types import TemporaryPath
from holdfast.orbax.options import AtomicityOptions
from holdfast.orbax.temporary_paths import (
    all_temporary_paths as _all_temporary_paths,
)
from holdfast.orbax.temporary_paths import temporary_path_names

ALLOWED_STEP_NAME_PATTERN = r"(.+)_(\d+)"
TMP_DIR_STEP_PATTERN = r".*?_*?(\d+)\.orbax-checkpoint-tmp"

is_checkpoint_finalized = is_path_finalized
is_tmp_checkpoint = is_path_temporary

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


def all_temporary_paths(
    root_directory: PathLike,
    *,
    temporary_path_cls: type[TemporaryPath] | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> Iterable[TemporaryPath]:
    """What was never committed in a directory.

    Args:
        root_directory: the directory.
        temporary_path_cls: the kind; None: that of the options.
        atomicity_options: how checkpoints there are committed.
    """
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
    """The step of the highest number in `root_path`; None without steps."""
    found = sorted(
        name_format.find_all(root_path),
        key=lambda metadata: metadata.path.name,
        reverse=True,
    )
    return max(found, default=None, key=lambda metadata: metadata.step)


def step_metadata_of_checkpoint_path(
    checkpoint_path: PathLike, name_format: NameFormat[Metadata]
) -> Metadata:
    """The step whose directory that is.

    Raises:
        ValueError: it is not of that format.
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
    """The directory of a step.

    Args:
        base_path: the directory of the steps.
        name_format: its name's.
        step: its number.
        include_uncommitted: prefer one that is not committed yet.

    Raises:
        ValueError: there is none.
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
    """The committed step, or None."""
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
    """The directory of a step, or of an item in it.

    Args:
        step: its number.
        directory: that of all steps.
        name: the item's.
        step_prefix: of the name, without a `step_name_format`.
        override_directory: the step's, whatever the other arguments say.
        step_format_fixed_length: as `step_prefix`.
        step_name_format: the format of names.

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
    """The step in a directory's name, committed or not.

    Raises:
        ValueError: there is none.
    """
    return _engine.step_from_checkpoint_name(name)


def checkpoint_steps_paths(checkpoint_dir: PathLike) -> list[Any]:
    """The committed steps of any name format in a directory."""
    directory = handler_path(checkpoint_dir)
    rows = _engine.scan_steps(
        os.fspath(directory), any_format=True, read_metadata=False
    )
    return [directory / name for _, name, _, _, _ in rows]


def checkpoint_steps(checkpoint_dir: PathLike) -> list[int]:
    """The numbers of `checkpoint_steps_paths`."""
    rows = _engine.scan_steps(
        os.fspath(checkpoint_dir), any_format=True, read_metadata=False
    )
    return [row[0] for row in rows]


def any_checkpoint_step(checkpoint_dir: PathLike) -> int | None:
    """The number of some committed step in a directory, or None."""
    return next(iter(checkpoint_steps(checkpoint_dir)), None)


def tmp_checkpoints(
    root_directory: PathLike,
    *,
    temporary_path_cls: Any | None = None,
    atomicity_options: AtomicityOptions | None = None,
) -> list[str]:
    """Names of the directories that were never committed.

    Args:
        root_directory: where they are.
        temporary_path_cls: a class of temporary paths that knows.
        atomicity_options: how checkpoints there are committed.
    """
    return temporary_path_names(
        root_directory,
        temporary_path_cls=temporary_path_cls,
        atomicity_options=atomicity_options,
    )
