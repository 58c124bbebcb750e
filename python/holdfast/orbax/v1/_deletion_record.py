"""The record of a checkpointable that is being deleted.

The record is stored in the checkpoint, like Orbax's. Once the record exists,
readers no longer see the checkpointable. If the deletion was interrupted,
another call of `delete` finishes it.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from holdfast import _engine, _files
from holdfast._log import log
from holdfast.errors import FailedPreconditionError
from holdfast.orbax._compat.errors import as_builtin
from holdfast.orbax.metadata.step import DELETION_RECORD_FILENAME
from holdfast.orbax.v1.errors import (
    DeletionInProgressError,
    DeletionRecoveryError,
)


def pending_deletion(path: Any) -> str | None:
    """Returns the checkpointable in `path` that is being deleted, or None.

    Raises:
        DeletionRecoveryError: the record does not name a checkpointable.
    """
    if not _files.lexists(os.path.join(path, DELETION_RECORD_FILENAME)):
        return None
    try:
        return _engine.find_item_deletion(os.fspath(path))
    except FailedPreconditionError as error:
        raise DeletionRecoveryError(str(error)) from error


def check_deletable_name(name: Any) -> None:
    """Checks that a name is a single directory that belongs to the user.

    Raises:
        TypeError: the name is not a str.
        ValueError: the name is invalid or reserved.
    """
    if not isinstance(name, str):
        raise TypeError("checkpointable_name must be a string or None.")
    with as_builtin():
        _engine.check_deletable_item(name)


def deleted_name(
    path: Any, requested: Collection[str] | None = None
) -> str | None:
    """Returns the checkpointable that is being deleted, which readers must not
    see.

    Args:
        path: the checkpoint's path.
        requested: the checkpointables to read; None means any.

    Raises:
        DeletionInProgressError: a requested checkpointable is being deleted.
        DeletionRecoveryError: the record does not name a checkpointable.
    """
    name = pending_deletion(path)
    if name is None:
        return None
    if requested is None:
        log.warning(
            "Excluding checkpointable %r at %s: deletion was started but"
            " cleanup is incomplete. Retry deletion of this checkpointable to"
            " finish.",
            name,
            path,
        )
    elif name in requested:
        raise DeletionInProgressError(
            f"Checkpointable {name!r} at {path} is pending deletion and cannot"
            " be read. Retry deletion of this checkpointable to finish cleanup."
        )
    return name


def check_not_deleting(path: Any) -> None:
    """Checks that a checkpoint may be replaced.

    Raises:
        DeletionInProgressError: a checkpointable in it is being deleted.
        DeletionRecoveryError: the record does not name a checkpointable.
    """
    if pending_deletion(path) is not None:
        raise DeletionInProgressError(
            f"Checkpoint at {path} has an unfinished deletion. Retry that"
            " deletion before modifying the checkpoint."
        )
