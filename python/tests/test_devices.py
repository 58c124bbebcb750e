"""Saves and loads arrays on CUDA devices, which are a twin in host memory.

tests/accelerator checks the behaviour of torch and jax on a real device.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from cuda_twin import TWIN, TwinTensor, on_device, torch_on_twin

import holdfast
import holdfast.torch
from holdfast import _device_arrays, _dtensor, _engine, errors

HERE = Path(__file__).parent

DTYPES = [
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
    torch.complex64,
    torch.complex128,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
]


@pytest.fixture(autouse=True)
def twin() -> Iterator[Any]:
    with torch_on_twin() as controls:
        yield controls


def values(dtype: torch.dtype = torch.float32, *shape: int) -> Any:
    shape = shape or (23, 17)
    count = int(np.prod(shape))
    integers = torch.arange(count, dtype=torch.int64).reshape(shape) * 37 % 101
    return (integers % 2 if dtype == torch.bool else integers).to(dtype)


def layouts(tensor: Any) -> dict[str, Any]:
    """Returns tensors of any strides."""
    return {
        "rows": tensor,
        "columns": tensor.t(),
        "slice": tensor[3:, 1::2],
        "row": tensor[2],
        "repeated": tensor[:1].expand(5, -1),
        "scalar": tensor[1, 1],
    }


def host_tree() -> dict[str, Any]:
    return {
        str(dtype).removeprefix("torch."): layouts(values(dtype))
        for dtype in DTYPES
    }


def moved(tree: Any) -> Any:
    """Returns the tree with its tensors on the device."""
    if isinstance(tree, dict):
        return {key: moved(child) for key, child in tree.items()}
    return on_device(tree) if isinstance(tree, torch.Tensor) else tree


def assert_same(got: Any, want: Any, name: str = "") -> None:
    if isinstance(want, dict):
        assert sorted(got) == sorted(want), name
        for key in want:
            assert_same(got[key], want[key], f"{name}.{key}")
        return
    if isinstance(want, list):
        assert len(got) == len(want), name
        for i, each in enumerate(want):
            assert_same(got[i], each, f"{name}.{i}")
        return
    if isinstance(got, TwinTensor):
        got = got.on_host()
    assert got.dtype == want.dtype, name
    assert got.shape == want.shape, name
    bits = [
        each.contiguous().reshape(-1).view(torch.uint8) for each in (got, want)
    ]
    assert torch.equal(*bits), name


def loaded(path: Path) -> Any:
    return holdfast.load(path, arrays="torch")


WAYS: list[dict[str, Any]] = [
    {},
    {"compression": None},
    {"compression": "zstd", "zarr_format": 3},
    {"ocdbt": False, "format": "orbax-v1"},
    {"also": "safetensors"},
    {"fingerprints": True},
    {"memory_bytes": 1 << 20, "threads": 2, "chunk_bytes": 500},
]


@pytest.mark.parametrize("way", WAYS)
def test_every_dtype_and_layout_is_saved_as_from_the_host(
    tmp_path: Path, way: dict[str, Any]
) -> None:
    tree = host_tree()
    holdfast.save(tmp_path / "host", tree, **way)
    holdfast.save(tmp_path / "device", moved(tree), **way)
    assert_same(loaded(tmp_path / "device"), loaded(tmp_path / "host"))
    assert holdfast.digest(tmp_path / "device") == holdfast.digest(
        tmp_path / "host"
    )
    assert holdfast.verify(tmp_path / "device").ok


def test_a_delta_against_a_step_from_the_host_stores_nothing(
    tmp_path: Path,
) -> None:
    tree = {"w": values(torch.float32, 300, 100)}
    holdfast.save(tmp_path / "1", tree)
    stats = holdfast.save(tmp_path / "2", moved(tree), base=1)
    assert stats.stored_bytes < 2000
    assert_same(loaded(tmp_path / "2"), tree)


@pytest.mark.parametrize("background", [False, True])
def test_what_was_queued_before_a_save_is_saved(
    twin: Any, tmp_path: Path, background: bool
) -> None:
    stream = twin.new_stream(0)
    twin.streams[0] = stream
    tensor = on_device(values(torch.int32, 64))
    new = values(torch.int32, 64) + 1
    twin.queue_write(
        0, stream, tensor.address, new.numpy().tobytes(), 256, 7
    )
    saved = holdfast.save(tmp_path / "7", {"w": tensor}, background=background)
    if background:
        saved.result()
    assert_same(loaded(tmp_path / "7"), {"w": new})
    twin.drop_stream(stream)


def overwrite(tensor: TwinTensor) -> None:
    byte_count = tensor.numel() * tensor.element_size()
    TWIN.write(tensor.address, b"\x77" * byte_count, byte_count)


@pytest.mark.parametrize("snapshot", ["auto", "device", "host"])
def test_a_tensor_may_change_when_a_background_save_has_returned(
    twin: Any, tmp_path: Path, snapshot: Any
) -> None:
    tree = {"w": values(torch.float32, 700, 300), "b": values()}
    on_it = moved(tree)
    before = twin.device_bytes(0)
    future = holdfast.save(
        tmp_path / "7", on_it, background=True, snapshot=snapshot
    )
    # A copy on the device is ordered by the program's stream, as the change is.
    if snapshot == "host":
        for tensor in on_it.values():
            overwrite(tensor)
    else:
        for tensor in on_it.values():
            byte_count = tensor.numel() * tensor.element_size()
            twin.queue_write(
                0, 0, tensor.address, b"\x77" * byte_count, byte_count, 1
            )
    stats = future.result()
    assert_same(loaded(tmp_path / "7"), tree)
    assert future.snapshot_seconds == stats.phase_seconds["snapshot"] > 0
    decoded = sum(each.numel() * each.element_size() for each in tree.values())
    assert stats.copied_bytes == (decoded if snapshot == "host" else 0)
    del future
    holdfast.save(tmp_path / "8", on_it)  # waits for the changes
    assert loaded(tmp_path / "8")["b"].view(torch.uint8).unique() == 0x77
    assert twin.device_bytes(0) == before, "the copies are freed"


def test_tied_tensors_are_copied_once(twin: Any, tmp_path: Path) -> None:
    tensor = on_device(values(torch.float32, 700, 300))
    before = twin.device_bytes(0)
    future = holdfast.save(
        tmp_path / "7", {str(i): tensor for i in range(9)}, background=True
    )
    assert twin.device_bytes_peak(0) <= before + 840_000
    future.result()
    want = values(torch.float32, 700, 300)
    assert_same(loaded(tmp_path / "7"), {str(i): want for i in range(9)})


@pytest.mark.parametrize("ends", ["fails", "is cancelled"])
def test_a_save_that_ends_early_frees_its_copies(
    twin: Any, tmp_path: Path, ends: str
) -> None:
    tensor = on_device(values(torch.float32, 700, 300))
    before = twin.device_bytes(0)
    if ends == "fails":
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "mine").touch()
        future = holdfast.save(tmp_path / "7", {"w": tensor}, background=True)
        kind: type[Exception] = errors.HoldfastError
    else:
        begun = threading.Event()

        def wait(*args: object) -> None:
            begun.wait(60)

        future = holdfast.save(
            tmp_path / "7", {"w": tensor}, background=True, progress=wait
        )
        future.cancel()
        begun.set()
        kind = errors.CancelledError
    error = future.exception()
    assert isinstance(error, kind)
    assert twin.device_bytes(0) == before, "while the error is held"


def test_without_room_on_the_device_the_copy_goes_to_the_host(
    tmp_path: Path,
) -> None:
    tree = {"w": values(torch.float32, 700, 300)}  # 840 kB
    with torch_on_twin(device_bytes=1_500_000):
        on_it = moved(tree)
        future = holdfast.save(tmp_path / "7", on_it, background=True)
        overwrite(on_it["w"])
        assert future.result().copied_bytes == 840_000
        with pytest.raises(
            errors.ResourceExhaustedError, match="leaf 'w'.*room"
        ):
            holdfast.save(
                tmp_path / "8", on_it, background=True, snapshot="device"
            )
        del on_it
    assert_same(loaded(tmp_path / "7"), tree)
    assert not (tmp_path / "8").exists()


def test_without_room_anywhere_the_save_ends_before_it_returns(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(_engine, "available_host_bytes", lambda: 1000)
    tree = {"w": values(torch.float32, 700, 300)}
    on_it = moved(tree)
    with caplog.at_level(logging.WARNING):
        future = holdfast.save(
            tmp_path / "7", on_it, background=True, snapshot="host"
        )
    assert future.done()
    assert "neither the devices nor the host have room" in caplog.text
    overwrite(on_it["w"])
    assert future.result().copied_bytes == 0
    assert_same(loaded(tmp_path / "7"), tree)


def test_memory_of_the_host_is_bounded(twin: Any, tmp_path: Path) -> None:
    tree = moved({str(i): values(torch.uint8, 1 << 20) for i in range(40)})
    stats = holdfast.save(tmp_path / "7", tree, memory_bytes=4 << 20, threads=2)
    assert stats.copied_bytes == 0
    assert stats.memory_bytes_peak <= 8 << 20
    assert twin.pinned_bytes_peak() <= 64 << 20


@pytest.mark.parametrize("call", range(1, 30, 3))
def test_a_device_that_fails_costs_no_earlier_checkpoint(
    twin: Any, tmp_path: Path, call: int
) -> None:
    old = {"w": values()}
    new = {"w": values() + 1}
    holdfast.save(tmp_path / "7", old)
    on_it = moved(new)
    twin.fail_call(call, 719)  # CUDA_ERROR_LAUNCH_FAILED
    try:
        holdfast.save(tmp_path / "7", on_it, overwrite=True)
        want = new
    except errors.UnavailableError as error:
        assert "device 0" in str(error) or "CUDA" in str(error)
        want = old
    twin.reset(2)
    assert_same(loaded(tmp_path / "7"), want)


def test_a_stream_that_is_captured_is_refused(
    twin: Any, tmp_path: Path
) -> None:
    stream = twin.new_stream(0)
    twin.streams[0] = stream
    on_it = moved({"w": values()})
    twin.begin_capture(stream, 0)
    with pytest.raises(errors.FailedPreconditionError, match="captured"):
        holdfast.save(tmp_path / "7", on_it)
    assert twin.end_capture() == 1, "the capture goes on"
    twin.drop_stream(stream)
    assert not (tmp_path / "7").exists()


def test_a_parameter_a_conjugate_and_a_tied_tensor(tmp_path: Path) -> None:
    tensor = on_device(values())
    tree = {"a": tensor, "b": tensor, "n": values(), "step": 3}
    holdfast.save(tmp_path / "7", tree)
    got = loaded(tmp_path / "7")
    assert got.pop("step") == 3
    assert_same(got, {"a": values(), "b": values(), "n": values()})


def test_a_tensor_without_elements_and_a_dtype_that_cannot_be_stored(
    tmp_path: Path,
) -> None:
    with pytest.raises(errors.InvalidArgumentError, match="zero size"):
        holdfast.save(tmp_path / "7", {"w": on_device(torch.empty(0, 3))})
    odd = on_device(torch.zeros(4, dtype=torch.complex32))
    with pytest.raises(errors.InvalidArgumentError, match='"complex32".*"w"'):
        holdfast.save(tmp_path / "7", {"w": odd})


@pytest.mark.parametrize("save_path", ["7", "8"])
def test_holdfast_devices_0_copies_to_the_host(
    twin: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    save_path: str,
) -> None:
    monkeypatch.setenv("HOLDFAST_DEVICES", "0" if save_path == "7" else "1")
    _device_arrays.is_usable.cache_clear()
    tree = moved({"w": values()})
    before = twin.call_count()
    holdfast.save(tmp_path / save_path, tree)
    _device_arrays.is_usable.cache_clear()
    assert (twin.call_count() == before) == (save_path == "7")
    assert_same(loaded(tmp_path / save_path), {"w": values()})


class Cupy:
    """An array as cupy's: it has a `__cuda_array_interface__`."""

    def __init__(self, tensor: TwinTensor, dtype: Any, stream: Any) -> None:
        self.tensor = tensor
        self.dtype = np.dtype(dtype)
        self.stream = stream
        self.mask: Any = None

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = {
            "shape": tuple(self.tensor.shape),
            "typestr": self.dtype.str,
            "data": (self.tensor.address, False),
            "version": 3,
            "stream": self.stream,
            "mask": self.mask,
        }
        if not self.tensor.like.is_contiguous():
            size = self.tensor.element_size()
            interface["strides"] = tuple(s * size for s in self.tensor.stride())
        return interface


