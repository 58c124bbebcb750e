"""StorageReader: loads everything that holdfast opens, for
torch.distributed.checkpoint.

Each tensor is presented as one chunk, so a rank's plan has one box per tensor.
The engine reads the box with all threads and every stored chunk once, directly
into the caller's memory if possible.
"""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from torch.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
)
from torch.futures import Future

from holdfast import _dtypes, _engine, _files, _torch_arrays, errors
from holdfast._run_options import run_options
from holdfast.torch._catalogue import (
    Catalogue,
    Entry,
    ObjectFile,
    catalogue_of,
)
from holdfast.torch._objects import check_harmless, file_of

__all__ = ["StorageReader"]

PathLike = str | os.PathLike[str]
NumpyArray = np.ndarray[Any, np.dtype[Any]]



class StorageReader(dcp.StorageReader):  # type: ignore[misc]
    """Loads everything that `holdfast.open` opens, for
    `torch.distributed.checkpoint.load`.

    It reads Orbax and holdfast checkpoints of any layout and origin, and the
    other formats. Names are the keys that lead to a leaf, joined with dots.
    Arrays are tensors. A list without arrays or dicts below it is one value, as
    in torch. Every other leaf is a value: None, bool, int, float, str, or an
    object that holdfast.torch.StorageWriter has stored. If torch has no value
    for a leaf (such as a 4-bit dtype), requesting the leaf raises an error.

    Each rank, of any number of ranks, reads the parts that its tensors need,
    and checks their checksums. If a tensor's dtype differs from the stored
    dtype, its elements are converted as by torch's `copy_`. A reader can be
    reused, with `checkpoint_id` for a different path; each load opens the files
    again.
    """

    def __init__(
        self,
        path: PathLike | None = None,
        *,
        step: int | None = None,
        item: str | None = None,
        verify: bool = True,
        weights_only: bool = True,
        threads: int | None = None,
        memory_bytes: int | None = None,
    ) -> None:
        """Stores the options; reads nothing yet.

        Args:
          path: as for `holdfast.open`; None means the `checkpoint_id` of each
            load.
          step: the step of a manager's directory; None means the newest.
          item: the item of a composite checkpoint; None means all items, each
            below its name.
          verify: check the checksums of the bytes that are read.
          weights_only: refuse Python objects other than containers, numbers,
            tensors and BytesIOs. torch's planners load objects with
            `torch.load(weights_only=False)`, which runs code from the file.
          threads: threads of this rank; None means one per CPU.
          memory_bytes: the most bytes in flight between disk and memory on this
            rank; None means 256 MiB.
        """
        super().__init__()
        self._path = None if path is None else _files.abspath(os.fspath(path))
        self._step = step
        self._item = item
        self._verify = verify
        self._weights_only = weights_only
        self._options: dict[str, Any] = run_options(threads, memory_bytes)
        self._load_id = str(uuid.uuid4())
        self._catalogue: Catalogue | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Returns the state without open files, which belong to this process.
        """
        return {**self.__dict__, "_catalogue": None}

    @property
    def checkpoint_id(self) -> str | None:
        """The absolute path of the checkpoint."""
        return self._path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: PathLike) -> bool:
        """Returns whether `checkpoint_id` is a path, or a URL with a known
        scheme."""
        return _files.is_known(checkpoint_id)

    def reset(self, checkpoint_id: PathLike | None = None) -> None:
        """Starts over, at a new path if one is given."""
        self._catalogue = None
        if checkpoint_id is not None:
            self._path = _files.abspath(os.fspath(checkpoint_id))
        self._load_id = str(uuid.uuid4())

    # Not **kwargs, or torch would also ask for each rank's own metadata.
    def read_metadata(self, *args: Any, **options: Any) -> Metadata:
        """Opens the checkpoint and returns torch's Metadata of its leaves.

        Raises:
          InvalidArgumentError: there is no path, or two leaves have the same
            name.
          NotFoundError: there is no checkpoint.
          DataLossError: its metadata is damaged.
        """
        if self._path is None:
            raise errors.InvalidArgumentError(
                "holdfast.torch.StorageReader: no path; give one to it, or"
                " checkpoint_id to load()"
            )
        self._catalogue = catalogue_of(
            _engine.Checkpoint(
                self._path,
                step=self._step,
                item=self._item or "",
                verify=self._verify,
            )
        )
        return Metadata(
            state_dict_metadata={
                name: _storage_of(entry)
                for name, entry in self._catalogue.entries.items()
            },
            planner_data={
                name: entry.path
                for name, entry in self._catalogue.entries.items()
            },
            storage_data={},
            storage_meta=StorageMeta(
                checkpoint_id=self._path, load_id=self._load_id
            ),
        )

    def set_up_storage_reader(
        self,
        metadata: Metadata,
        is_coordinator: bool,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        """Opens the checkpoint, unless `read_metadata` has opened it."""
        if self._catalogue is None:
            self.read_metadata()

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Returns the plan unchanged."""
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """Returns the plans unchanged: each rank reads by itself."""
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        """Reads the plan's items into the planner's tensors and values.

        Returns:
          A finished future of None.

        Raises:
          DataLossError: bytes are damaged; the error names tensor, file and
            offset.
          InvalidArgumentError: torch has no value for a leaf; the error names
            the leaf.
          PermissionDeniedError: weights_only refuses an object.
        """
        assert self._catalogue is not None
        values, tensors = [], []
        for item in plan.items:
            if item.type == LoadItemType.BYTE_IO:
                values.append(item)
            else:
                tensors.append(_Request(self._catalogue, item, planner))
        self._catalogue.read_numbers(item.storage_index.fqn for item in values)
        for item in values:
            self._load_value(item, planner)
        self._read(tensors)
        future: Future[None] = Future()
        future.set_result(None)
        return future

    def _load_value(self, item: ReadItem, planner: LoadPlanner) -> None:
        assert self._catalogue is not None
        name = item.storage_index.fqn
        value = self._catalogue.value(name)
        if not isinstance(value, ObjectFile):
            planner.load_bytes(item, file_of(value))
            return
        if self._weights_only:
            check_harmless(value.content, name)
        planner.load_bytes(item, value.open())

    def _read(self, requests: Sequence[_Request]) -> None:
        assert self._catalogue is not None
        for some in _within(
            requests, self._options["memory_bytes"]
        ):
            self._catalogue.checkpoint.read_into(
                [r.engine_request for r in some if r.has_elements],
                **self._options,
            )
            for request in some:
                request.commit()


