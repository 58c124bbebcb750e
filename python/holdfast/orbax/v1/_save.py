"""`save` and related functions: save a checkpoint of named checkpointables.

Work that must happen before the call returns (checking, and copying what may
change) is separate from work that may happen in the background (writing). The
destination does not exist until the save is committed.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from holdfast._json_values import json_text
from holdfast.orbax._devices.monitoring import MonitoredOperation, timed
from holdfast.orbax._handlers.base import recorded_name
from holdfast.orbax._processes.coroutines import close_all, run_sync
from holdfast.orbax._processes.operations import saving
from holdfast.orbax.atomicity import record_saved_duration
from holdfast.orbax.metadata.step import check_json_object
from holdfast.orbax.v1 import _registry
from holdfast.orbax.v1._directory import Destination
from holdfast.orbax.v1._layout import (
    METRICS_NAME,
    STATE_NAME,
    check_item_names,
)
from holdfast.orbax.v1._leaves import check_state
from holdfast.orbax.v1._operations import start
from holdfast.orbax.v1._responses import AsyncResponse, BackgroundResponse
from holdfast.orbax.v1._save_state import (
    background,
    cancellable,
    check_cancelled,
)
from holdfast.orbax.v1.context import Context, get_context
from holdfast.orbax.v1.options import CheckpointLayout, path_of
from holdfast.orbax.v1.tree import JsonType


def save(
    path: Any,
    state: Any,
    *,
    checkpointable_name: str = STATE_NAME,
    overwrite: bool = False,
    custom_metadata: JsonType | None = None,
) -> None:
    """Saves a tree as a checkpoint at `path`, and waits until it is complete.

    Args:
        path: an absolute path, which must not exist unless `overwrite` is set.
        state: a tree of jax.Arrays, numpy arrays, int, float, bool and str.
        checkpointable_name: the subdirectory for the tree.
        overwrite: replace what is at `path`, in one step.
        custom_metadata: a JSON object to store with the checkpoint.

    Raises:
        ValueError: `path` exists or is relative, or a leaf, a name or the
            structure cannot be saved. Nothing is left behind.
        TypeError: `custom_metadata` is not a JSON value.
        OSError: the files cannot be written.
    """
    checkpointables = {checkpointable_name: state}
    Save(path, checkpointables, overwrite, custom_metadata, state).run()


def save_async(
    path: Any,
    state: Any,
    *,
    checkpointable_name: str = STATE_NAME,
    overwrite: bool = False,
    custom_metadata: JsonType | None = None,
) -> AsyncResponse[None]:
    """Saves like `save`, but writes in the background.

    Everything that may change is copied before the call returns. Arguments and
    errors are the same as for `save`; `result()` raises the errors of the
    write.
    """
    checkpointables = {checkpointable_name: state}
    return Save(path, checkpointables, overwrite, custom_metadata, state).start(
        _nothing
    )


def save_checkpointables(
    path: Any,
    checkpointables: dict[str, Any],
    *,
    overwrite: bool = False,
    custom_metadata: JsonType | None = None,
) -> None:
    """Saves several checkpointables as one checkpoint, and waits for the end.

    Args:
        path: as for `save`, like `overwrite` and `custom_metadata`.
        checkpointables: maps each name to a tree, a JSON value, an object that
            saves itself (`StatefulCheckpointable`), or any object that a
            registered handler accepts. Each is saved in a subdirectory with its
            name.

    Raises:
        ValueError: as for `save`; also if a value is None.
        NoEntryError: no handler can save a value.
    """
    Save(path, checkpointables, overwrite, custom_metadata).run()


def save_checkpointables_async(
    path: Any,
    checkpointables: dict[str, Any],
    *,
    overwrite: bool = False,
    custom_metadata: JsonType | None = None,
) -> AsyncResponse[None]:
    """Saves like `save_checkpointables`, but writes in the background."""
    return Save(path, checkpointables, overwrite, custom_metadata).start(
        _nothing
    )


T = TypeVar("T")
_PLACES = "save_checkpointables_async"
_NO_STATE = object()


def _nothing() -> None:
    """Does nothing; called after a save that is not a step."""


class Save:
    """One save: checked when constructed, then prepared, then written.

    Args:
        path: as for `save_checkpointables`.
        checkpointables: as for `save_checkpointables`.
        overwrite: as for `save_checkpointables`.
        custom_metadata: as for `save_checkpointables`.
        state: the tree, if nothing else is saved.
        metrics: a step's metrics; None if the step has no metrics, or if this
            is not a step.
        is_step: whether this is a step of a training run, which uses the older
            layout.

    Raises:
        Exception: as for `save_checkpointables`.
    """

    def __init__(
        self,
        path: Any,
        checkpointables: Any,
        overwrite: bool,
        custom_metadata: Any,
        state: Any = _NO_STATE,
        *,
        metrics: Any | None = None,
        is_step: bool = False,
    ) -> None:
        context = get_context()
        self._path = path
        self._context = context
        self._is_step = is_step
        self._operation = start(context, path, is_save=True)
        with self._operation.ended_by_failure():
            if state is not _NO_STATE:
                check_state(state)
            check_names(checkpointables)
            self._items: dict[str, Any] = dict(checkpointables)
            if metrics:
                text = json_text(metrics, METRICS_NAME)
                self._items[METRICS_NAME] = json.loads(text)
            self._path = path_of(context.file, path)
            self._destination = Destination(
                self._path, overwrite, context, self._operation, is_step
            )
            self._checks_first = not context.file.skip_sync_file_validations
            self._makes_directories_later = (
                context.asynchronous.create_directories_asynchronously
            )
            self._metadata = _metadata_json(custom_metadata)

    def run(self) -> None:
        """Saves, and returns when the save has ended."""
        # Orbax saves steps with its AsyncCheckpointer.
        told = self._told(is_async=self._is_step)
        prepared = self._prepare()
        told.blocked()
        self._write(told, *prepared)
        told.done()

    def _told(self, *, is_async: bool) -> MonitoredOperation:
        """Reports the start of the save to jax's listeners."""
        told = MonitoredOperation(
            self._path,
            is_save=True,
            is_async=is_async,
            primary_host=self._context.multiprocessing.primary_host,
        )
        told.begun()
        return told

    def start(self, then: Callable[[], T]) -> BackgroundResponse[T]:
        """Prepares the save, and writes in a thread.

        Args:
            then: called in that thread once the checkpoint exists.
        """
        told = self._told(is_async=True)
        with background(self._context.memory.deepcopy_host_arrays):
            handlers_json, awaitables = self._prepare()
        told.blocked()

        def run(is_cancelled: Callable[[], bool]) -> T:
            with cancellable(is_cancelled):
                self._write(told, handlers_json, awaitables)
            told.done()
            result = then()
            callback = self._context.asynchronous.post_finalization_callback
            if callback is not None:
                callback()
            return result

        return BackgroundResponse(run, what=f"save to {self._path}")

    def _prepare(self) -> tuple[str, list[Awaitable[None]]]:
        """Does everything that may fail early; returns the remaining work."""
        operation = self._operation
        with operation.phase(f"{_PLACES}:maybe_overwrite_existing:pre"):
            if self._checks_first:
                self._destination.check_absent()
            layout = self._context.checkpoint_layout
            # Orbax's Checkpointer saves its steps with any layout option.
            if layout is CheckpointLayout.SAFETENSORS and not self._is_step:
                raise NotImplementedError(
                    "Saving to Safetensors format is not supported yet."
                )
            handlers = _handlers(self._items, self._context)
        with self._destination.removed_on_failure(), saving(operation):
            if operation.processes.has_others:
                self._destination.begin_together(self._items)
            elif not self._makes_directories_later:
                self._destination.begin()
            with operation.ended_by_failure():
                with self._regulated():
                    awaitables = run_sync(self._call_handlers(handlers))
        typestrs = {k: recorded_name(type(h)) for k, h in handlers.items()}
        return json.dumps(typestrs), awaitables

    def _regulated(self) -> contextlib.AbstractContextManager[Any]:
        """Lets a regulator choose the limit of this save, and measure it."""
        memory = self._context.memory
        if memory.regulator_options is None:
            return contextlib.nullcontext()
        return memory.regulator_options.regulator.regulate(
            expected_surge_bytes=memory.expected_surge_bytes
        )

    async def _call_handlers(
        self, handlers: dict[str, Any]
    ) -> list[Awaitable[None]]:
        awaitables: list[Awaitable[None]] = []
        try:
            for name, handler in handlers.items():
                directory = self._destination.item(name)
                awaitable = await handler.save(directory, self._items[name])
                awaitables.append(awaitable)
        except BaseException:
            close_all(awaitables)
            raise
        return awaitables

    def _write(
        self,
        told: MonitoredOperation,
        handlers_json: str,
        awaitables: list[Awaitable[None]],
    ) -> None:
        async def write_all() -> None:
            for awaitable in awaitables:
                await awaitable

        operation = self._operation
        try:
            with self._destination.removed_on_failure(), saving(operation):
                with operation.phase(f"{_PLACES}:finalize"):
                    with timed(
                        "/jax/orbax/write/directory_creation_secs",
                        "/jax/orbax/write/async_directory_creation_secs",
                        "/jax/orbax/write/background_directory_creation_secs",
                    ):
                        self._destination.begin()
                    run_sync(write_all())
                    check_cancelled()
                    self._destination.commit(handlers_json, self._metadata)
                    record_saved_duration(told.start_time)
        finally:
            close_all(awaitables)


