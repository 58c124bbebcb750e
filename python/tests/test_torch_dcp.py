"""torch.distributed.checkpoint in one process, with holdfast's storage."""

from __future__ import annotations

import collections
import io
import json
import os
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast
from holdfast import errors

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")
if not torch.distributed.is_available():
    pytest.skip("torch without torch.distributed", allow_module_level=True)

import torch.distributed.checkpoint as dcp  # noqa: E402
from test_torch import DTYPES, raw, tensor  # noqa: E402
from torch.distributed.checkpoint.default_planner import (  # noqa: E402
    DefaultLoadPlanner,
    DefaultSavePlanner,
)

from holdfast.torch import (  # noqa: E402
    StorageReader,
    StorageWriter,
    _chunks,
    _names,
    _objects,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")
        warnings.filterwarnings("ignore", "TypedStorage is deprecated")
        yield


def save(path: Path, tree: dict[str, Any], **options: Any) -> Any:
    return dcp.save(tree, storage_writer=StorageWriter(path, **options))


def load(path: Path, tree: dict[str, Any], **options: Any) -> dict[str, Any]:
    dcp.load(tree, storage_reader=StorageReader(path, **options))
    return tree


def raises(kind: type[BaseException], words: str, run: Any) -> None:
    """Checks that `run` raises `kind`, which torch wraps in its own
    exception."""
    with pytest.raises(dcp.CheckpointException, match=words) as raised:
        run()
    assert isinstance(raised.value.failures[0][0], kind)


@pytest.mark.parametrize("options", [{}, {"ocdbt": False, "zarr_format": 3}])
def test_dtypes(ckpt: Path, options: dict[str, Any]) -> None:
    tree = {name: tensor(name) for name in DTYPES}
    save(ckpt, dict(tree), **options)
    stored = holdfast.load(ckpt)
    got = load(ckpt, {name: torch.zeros_like(t) for name, t in tree.items()})
    for name, value in tree.items():
        assert stored[name].dtype.name == name
        assert stored[name].tobytes() == raw(value), name
        assert got[name].dtype == value.dtype
        assert raw(got[name]) == raw(value)


PLAIN: dict[str, Any] = {
    "none": None,
    "yes": True,
    "int": -(1 << 63),
    "float": 2.5,
    "text": "hällo",
    "empty text": "",
    "list": [1, "a", [2.5, None, []]],
    "tuple": (1, (2, "b"), [(3,)]),
    "no list": [],
    "no tuple": (),
}
OBJECTS: dict[str, Any] = {
    "wide": 1 << 63,
    "bytes": b"\x00\xff",
    "set": {1, 2},
    "dtype": torch.float32,
    "size": torch.Size([2, 3]),
    "mixed": (1, torch.arange(3)),
    "odd text": "\ud800",
    "order": collections.OrderedDict(a=1),
}


def test_values(ckpt: Path) -> None:
    tree = {**PLAIN, **{k: v for k, v in OBJECTS.items() if k != "order"}}
    save(ckpt, dict(tree))
    got = load(ckpt, dict.fromkeys(tree))
    mixed = got.pop("mixed"), tree.pop("mixed")
    assert got == tree
    for key, value in tree.items():
        assert type(got[key]) is type(value), key
    assert mixed[0][0] == 1 and torch.equal(mixed[0][1], mixed[1][1])
    # The values under the names that other readers see.
    stored = holdfast.load(ckpt)
    assert stored["list"] == PLAIN["list"] and stored["int"] == PLAIN["int"]
    assert stored["tuple"] == [1, [2, "b"], [[3]]]


def test_a_file_in_a_state_dict(ckpt: Path) -> None:
    save(ckpt, {"file": io.BytesIO(b"content")})
    got = load(ckpt, {"file": None})
    assert got["file"].getvalue() == b"content"


class Acts:
    """An object whose pickle makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (os.mkdir, (str(self.path),))


def test_objects_that_would_run_code(ckpt: Path, tmp_path: Path) -> None:
    save(ckpt, {"a": {"b": Acts(tmp_path / "made")}, "c": torch.ones(2)})
    raises(
        errors.PermissionDeniedError,
        "'a.b'.*mkdir.*weights_only=False",
        lambda: load(ckpt, {"a": {"b": 0}}),
    )
    assert not (tmp_path / "made").exists()
    # Loads without this leaf, or with weights_only=False, work.
    assert load(ckpt, {"c": torch.zeros(2)})["c"].tolist() == [1, 1]
    load(ckpt, {"a": {"b": 0}}, weights_only=False)
    assert (tmp_path / "made").exists()


def test_nesting(ckpt: Path) -> None:
    tree = {
        "optimizer": {
            "state": {0: {"step": torch.tensor(3.0)}, "10": {"s": 4}},
            "param_groups": [{"lr": 0.1, "params": [0, 10]}, {"lr": 0.2}],
        },
        "tensors": [torch.ones(2), [torch.zeros(1), 5]],
        "a.b": torch.ones(1),
        "hole": [{}, {"x": 1}],
    }
    save(ckpt, tree)
    stored = holdfast.load(ckpt)
    assert stored["optimizer"]["state"]["10"]["s"] == 4
    assert stored["optimizer"]["param_groups"][0]["params"] == [0, 10]
    assert stored["tensors"][1][1] == 5
    assert stored["hole"] == [None, {"x": 1}]
    got = load(
        ckpt,
        {
            "optimizer": {
                "state": {0: {"step": torch.tensor(0.0)}, "10": {"s": 0}},
                "param_groups": [{"lr": 0, "params": []}, {"lr": 0}],
            },
            "tensors": [torch.zeros(2), [torch.ones(1), 0]],
            "a.b": torch.zeros(1),
            "hole": [{}, {"x": 0}],
        },
    )
    assert got["optimizer"] == tree["optimizer"]
    assert got["tensors"][1] == [torch.zeros(1), 5]
    assert got["a.b"].item() == 1 and got["hole"] == [None, {"x": 1}]


def test_layouts_in_memory(ckpt: Path) -> None:
    base = torch.arange(24.0).reshape(4, 6)
    made = {
        "transposed": base.T,
        "strided": base[::2, 1:5],
        "number": base[1, 2],
        "repeated": base[:1].expand(5, 6),
        "conjugate": torch.conj(base.to(torch.complex64) * 1j),
        "parameter": torch.nn.Parameter(base.clone()),
        "empty": torch.empty(0, 3),
    }
    save(ckpt, dict(made))
    got = load(
        ckpt,
        {
            "transposed": torch.zeros(4, 6).T,
            "strided": torch.zeros(4, 8)[::2, ::2],
            "number": torch.zeros(2)[1],
            "repeated": torch.zeros(5, 6),
            "conjugate": torch.conj(torch.zeros(4, 6, dtype=torch.complex64)),
            "parameter": torch.nn.Parameter(torch.zeros(4, 6)),
            "empty": torch.empty(0, 3),
        },
    )
    for name, value in made.items():
        assert torch.equal(got[name], value), name
    assert isinstance(got["parameter"], torch.nn.Parameter)


def test_the_tensors_that_are_given_are_filled(ckpt: Path) -> None:
    save(ckpt, {"w": torch.arange(6.0)})
    target = torch.zeros(6)
    got = load(ckpt, {"w": target})
    assert got["w"] is target and target.tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("wanted", ["float64", "bfloat16", "int32", "bool"])
def test_other_dtypes_are_converted_as_torch_does(
    ckpt: Path, wanted: str
) -> None:
    value = torch.tensor([0.0, -1.75, 3.5, 1e4])
    save(ckpt, {"w": value})
    dtype = getattr(torch, wanted)
    # A limit of one tensor at a time, so that several batches are read.
    got = load(ckpt, {"w": torch.zeros(4, dtype=dtype)}, memory_bytes=16)
    assert torch.equal(got["w"], value.to(dtype))


def test_models_by_state_dict(ckpt: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(4, 3)).sum().backward()
    optimizer.step()
    save(ckpt, {"model": model.state_dict(), "optim": optimizer.state_dict()})
    other = torch.nn.Linear(3, 2)
    again = torch.optim.AdamW(other.parameters())
    other(torch.ones(4, 3)).sum().backward()
    again.step()
    tree = {"model": other.state_dict(), "optim": again.state_dict()}
    load(ckpt, tree)
    other.load_state_dict(tree["model"])
    again.load_state_dict(tree["optim"])
    assert torch.equal(other.weight, model.weight)
    assert again.state_dict()["state"][0]["exp_avg"].equal(
        optimizer.state_dict()["state"][0]["exp_avg"]
    )
    assert again.param_groups[0]["betas"] == (0.9, 0.999)


class Counter:
    """A program's own Stateful."""

    def __init__(self) -> None:
        self.count = 0

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


def test_stateful_objects(ckpt: Path) -> None:
    counter = Counter()
    counter.count = 5
    save(ckpt, {"counter": counter})
    other = Counter()
    load(ckpt, {"counter": other})
    assert other.count == 5


def test_async_save_takes_a_copy(ckpt: Path) -> None:
    # async_save requires a group.
    torch.distributed.init_process_group(
        "gloo",
        store=torch.distributed.HashStore(),
        rank=0,
        world_size=1,
    )
    try:
        tree = {"w": torch.ones(1000), "step": 3}
        response = dcp.async_save(tree, storage_writer=StorageWriter(ckpt))
        tree["w"].zero_()
        getattr(response, "upload_completion", response).result()
        got = load(ckpt, {"w": torch.zeros(1000), "step": 0})
    finally:
        torch.distributed.destroy_process_group()
    assert got["w"].sum() == 1000 and got["step"] == 3


def test_part_of_a_checkpoint(ckpt: Path) -> None:
    save(ckpt, {"a": torch.ones(2), "b": {"c": torch.ones(2), "d": 4}})
    assert load(ckpt, {"b": {"d": 0}}) == {"b": {"d": 4}}
    more = {"a": torch.zeros(2), "z": torch.full((1,), 7.0)}
    with pytest.raises(dcp.CheckpointException, match="Missing key.*z"):
        load(ckpt, more)
    dcp.load(
        more,
        storage_reader=StorageReader(ckpt),
        planner=DefaultLoadPlanner(allow_partial_load=True),
    )
    assert more["a"].tolist() == [1, 1] and more["z"].item() == 7


def test_planners_that_flatten_nothing(ckpt: Path) -> None:
    tree = {"a": torch.ones(2), "b": {"c": torch.ones(2)}, "d": [1, 2]}
    dcp.save(
        tree,
        storage_writer=StorageWriter(ckpt),
        planner=DefaultSavePlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False
        ),
    )
    got: dict[str, Any] = {"a": torch.zeros(2), "b": None, "d": None}
    dcp.load(
        got,
        storage_reader=StorageReader(ckpt),
        planner=DefaultLoadPlanner(
            flatten_state_dict=False, flatten_sharded_tensors=False
        ),
    )
    assert got["a"].tolist() == [1, 1] and got["d"] == [1, 2]
    assert got["b"]["c"].tolist() == [1, 1]


