"""holdfast.TieredManager in one process. test_tier_ranks.py uses several."""

from __future__ import annotations

import dataclasses
import gc
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Script

import holdfast
from holdfast import _engine, errors


def state(step: int) -> dict[str, Any]:
    rng = np.random.default_rng(step)
    return {
        "params": {"w": rng.standard_normal((300, 70)), "b": np.arange(step)},
        "ints": {3: np.float32(step)},
        "step": step,
    }


def check(got: Any, step: int) -> None:
    wanted = state(step)
    np.testing.assert_array_equal(got["params"]["w"], wanted["params"]["w"])
    np.testing.assert_array_equal(got["params"]["b"], wanted["params"]["b"])
    assert (got["step"], got["ints"][3]) == (step, step)


@pytest.mark.parametrize(
    ("python", "engine"),
    [
        (holdfast.LocalTierOptions("x"), _engine.LocalTierOptions()),
        (holdfast.SharedTierOptions("x"), _engine.SharedTierOptions()),
        (holdfast.ParityOptions(), _engine.ParityOptions()),
    ],
)
def test_defaults_are_the_engines(python: Any, engine: Any) -> None:
    for field in dataclasses.fields(python):
        if field.name != "directory":
            ours = getattr(python, field.name)
            assert ours == getattr(engine, field.name), field.name


def test_files_have_names_of_their_own(tmp_path: Path) -> None:
    with holdfast.TieredManager(tmp_path) as tiers:
        tiers.save(1, state(1))
        for path in ("default/_METADATA", "_METADATA", "../x", "/x"):
            tiers.save(2, state(2), files={path: b"{}"})
            with pytest.raises(errors.InvalidArgumentError, match="files"):
                tiers.wait_protected()
        assert [step.step for step in tiers.steps()] == [1]
        check(tiers.restore(), 1)


def test_save_and_restore(tmp_path: Path) -> None:
    local = holdfast.LocalTierOptions(tmp_path / "own", save_every=2)
    shared = holdfast.SharedTierOptions(tmp_path / "all", save_every=6)
    with holdfast.TieredManager(local, shared=shared) as tiers:
        assert tiers.restored is None
        with pytest.raises(errors.NotFoundError, match="no step can be"):
            tiers.restore()
        saved = [tiers.save(step, state(step)) for step in range(1, 9)]
        assert saved == [step % 2 == 0 for step in range(1, 9)]
        assert not tiers.should_save(9)
        assert tiers.save(9, state(9), force=True, files={"a/b": b"\x00more"})
        tiers.wait()
        check(tiers.restore(), 9)
        assert tiers.restored is not None
        assert (tiers.restored.step, tiers.restored.source) == (9, "local")
        assert tiers.restored.notes == tiers.restored.rebuilt_ranks == []
        assert tiers.read_file("a/b") == b"\x00more"
        check(tiers.restore(step=6), 6)
        assert tiers.restored.source == "shared"
        assert [(s.step, s.is_local, s.is_shared) for s in tiers.steps()] == [
            (9, True, False),
            (6, False, True),
        ]
        stats = tiers.stats()
        assert stats.data_bytes > 0 and stats.drained_bytes > 0
        with pytest.raises(errors.NotFoundError, match="want step 4"):
            tiers.restore(step=4)
    assert tiers.stats() == stats
    assert holdfast.steps(tmp_path / "all") == [6]
    check(holdfast.load(tmp_path / "all" / "6", item="default"), 6)


def test_restore_as_load_does(tmp_path: Path) -> None:
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(3, state(3))
        target = {
            "params": {"w": np.empty((300, 70)), "b": ...},
            "ints": ...,
            "step": 0,
        }
        got = tiers.restore(target)
        np.testing.assert_array_equal(
            got["params"]["w"], state(3)["params"]["w"]
        )
        assert got["params"]["b"] is ...
        target["params"]["w"] = np.empty((300, 71))
        with pytest.raises(errors.InvalidArgumentError, match=r"params\.w"):
            tiers.restore(target)