@pytest.mark.parametrize("stream", [None, 1, 2])
def test_arrays_with_cudas_interface(tmp_path: Path, stream: Any) -> None:
    tree = {
        "rows": Cupy(on_device(values()), "f4", stream),
        "columns": Cupy(on_device(values(torch.int16).t()), "i2", stream),
        "brain": Cupy(
            on_device(values(torch.bfloat16)), ml_dtypes.bfloat16, stream
        ),
    }
    holdfast.save(tmp_path / "7", tree)
    want = {
        "rows": values(),
        "columns": values(torch.int16).t(),
        "brain": values(torch.bfloat16),
    }
    assert_same(loaded(tmp_path / "7"), want)
    future = holdfast.save(tmp_path / "8", tree, background=True)
    for array in tree.values():
        overwrite(array.tensor)
    future.result()
    assert_same(loaded(tmp_path / "8"), want)
    tree["rows"].mask = tree["rows"]
    with pytest.raises(errors.InvalidArgumentError, match="'rows'.*masked"):
        holdfast.save(tmp_path / "9", tree)
    swapped = {"w": Cupy(on_device(values()), ">f4", stream)}
    with pytest.raises(errors.InvalidArgumentError, match="'w'.*byte order"):
        holdfast.save(tmp_path / "9", swapped)