def _handlers(items: dict[str, Any], context: Context) -> dict[str, Any]:
    registry = context.checkpointables.registry
    return {
        name: _registry.resolve_for_save(registry, value, name)
        for name, value in items.items()
    }


def check_names(checkpointables: Any) -> None:
    """Checks the names of the checkpointables.

    Raises:
        ValueError: `checkpointables` is not a dict, is empty, or has an invalid
            name.
        TypeError: a name is not a str.
    """
    if not checkpointables or not isinstance(checkpointables, dict):
        raise ValueError(
            "`checkpointables` must be a valid dict of checkpointable names to "
            "desired checkpointables to save, but got "
            f"{type(checkpointables)}"
        )
    check_item_names(checkpointables, "save_checkpointables")
    for name in checkpointables:
        if not isinstance(name, str):
            raise TypeError(f"Expected PathLike, got {type(name)}.")
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError(
                f"checkpointable name {name!r} cannot be a directory's name"
            )


def _metadata_json(custom_metadata: Any) -> str:
    """Returns the user's metadata as JSON text; "" for None.

    Raises:
        ValueError: the metadata is not a dict with str keys.
        TypeError: `json` does not accept the metadata.
    """
    checked = check_json_object(custom_metadata)
    return json_text(checked, "custom_metadata") if checked else ""