def test_what_was_given_may_change_at_once(tmp_path: Path) -> None:
    tree = state(4)
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(4, tree)
        tree["params"]["w"] += 1
        check(tiers.restore(), 4)


def test_the_trees_memory_is_given_back(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    # The manager keeps a reference to the jax array and does not copy it.
    array = jax.device_put(np.arange(1000.0))
    held = weakref.ref(array)
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(1, {"w": array})
        tiers.wait_protected()
        del array
        gc.collect()
        assert held() is None


def test_a_directory_has_one_manager(tmp_path: Path) -> None:
    first = holdfast.TieredManager(tmp_path / "own")
    with pytest.raises(errors.AlreadyExistsError):
        holdfast.TieredManager(tmp_path / "own")
    first.close()
    first.close()
    with pytest.raises(errors.FailedPreconditionError, match="it is closed"):
        first.save(1, state(1))
    with holdfast.TieredManager(tmp_path / "own"):
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"local": holdfast.LocalTierOptions("x", save_every=0)}, "save_every"),
        ({"parity": holdfast.ParityOptions(data_shards=0)}, "data_shards"),
        ({"item": "a/b"}, "not a plain name"),
        ({"compression": "gzip"}, "gzip"),
    ],
)
def test_wrong_options(
    options: dict[str, Any],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(errors.InvalidArgumentError, match=words):
        holdfast.TieredManager(**{"local": "x", **options})
    with pytest.raises(TypeError):
        holdfast.TieredManager("x", port="many")  # type: ignore[arg-type]


def test_what_cannot_be_saved(tmp_path: Path) -> None:
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(1, state(1))
        with pytest.raises(errors.InvalidArgumentError, match="'w'"):
            tiers.save(2, {"w": object()})
        with pytest.raises(errors.InvalidArgumentError, match="'w'"):
            tiers.wait()
        with pytest.raises(errors.InvalidArgumentError, match="negative"):
            tiers.save(-1, state(1))
        with pytest.raises(TypeError):
            tiers.save(3, state(3), files={"a": "text"})  # type: ignore[dict-item]
        with pytest.raises(errors.InvalidArgumentError, match="TypeError"):
            tiers.wait()
        check(tiers.restore(), 1)


def test_damage_is_passed_over_in_words(tmp_path: Path) -> None:
    said: list[str] = []
    local = holdfast.LocalTierOptions(tmp_path / "own", max_to_keep=2)
    with holdfast.TieredManager(local, warn=said.append) as tiers:
        tiers.save(1, state(1))
        tiers.save(2, state(2))
        tiers.wait()
        # The largest file has the arrays.
        path = max(
            (tmp_path / "own" / "run").glob("2.*/files/**/d/*"),
            key=lambda path: path.stat().st_size,
        )
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        check(tiers.restore(), 1)
        assert tiers.restored is not None
        (note,) = tiers.restored.notes
        assert "step 2 of the local tier is skipped" in note
        assert said == [note]


FORKED = """
import os, sys
import numpy as np
import holdfast

tiers = holdfast.TieredManager(sys.argv[1])
tiers.save(1, {"w": np.ones(9)})
child = os.fork()
if child == 0:
    try:
        tiers.save(2, {"w": np.ones(9)})
    except holdfast.errors.FailedPreconditionError as error:
        assert "parent" in str(error)
        del tiers
        sys.exit(7)
    sys.exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert tiers.restore()["w"].sum() == 9
print("parent is well")
"""


def test_a_forked_child_leaves_it_alone(
    run_python: Script, tmp_path: Path
) -> None:
    assert "parent is well" in run_python(FORKED, tmp_path / "own").stdout


OPEN_AT_THE_END = """
import sys
import numpy as np
import holdfast

tiers = holdfast.TieredManager(sys.argv[1])
tiers.save(1, {f"a{i}": np.full(100_000, i) for i in range(40)})
"""


def test_the_end_of_the_program_waits(
    run_python: Script, tmp_path: Path
) -> None:
    run_python(OPEN_AT_THE_END, tmp_path / "own")
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        assert tiers.restore()["a39"].tolist() == [39] * 100_000
        assert tiers.steps()[0].is_protected


def test_threads_take_turns(tmp_path: Path) -> None:
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        threads = [
            threading.Thread(target=tiers.save, args=(step, state(step)))
            for step in range(1, 6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        tiers.wait()
        found = tiers.restore()
        check(found, found["step"])


def test_jax_arrays_over_devices(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    spec = jax.sharding.PartitionSpec

    def put(values: Any, *axes: Any) -> Any:
        sharding = jax.sharding.NamedSharding(mesh, spec(*axes))
        return jax.device_put(values, sharding)

    values = np.random.default_rng(0).standard_normal((16, 8), np.float32)
    tree = {
        "both": put(values, "x", "y"),
        "rows": put(values, "y"),
        "whole": put(values),
        "key": jax.random.key(3),
        "scalar": jax.numpy.float32(2.5),
    }
    with holdfast.TieredManager(
        tmp_path / "own",
        shared=holdfast.SharedTierOptions(tmp_path / "all", save_every=1),
    ) as tiers:
        tiers.save(1, tree)
        tiers.wait()
        target = {**tree, "both": put(np.zeros_like(values), None, "x")}
        got = tiers.restore(target)
        assert got["both"].sharding == target["both"].sharding
        for name in ("both", "rows", "whole"):
            assert np.asarray(got[name]).tobytes() == values.tobytes()
        assert got["scalar"] == 2.5
        assert jax.random.uniform(got["key"]) == jax.random.uniform(tree["key"])
        assert isinstance(tiers.restore(arrays="jax")["rows"], jax.Array)
    assert holdfast.verify(tmp_path / "all" / "1")


def test_a_default_device_holds_while_it_restores(tmp_path: Path) -> None:
    jax = pytest.importorskip("jax")
    device = jax.devices()[5]
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(1, {"w": np.ones(4, np.float32)})
        with jax.default_device(device):
            got = tiers.restore(arrays="jax")["w"]
        assert got.devices() == {device}


def test_torch_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    tree = {
        "half": torch.randn(50, 6).to(torch.bfloat16),
        "long": torch.arange(7),
    }
    kept = {name: tensor.clone() for name, tensor in tree.items()}
    with holdfast.TieredManager(tmp_path / "own") as tiers:
        tiers.save(1, tree)
        for tensor in tree.values():
            tensor.zero_()
        for got in (tiers.restore(tree), tiers.restore(arrays="torch")):
            for name, tensor in kept.items():
                assert got[name].dtype == tensor.dtype
                assert torch.equal(got[name], tensor)


def test_a_model_in_place(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    if not torch.distributed.is_available():
        pytest.skip("torch without torch.distributed")
    import holdfast.torch

    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    wanted = model.weight.detach().clone()
    with holdfast.torch.TieredManager(tmp_path / "own") as tiers:
        assert tiers.restore(model=model, optimizer=optimizer) == {}
        assert tiers.next_step == 0
        with pytest.raises(errors.NotFoundError):
            tiers.restore(model=model, step=3)
        assert tiers.save(4, model=model, optimizer=optimizer, epoch=2)
        with torch.no_grad():
            model.weight.zero_()
        rest = tiers.restore(model=model, optimizer=optimizer)
        assert rest == {"epoch": 2} and tiers.next_step == 5
        assert torch.equal(model.weight, wanted)
        with pytest.raises(errors.InvalidArgumentError, match="model.bias"):
            tiers.restore(model=torch.nn.Linear(5, 3, bias=False))
        for call in (lambda: tiers.save(5), tiers.wait):
            with pytest.raises(errors.InvalidArgumentError, match="nothing"):
                call()


def test_import_needs_numpy_alone(run_python: Script, tmp_path: Path) -> None:
    program = """
import sys
import numpy as np
import holdfast
with holdfast.TieredManager(sys.argv[1]) as tiers:
    tiers.save(1, {"w": np.ones(3)})
    tiers.restore()
print([m for m in ("jax", "torch", "ml_dtypes") if m in sys.modules])
"""
    assert run_python(program, tmp_path / "own").stdout == "[]\n"
    assert os.listdir(tmp_path / "own" / "run")
