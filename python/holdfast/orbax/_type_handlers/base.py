"""TypeHandler and the registry's interface: how leaves of a type are stored."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from holdfast.orbax._compat.orbax_classes import stands_for_orbaxs
from holdfast.orbax._devices.optional_jax import is_jax_array
from holdfast.orbax._leaves.args import RestoreArgs, SaveArgs
from holdfast.orbax._leaves.param_info import ParamInfo, TransferPriority
from holdfast.orbax._trees.empty_values import is_supported_empty_value
from holdfast.orbax.options import (
    PYTREE_METADATA_OPTIONS,
    PyTreeMetadataOptions,
)


class CommitFuture(Protocol):
    """Work that has started and may still be running."""

    def result(self, timeout: float | None = None) -> Any:
        """Waits until the work has ended, and raises its error."""


@stands_for_orbaxs
class TypeHandler(abc.ABC):
    """Saves and restores the leaves of a type.

    Each call gets all leaves in a tree that the handler supports. Handlers that
    derive from Orbax's class of the same name count as derived from this class.
    """

    @abc.abstractmethod
    def typestr(self) -> str:
        """Returns the unique type string in `_METADATA` for the type."""

    @abc.abstractmethod
    async def metadata(self, infos: Sequence[ParamInfo]) -> Sequence[Any]:
        """Describes stored parameters without reading their values.

        Args:
            infos: n parameters.

        Returns:
            n `metadata.value.Metadata`.
        """

    @abc.abstractmethod
    async def serialize(
        self,
        values: Sequence[Any],
        infos: Sequence[ParamInfo],
        args: Sequence[SaveArgs] | None = None,
    ) -> Sequence[CommitFuture]:
        """Captures the values as far as needed, and starts to write them.

        Args:
            values: n leaves.
            infos: n parameters.
            args: n arguments from the caller.

        Returns:
            Futures; when all have ended, everything is written.
        """

    @abc.abstractmethod
    async def deserialize(
        self,
        infos: Sequence[ParamInfo],
        args: Sequence[RestoreArgs] | None = None,
    ) -> Sequence[Any]:
        """Reads parameters.

        Args:
            infos: n parameters.
            args: n arguments from the caller.

        Returns:
            n leaves.
        """

    def finalize(self, directory: Any) -> None:  # noqa: B027
        """Does nothing; called after all handlers have written everything.

        Args:
            directory: `parent_dir` of the parameters.
        """

    def memory_size(self, values: Sequence[Any]) -> Sequence[tuple[int, int]]:
        """Returns (bytes written, bytes read) of each value, for measurements.

        Raises:
            NotImplementedError: the handler does not support this.
        """
        raise NotImplementedError


class TypeHandlerRegistry(Protocol):
    """The handlers of types; the first match is used."""

    def add(
        self,
        ty: Any,
        handler: TypeHandler,
        func: Callable[[Any], bool] | None = None,
        override: bool = False,
        ignore_warnings: bool = False,
    ) -> None:
        """Registers a handler; see `register_type_handler`."""

    def get(self, ty: Any) -> TypeHandler:
        """Returns the handler of a type or type string.

        Raises:
            ValueError: no handler supports the type.
        """

    def has(self, ty: Any) -> bool:
        """Returns whether a type or type string has a handler."""


class SerializationStatusCallback(Protocol):
    """Notified about each array during a save; may be called from any
    thread."""

    def key_priority(self, keypath: Any) -> TransferPriority:
        """Returns the priority of the array at `keypath`."""

    def on_transfer_start(self, keypath: Any) -> None:
        """Reserved; not called."""

    def on_transfer_end(self, keypath: Any) -> None:
        """Called when the array is in host memory."""

    def on_write_start(self, keypath: Any) -> None:
        """Reserved; not called."""

    def on_write_end(self, keypath: Any) -> None:
        """Called when the array is written."""


def check_input_arguments(*args: Sequence[Any]) -> None:
    """Checks the sequences that were passed to a handler.

    Raises:
        ValueError: the first sequence is empty, or lengths differ.
    """
    length: int | None = None
    for arg in args:
        if length == 0:
            raise ValueError("Cannot pass TypeHandler input of length 0.")
        if length is None:
            length = len(arg)
        elif len(arg) != length:
            raise ValueError("Found input args with mismatched lengths.")


def is_supported_type(
    value: Any,
    pytree_metadata_options: PyTreeMetadataOptions = PYTREE_METADATA_OPTIONS,
) -> bool:
    """Returns whether `value` can be a leaf of a saved tree without additional
    handlers."""
    kinds = (str, int, float, np.number, np.ndarray, bytes)
    return (
        isinstance(value, kinds)
        or is_jax_array(value)
        or is_supported_empty_value(value, pytree_metadata_options)
    )


def check_array_values(values: Sequence[Any], infos: Sequence[Any]) -> None:
    """Refuses arrays without elements.

    Raises:
        ValueError: an array has no elements; the error names the first.
    """
    for value, info in zip(values, infos, strict=True):
        check_has_elements(value, info.name, info.value_typestr)


def check_has_elements(array: Any, name: str, typestr: str | None) -> None:
    """Refuses an array without elements.

    Raises:
        ValueError: the array has no elements; the error names the parameter and
            its handler's type string.
    """
    if array.size == 0:
        raise ValueError(
            "Cannot save arrays with zero size: ParamInfo:"
            f" [name={name},value_typestr={typestr}]"
        )
