"""PyTreeCheckpointer, and StandardCheckpointer, which saves in the background.

A background save uses a snapshot: once `save` has returned, the caller may
change every array in the tree.
"""

from __future__ import annotations

from typing import Any

from holdfast.orbax._checkpointer.base import Checkpointer
from holdfast.orbax._checkpointer.paths import PathLike
from holdfast.orbax.async_checkpointer import AsyncCheckpointer
from holdfast.orbax.options import (
    AsyncOptions,
    AtomicityOptions,
    FileOptions,
    MultiprocessingOptions,
)
from holdfast.orbax.pytree_checkpoint_handler import PyTreeCheckpointHandler
from holdfast.orbax.standard_checkpoint_handler import (
    StandardCheckpointHandler,
    StandardRestoreArgs,
    StandardSaveArgs,
)


class PyTreeCheckpointer(Checkpointer):
    """A `Checkpointer(PyTreeCheckpointHandler())`."""

    def __init__(
        self,
        primary_host: int | None = 0,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool | str = True,
    ) -> None:
        """Makes a checkpointer; see PyTreeCheckpointHandler."""
        options = MultiprocessingOptions(primary_host)
        super().__init__(
            PyTreeCheckpointHandler(
                use_ocdbt=use_ocdbt,
                use_zarr3=use_zarr3,
                use_compression=use_compression,
                multiprocessing_options=options,
            ),
            multiprocessing_options=options,
        )


class StandardCheckpointer(AsyncCheckpointer):
    """Saves trees of arrays and numbers in the background.

    Thread-safety: one call at a time.
    """

    def __init__(
        self,
        *,
        async_options: AsyncOptions | None = None,
        multiprocessing_options: MultiprocessingOptions | None = None,
        file_options: FileOptions | None = None,
        atomicity_options: AtomicityOptions | None = None,
        checkpoint_metadata_store: Any | None = None,
        temporary_path_class: Any | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes a checkpointer; see AsyncCheckpointer for the arguments.

        Args:
            **kwargs: arguments of StandardCheckpointHandler.
        """
        super().__init__(
            StandardCheckpointHandler(
                multiprocessing_options=multiprocessing_options, **kwargs
            ),
            async_options=async_options,
            multiprocessing_options=multiprocessing_options,
            file_options=file_options,
            atomicity_options=atomicity_options,
            checkpoint_metadata_store=checkpoint_metadata_store,
            temporary_path_class=temporary_path_class,
        )

    def save(  # type: ignore[override]
        self,
        directory: PathLike,
        state: Any,
        *,
        save_args: Any | None = None,
        force: bool = False,
        custom_metadata: dict[str, Any] | None = None,
    ) -> None:
        """Copies the state and starts to save it; waits for the previous save.

        Args:
            directory: absolute path of the new checkpoint.
            state: a tree of arrays and numbers.
            save_args: a tree like `state`, with SaveArgs as leaves.
            force: replace an existing checkpoint.
            custom_metadata: a JSON object for `_CHECKPOINT_METADATA`.

        Raises:
            ValueError: the destination exists, the path is relative, or the
                tree cannot be saved.
            Exception: any error from the previous save.
        """
        super().save(
            directory,
            args=StandardSaveArgs(state, save_args),
            force=force,
            custom_metadata=custom_metadata,
        )

    def restore(
        self,
        directory: PathLike,
        target: Any | None = None,
        *,
        strict: bool = True,
    ) -> Any:
        """Waits until a running save has ended, then restores a tree.

        Args:
            directory: the checkpoint's directory.
            target: a tree of arrays, numbers or jax.ShapeDtypeStruct that
                describes the result; None restores the tree as stored.
            strict: refuse shapes that differ from the stored shapes.

        Raises:
            FileNotFoundError: the directory does not exist.
            ValueError: the checkpoint was never committed, or the target does
                not match.
            Exception: any error from the running save.
        """
        return super().restore(
            directory, args=StandardRestoreArgs(target, strict=strict)
        )