class HalfPlanner(DefaultSavePlanner):  # type: ignore[misc]
    """A planner that stores floats as float16."""

    def transform_object(self, write_item: Any, object: Any) -> Any:
        value = super().transform_object(write_item, object)
        return value.half() if isinstance(value, torch.Tensor) else value


class RawPlanner(DefaultSavePlanner):  # type: ignore[misc]
    """A planner that writes bytes that are not a torch.save file."""

    def transform_object(self, write_item: Any, object: Any) -> Any:
        if isinstance(object, bytes):
            return io.BytesIO(object)
        return super().transform_object(write_item, object)


class RawLoadPlanner(DefaultLoadPlanner):  # type: ignore[misc]
    def load_bytes(self, read_item: Any, value: io.BytesIO) -> None:
        self.original_state_dict[read_item.dest_index.fqn] = value.read()


def test_planners_of_ones_own(ckpt: Path) -> None:
    dcp.save(
        {"w": torch.ones(3), "n": 1},
        storage_writer=StorageWriter(ckpt),
        planner=HalfPlanner(),
    )
    assert holdfast.load(ckpt)["w"].dtype == np.float16
    dcp.save(
        {"raw": b"not a pickle"},
        storage_writer=StorageWriter(ckpt, overwrite=True),
        planner=RawPlanner(),
    )
    got: dict[str, Any] = {"raw": None}
    dcp.load(
        got,
        storage_reader=StorageReader(ckpt, weights_only=False),
        planner=RawLoadPlanner(),
    )
    assert got == {"raw": b"not a pickle"}
    raises(
        errors.PermissionDeniedError, "'raw'", lambda: load(ckpt, {"raw": 0})
    )
    raises(
        errors.InvalidArgumentError,
        "'raw'.*no bytes",
        lambda: dcp.save(
            {"raw": b""},
            storage_writer=StorageWriter(ckpt, overwrite=True),
            planner=RawPlanner(),
        ),
    )


