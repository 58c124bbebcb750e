"""`delete`: deletes complete checkpoints, or one of several checkpointables.

One rename makes a complete checkpoint disappear; its files are removed
afterwards. A checkpointable disappears when the record of its deletion is
written. The record stays in the checkpoint until the files are removed. If a
deletion was interrupted, the same call finishes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Iterator
from typing import Any

from holdfast import _engine, _files
from holdfast.errors import FailedPreconditionError
from holdfast.orbax._compat.errors import as_builtin
from holdfast.orbax._manager.trash import Remover
from holdfast.orbax._processes.operations import Operation
from holdfast.orbax.v1._deletion_record import (
    check_deletable_name,
    pending_deletion,
)
from holdfast.orbax.v1._operations import start
from holdfast.orbax.v1._responses import AsyncResponse, BackgroundResponse
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.errors import (
    DeletionRecoveryError,
    InvalidLayoutError,
)
from holdfast.orbax.v1.options import CheckpointLayout, path_of


def delete(
    path: Any,
    *,
    checkpointable_name: str | None = None,
    missing_ok: bool = False,
) -> bool:
    """Deletes a checkpoint or one of its checkpointables, with all files.

    Args:
        path: a checkpoint of the v1 layout or an older layout.
        checkpointable_name: the checkpointable to delete; None means the
            complete checkpoint.
        missing_ok: do not raise an error if there is nothing to delete.

    Returns:
        Whether there was anything to delete.

    Raises:
        FileNotFoundError: there is nothing to delete and `missing_ok` is False.
        NotADirectoryError: the path is a file.
        InvalidLayoutError: the path is not a checkpoint (it may be a
            checkpointable), or it has no named checkpointables.
        ValueError: the name is invalid, the checkpointable is the only one
            left, or the path is a link.
        DeletionRecoveryError: a different checkpointable is being deleted.
        OSError: files cannot be removed.
    """
    return delete_async(
        path, checkpointable_name=checkpointable_name, missing_ok=missing_ok
    ).result()


def delete_async(
    path: Any,
    *,
    checkpointable_name: str | None = None,
    missing_ok: bool = False,
) -> AsyncResponse[bool]:
    """Deletes like `delete`, but removes the files in the background.

    When the call returns, readers no longer see the deleted part.
    """
    return start_deletion(
        path, checkpointable_name=checkpointable_name, missing_ok=missing_ok
    )


def check_step(step: Any, name: Any, missing_ok: Any) -> int:
    """Checks the arguments for deleting a step, and returns the step.

    Raises:
        TypeError: an argument has the wrong type.
        ValueError: the number or name is invalid.
    """
    if not isinstance(step, int) or isinstance(step, bool):
        raise TypeError("step must be an explicit Python int.")
    if step < 0:
        raise ValueError("step must be nonnegative.")
    _check_arguments(name, missing_ok)
    return step


def _check_arguments(name: Any, missing_ok: Any) -> None:
    if name is not None:
        check_deletable_name(name)
    if not isinstance(missing_ok, bool):
        raise TypeError("missing_ok must be a bool.")


@dataclasses.dataclass
class _Plan:
    """The deletion of a complete checkpoint or one checkpointable.

    Attributes:
        path: the checkpoint's path.
        name: the checkpointable's name; None means the complete checkpoint.
        is_begun: whether the plan continues an interrupted deletion.
    """

    path: Any
    name: str | None = None
    is_begun: bool = False


def start_deletion(
    path: Any,
    *,
    checkpointable_name: str | None,
    missing_ok: bool,
    is_step: bool = False,
) -> BackgroundResponse[bool]:
    """Begins a deletion; when the call returns, readers no longer see the part.

    Args:
        path: as for `delete`.
        checkpointable_name: as for `delete`.
        missing_ok: as for `delete`.
        is_step: whether the path is known to be a checkpoint.

    Raises:
        Exception: the errors that `delete` raises before anything is removed.
    """
    context = get_context()
    path = path_of(context.file, path)
    operation = start(context, path, is_save=True)
    with operation.phase("delete:prepare"):
        plan = _plan(path, checkpointable_name, missing_ok, context, is_step)
    is_primary = operation.processes.is_primary
    remover = Remover()
    with operation.phase("delete:publish"):
        if plan is not None and is_primary:
            _publish(plan, context, remover)
    return BackgroundResponse(
        lambda _: _finish(plan, operation, remover),
        what=f"deletion of {path}",
    )


def _publish(plan: _Plan, context: Context, remover: Remover) -> None:
    """Makes the deleted part invisible to readers."""
    path = _files.abspath(plan.path)
    if plan.name is None:
        root, name = _files.dirname(path), os.path.basename(path)
        remover.dispose(root, [name])
    elif not plan.is_begun:
        mode = context.file.path_permission_mode
        _engine.begin_item_deletion(path, plan.name, mode)


def _finish(plan: _Plan | None, operation: Operation, remover: Remover) -> bool:
    """Removes the files that readers no longer see.

    Returns whether there was anything to delete.
    """
    with operation.phase("delete:finalize"):
        remover.wait()
        is_primary = operation.processes.is_primary
        if plan is not None and plan.name is not None and is_primary:
            _engine.finish_item_deletion(_files.abspath(plan.path))
    return plan is not None


def _plan(
    path: Any,
    name: str | None,
    missing_ok: bool,
    context: Context,
    is_step: bool,
) -> _Plan | None:
    """Returns the plan of the deletion, or None if there is nothing to delete.

    This function only checks, and changes nothing.

    Raises:
        Exception: as for `delete`.
    """
    _check_arguments(name, missing_ok)
    with as_builtin():
        _engine.check_deletable_path(os.fspath(path))
    if not _files.exists(path):
        if missing_ok:
            return None
        raise FileNotFoundError(f"Checkpoint does not exist: {path}.")
    _check_checkpoint(path, context, is_step)
    if context.deletion.gcs_deletion_options.todelete_full_path is not None:
        raise NotImplementedError(
            "todelete_full_path requires a GCS checkpoint."
        )
    if name is None:
        return _Plan(path)
    begun = pending_deletion(path)
    if begun is not None:
        if begun != name:
            raise DeletionRecoveryError(
                f"Checkpoint at {path} has a deletion for a different item."
            )
        return _Plan(path, name, is_begun=True)
    try:
        with _as_layout_error():
            _engine.check_deletable_item_of(os.fspath(path), name)
    except FileNotFoundError:
        if missing_ok and not _files.exists(os.path.join(path, name)):
            return None
        raise
    return _Plan(path, name)


def _check_checkpoint(path: Any, context: Context, is_step: bool) -> None:
    """Checks that a path is a checkpoint, or what is left of a checkpoint.

    Raises:
        NotADirectoryError: the path is a file.
        NotImplementedError: the context requests a different layout.
        InvalidLayoutError: the path is not a checkpoint.
    """
    if not _files.isdir(path):
        raise NotADirectoryError(f"Checkpoint path is not a directory: {path}.")
    if context.checkpoint_layout is CheckpointLayout.SAFETENSORS:
        raise NotImplementedError(
            "Deletion currently supports Orbax checkpoint layouts."
        )
    if is_step:
        return
    with _as_layout_error():
        _engine.check_deletable_checkpoint(os.fspath(path))


@contextlib.contextmanager
def _as_layout_error() -> Iterator[None]:
    """Re-raises the engine's errors in the block as Orbax's errors."""
    try:
        with as_builtin():
            yield
    except FailedPreconditionError as error:
        raise InvalidLayoutError(str(error)) from None