def _storage_of(entry: Entry) -> Any:
    if entry.tensor is None:
        return BytesStorageMetadata()
    dtype, shape = entry.tensor
    size = torch.Size(shape)
    return TensorStorageMetadata(
        TensorProperties(dtype=getattr(torch, dtype)),
        size,
        [ChunkStorageMetadata(torch.Size([0] * len(shape)), size)],
    )


class _Request:
    """A box of a stored tensor, and the planner's tensor for it."""

    def __init__(
        self, catalogue: Catalogue, item: ReadItem, planner: LoadPlanner
    ) -> None:
        self._item = item
        self._planner = planner
        name = item.storage_index.fqn
        entry = catalogue.entries[name]
        assert entry.tensor is not None
        self._dtype = entry.tensor[0]
        self._target = planner.resolve_tensor(item).detach()
        self._shape = tuple(item.lengths)
        if tuple(self._target.shape) != self._shape:
            raise errors.InvalidArgumentError(
                f"leaf {name!r}: the planner has a tensor of shape"
                f" {tuple(self._target.shape)} for a box of {self._shape}"
            )
        chunk_origin = item.storage_index.offset or (0,) * len(self._shape)
        self._origin = tuple(
            start + offset
            for start, offset in zip(
                chunk_origin, item.storage_offsets, strict=True
            )
        )
        self._leaf = entry.leaf
        self._is_direct = _can_be_filled(self._target, self._dtype)
        self._staged: NumpyArray | None = None

    @property
    def has_elements(self) -> bool:
        return bool(math.prod(self._shape) > 0)

    @property
    def staged_bytes(self) -> int:
        """The bytes of memory that `engine_request` needs."""
        if self._is_direct:
            return 0
        dtype = _dtypes.numpy_dtype(self._dtype)
        return int(math.prod(self._shape) * dtype.itemsize)

    @property
    def engine_request(self) -> tuple[int, tuple[int, ...], NumpyArray]:
        assert self._leaf is not None
        if self._is_direct:
            array = _torch_arrays.as_numpy(self._target)
        else:
            dtype = _dtypes.numpy_dtype(self._dtype)
            array = self._staged = _engine.empty(self._shape, dtype)
        return self._leaf, self._origin, array

    def commit(self) -> None:
        """Copies the elements to the tensor, after the array was filled."""
        if self._staged is not None:
            self._target.copy_(
                _torch_arrays.tensor_on(self._staged, self._dtype)
            )
            self._staged = None
        self._planner.commit_tensor(self._item, self._target)


def _can_be_filled(target: Any, dtype: str) -> bool:
    """Returns whether the engine may write into the tensor's own memory."""
    return bool(
        type(target) in (torch.Tensor, torch.nn.Parameter)
        and target.device.type == "cpu"
        and target.layout is torch.strided
        and not target.is_quantized
        and not target.is_conj()
        and not target.is_neg()
        and _torch_arrays.dtype_name(target) == dtype
        and all(
            stride > 0 or extent <= 1
            for stride, extent in zip(
                target.stride(), target.shape, strict=True
            )
        )
    )


def _within(
    requests: Sequence[_Request], staged_bytes_max: int
) -> Iterator[list[_Request]]:
    """Splits requests into runs that stage at most `staged_bytes_max`, or that
    consist of one request."""
    some: list[_Request] = []
    staged_bytes = 0
    for request in requests:
        if some and staged_bytes + request.staged_bytes > staged_bytes_max:
            yield some
            some, staged_bytes = [], 0
        some.append(request)
        staged_bytes += request.staged_bytes
    if some:
        yield some
