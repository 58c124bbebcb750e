"""Shardings as recorded in `_sharding`, without devices.

A metadata object converts to and from jax's shardings and JSON text; only
`to_jax_sharding` and `from_jax_sharding` need jax.
"""

from __future__ import annotations

import abc
import dataclasses
import json
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np

from holdfast._log import log
from holdfast.orbax._devices.optional_jax import (
    imported_jax,
    require_jax,
    single_device_sharding,
)

PartitionSpecElement: TypeAlias = None | str | tuple[str, ...]

_NAMED = "NamedSharding"
_SINGLE_DEVICE = "SingleDeviceSharding"
_POSITIONAL = "PositionalSharding"


@dataclasses.dataclass
class DeviceMetadata:
    """A device, identified by its id."""

    id: int

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceMetadata:
        """Makes the object from `{"id": N}`."""
        return cls(id=data["id"])

    @classmethod
    def from_jax_device(cls, device: Any) -> DeviceMetadata:
        """Makes the object from a jax.Device."""
        return cls(id=device.id)


def _map_mesh(fn: Any, mesh: Any) -> Any:
    if isinstance(mesh, list | tuple):
        return [_map_mesh(fn, part) for part in mesh]
    return fn(mesh)


@dataclasses.dataclass
class DeviceMetadataMesh:
    """Nested lists of `DeviceMetadata`, in the mesh's shape."""

    mesh: Sequence[Any]

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> DeviceMetadataMesh:
        """Makes the object from `{"mesh": [[{"id": 0}, ...], ...]}`."""
        return cls(mesh=_map_mesh(DeviceMetadata.from_dict, data["mesh"]))

    @classmethod
    def from_jax_mesh(cls, mesh: Any) -> DeviceMetadataMesh:
        """Makes the object from a jax.sharding.Mesh."""
        devices = mesh.devices.tolist()
        return cls(mesh=_map_mesh(DeviceMetadata.from_jax_device, devices))

    def to_jax_device_mesh(self) -> Any:
        """Returns nested lists of the jax devices with these ids.

        Raises:
            ValueError: a device with one of the ids does not exist.
        """
        jax = require_jax("a sharding over devices")
        available = jax.devices()
        device_of_id = {device.id: device for device in available}

        def find(device: DeviceMetadata) -> Any:
            if device.id in device_of_id:
                return device_of_id[device.id]
            raise ValueError(
                "The available devices are different from the devices used to"
                " save the checkpoint.  Please restore checkpoint by passing"
                f" new shardings for target devices. Original={self.mesh},"
                f" current available={available}"
            )

        return _map_mesh(find, self.mesh)


@dataclasses.dataclass
class ShardingMetadata(abc.ABC):
    """A recorded sharding: `NamedSharding` or `SingleDeviceSharding`."""

    @classmethod
    @abc.abstractmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> ShardingMetadata:
        """Makes the object from a jax sharding of the same kind."""

    @abc.abstractmethod
    def to_jax_sharding(self) -> Any:
        """Returns the jax sharding.

        Raises:
            ValueError: this process does not have these devices.
        """

    @classmethod
    @abc.abstractmethod
    def from_deserialized_dict(
        cls, deserialized_dict: dict[str, Any]
    ) -> ShardingMetadata:
        """Makes the object from the parsed JSON object.

        Raises:
            ValueError: a field is missing.
        """

    @abc.abstractmethod
    def to_serialized_string(self) -> str:
        """Returns the JSON text for `_sharding`."""


def _axis_type(text: str) -> Any:
    """Returns jax's AxisType with that name, or the name itself without jax.

    Raises:
        KeyError: the name is unknown.
    """
    jax = imported_jax()
    if jax is None:
        return text
    return {str(kind): kind for kind in jax.sharding.AxisType}[text]


