"""Executes leaf plans: one pass over the files for all leaves.

Memory for every result is allocated first; the engine then fills the results in
parallel and in file order.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from typing import Any

import numpy as np

from holdfast import _engine
from holdfast._buffers import Buffer, Request, read
from holdfast._dtypes import numpy_dtype
from holdfast._log import log
from holdfast._target_leaves import put_all
from holdfast.orbax._compat.errors import as_builtin, reading, reading_error
from holdfast.orbax._devices import placement as _placement
from holdfast.orbax._devices.optional_jax import is_prng_key_dtype
from holdfast.orbax._devices.sharding_file import ShardingFile
from holdfast.orbax._leaves.files import budget_options
from holdfast.orbax._leaves.limits import ByteLimiter
from holdfast.orbax._leaves.plan import Kind, LeafPlan
from holdfast.orbax._restore.source import STRINGS_FILE, StoredLeaf
from holdfast.orbax.metadata import sharding as sharding_metadata

_NO_SHARDING_WARNING = (
    "Sharding info not provided when restoring. Populating sharding info from"
    " sharding file. Please note restoration time will be slightly increased"
    " due to reading from file. Note also that this option is unsafe when"
    " restoring on a different topology than the checkpoint was saved with."
)


@dataclasses.dataclass(frozen=True)
class ArraysAt:
    """Where to look for arrays; also used in messages.

    Attributes:
        path: the item's directory.
        use_ocdbt: whether the arrays are in a database there; None follows
            `_METADATA`.
        metadata_key: name of an array's metadata file.
        byte_limiter: limits the bytes being read; None means the engine's
            budget.
    """

    path: str
    use_ocdbt: bool | None
    metadata_key: str
    byte_limiter: ByteLimiter | None = None


def read_leaves(plans: list[LeafPlan], arrays_at: ArraysAt) -> list[Any]:
    """Returns the value of each plan.

    Args:
        plans: n plans.
        arrays_at: where the arrays of all plans are.

    Returns:
        n values: numpy arrays, scalars, jax.Arrays, strings.

    Raises:
        ValueError: a leaf cannot be read as requested.
        FileNotFoundError: files of an array are missing.
    """
    return _Reader(arrays_at).read(plans)


class _Reader:
    """The memory, requests and caches of one call of `read_leaves`."""

    def __init__(self, arrays_at: ArraysAt) -> None:
        self._arrays_at = arrays_at
        # The checkpoint of all plans.
        self._checkpoint: Any = None
        # The buffers to fill, each with its leaf's index.
        self._requests: list[Request] = []
        # The arrays to read completely: (leaf index, dtype) by plan index.
        self._wholes: dict[int, tuple[int, Any]] = {}
        self._sharding_file = ShardingFile(arrays_at.path)
        self._shardings: dict[str, Any] = {}
        self._has_warned = False

    def read(self, plans: list[LeafPlan]) -> list[Any]:
        # Raise errors in Orbax's order: missing leaves first, then shapes that
        # cannot be divided, then shapes that do not match.
        if self._arrays_at.use_ocdbt is not True:
            for plan in plans:
                if plan.kind in (Kind.NUMPY, Kind.SCALAR):
                    self._array_leaf(plan)
        is_jax = [plan.kind is Kind.JAX for plan in plans]
        shardings = [
            self._sharding_of(plan) if jax else None
            for plan, jax in zip(plans, is_jax, strict=True)
        ]
        placements = [
            self._place_leaf(plan, sharding) if jax else None
            for plan, sharding, jax in zip(
                plans, shardings, is_jax, strict=True
            )
        ]
        values = [plan.value for plan in plans]
        for i, (plan, placement) in enumerate(
            zip(plans, placements, strict=True)
        ):
            if plan.kind is Kind.STRING:
                values[i] = self._read_string(plan)
            elif placement is not None:
                self._request_boxes(plan, placement)
            elif plan.kind is not Kind.VALUE:
                self._request_whole(i, plan)
        self._fill(plans, values)
        put_all([each for each in placements if each is not None])
        for i, placement in enumerate(placements):
            if placement is not None:
                values[i] = placement.finish()
        return values

    def _fill(self, plans: list[LeafPlan], values: list[Any]) -> None:
        """Fills the requested buffers, and puts complete arrays into `values`.
        """
        budget = budget_options(self._arrays_at.byte_limiter)
        arrays: list[Any] = []
        with reading():
            if self._requests:
                read(self._checkpoint, self._requests, None, **budget)
            if self._wholes:
                arrays = self._checkpoint.read_leaves(
                    list(self._wholes.values()), **budget
                )
        for i, array in zip(self._wholes, arrays, strict=True):
            values[i] = array
            if plans[i].kind is Kind.SCALAR:
                values[i] = _as_scalar(array, plans[i].args.restore_type)

    def _read_string(self, plan: LeafPlan) -> str:
        stored = plan.stored
        if stored is not None and stored.info.kind == "string":
            if stored.info.problem is None:
                return str(stored.checkpoint.read(stored.index))
        place = (self._arrays_at.path, plan.name)
        with reading():
            return _engine.deserialize_strings(STRINGS_FILE, [place])[0]

    def _array_leaf(self, plan: LeafPlan) -> StoredLeaf:
        """Returns the stored leaf of an array's plan.

        Raises:
            FileNotFoundError: the array's directory or metadata file is
                missing.
            ValueError: the array cannot be opened.
        """
        stored = plan.stored
        problem = None if stored is None else stored.info.problem
        if stored is not None and problem is None:
            if stored.info.dtype is not None:
                return stored
        where = self._arrays_at
        with as_builtin():
            _engine.explain_missing_array(
                where.path,
                plan.name,
                where.metadata_key,
                where.use_ocdbt,
                problem,
            )
        assert problem is not None
        raise reading_error(problem) from problem

    def _request(self, stored: StoredLeaf, buffer: Buffer) -> None:
        if math.prod(buffer.shape) > 0:
            self._checkpoint = stored.checkpoint
            self._requests.append((stored.index, buffer))

    def _request_whole(self, i: int, plan: LeafPlan) -> None:
        stored = self._array_leaf(plan)
        wanted = plan.args.dtype
        dtype = None if wanted is None else _dtype(stored, wanted)
        self._checkpoint = stored.checkpoint
        self._wholes[i] = stored.index, dtype

    def _place_leaf(self, plan: LeafPlan, sharding: Any) -> Any:
        stored = self._array_leaf(plan)
        wanted = getattr(plan.args, "global_shape", None)
        wanted, sharding = _placement.physical_request(
            wanted, plan.args.dtype, sharding
        )
        shape = tuple(stored.info.shape if wanted is None else wanted)
        dtype = _dtype(stored, plan.args.dtype)
        return _placement.place(
            sharding, shape, dtype, stored.info.prng_impl or None
        )

    def _request_boxes(self, plan: LeafPlan, placement: Any) -> None:
        stored = self._array_leaf(plan)
        shape = tuple(stored.info.shape)
        strict = getattr(plan.args, "strict", True)
        _placement.check_shape(placement, shape, strict)
        if placement.shape == shape:
            self._checkpoint = stored.checkpoint
            self._requests += placement.requests(
                stored.index, takes_devices=True
            )
            return
        for buffer in placement.buffers.values():
            buffer.take(np.zeros(buffer.shape, buffer.dtype))
            part = _placement.stored_part(buffer, shape)
            if part is not None:
                inside = buffer.array[tuple(slice(extent) for extent in part)]
                self._request(
                    stored, Buffer(buffer.origin, part, buffer.dtype, inside)
                )

    def _sharding_of(self, plan: LeafPlan) -> Any:
        """Returns the jax Sharding or Format for a leaf.

        Returns None if the recorded sharding is unusable.

        Raises:
            ValueError: a sharding is neither given nor recorded.
        """
        requested = _placement.requested_sharding(plan.args)
        if requested is not None:
            return requested
        text = self._recorded_sharding(plan)
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(_NO_SHARDING_WARNING, stacklevel=2)
        if text not in self._shardings:
            self._shardings[text] = _parse_sharding(text)
        return self._shardings[text]

    def _recorded_sharding(self, plan: LeafPlan) -> str:
        if plan.stored is not None and plan.stored.info.sharding_json:
            return str(plan.stored.info.sharding_json)
        if not self._sharding_file.exists:
            raise ValueError(
                "Sharding of jax.Array cannot be None. Provide `mesh` and"
                " `mesh_axes` OR `sharding`"
            )
        return self._sharding_file[plan.name]


def _as_scalar(array: np.ndarray[Any, Any], convert: Any) -> Any:
    """Returns a Python number, or the result of `convert`.

    Raises:
        ValueError: the array has dimensions.
    """
    if array.ndim != 0:
        raise ValueError("Restored result is not a scalar.")
    return convert(array.item()) if convert else array.item()


def _parse_sharding(text: str) -> Any | None:
    """Returns the recorded sharding; logs and returns None if unusable."""
    if not text:
        return None
    try:
        return sharding_metadata.from_serialized_string(text).to_jax_sharding()
    except ValueError as error:
        log.error(error)
        return None


def _dtype(stored: StoredLeaf, wanted: Any) -> np.dtype[Any]:
    """Returns the dtype of a leaf's result.

    Raises:
        ImportError: the stored dtype needs ml_dtypes, which is not installed.
        ValueError: the cast is not possible.
    """
    if wanted is None or is_prng_key_dtype(wanted):
        return numpy_dtype(stored.info.dtype, stored.name)
    dtype: np.dtype[Any] = np.dtype(wanted)
    if dtype.kind == "b" and stored.info.dtype in ("complex64", "complex128"):
        raise ValueError("Source does not support reading.")
    return dtype
