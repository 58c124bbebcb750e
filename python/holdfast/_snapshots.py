"""Where a background save keeps tensors that the program may change.

A torch tensor on a CUDA device is copied on its device if there is room, which
takes milliseconds, and else to the host. Host arrays are always copied in host
memory, by the engine. jax.Arrays never change, so they are kept by reference.
"""

from __future__ import annotations

from typing import Any, Literal

from holdfast import _engine, errors
from holdfast._lazy import importing
from holdfast._stats import human_bytes

__all__ = ["SnapshotMode", "Snapshots"]

SnapshotMode = Literal["auto", "device", "host"]

# The share of a device's memory, and of the host's available memory, that
# copies never take.
_DEVICE_RESERVE = 1 / 20
_HOST_RESERVE = 1 / 2


class Snapshots:
    """The copies for one save. Call its functions for each leaf, in any order.

    Attributes:
      mode: where copies of arrays on devices go: "device", "host", or "auto",
        which prefers the device.
      must_wait: some tensors fitted nowhere and were not copied, so the save
        must end before the program continues.
    """

    def __init__(self, mode: SnapshotMode = "auto") -> None:
        """Raises InvalidArgumentError for an unknown mode."""
        if mode not in ("auto", "device", "host"):
            raise errors.InvalidArgumentError(
                f"snapshot: got {mode!r}, want 'auto', 'device' or 'host'"
            )
        self.mode = mode
        self.must_wait = False
        self._device_rooms: dict[Any, int] = {}
        # The copies on devices, so that tied tensors are copied once.
        self._copies: dict[Any, Any] = {}
        self._host_room: int | None = None

    def of_tensor(self, tensor: Any, name: str) -> tuple[Any, bool]:
        """Returns a CUDA tensor to be saved, and whether the program cannot
        change it: a copy on the device, or the tensor itself.

        If the program can change it, the engine must copy it to the host.
        Raises ResourceExhaustedError, naming the leaf, if `mode` is "device"
        and the device has no room.
        """
        byte_count = tensor.numel() * tensor.element_size()
        if self.mode != "host":
            copy = self._copy_on_device(tensor, byte_count)
            if copy is not None:
                return copy, True
        if self.mode == "device":
            raise errors.ResourceExhaustedError(
                f"leaf {name!r}: {tensor.device} has no room for a copy of"
                f" {human_bytes(byte_count)}, because the program may need the"
                ' rest; pass snapshot="auto" to copy to the host instead'
            )
        self.must_wait = self.must_wait or not self._takes_host(byte_count)
        return tensor, self.must_wait

    def of_jax(self, array: Any) -> tuple[Any, bool]:
        """Returns a jax.Array to be saved, and whether the program cannot
        destroy it."""
        if self.mode == "device" and not array.is_deleted():
            with importing:
                import jax

            return jax.numpy.copy(array), True
        return array, self.mode == "auto"

    def _copy_on_device(self, tensor: Any, byte_count: int) -> Any | None:
        with importing:
            import torch

        place = (
            tensor.device,
            tensor.data_ptr(),
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
        )
        if place in self._copies:
            return self._copies[place]
        if tensor.device not in self._device_rooms:
            self._device_rooms[tensor.device] = _device_room(tensor.device)
        if byte_count > self._device_rooms[tensor.device]:
            return None
        try:
            copy = tensor.clone()
        except torch.cuda.OutOfMemoryError:  # the free memory is in pieces
            self._device_rooms[tensor.device] = 0
            return None
        self._device_rooms[tensor.device] -= byte_count
        self._copies[place] = copy
        return copy

    def _takes_host(self, byte_count: int) -> bool:
        """Reserves room in host memory; returns whether there is enough."""
        if self._host_room is None:
            self._host_room = int(
                _engine.available_host_bytes() * (1 - _HOST_RESERVE)
            )
        if byte_count > self._host_room:
            return False
        self._host_room -= byte_count
        return True


def _device_room(device: Any) -> int:
    """Returns how many bytes of a device torch can take, without those that the
    program has used at its peak and will probably need again."""
    with importing:
        import torch

    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    torch_bytes = free_bytes + torch.cuda.memory_reserved(device)
    peak_bytes = torch.cuda.max_memory_allocated(device)
    return int(torch_bytes - peak_bytes - total_bytes * _DEVICE_RESERVE)
