"""StorageWriter: saves in Orbax's format, for torch.distributed.checkpoint.

Every rank writes its own parts of the tensors into one temporary directory with
`_engine.save_item_part`. When all ranks are done, the coordinator adds the
description of the tree, checks that every chunk exists exactly once, and
renames the directory. Ranks communicate only through torch's own plans and
results.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta
from torch.distributed.checkpoint.planner import SavePlan, SavePlanner
from torch.distributed.checkpoint.storage import WriteResult
from torch.futures import Future

from holdfast import _engine, _files, errors
from holdfast._json_values import json_text
from holdfast.torch._chunks import write_shapes
from holdfast.torch._parts import Part, RankPlan, Summary
from holdfast.torch._sidecar import sidecar_of

__all__ = ["StorageWriter"]

PathLike = str | os.PathLike[str]

_TEMPORARY_SUFFIX = ".orbax-checkpoint-tmp"
# The name that torch.distributed.checkpoint uses. Programs such as torchtitan
# look for it to find their steps. torch's own reader fails at the first byte.
_MARK_NAME = ".metadata"
_MARK = (
    b"An Orbax checkpoint, written by holdfast.torch.StorageWriter;"
    b" read it with holdfast.torch.StorageReader, holdfast.load or Orbax.\n"
)
_HANDLER = (
    "orbax.checkpoint._src.handlers.pytree_checkpoint_handler."
    "PyTreeCheckpointHandler"
)


@dataclasses.dataclass(frozen=True)
class _LocalPlan:
    """A rank's message to the coordinator."""

    path: str