@dataclasses.dataclass
class JaxLike:
    """A jax.Array on one CUDA device, as far as `_device_arrays` asks it."""

    tensor: TwinTensor
    deleted: bool = False
    waited: int = 0
    memory_kind: str = "device"
    order: tuple[int, ...] = (0, 1)
    version: str = "PJRT C API\ncuda 13000"
    tiling: tuple[int, ...] = ()
    platform = "gpu"
    device_count = 1

    def __post_init__(self) -> None:
        self.sharding = self.format = self.layout = self.client = self
        self.major_to_minor = self.order
        self.platform_version = self.version
        self.shape = tuple(self.tensor.shape)
        self.ndim = len(self.shape)
        self.dtype = np.dtype("f4")

    def devices(self) -> set[Any]:
        return {_Hashable(self)}

    def is_deleted(self) -> bool:
        return self.deleted

    def block_until_ready(self) -> None:
        self.waited += 1

    def unsafe_buffer_pointer(self) -> int:
        assert self.waited
        return self.tensor.address


class _Hashable:
    def __init__(self, array: JaxLike) -> None:
        self.platform = array.platform
        self.client = array


def _leaf(array: Any) -> Any:
    origin = (0,) * len(array.shape)
    return _engine.ArrayLeaf(array.shape, [(origin, array)])


