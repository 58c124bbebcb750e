"""Checkpoints saved piece by piece: `orbax.checkpoint.v1.partial`.

Each `save` atomically adds leaves to a session in `<path>.partial_save/`;
`finalize` turns the session into a checkpoint.
"""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Awaitable, Iterator
from typing import Any

from holdfast import _engine, _files, errors
from holdfast.orbax._checkpointer.durable import sync
from holdfast.orbax._processes.operations import Operation
from holdfast.orbax._trees import structure
from holdfast.orbax.base_pytree_checkpoint_handler import (
    PartialSaveReplacementError,
)
from holdfast.orbax.v1._layout import STATE_NAME
from holdfast.orbax.v1._operations import processes_of, start
from holdfast.orbax.v1._pytree_handler import PyTreeHandler
from holdfast.orbax.v1._responses import AsyncResponse, BackgroundResponse
from holdfast.orbax.v1._save import Save
from holdfast.orbax.v1.context import get_context
from holdfast.orbax.v1.options import path_of
from holdfast.orbax.v1.path import PathAwaitingCreation
from holdfast.orbax.v1.tree import JsonType

__all__ = ["finalize", "save", "save_async"]

_SUFFIX = ".partial_save"
_PENDING_INFIX = ".pending_"

# The last save of each session, which may still be running.
_LAST: dict[str, BackgroundResponse[None]] = {}


class _PartOfTree:
    """A part of the checkpoint's tree."""

    def __init__(self, tree: Any) -> None:
        self.tree = tree

    async def save(self, directory: PathAwaitingCreation) -> Awaitable[None]:
        """Saves the part as the tree handler does."""
        return await PyTreeHandler().save(directory, self.tree)

    async def load(self, directory: Any) -> Awaitable[None]:
        """Always raises; only the complete checkpoint can be loaded."""
        raise NotImplementedError(
            "Partial load is not supported via this wrapper."
        )


def save(
    path: Any, state: Any, *, custom_metadata: JsonType | None = None
) -> None:
    """Adds leaves to a checkpoint's session and waits until they are written.

    Args:
        path: the path of the future checkpoint.
        state: a tree; the session must not have saved any of its leaves yet.
        custom_metadata: a JSON object; its entries replace earlier saves'
            entries with the same names.

    Raises:
        FileExistsError: a checkpoint exists at `path`.
        PartialSaveReplacementError: the session already saved a leaf at the
            same path, above it or below it.
        Exception: any error from `holdfast.orbax.v1.save`.
    """
    save_async(path, state, custom_metadata=custom_metadata).result()


def save_async(
    path: Any, state: Any, *, custom_metadata: JsonType | None = None
) -> AsyncResponse[None]:
    """Saves like `save`, but writes in the background.

    The call first waits for the session's previous save.
    """
    context = get_context()
    path = path_of(context.file, path)
    session = f"{_files.abspath(path)}{_SUFFIX}"
    _wait_for_last(session)
    processes = processes_of(context)
    operation = processes.start(
        "OcpPartialSaving:save_start", session, value=uuid.uuid4().hex
    )
    with operation.phase("OcpPartialSaving:save_checked"):
        if path.exists():
            raise FileExistsError(
                f"Finalized checkpoint already exists at {path}."
            )
        with _refusing_replacement():
            keys = structure.flatten(state).paths
            _engine.check_partial_save_keys(session, keys)
    # All processes choose the same id.
    part_id = operation.values[min(operation.values)] or uuid.uuid4().hex
    unfinished = f"{session}.{part_id}"
    name = os.path.basename(session)
    name = f"{name}{_PENDING_INFIX}{time.time_ns()}_{part_id}"

    def add_to_session() -> None:
        with operation.phase("OcpPartialSaving:save_added"):
            if processes.is_primary:
                _move(unfinished, os.path.join(session, name))

    saving = Save(
        unfinished, {STATE_NAME: _PartOfTree(state)}, False, custom_metadata
    )
    response = saving.start(add_to_session)
    _LAST[session] = response
    return response


@contextlib.contextmanager
def _refusing_replacement() -> Iterator[None]:
    """Raises PartialSaveReplacementError if a leaf was already saved."""
    try:
        yield
    except errors.FailedPreconditionError as error:
        if "REPLACEMENT" not in str(error):
            raise
        raise PartialSaveReplacementError(str(error)) from None


def _move(unfinished: str, part: str) -> None:
    """Moves what a save has written into its session."""
    _engine.prepare_partial_save(unfinished)
    session = _files.dirname(part)
    _files.makedirs(session, exist_ok=True)
    _files.rename(unfinished, part)
    sync(session)
    sync(_files.dirname(session))


def _wait_for_last(session: str) -> None:
    last = _LAST.pop(session, None)
    if last is not None:
        last.failure()


def finalize(path: Any) -> None:
    """Makes a checkpoint from everything that a session has saved.

    Args:
        path: the path given to `save`.

    Raises:
        FileExistsError: the checkpoint already exists, or two saves wrote the
            same file.
        FileNotFoundError: nothing was saved.
        PartialSaveReplacementError: two saves wrote the same leaf.
        ValueError: files of the session are damaged.
        OSError: files cannot be read or written.
    """
    context = get_context()
    text = _files.abspath(path_of(context.file, path)).removesuffix(_SUFFIX)
    session = text + _SUFFIX
    _wait_for_last(session)
    operation = start(context, text, is_save=True)
    with operation.phase("OcpPartialSaving:finalize_path_existence_start"):
        if _files.exists(text):
            raise FileExistsError(
                f"Finalized checkpoint already exists at {text}."
            )
        if not _files.exists(session):
            raise FileNotFoundError(
                f"Partial save path {session} does not exist."
            )
    _finalize(session, text, operation)


def _finalize(session: str, path: str, operation: Operation) -> None:
    with operation.phase("OcpPartialSaving:finalize_rename_complete"):
        if operation.processes.is_primary:
            with _refusing_replacement():
                _engine.finalize_partial_save(session, path)
