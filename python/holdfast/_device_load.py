"""`holdfast.load(device=...)`: makes the target of a load that puts all arrays
on one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import _engine, _target, _torch_arrays, errors
from holdfast._lazy import importing
from holdfast._target_leaves import OnDevice

__all__ = ["device_of", "target_of"]


def device_of(arrays: str, device: Any) -> OnDevice:
    """Returns the target of every array.

    `device` is the library's own device, or its name: "cuda:1", "cpu".

    Raises InvalidArgumentError if `arrays` has no devices, or there is no such
    device.
    """
    if arrays == "torch":
        return OnDevice(arrays, _torch_device(device))
    if arrays == "jax":
        return OnDevice(arrays, _jax_device(device))
    raise errors.InvalidArgumentError(
        f"device: got {device!r} with arrays={arrays!r}, which are in host"
        ' memory; want arrays="torch" or "jax"'
    )


def _torch_device(device: Any) -> Any:
    with importing:
        import torch

    try:
        return torch.empty(0, device=device).device  # with its index
    except (RuntimeError, AssertionError, TypeError) as error:
        raise errors.InvalidArgumentError(
            f"device: torch has no device {device!r}: {error}"
        ) from error


def _jax_device(device: Any) -> Any:
    with importing:
        import jax

    if isinstance(device, jax.Device):
        return device
    platform, _, index = str(device).partition(":")
    try:
        return jax.local_devices(backend=platform)[int(index or 0)]
    except (RuntimeError, ValueError, IndexError) as error:
        raise errors.InvalidArgumentError(
            f"device: jax has no device {device!r}: {error}"
        ) from error


def target_of(
    checkpoint: _engine.Checkpoint,
    select: Sequence[str] | None,
    on_device: OnDevice,
) -> Any:
    """Returns the target for the leaves that `select` names.

    Raises NotFoundError for a name that selects no leaf.
    """
    checkpoint.check_names(select or ())
    an_object = None
    if on_device.library == "torch":
        an_object = _torch_arrays.an_object()
    return _target.like_selected(
        checkpoint, select, lambda info: on_device, an_object
    )