def _save_leaf(path: Path, leaf: Any, snapshot: bool = False) -> None:
    built = _engine.build_tree(
        {"w": object()}, adapt=lambda value, path: leaf, snapshot=snapshot
    )
    _engine.save(str(path), built)


def test_a_jax_array_is_waited_for_when_its_elements_are_needed(
    tmp_path: Path,
) -> None:
    array = JaxLike(on_device(values()))
    described = _device_arrays.of_jax(array)
    assert described is not None
    leaf = _leaf(described)
    assert array.waited == 0
    _save_leaf(tmp_path / "7", leaf)
    assert array.waited == 1
    assert_same(loaded(tmp_path / "7"), {"w": values()})


def test_a_deleted_jax_array_is_an_error(tmp_path: Path) -> None:
    array = JaxLike(on_device(values()))
    described = _device_arrays.of_jax(array)
    assert described is not None
    array.deleted = True
    with pytest.raises(errors.InvalidArgumentError, match="donation"):
        _save_leaf(tmp_path / "7", _leaf(described))

    array = JaxLike(on_device(values()))
    described = _device_arrays.of_jax(array)

    def delete_and_return() -> int:
        array.deleted = True
        return array.tensor.address

    array.unsafe_buffer_pointer = delete_and_return  # type: ignore[method-assign]
    with pytest.raises(errors.InvalidArgumentError, match="donation"):
        _save_leaf(tmp_path / "7", _leaf(described))
    assert not (tmp_path / "7").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"memory_kind": "pinned_host"},
        {"order": (1, 0)},
        {"version": "rocm 60300"},
        {"tiling": (2, 2)},
    ],
)
def test_a_jax_array_that_lies_otherwise_is_not_read_there(
    change: dict[str, Any],
) -> None:
    array = JaxLike(on_device(values()), **change)
    assert _device_arrays.of_jax(array) is None