@dataclasses.dataclass
class NamedShardingMetadata(ShardingMetadata):
    """A `jax.sharding.NamedSharding`.

    Attributes:
        shape: the sizes of the mesh's axes, in order.
        axis_names: the names of the mesh's axes.
        partition_spec: one entry per dimension; may be shorter than the rank.
        axis_types: jax's AxisType of each axis; None in older files.
        device_mesh: None in older files, where it means `jax.devices()`.
    """

    shape: np.ndarray[Any, Any]
    axis_names: list[str]
    partition_spec: tuple[PartitionSpecElement, ...]
    axis_types: tuple[Any, ...] | None = None
    device_mesh: DeviceMetadataMesh | None = None

    @classmethod
    def from_jax_sharding(cls, jax_sharding: Any) -> NamedShardingMetadata:
        mesh = jax_sharding.mesh
        return cls(
            shape=np.array(list(mesh.shape.values())),
            axis_names=list(mesh.axis_names),
            axis_types=tuple(mesh.axis_types),
            partition_spec=tuple(jax_sharding.spec),
            device_mesh=DeviceMetadataMesh.from_jax_mesh(mesh),
        )

    def to_jax_sharding(self) -> Any:
        jax = require_jax("a sharding over devices")
        devices = (
            self.device_mesh.to_jax_device_mesh()
            if self.device_mesh
            else jax.devices()
        )
        axis_types = self.axis_types
        if axis_types is not None:
            axis_types = tuple(
                _axis_type(kind) if isinstance(kind, str) else kind
                for kind in axis_types
            )
        mesh = jax.sharding.Mesh(
            np.asarray(devices).reshape(self.shape),
            axis_names=self.axis_names,
            axis_types=axis_types,
        )
        # JSON has lists in place of the tuples in a partition spec.
        spec = [
            tuple(entry) if isinstance(entry, list) else entry
            for entry in self.partition_spec
        ]
        return jax.sharding.NamedSharding(
            mesh, spec=jax.sharding.PartitionSpec(*spec)
        )

    @classmethod
    def from_deserialized_dict(
        cls, deserialized_dict: dict[str, Any]
    ) -> NamedShardingMetadata:
        wanted = ("shape", "axis_names", "partition_spec")
        if not all(name in deserialized_dict for name in wanted):
            raise ValueError(
                "Sharding data not found in deserialized_dict:"
                f" {deserialized_dict}"
            )
        axis_types = deserialized_dict.get("axis_types")
        device_mesh = deserialized_dict.get("device_mesh")
        return cls(
            shape=np.array(deserialized_dict["shape"]),
            axis_names=list(deserialized_dict["axis_names"]),
            axis_types=(
                tuple(_axis_type(text) for text in axis_types)
                if axis_types
                else None
            ),
            partition_spec=tuple(deserialized_dict["partition_spec"]),
            device_mesh=(
                DeviceMetadataMesh.from_dict(device_mesh)
                if device_mesh
                else None
            ),
        )

    def to_serialized_string(self) -> str:
        data: dict[str, Any] = {
            "sharding_type": _NAMED,
            "shape": self.shape.tolist(),
            "axis_names": self.axis_names,
        }
        if self.axis_types is not None:
            data["axis_types"] = [str(kind) for kind in self.axis_types]
        data["partition_spec"] = self.partition_spec
        if self.device_mesh:
            data["device_mesh"] = dataclasses.asdict(self.device_mesh)
        return json.dumps(data)

    def __repr__(self) -> str:
        return (
            f"NamedShardingMetadata(shape={self.shape},"
            f" axis_names={self.axis_names}, axis_types={self.axis_types},"
            f" partition_spec={self.partition_spec})"
            f" device_mesh={self.device_mesh}"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NamedShardingMetadata)
            and np.array_equal(self.shape, other.shape)
            and self.axis_names == other.axis_names
            and self.axis_types == other.axis_types
            and self.partition_spec == other.partition_spec
            and self.device_mesh == other.device_mesh
        )


def _current_device_text(text: str) -> str:
    """Replaces a CPU's old name with its current name: TFRT_CPU_0 is cpu:0."""
    return text.replace("TFRT_CPU_", "cpu:")


@dataclasses.dataclass
class SingleDeviceShardingMetadata(ShardingMetadata):
    """A `jax.sharding.SingleDeviceSharding`; a string names its device."""

    device_str: str

    @classmethod
    def from_jax_sharding(
        cls, jax_sharding: Any
    ) -> SingleDeviceShardingMetadata:
        return cls(device_str=str(next(iter(jax_sharding.device_set))))

    def to_jax_sharding(self) -> Any:
        jax = require_jax("a sharding over devices")
        wanted = _current_device_text(self.device_str)
        for device in jax.local_devices():
            if _current_device_text(str(device)) == wanted:
                return single_device_sharding(device)
        raise ValueError(
            f"Device {wanted} was not found in jax.local_devices()."
        )

    @classmethod
    def from_deserialized_dict(
        cls, deserialized_dict: dict[str, Any]
    ) -> SingleDeviceShardingMetadata:
        device_str = deserialized_dict.get("device_str")
        if device_str is None:
            raise ValueError(
                "Device str not found in deserialized_dict:"
                f" {deserialized_dict}"
            )
        return cls(device_str=device_str)

    def to_serialized_string(self) -> str:
        return json.dumps(
            {"sharding_type": _SINGLE_DEVICE, "device_str": self.device_str}
        )

    def __repr__(self) -> str:
        return f"SingleDeviceShardingMetadata(device_str={self.device_str})"

    def __eq__(self, other: object) -> bool:
        return isinstance(
            other, SingleDeviceShardingMetadata
        ) and _current_device_text(self.device_str) == _current_device_text(
            other.device_str
        )


def from_jax_sharding(jax_sharding: Any) -> ShardingMetadata | None:
    """Returns the metadata of a jax sharding; warns and returns None for other
    kinds."""
    jax = require_jax("a jax sharding")
    if isinstance(jax_sharding, jax.sharding.NamedSharding):
        return NamedShardingMetadata.from_jax_sharding(jax_sharding)
    if isinstance(jax_sharding, jax.sharding.SingleDeviceSharding):
        return SingleDeviceShardingMetadata.from_jax_sharding(jax_sharding)
    log.warning(
        "Conversion for %s has not been implemented.", type(jax_sharding)
    )
    return None


def from_serialized_string(serialized_str: str) -> ShardingMetadata:
    """Converts the JSON text of one entry in `_sharding`.

    Raises:
        ValueError: the text is invalid, or jax no longer has this kind.
        NotImplementedError: Orbax does not know this kind.
    """
    data = json.loads(serialized_str)
    kind = data["sharding_type"]
    if kind == _NAMED:
        return NamedShardingMetadata.from_deserialized_dict(data)
    if kind == _SINGLE_DEVICE:
        return SingleDeviceShardingMetadata.from_deserialized_dict(data)
    if kind == _POSITIONAL:
        raise ValueError(
            "jax.sharding.PositionalSharding has been deprecated. Please use"
            " jax.NamedSharding instead."
        )
    raise NotImplementedError(
        f"Conversion for {kind} has not been implemented."
    )
