"""Tells checkpoints of the v1 layout from older ones, using only file names.

A v1 checkpoint is a directory that contains the file `orbax.checkpoint`; its
subdirectories are the checkpointables. An older checkpoint either has such
subdirectories too, or is itself a pytree item ("flat").
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from holdfast import _files
from holdfast.orbax._checkpointer.paths import is_path_temporary
from holdfast.orbax._restore.source import TREE_METADATA_FILE
from holdfast.orbax.metadata.step import (
    DELETION_RECORD_FILENAME,
    STEP_METADATA_FILENAME,
    StepMetadata,
    deserialize,
    read_step_metadata,
)
from holdfast.orbax.v1._deletion_record import deleted_name
from holdfast.orbax.v1._safetensors import (
    SafetensorsCheckpoint,
    is_safetensors,
)
from holdfast.orbax.v1.context import Context
from holdfast.orbax.v1.errors import InvalidLayoutError
from holdfast.orbax.v1.options import AtomicityOptions, CheckpointLayout

STATE_NAME = "state"
AUTO_NAME = "AUTO"
METRICS_NAME = "metrics"
RESERVED_NAMES = frozenset({METRICS_NAME, AUTO_NAME, DELETION_RECORD_FILENAME})


def check_item_names(names: Collection[Any], call: str) -> None:
    """Checks the names of checkpointables.

    Args:
        names: the names to save or load.
        call: the name of the call, for the message.

    Raises:
        ValueError: a name is empty or reserved.
    """
    if "" in names:
        raise ValueError(
            "Empty string is not supported as a checkpointable name in "
            f"`{call}`. Each checkpointable name must be a valid "
            "non-empty string name."
        )
    reserved = set(names) & RESERVED_NAMES
    if reserved:
        raise ValueError(f"Provided reserved checkpointable keys: {reserved}.")


INDICATOR_FILE = "orbax.checkpoint"

_UNREADABLE = (FileNotFoundError, NotADirectoryError, ValueError)


class Layout:
    """The directory of a checkpoint, in the v1 layout or the older layout."""

    def __init__(self, path: Any, is_v1: bool) -> None:
        self.path = path
        self.is_v1 = is_v1

    def has(self, *names: str) -> bool:
        """Returns whether a file or directory exists below the path."""
        return _files.exists(os.path.join(self.path, *names))

    def directories(self) -> list[str]:
        """Returns the names of the subdirectories, sorted."""
        entries = _files.own_entries(self.path)
        return sorted(entry.name for entry in entries if entry.is_dir())

    def checkpointables(self, *wanted: str) -> list[str]:
        """Returns the sorted names of the subdirectories.

        A checkpointable that is being deleted is left out.

        Args:
            wanted: the checkpointables that are to be read.

        Raises:
            DeletionInProgressError: a wanted checkpointable is being deleted.
            DeletionRecoveryError: the record of a deletion is damaged.
        """
        deleted = deleted_name(self.path, wanted or None)
        return [name for name in self.directories() if name != deleted]

    def checkpointable_names(self) -> list[str]:
        """Returns the sorted names of the checkpointables, "state" first."""
        names = set(self.checkpointables()) - RESERVED_NAMES
        return sorted(names, key=lambda name: (name != STATE_NAME, name))

    def pytree_names(self) -> list[str]:
        """Returns the names of the subdirectories that are pytree items."""
        names = self.directories()
        return [name for name in names if self.has(name, TREE_METADATA_FILE)]

    def step_metadata(self) -> StepMetadata:
        """Returns the metadata in `_CHECKPOINT_METADATA`.

        The metadata is empty if the file cannot be read.
        """
        return deserialize(read_step_metadata(os.fspath(self.path)) or {})

    def is_flat(self) -> bool:
        """Returns whether the directory itself is the only item."""
        if self.is_v1:
            return False
        handlers = self.step_metadata().item_handlers
        return isinstance(handlers, str) or self.has(TREE_METADATA_FILE)

    def check_pytree(self, name: str | None) -> None:
        """Checks that a checkpointable is a pytree item.

        Args:
            name: the checkpointable's name; None means the directory itself.

        Raises:
            InvalidLayoutError: the checkpointable is not a pytree item;
                `__cause__` says why.
        """
        try:
            self._check_pytree(name)
        except _UNREADABLE as error:
            version = "V1" if self.is_v1 else "V0"
            raise InvalidLayoutError(
                f"Failed to interpret path {self.path} as a {version} Orbax "
                "PyTree."
            ) from error

    def _check_pytree(self, name: str | None) -> None:
        if name is None and self.is_v1:
            raise unnamed_error(self.path)
        parts = () if name is None else (name,)
        if self.has(*parts, TREE_METADATA_FILE):
            return
        problem = (
            "The checkpointable_name either does not exist or is missing "
            "Pytree checkpoint metadata. "
        )
        if not self.is_v1 and self.has(TREE_METADATA_FILE):
            raise FileNotFoundError(
                problem + "However, this current directory appears to be a "
                "valid Pytree checkpoint itself. Please consider loading with "
                "checkpointable_name=None."
            )
        names = self.pytree_names()
        if names:
            raise FileNotFoundError(
                problem + "Please consider using one of the following valid "
                f"pytree checkpointable names: {names}"
            )
        raise FileNotFoundError(
            problem + "There are no valid pytree checkpointables in this "
            "checkpoint"
        )

    def find_pytree(self, name: str | None) -> str | None:
        """Returns the name of the pytree to load.

        Args:
            name: the caller's argument; "AUTO" selects the first pytree.

        Returns:
            The checkpointable's name, or None for the directory itself.

        Raises:
            InvalidLayoutError: the pytree does not exist.
        """
        if name != AUTO_NAME:
            deleted_name(self.path, () if name is None else (name,))
            self.check_pytree(name)
            return name
        for candidate in self.checkpointable_names():
            if self.has(candidate, TREE_METADATA_FILE):
                return candidate
        if not self.is_v1 and self.has(TREE_METADATA_FILE):
            return None
        raise InvalidLayoutError(
            "Failed to load checkpoint using AUTO resolution mode on "
            f"path='{self.path}'. No valid PyTree checkpointable found."
        )


def unnamed_error(path: Any) -> ValueError:
    """Returns the error for a v1 checkpoint requested without a name."""
    return ValueError(
        f"Attempting to load V1 checkpoint at {path} with "
        "`checkpointable_name=None`. This is only supported for legacy V0 "
        "checkpoints. Please specify the name of the checkpointable to load. "
        "Otherwise, omit `checkpointable_name` to load default 'state' "
        "checkpointable."
    )


def _check_directory(path: Any, atomicity: AtomicityOptions) -> None:
    if not _files.checkpoint_exists(path):
        raise FileNotFoundError(f"Checkpoint path {path} does not exist.")
    if not _files.isdir(path):
        raise NotADirectoryError(f"Checkpoint path {path} is not a directory.")
    if is_path_temporary(path, atomicity_options=atomicity.v0()):
        raise ValueError(f"Found incomplete checkpoint at {path}.")


def _check_v1(layout: Layout, atomicity: AtomicityOptions) -> None:
    _check_directory(layout.path, atomicity)
    for file, kind in (
        (STEP_METADATA_FILENAME, "checkpoint metadata"),
        (INDICATOR_FILE, "indicator"),
    ):
        if not layout.has(file):
            raise FileNotFoundError(
                f"Checkpoint path {layout.path} could not be identified as a "
                "valid Orbax V1 checkpoint. It is missing the "
                f"{kind} file '{file}'."
            )


def _check_v0(layout: Layout, atomicity: AtomicityOptions) -> None:
    path = layout.path
    _check_directory(path, atomicity)
    parent = _files.dirname(_files.normpath(path))
    if _files.exists(os.path.join(parent, STEP_METADATA_FILENAME)):
        raise InvalidLayoutError(
            f"The path ({path}) configured for loading appears to be a "
            "subdirectory of an Orbax checkpoint. Please try loading from the "
            f"parent directory: {parent} instead."
        )
    if layout.has(STEP_METADATA_FILENAME) or layout.has(TREE_METADATA_FILE):
        return
    checkpoints = [
        os.path.join(path, name)
        for name in layout.directories()
        if layout.has(name, STEP_METADATA_FILENAME)
    ]
    if checkpoints:
        raise InvalidLayoutError(
            "You are currently attempting to read an Orbax checkpoint from a "
            "root directory, please consider loading one of the following "
            f"checkpoint subdirectories: {checkpoints}"
        )


def _check(
    check: Callable[[Layout, AtomicityOptions], None],
    layout: Layout,
    atomicity: AtomicityOptions,
) -> None:
    try:
        check(layout, atomicity)
    except _UNREADABLE as error:
        version = "V1" if layout.is_v1 else "V0"
        raise InvalidLayoutError(
            f"Failed to interpret path {layout.path} as a {version} Orbax "
            "checkpoint."
        ) from error


def open_layout(path: Any, context: Context) -> Layout | SafetensorsCheckpoint:
    """Returns the checkpoint at a path, of the kind that the context requests.

    Raises:
        InvalidLayoutError: the layout is not known; `__cause__` says why.
    """
    kind = context.checkpoint_layout
    if kind is CheckpointLayout.AUTO:
        kind = _kind_by_markers(path)
    try:
        if kind is CheckpointLayout.SAFETENSORS:
            return SafetensorsCheckpoint(path)
        layout = Layout(path, _files.exists(os.path.join(path, INDICATOR_FILE)))
        check = _check_v1 if layout.is_v1 else _check_v0
        _check(check, layout, context.atomicity)
    except InvalidLayoutError as error:
        raise InvalidLayoutError(
            f"Could not recognize the checkpoint at {path} as a valid "
            f"{kind.value.capitalize()} checkpoint. If you are trying to load "
            "a checkpoint that does not conform to the standard Orbax format, "
            "use `ctx.checkpoint_layout = ...` to specify the expected "
            "checkpoint layout."
        ) from error
    return layout


def _kind_by_markers(path: Any) -> CheckpointLayout:
    markers = (INDICATOR_FILE, STEP_METADATA_FILENAME, TREE_METADATA_FILE)
    if any(_files.exists(os.path.join(path, name)) for name in markers):
        return CheckpointLayout.ORBAX
    if is_safetensors(path):
        return CheckpointLayout.SAFETENSORS
    tried = [CheckpointLayout.ORBAX.value, CheckpointLayout.SAFETENSORS.value]
    raise InvalidLayoutError(
        f"Could not auto-detect checkpoint layout at {path}. Tried "
        f"layouts: {tried}."
    )


def holds_checkpoint(path: Any, context: Context) -> bool:
    """Returns whether a path is a checkpoint of either layout."""
    for is_v1, check in ((True, _check_v1), (False, _check_v0)):
        try:
            _check(check, Layout(path, is_v1), context.atomicity)
        except InvalidLayoutError:
            continue
        return True
    return False