def test_parts_of_an_array_on_a_device(tmp_path: Path) -> None:
    array = _device_arrays.of_tensor(on_device(values()))
    parts = [
        ((0, 0), array.part((0, 0), (9, 17))),
        ((9, 0), array.part((9, 0), (14, 5))),
        ((9, 5), array.part((9, 5), (14, 12))),
    ]
    _save_leaf(tmp_path / "7", _engine.ArrayLeaf((23, 17), parts, kind="numpy"))
    assert_same(loaded(tmp_path / "7"), {"w": values()})
    _save_leaf(
        tmp_path / "8",
        _engine.ArrayLeaf((23, 17), parts, kind="numpy", immutable=False),
        snapshot=True,
    )
    assert_same(loaded(tmp_path / "8"), {"w": values()})
    for origin, shape in (((0, 1), (23, 17)), ((-1, 0), (1, 1)), ((0,), (1,))):
        with pytest.raises(errors.InvalidArgumentError, match="not inside"):
            array.part(origin, shape)
    part = _dtensor.Part((4, 0), (2, 17), (9, 0))
    assert part.of(array).shape == (2, 17)


def test_a_forked_child_is_told(tmp_path: Path) -> None:
    tensor = on_device(values())
    holdfast.save(tmp_path / "7", {"w": tensor})
    child = os.fork()
    if child == 0:
        try:
            holdfast.save(tmp_path / "8", {"w": tensor})
            os._exit(1)
        except errors.FailedPreconditionError as error:
            os._exit(0 if "fork" in str(error) else 2)
        except BaseException:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


OLD_DRIVER = """
import cuda_twin, holdfast, logging, sys, torch
logging.basicConfig()
with cuda_twin.torch_on_twin() as twin:
    twin.set_driver_version(10000)
    tree = {"w": cuda_twin.on_device(torch.arange(4.0))}
    for step in "78":
        holdfast.save(f"{sys.argv[1]}/{step}", tree)
    print(holdfast.load(f"{sys.argv[1]}/8")["w"].tolist())
    got = holdfast.load(f"{sys.argv[1]}/8", arrays="torch", device="cpu")
    print(got["w"].tolist())
"""