def test_stock_orbax_restores(ckpt: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    tree = {
        "model": {"w": torch.arange(6).reshape(2, 3).bfloat16()},
        "groups": [{"lr": 0.5, "betas": (0.9, 0.99)}],
        "step": 3,
        "note": "text",
        "none": None,
    }
    save(ckpt, tree, custom_metadata={"run": 1})
    got = ocp.PyTreeCheckpointer().restore(ckpt)
    assert got["model"]["w"].dtype.name == "bfloat16"
    assert got["model"]["w"].astype(int).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert got["groups"] == [{"lr": 0.5, "betas": [0.9, 0.99]}]
    assert (got["step"], got["note"], got["none"]) == (3, "text", None)
    assert holdfast.open(ckpt).custom_metadata == {"run": 1}


def test_what_orbax_has_saved(ckpt: Path) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    tree = {
        "params": {"w": np.arange(12.0).reshape(3, 4)},
        "layers": [{"b": np.ones(2, np.int32)}, {"b": np.zeros(2, np.int32)}],
        "ids": [1, 2],
        "step": 3,
        "none": None,
        "gone": {},
    }
    ocp.PyTreeCheckpointer().save(ckpt, tree)
    got = load(
        ckpt,
        {
            "params": {"w": torch.zeros(3, 4, dtype=torch.float64)},
            "layers": [{"b": torch.zeros(2, dtype=torch.int32)} for _ in "ab"],
            "ids": [],
            "step": 0,
            "none": 1,
            "gone": {},
        },
    )
    assert got["params"]["w"].tolist() == tree["params"]["w"].tolist()
    assert [each["b"].tolist() for each in got["layers"]] == [[1, 1], [0, 0]]
    assert got["ids"] == [1, 2] and got["step"] == 3 and got["none"] is None


def test_torchs_own_checkpoints(tmp_path: Path) -> None:
    """The engine reads checkpoints that FileSystemWriter wrote."""
    tree = {
        "model": {"w": torch.arange(12.0).reshape(3, 4).bfloat16()},
        "groups": [{"lr": 0.5, "betas": (0.9, 0.99)}],
        "step": 3,
        "note": "text",
    }
    dcp.save(tree, checkpoint_id=tmp_path / "c")
    got = load(
        tmp_path / "c",
        {
            "model": {"w": torch.zeros(3, 4, dtype=torch.bfloat16)},
            "groups": [{"lr": 0, "betas": 0}],
            "step": 0,
            "note": "",
        },
    )
    assert torch.equal(got["model"]["w"], tree["model"]["w"])
    assert got["groups"] == tree["groups"]
    assert got["step"] == 3 and got["note"] == "text"


def test_arrays_of_other_formats(tmp_path: Path) -> None:
    header = b'{"a.b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}'
    path = tmp_path / "m.safetensors"
    path.write_bytes(
        len(header).to_bytes(8, "little")
        + header
        + np.array([1.5, -2], np.float32).tobytes()
    )
    assert load(path, {"a": {"b": torch.zeros(2)}})["a"]["b"].tolist() == [
        1.5,
        -2,
    ]
    np.savez(tmp_path / "m.npz", **{"x": np.arange(6).reshape(2, 3)})
    wanted = {"x": torch.zeros((2, 3), dtype=torch.int64)}
    assert load(tmp_path / "m.npz", wanted)["x"].tolist() == [
        [0, 1, 2],
        [3, 4, 5],
    ]


def test_steps_and_items(tmp_path: Path) -> None:
    for step in (1, 2):
        holdfast.save(tmp_path / str(step), {"w": np.full(2, step)})
    wanted = {"w": torch.zeros(2, dtype=torch.int64)}
    assert load(tmp_path, wanted)["w"].tolist() == [2, 2]
    assert load(tmp_path, wanted, step=1)["w"].tolist() == [1, 1]


def test_everything_without_a_state_dict(ckpt: Path) -> None:
    loader = pytest.importorskip(
        "torch.distributed.checkpoint.state_dict_loader"
    )
    if not hasattr(loader, "_load_state_dict_from_keys"):
        pytest.skip("an older torch")
    warnings.simplefilter("ignore")
    tree = {"a": {"b": torch.ones(2), "c": [1, 2]}, "d": "x"}
    save(ckpt, tree)
    got = loader._load_state_dict_from_keys(storage_reader=StorageReader(ckpt))
    assert got["a"]["b"].tolist() == [1, 1]
    assert got["a"]["c"] == [1, 2] and got["d"] == "x"


def test_leaves_that_torch_lacks(ckpt: Path) -> None:
    import ml_dtypes

    holdfast.save(ckpt, {"w": np.zeros(3, ml_dtypes.int4), "b": np.ones(2)})
    raises(
        errors.InvalidArgumentError,
        "'w': torch has no tensors of int4",
        lambda: load(ckpt, {"w": torch.zeros(3)}),
    )
    got = load(ckpt, {"b": torch.zeros(2, dtype=torch.float64)})
    assert got["b"].tolist() == [1, 1]


def test_the_package_leads_there() -> None:
    assert holdfast.torch.StorageWriter is StorageWriter


def test_paths_and_ids(tmp_path: Path) -> None:
    tree = {"w": torch.ones(2)}
    writer = StorageWriter()
    raises(
        errors.InvalidArgumentError,
        "no path",
        lambda: dcp.save(tree, storage_writer=writer),
    )
    for name in ("a", "b"):
        metadata = dcp.save(
            tree, checkpoint_id=tmp_path / name, storage_writer=writer
        )
        assert writer.checkpoint_id == str(tmp_path / name)
        assert metadata.storage_meta.checkpoint_id == str(tmp_path / name)
        again = pickle.loads(pickle.dumps(writer))
        assert again.checkpoint_id == writer.checkpoint_id
    reader = StorageReader(tmp_path / "a")
    for name in ("a", "b"):
        got = {"w": torch.zeros(2)}
        dcp.load(got, checkpoint_id=tmp_path / name, storage_reader=reader)
        assert got["w"].tolist() == [1, 1]
        assert reader.checkpoint_id == str(tmp_path / name)
    with pytest.raises(dcp.CheckpointException, match="no path"):
        dcp.load(tree, storage_reader=StorageReader())
    assert StorageWriter.validate_checkpoint_id(tmp_path)
    assert StorageReader.validate_checkpoint_id("gs://bucket/7")
    assert not StorageReader.validate_checkpoint_id("azure://bucket/7")
    with pytest.raises(TypeError):
        StorageWriter(tmp_path, custom_metadata={"a": {1}})


def test_an_older_checkpoint_stays(ckpt: Path) -> None:
    save(ckpt, {"w": torch.ones(2)})
    raises(
        errors.AlreadyExistsError,
        str(ckpt),
        lambda: save(ckpt, {"w": torch.zeros(2)}, overwrite=False),
    )
    raises(
        errors.InvalidArgumentError,
        "'bad'.*sparse",
        lambda: save(
            ckpt,
            {"w": torch.zeros(2), "bad": torch.eye(2).to_sparse()},
            overwrite=True,
        ),
    )
    assert load(ckpt, {"w": torch.zeros(2)})["w"].tolist() == [1, 1]
    assert [each.name for each in ckpt.parent.iterdir()] == [ckpt.name]
    save(ckpt, {"w": torch.zeros(2)})
    assert load(ckpt, {"w": torch.ones(2)})["w"].tolist() == [0, 0]


def test_a_second_save_keeps_the_files_of_others(ckpt: Path) -> None:
    save(ckpt, {"w": torch.ones(2)})
    torch.save({"epoch": 1}, ckpt / "meta.pt")
    (ckpt / "logs").mkdir()
    (ckpt / "logs" / "a.txt").write_text("of mine")
    save(ckpt, {"w": torch.zeros(2)})
    assert load(ckpt, {"w": torch.ones(2)})["w"].tolist() == [0, 0]
    assert torch.load(ckpt / "meta.pt", weights_only=True) == {"epoch": 1}
    assert (ckpt / "logs" / "a.txt").read_text() == "of mine"
    torch.save({"epoch": 2}, ckpt / "meta.pt")
    save(ckpt, {"w": torch.ones(2)})
    assert torch.load(ckpt / "meta.pt", weights_only=True) == {"epoch": 2}
    assert holdfast.verify(ckpt)
    assert [each.name for each in ckpt.parent.iterdir()] == [ckpt.name]


def test_what_is_no_checkpoint_is_not_replaced(ckpt: Path) -> None:
    ckpt.mkdir()
    (ckpt / "notes.txt").write_text("of mine")
    raises(
        errors.FailedPreconditionError,
        "notes.txt",
        lambda: save(ckpt, {"w": torch.ones(2)}),
    )
    assert [each.name for each in ckpt.iterdir()] == ["notes.txt"]


def test_an_empty_directory_is_no_obstacle(ckpt: Path) -> None:
    ckpt.mkdir()
    dcp.save({"a": torch.ones(2)}, storage_writer=StorageWriter(ckpt))
    assert holdfast.load(ckpt)["a"].tolist() == [1, 1]
    once = StorageWriter(ckpt, overwrite=False)
    with pytest.raises(dcp.api.CheckpointException, match="already exists"):
        dcp.save({"a": torch.zeros(2)}, storage_writer=once)
    assert holdfast.load(ckpt)["a"].tolist() == [1, 1]
    other = ckpt.parent / "other"
    other.mkdir()
    (other / ".hidden").touch()
    with pytest.raises(dcp.api.CheckpointException, match="hidden"):
        dcp.save({"a": torch.zeros(2)}, storage_writer=StorageWriter(other))
    assert [each.name for each in other.iterdir()] == [".hidden"]


def test_programs_that_give_a_path_alone(
    ckpt: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = pytest.importorskip("torch.distributed.checkpoint._storage_utils")
    monkeypatch.setattr(chosen, "FileSystemWriter", StorageWriter)
    monkeypatch.setattr(chosen, "FileSystemReader", StorageReader)
    ckpt.mkdir()
    dcp.save({"a": torch.ones(2)}, checkpoint_id=ckpt)
    assert holdfast.open(ckpt).format == "orbax"
    state = {"a": torch.zeros(2)}
    dcp.load(state, checkpoint_id=str(ckpt))
    assert state["a"].tolist() == [1, 1]


def test_programs_find_it_by_torchs_own_file(ckpt: Path) -> None:
    dcp.save({"a": torch.ones(2)}, storage_writer=StorageWriter(ckpt))
    assert (ckpt / ".metadata").is_file()
    assert holdfast.open(ckpt).format == "orbax"
    assert holdfast.verify(ckpt)
    # A reader that expects torch's own format gets a clear error.
    with pytest.raises(dcp.api.CheckpointException, match="invalid load key"):
        dcp.load(
            {"a": torch.zeros(2)}, storage_reader=dcp.FileSystemReader(ckpt)
        )
    writer = StorageWriter(ckpt, overwrite=True)
    dcp.save({"a": torch.zeros(2)}, storage_writer=writer)
    assert holdfast.load(ckpt)["a"].tolist() == [0, 0]
    (ckpt / ".metadata").write_text("something else")
    assert not holdfast.verify(ckpt)


def test_saves_without_collectives_are_refused(ckpt: Path) -> None:
    writer = StorageWriter(ckpt)
    with pytest.raises(errors.UnimplementedError, match="use_collectives"):
        writer.set_up_storage_writer(True, rank=0, use_collectives=False)


def test_plans_of_other_writers_are_refused(ckpt: Path) -> None:
    plan = dcp.SavePlan([], storage_data="of another")
    with pytest.raises(errors.FailedPreconditionError, match="str"):
        StorageWriter(ckpt).write_data(plan, DefaultSavePlanner())


def test_the_tree_of_names() -> None:
    data = {"a.0.b": ("a", 0, "b"), "a.2": ("a", 2), "c.d": ("c.d",)}
    paths = [_names.path_of(name, data) for name in [*data, "e.f"]]
    assert paths == [("a", 0, "b"), ("a", 2), ("c.d",), ("e.f",)]
    tree = _names.nested([(path, 1) for path in paths])
    assert tree == {"a": [{"b": 1}, None, 1], "c.d": 1, "e.f": 1}
    for lies in ({"x": ("y",)}, {"x": (0,)}, {"x": ()}, {"x": "x"}, [], None):
        assert _names.path_of("x", lies) == ("x",)
    for paths in (
        [("a",), ("a", "b")],
        [("a", "b"), ("a",)],
        [("a", "b"), ("a", 0)],
        [("a", 10**9)],
    ):
        with pytest.raises(errors.InvalidArgumentError, match="leaf 'a"):
            _names.nested([(path, 1) for path in paths])


def test_how_uneven_parts_are_cut() -> None:
    def plan(*boxes: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
        from torch.distributed.checkpoint.metadata import (
            ChunkStorageMetadata,
            MetadataIndex,
            TensorProperties,
        )
        from torch.distributed.checkpoint.planner import (
            TensorWriteData,
            WriteItem,
            WriteItemType,
        )

        return dcp.SavePlan(
            [
                WriteItem(
                    MetadataIndex("w", offsets),
                    WriteItemType.SHARD,
                    tensor_data=TensorWriteData(
                        ChunkStorageMetadata(
                            torch.Size(offsets), torch.Size(sizes)
                        ),
                        TensorProperties(),
                        torch.Size((3_000_000, 4)),
                    ),
                )
                for offsets, sizes in boxes
            ]
        )

    whole = plan(((0, 0), (3_000_000, 4)))
    assert _chunks.write_shapes([whole]) == {}
    halves = [
        plan(((0, 0), (3_000_000, 2))),
        plan(((0, 2), (3_000_000, 2)), ((3_000_000, 0), (0, 4))),
    ]
    assert _chunks.write_shapes(halves) == {"w": (3_000_000, 2)}
    rows = [plan(((0, 0), (1_000_000, 4)), ((1_000_000, 0), (2_000_000, 4)))]
    assert _chunks.write_shapes(rows) == {"w": (1_000_000, 4)}
    odd = [plan(((0, 0), (1, 4)), ((1, 0), (2_999_999, 4)))]
    with pytest.raises(errors.InvalidArgumentError, match="'w'.*evenly"):
        _chunks.write_shapes(odd)


def test_what_is_plain() -> None:
    for value in PLAIN.values():
        assert _objects.plain_of(_objects.file_of(value).getvalue()) == (
            True,
            value,
        )
    for name, value in OBJECTS.items():
        content = _objects.file_of(value).getvalue()
        assert _objects.plain_of(content) == (False, None), name
    assert _objects.plain_of(b"no file") == (False, None)
    deep: list[Any] = []
    for _ in range(50):
        deep = [deep]
    assert not _objects.is_plain(deep)


def test_marks_that_others_have_made(ckpt: Path) -> None:
    """holdfast.* metadata that holdfast did not write are ignored."""
    save(ckpt, {"t": (1, 2), "o": {1}})
    path = ckpt / "_METADATA"
    text = json.loads(path.read_text())
    assert set(text["custom_metadata"]) == {"holdfast.tree", "holdfast.tuples"}
    assert load(ckpt, {"t": 0}) == {"t": (1, 2)}