class StorageWriter(dcp.StorageWriter):  # type: ignore[misc]
    """Writes an Orbax checkpoint for `torch.distributed.checkpoint.save`.

    The checkpoint appears at its path when every rank has written its parts:
    complete, or not at all. Until then an old checkpoint stays there. Files of
    other programs in the directory (Lightning's `meta.pt`) are kept. Tensors
    become plain, complete arrays, however they are spread over the ranks. None,
    bool, int, float, str and lists of them become leaves of those kinds. Any
    other object is stored as a torch.save file in an array of bytes (uint8, one
    axis).

    The directory also contains a file `.metadata` with a note, because programs
    look for that name to find the checkpoints of torch's own writer.

    All ranks must see the same file system. A writer makes one save at a time.
    It can be reused, with `checkpoint_id` for a different path.
    """

    def __init__(
        self,
        path: PathLike | None = None,
        *,
        overwrite: bool = True,
        zarr_format: int = 2,
        ocdbt: bool = True,
        compression: str | None = "planes",
        chunk_bytes: int = 8 << 20,
        data_file_bytes: int | None = None,
        custom_metadata: Mapping[str, Any] | None = None,
        threads: int | None = None,
        memory_bytes: int | None = None,
        durable: bool = True,
    ) -> None:
        """Stores the options, which are the same on all ranks; see
        `holdfast.save`.

        Args:
          path: the directory to create, which may exist if it is empty; None
            means the `checkpoint_id` of each save.
          overwrite: replace the checkpoint at the path once the new one is
            complete. If False, raise an error if a checkpoint exists.
          zarr_format: 2 or 3.
          ocdbt: store all arrays in one database. If False, each array gets
            its own directory.
          compression: as for `holdfast.save`.
          chunk_bytes: larger parts are split into chunks of about this many
            bytes.
          data_file_bytes: a data file is closed when it reaches this size; 0
            means never. None means 2 GiB, or 400 MiB in buckets.
          custom_metadata: a JSON object stored next to the tree.
          threads: threads of this rank; None means one per CPU.
          memory_bytes: the most bytes in flight between memory and disk on this
            rank; None means 256 MiB.
          durable: wait until everything is on disk.

        Raises:
          TypeError: `custom_metadata` is not a JSON object.
        """
        super().__init__()
        self._path = None if path is None else _files.abspath(os.fspath(path))
        self._overwrite = overwrite
        self._custom_metadata = (
            ""
            if custom_metadata is None
            else json_text(dict(custom_metadata), "custom_metadata")
        )
        self._options: dict[str, Any] = {
            "zarr_format": zarr_format,
            "use_ocdbt": ocdbt,
            "compression": compression,
            "chunk_bytes": chunk_bytes,
            "sync": durable,
            "threads": 0 if threads is None else threads,
        }
        if memory_bytes is not None:
            self._options["memory_bytes"] = memory_bytes
        self._data_file_bytes = data_file_bytes
        self._save_id = str(uuid.uuid4())
        # Set on the coordinator while a save is running.
        self._pending: _engine.PendingSave | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without a running save, which belongs to this
        process."""
        return {**self.__dict__, "_pending": None}

    def _engine_options(self) -> dict[str, Any]:
        """Returns the options for the current path, which may change."""
        assert self._path is not None
        data_file_bytes = self._data_file_bytes
        if data_file_bytes is None:
            data_file_bytes = _files.data_file_bytes(self._path)
        return {
            **self._options,
            "ocdbt_target_data_file_bytes": data_file_bytes,
        }

    @property
    def checkpoint_id(self) -> str | None:
        """The absolute path of the checkpoint."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        """Returns whether `checkpoint_id` is a path, or a URL with a known
        scheme."""
        return _files.is_known(checkpoint_id)

    def storage_meta(self) -> Any:
        """Returns torch's StorageMeta: the path, and an id of this save."""
        return StorageMeta(checkpoint_id=self._path, save_id=self._save_id)

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        """Starts over, at a new path if one is given.

        Removes the temporary directory of a save that failed.
        """
        self._discard()
        if checkpoint_id is not None:
            self._path = _files.abspath(os.fspath(checkpoint_id))
        self._save_id = str(uuid.uuid4())

    def set_up_storage_writer(
        self, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """Checks that there is a path, and that ranks can write together.

        Raises:
          InvalidArgumentError: there is no path.
          UnimplementedError: the save does not use collectives.
        """
        self._discard()
        if self._path is None:
            raise errors.InvalidArgumentError(
                "holdfast.torch.StorageWriter: no path; give one to it, or"
                " checkpoint_id to save()"
            )
        if not kwargs.get("use_collectives", True):
            raise errors.UnimplementedError(
                f"{self._path}: use_collectives=False makes one checkpoint"
                " per rank, which Orbax's format does not support; save with"
                " use_collectives=True"
            )

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Adds the path that this rank writes to, for the coordinator."""
        assert self._path is not None
        return dataclasses.replace(plan, storage_data=_LocalPlan(self._path))

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Creates the temporary directory, and tells each rank how to cut
        tensors.

        Raises:
          AlreadyExistsError: the path exists and `overwrite` is False.
          FailedPreconditionError: the path contains something other than a
            checkpoint, or ranks save to different paths (the error names them).
          InvalidArgumentError: a tensor is spread too unevenly.
        """
        assert self._path is not None
        self._check_paths(plans)
        plans = _whole_plans(plans)
        shapes = write_shapes(plans)
        self._pending = _engine.PendingSave(
            self._path,
            overwrite=self._overwrite,
            sync=self._options["sync"],
            takes_empty_directory=True,
            keeps_other_files=True,
        )
        return [
            dataclasses.replace(
                plan, storage_data=RankPlan(rank, _needed(shapes, plan))
            )
            for rank, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[Any]:
        """Writes this rank's parts.

        Returns:
          A finished future with a WriteResult for each item.

        Raises:
          InvalidArgumentError: a tensor cannot be saved; the error names it.
          FailedPreconditionError: this rank does not see the coordinator's
            directory, or the plan was made by a different writer.
          ResourceExhaustedError, PermissionDeniedError: the disk is full, or
            the system refused access.
        """
        future: Future[list[WriteResult]] = Future()
        try:
            future.set_result(self._write(plan, planner))
        except BaseException:
            self._discard()
            raise
        return future

    def _write(self, plan: SavePlan, planner: SavePlanner) -> list[WriteResult]:
        assert self._path is not None
        note = plan.storage_data
        if not isinstance(note, RankPlan):
            raise errors.FailedPreconditionError(
                f"{self._path}: the planner's plan is from another writer"
                f" ({type(note).__name__}); a planner that caches plans must be"
                " used with writers of one class only"
            )
        directory = self._path
        if not _files.is_url(directory):  # a bucket is written in place
            directory += _TEMPORARY_SUFFIX
        if not _files.isdir(directory):
            raise errors.FailedPreconditionError(
                f"{directory}: rank {note.rank} does not see the directory that"
                " the coordinator has made; all ranks must see the same disk"
            )
        part = Part(note)
        results = [part.add(item, planner) for item in plan.items]
        if part.has_arrays:
            _engine.save_item_part(
                directory,
                part.tree(),
                rank=note.rank,
                is_primary=False,
                **self._engine_options(),
            )
        return results

    def finish(
        self, metadata: Metadata, results: list[list[WriteResult]]
    ) -> None:
        """Makes the checkpoint from the parts that all ranks have written.

        `metadata` gets this writer's `storage_meta`.

        Raises:
          InvalidArgumentError: no tree can have these names.
          FailedPreconditionError: parts of tensors are missing, or ranks have
            cut tensors differently; the error names them.
        """
        assert self._pending is not None
        pending, self._pending = self._pending, None
        with pending:
            summary = Summary(metadata, results)
            rank = len(results)  # for the coordinator's own part
            _engine.save_item_part(
                pending.directory,
                summary.tree(),
                rank=rank,
                is_primary=True,
                item_documents=sidecar_of(summary.objects(), summary.tuples()),
                **self._engine_options(),
            )
            _engine.finish_item(
                pending.directory,
                ranks=[*summary.ranks, rank],
                use_ocdbt=self._options["use_ocdbt"],
                sync=self._options["sync"],
                has_own_trees=True,
            )
            pending.adopt_item()
            pending.write_file(_MARK_NAME, _MARK)
            pending.commit(
                item_handlers_json=json.dumps(_HANDLER),
                custom_metadata=self._custom_metadata,
            )
        metadata.storage_data = {}
        metadata.storage_meta = self.storage_meta()

    def _check_paths(self, plans: Sequence[SavePlan]) -> None:
        for rank, plan in enumerate(plans):
            note = plan.storage_data
            if isinstance(note, _LocalPlan) and note.path != self._path:
                raise errors.FailedPreconditionError(
                    f"save to {self._path}: rank {rank} saves to another path"
                    f" ({note.path})"
                )

    def _discard(self) -> None:
        if self._pending is not None:
            self._pending.discard()
            self._pending = None


def _whole_plans(plans: list[SavePlan]) -> list[SavePlan]:
    """Fills in the plans of ranks that only say "unchanged".

    A planner that caches plans omits unchanged plans. How tensors are cut
    depends on all plans. So if some have changed, all ranks get complete plans.
    """
    usable = [getattr(plan, "usable", True) for plan in plans]
    if all(usable) or not any(usable):
        return plans
    cached: Mapping[Any, list[SavePlan]] = getattr(
        SavePlanner, "_cached_global_plan", {}
    )
    for candidate in cached.values():
        if len(candidate) == len(plans) and all(
            plan is other or not is_new
            for plan, other, is_new in zip(
                plans, candidate, usable, strict=True
            )
        ):
            return list(candidate)
    return plans


def _needed(
    shapes: dict[str, tuple[int, ...]], plan: SavePlan
) -> dict[str, tuple[int, ...]]:
    names = {item.index.fqn for item in plan.items}
    return {name: shape for name, shape in shapes.items() if name in names}
