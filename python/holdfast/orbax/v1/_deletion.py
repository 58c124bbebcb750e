"""`delete`: whole checkpoints, or one checkpointable of several.

A whole checkpoint is gone with one rename, and its files are removed after
that. One checkpointable is gone with the record of its deletion, which lies in
the checkpoint until the work is done; a deletion that was interrupted is
finished by the same call.
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
    """Deletes a checkpoint, or one checkpointable of it, and waits for it.

    Args:
        path: a checkpoint, of either layout.
        checkpointable_name: what of it; None: all.
        missing_ok: it need not exist.

    Returns:
        Whether there was anything to delete.

    Raises:
        FileNotFoundError: there is nothing to delete, and not `missing_ok`.
        NotADirectoryError: the path is a file.
        InvalidLayoutError: the path is not a checkpoint, but a checkpointable
            or something else; or it has no named checkpointables.
        ValueError: a name that cannot be one, the only checkpointable that is
            left, or a path that is a link.
        DeletionRecoveryError: another checkpointable is being deleted.
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
    """Like `delete`, but removes files in the background.

    When the call returns, readers no longer see the deleted part.
    """
    return start_deletion(
        path, checkpointable_name=checkpointable_name, missing_ok=missing_ok
    )


def check_step(step: Any, name: Any, missing_ok: Any) -> int:
    """Checks the arguments of the deletion of a step, which it returns.

    Raises:
        TypeError: one of another type.
        ValueError: a number or a name that cannot be.
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
    """A deletion: of a whole checkpoint, or of one checkpointable.

    Attributes:
        path: the checkpoint's.
        name: the checkpointable's; None: all.
        is_begun: an earlier deletion was interrupted.
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
    """Begins a deletion: readers no longer see the part when it returns.

    Args:
        path: as for `delete`, and the next two too.
        checkpointable_name: see there.
        missing_ok: see there.
        is_step: it is known to be a checkpoint.

    Raises:
        Exception: what `delete` raises before anything is removed.
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
    """Removes the files that readers no longer see."""
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
    """The plan of the deletion; None: nothing is there. Changes nothing.

    Raises:
        Exception: what `delete` raises.
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
    """Checks that a path is a checkpoint, or the remains of one.

    Raises:
        NotADirectoryError: it is a file.
        NotImplementedError: the context asks for another layout.
        InvalidLayoutError: it is something else.
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
    """Turns the engine's errors in its block into Orbax's."""
    try:
        with as_builtin():
            yield
    except FailedPreconditionError as error:
        raise InvalidLayoutError(str(error)) from None