def test_a_driver_that_is_too_old_is_said_once(
    tmp_path: Path,
    run_python: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
    ended = run_python(OLD_DRIVER, tmp_path)
    assert ended.stdout.count("[0.0, 1.0, 2.0, 3.0]") == 2
    assert ended.stderr.count("copied to the host before they are saved") == 1
    assert "too old" in ended.stderr


SAVES_UNTIL_IT_IS_KILLED = """
import cuda_twin, holdfast, sys, torch
with cuda_twin.torch_on_twin():
    for number in range(10_000):
        tree = {
            str(i): cuda_twin.on_device(torch.full((40_000,), number + i))
            for i in range(8)
        }
        future = holdfast.save(
            f"{sys.argv[1]}/7", tree, overwrite=True, background=True,
            chunk_bytes=50_000, snapshot=("host", "device")[number % 2],
        )
        print(number, flush=True)
        future.result()
"""


@pytest.mark.parametrize("saves", range(1, 13, 2))
def test_a_kill_during_a_save_leaves_a_whole_checkpoint(
    tmp_path: Path, saves: int
) -> None:
    folders = [str(Path(holdfast.__file__).parents[1]), str(HERE)]
    with subprocess.Popen(
        [sys.executable, "-c", SAVES_UNTIL_IT_IS_KILLED, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": ":".join(folders)},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        for _ in range(saves + 1):
            last = int(process.stdout.readline())
        process.kill()  # during the last save, or just after it
    tree = holdfast.load(tmp_path / "7")
    first = int(tree["0"][0])
    assert first in (last - 1, last)
    for i in range(8):
        assert (tree[str(i)] == first + i).all()
    assert holdfast.verify(tmp_path / "7").ok


def test_the_newest_nvrtc_of_a_package_is_found(tmp_path: Path) -> None:
    assert _device_arrays._nvrtc_path([str(tmp_path), "/nonexistent"]) is None
    for name in (
        "nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "nvidia/cu13/lib/libnvrtc.so.13",
        "nvidia/cu13/lib/libnvrtc-builtins.so.13.0",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = _device_arrays._nvrtc_path([str(tmp_path)])
    assert found == str(tmp_path / "nvidia/cu13/lib/libnvrtc.so.13")


# ---- loads


@pytest.fixture
def no_torch_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets holdfast name the twin's devices, which torch does not know."""
    from holdfast import _device_load

    monkeypatch.setattr(_device_load, "_torch_device", torch.device)


def savable() -> dict[str, Any]:
    return {
        "rows": values(torch.float32, 300, 100),
        "brain": values(torch.bfloat16, 999),
        "deep": {
            "scalar": values(torch.int16, 1)[0],
            "flags": values(torch.bool),
        },
    }


def tensors_of(tree: Any) -> Any:
    for child in tree.values():
        yield from tensors_of(child) if isinstance(child, dict) else [child]


@pytest.mark.parametrize("way", WAYS)
def test_a_load_to_a_device(
    no_torch_devices: None, tmp_path: Path, way: dict[str, Any]
) -> None:
    tree = savable()
    holdfast.save(tmp_path / "7", {**tree, "step": 3, "text": "t"}, **way)
    got = holdfast.load(tmp_path / "7", arrays="torch", device="cuda:1")
    assert got.pop("step") == 3
    assert got.pop("text") == "t"
    assert all(
        isinstance(tensor, TwinTensor) and tensor.device.index == 1
        for tensor in tensors_of(got)
    )
    assert_same(got, tree)
    some = holdfast.torch.load(
        tmp_path / "7", device="cuda:0", select="deep.flags"
    )
    assert_same(some, {"deep": {"flags": tree["deep"]["flags"]}})


def test_a_target_on_a_device(tmp_path: Path) -> None:
    tree = savable()
    holdfast.save(tmp_path / "7", tree)
    target = moved(tree)
    target["rows"] = torch.nn.Parameter(values(torch.float32, 300, 100) * 0)
    got = holdfast.load(tmp_path / "7", target=target)
    assert isinstance(got["rows"], torch.nn.Parameter), "on the host"
    assert isinstance(got["brain"], TwinTensor)
    assert got["brain"].address != target["brain"].address
    assert_same(got, tree)
    stats = holdfast.last_stats()
    assert stats.decoded_bytes == sum(
        each.numel() * each.element_size() for each in tensors_of(tree)
    )
    other = {
        "rows": on_device(values(torch.float64, 300, 100)),
        "brain": ...,
        "deep": ...,
    }
    with pytest.raises(errors.InvalidArgumentError, match="'rows': dtype"):
        holdfast.load(tmp_path / "7", target=other)
    cast = holdfast.load(tmp_path / "7", target=other, cast=True)
    assert_same(cast["rows"], tree["rows"].to(torch.float64))


@pytest.mark.parametrize("compression", [None, "planes"])
def test_a_damaged_file_gives_the_error_of_a_load_to_the_host(
    no_torch_devices: None, tmp_path: Path, compression: Any
) -> None:
    tree = {"w": values(torch.float32, 300, 100)}
    holdfast.save(tmp_path / "7", tree, compression=compression)
    data = max(
        (tmp_path / "7").rglob("d/*"), key=lambda file: file.stat().st_size
    )
    content = bytearray(data.read_bytes())
    content[len(content) // 2] ^= 4
    data.write_bytes(content)
    with pytest.raises(errors.DataLossError) as host:
        holdfast.load(tmp_path / "7")
    with pytest.raises(errors.DataLossError) as device:
        holdfast.load(tmp_path / "7", arrays="torch", device="cuda:0")
    assert str(device.value) == str(host.value)


def test_a_load_opens_the_newest_step_once(
    no_torch_devices: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []

    def then_another(*args: Any, **options: Any) -> _engine.Checkpoint:
        checkpoint = open_checkpoint(*args, **options)
        opened.append(checkpoint.step)
        holdfast.save(tmp_path / "8", {"w": values(), "new": values()})
        return checkpoint

    holdfast.save(tmp_path / "7", {"w": values() + 1})
    open_checkpoint = _engine.Checkpoint
    monkeypatch.setattr(_engine, "Checkpoint", then_another)
    got = holdfast.load(tmp_path, arrays="torch", device="cuda:0", select=[])
    assert_same(got, {"w": values() + 1})
    assert opened == [7]


def test_lists_are_selected_from_as_on_the_host(
    no_torch_devices: None, tmp_path: Path
) -> None:
    lists = {
        "layers": [torch.ones(2), torch.zeros(2)],
        "opt": ({"m": torch.ones(3)}, {"m": torch.ones(4)}),
    }
    holdfast.save(tmp_path / "a", lists)
    for select in ("layers.0", "opt.0.m", {"layers.0", "opt.0"}, "layers"):
        want = holdfast.load(tmp_path / "a", arrays="torch", select=select)
        got = holdfast.load(
            tmp_path / "a", arrays="torch", device="cuda:0", select=select
        )
        assert_same(got, want)


def test_a_key_without_leaves_is_refused_as_on_the_host(
    no_torch_devices: None, tmp_path: Path
) -> None:
    holdfast.save(tmp_path / "7", {"a": {"b": values()}, "ab": values()})
    for select in ["a.c", "b", "a.", ["a", "a.b.c"]]:
        with pytest.raises(errors.NotFoundError) as host:
            holdfast.load(tmp_path, select=select)
        with pytest.raises(errors.NotFoundError) as device:
            holdfast.load(
                tmp_path, arrays="torch", device="cuda:0", select=select
            )
        assert str(device.value) == str(host.value)


def test_a_dtype_that_torch_lacks(
    no_torch_devices: None, tmp_path: Path
) -> None:
    tree = {"w": np.arange(4).astype(ml_dtypes.float8_e3m4)}
    holdfast.save(tmp_path / "7", tree)
    with pytest.raises(errors.InvalidArgumentError, match="torch has no"):
        holdfast.load(tmp_path / "7", arrays="torch", device="cuda:0")


def test_a_device_that_is_lost_is_an_error(
    no_torch_devices: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdfast.save(tmp_path / "7", {"w": values(torch.float32, 300, 100)})
    TWIN.lose()
    with pytest.raises(errors.UnavailableError, match="device"):
        holdfast.load(tmp_path / "7", arrays="torch", device="cuda:0")
