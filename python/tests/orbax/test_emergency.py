"""Emergency checkpoints under Orbax's names, compared with Orbax's own."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from process_jobs import Job

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")

import holdfast.orbax as ours  # noqa: E402
from holdfast.orbax.experimental import emergency  # noqa: E402

PROGRAM = Path(__file__).parent / "emergency_program.py"
CALLS = "emergency_functions:"


def seen(*arguments: str | Path) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = (x for x in done.stdout.splitlines() if x.startswith("SEEN "))
    found: dict[str, Any] = json.loads(line.removeprefix("SEEN "))
    return found


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Path, dict[str, Any]]]:
    """Runs the program with each package; returns {package: (folder, what the
    program has seen)}."""
    made = {}
    for package in ("orbax.checkpoint", "holdfast.orbax"):
        folder = tmp_path_factory.mktemp(package)
        made[package] = folder, seen(PROGRAM, package, folder)
    return made


def test_one_program_sees_the_same(folders: Any) -> None:
    theirs = folders["orbax.checkpoint"][1]
    own = folders["holdfast.orbax"][1]
    assert own["two slices"]["values"] == theirs["two slices"]["values"]
    assert own == theirs


def mesh() -> Any:
    devices = np.array(jax.devices()).reshape(2, 2, 2)
    return jax.sharding.Mesh(devices, ("data", "fsdp", "tensor"))


def abstract_state() -> Any:
    def of(shape: tuple[int, ...], dtype: Any, *axes: Any) -> Any:
        spec = jax.sharding.PartitionSpec(*axes)
        sharding = jax.sharding.NamedSharding(mesh(), spec)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)

    return {
        "rows": of((8, 4), np.float32, "fsdp"),
        "both": of((8, 4), np.float32, "fsdp", "tensor"),
        "layers": [of((19,), np.int32), of((), np.float32)],
        "half": of((16,), jax.numpy.bfloat16),
    }


def elements(tree: Any) -> Any:
    return jax.tree.map(lambda x: (x.dtype, np.asarray(x).tobytes()), tree)


def stock_manager(package: Any, name: str, folder: Path) -> Any:
    module = package.experimental.emergency.checkpoint_manager
    local = folder / "another host"
    local.mkdir()
    return module.CheckpointManager(
        local, folder / name / "persistent", mesh(), abstract_state()
    )


def test_each_restores_what_the_other_has_drained(
    folders: Any, tmp_path: Path
) -> None:
    import orbax.checkpoint.experimental.emergency.checkpoint_manager as theirs

    assert theirs
    restored = []
    for source in ("orbax.checkpoint", "holdfast.orbax"):
        for package in (orbax, ours):
            folder = tmp_path / f"{source} {package.__name__}"
            shutil.copytree(folders[source][0], folder)
            with stock_manager(package, "two slices", folder) as steps:
                assert steps.latest_step() == 20
                restored.append(elements(steps.restore(16).state))
    assert all(tree == restored[0] for tree in restored)
    plain = folders["holdfast.orbax"][0] / "two slices" / "persistent"
    with orbax.CheckpointManager(plain) as steps:
        tree = steps.restore(
            16, args=orbax.args.StandardRestore(abstract_state())
        )
    assert elements(tree) == restored[0]


@pytest.fixture(scope="module")
def four() -> Any:
    with Job(processes=4, devices=2, modules=Path(__file__).parent) as job:
        yield job


def test_a_lost_slice_is_made_again(four: Job, tmp_path: Path) -> None:
    folder = str(tmp_path)
    due = [step % 2 == 0 for step in range(7)]
    saved = four.run(CALLS + "save", folder=folder)
    assert [each[:2] for each in saved] == [[due, [0, 4, 6]]] * 4
    assert [each[2] for each in saved] == [True, False, True, False]
    four.run(CALLS + "stock_restores", folder=folder, step=4)
    for lost in (1, 3):
        shutil.rmtree(tmp_path / f"host{lost}")
    found = four.run(CALLS + "restore", folder=folder, wanted=6)
    assert found == [[[0, 4, 6], "parity", [1, 3]]] * 4
    # Both slices have lost hosts, so only the shared tier is left.
    for lost in range(1, 4):
        shutil.rmtree(tmp_path / f"host{lost}")
    found = four.run(CALLS + "restore", folder=folder, wanted=4)
    assert [each[1] for each in found] == ["shared"] * 4


def state(step: int) -> Any:
    spec = jax.sharding.PartitionSpec("fsdp")
    sharding = jax.sharding.NamedSharding(mesh(), spec)
    return {
        "w": jax.device_put(np.arange(8.0) + step, sharding),
        "step": step,
    }


def saving(step: int, dtype: Any = None, **more: Any) -> Any:
    """Returns save arguments as MaxText makes them, with a chunk size for each
    leaf."""
    save_args = jax.tree.map(
        lambda _: ours.SaveArgs(chunk_byte_size=1 << 20, dtype=dtype),
        state(step),
    )
    return ours.args.Composite(
        state=ours.args.PyTreeSave(state(step), save_args), **more
    )


def test_replicator_asks_for_a_backup(tmp_path: Path) -> None:
    module = emergency.replicator_checkpoint_manager
    options = module.ReplicatorCheckpointManagerOptions(save_interval_steps=2)
    with module.ReplicatorCheckpointManager(
        tmp_path, options, global_mesh=mesh()
    ) as steps:
        assert steps.save(0, saving(0))
        assert not steps.save(1, saving(1), backup=True)
        assert steps.save(2, saving(2), backup=True)
        steps.wait_until_finished()
        asked = list(tmp_path.rglob("_BACKUP_REQUESTED"))
        assert [path.stat().st_size for path in asked] == [0]
        assert asked[0].parent.parent.name.startswith("2."), asked
        restore = ours.args.PyTreeRestore()
        got = steps.restore(2, ours.args.Composite(state=restore)).state
        assert elements(got["w"]) == elements(state(2)["w"])


def test_replicator(tmp_path: Path) -> None:
    module = emergency.replicator_checkpoint_manager
    options = module.ReplicatorCheckpointManagerOptions(save_interval_steps=2)
    restore = ours.args.PyTreeRestore
    with module.ReplicatorCheckpointManager(
        tmp_path / "local",
        options,
        global_mesh=mesh(),
        persistent_directory=tmp_path / "data",
    ) as steps:
        with pytest.raises(FileNotFoundError, match="No steps found"):
            steps.restore(None, ours.args.Composite(state=restore()))
        data = ours.args.JsonSave({"position": 7})
        saved = [steps.save(s, saving(s, dataset=data)) for s in range(5)]
        assert saved == [True, False, True, False, True]
        steps.wait_until_finished()
        assert steps.all_steps(read=True) == [0, 2, 4]
        whole = jax.sharding.NamedSharding(mesh(), jax.sharding.PartitionSpec())
        for args, sharding in (
            (restore(), state(0)["w"].sharding),
            (restore(item=state(0)), state(0)["w"].sharding),
            (
                restore(
                    restore_args={
                        "w": ours.ArrayRestoreArgs(sharding=whole),
                        "step": ours.RestoreArgs(),
                    }
                ),
                whole,
            ),
        ):
            got = steps.restore(2, ours.args.Composite(state=args)).state
            assert got["step"] == 2 and got["w"].sharding == sharding
            assert elements(got["w"]) == elements(state(2)["w"])
        got = steps.restore(
            None,
            ours.args.Composite(
                state=restore(), dataset=ours.args.JsonRestore()
            ),
        )
        assert got.state["step"] == 4 and got.dataset == {"position": 7}
        with pytest.raises(ValueError, match="state is a required key"):
            steps.save(9, ours.args.Composite(other=data))
        with pytest.raises(ValueError, match="not supported by this"):
            steps.save(9, saving(9, other=data))
        with pytest.raises(ValueError, match="has no items"):
            steps.restore(
                4, ours.args.Composite(state=restore(), other=restore())
            )
        with pytest.raises(NotImplementedError, match="cast them before"):
            steps.save(9, saving(9, np.float16))
        with pytest.raises(NotImplementedError, match="best_step is not"):
            steps.best_step()
    with pytest.raises(ValueError, match="requires a Pathways backend"):
        module.ReplicatorCheckpointManager(
            tmp_path,
            module.ReplicatorCheckpointManagerOptions(
                use_colocated_python=True
            ),
            global_mesh=mesh(),
        )


def test_p2p(tmp_path: Path) -> None:
    p2p = emergency.p2p
    options = p2p.options.CheckpointManagerOptions(
        local=p2p.options.LocalCheckpointOptions(
            save_interval_steps=2, save_interval_offset_steps=1, max_to_keep=2
        ),
        persistent=p2p.options.PersistentCheckpointOptions(
            save_interval_steps=3
        ),
    )
    with p2p.checkpoint_manager.CheckpointManager(
        mesh(),
        None,
        tmp_path / "local",
        tmp_path / "persistent",
        options=options,
    ) as steps:
        saved = [
            steps.save(s, p2p.args.Composite(state=saving(s).state))
            for s in range(7)
        ]
        assert saved == [True, True, False, True, False, True, True]
        steps.wait_until_finished()
        assert steps.all_steps(read=True) == [0, 3, 5, 6]
        assert (steps.latest_step(), steps.metrics(5)) == (6, None)
        asked = ours.args.PyTreeRestore(item=state(0))
        for step in (0, 5):
            got = steps.restore(step, p2p.args.Composite(state=asked))
            assert elements(got.state["w"]) == elements(state(step)["w"])
        with pytest.raises(ValueError, match="`args` parameter is required"):
            steps.restore(5, None)
    with orbax.CheckpointManager(tmp_path / "persistent") as stock:
        assert stock.all_steps() == [0, 3, 6]
        tree = stock.restore(
            3,
            args=orbax.args.Composite(
                state=orbax.args.StandardRestore(state(0))
            ),
        ).state
    assert elements(tree["w"]) == elements(state(3)["w"])
    with pytest.raises(ValueError, match='must contain "state" key'):
        p2p.args.Composite(data_iter=1)
    with pytest.raises(ValueError, match="Unsupported key in Composite"):
        p2p.args.Composite(state=1, other=2)


def test_an_iterator_of_grain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    p2p = emergency.p2p

    @dataclasses.dataclass
    class Args:
        item: Any

    class Save(Args):
        pass

    class Restore(Args):
        pass

    class Iterator:
        def __init__(self, state: bytes = b"") -> None:
            self.state = state

        def get_state(self) -> bytes:
            return self.state

        def set_state(self, state: bytes) -> None:
            self.state = state

    monkeypatch.setitem(sys.modules, "grain", types.ModuleType("grain"))
    monkeypatch.setitem(sys.modules, "grain.python", None)
    with pytest.raises(ImportError, match="grain library is not available"):
        p2p.args.Composite(state=1, data_iter=Save(Iterator()))
    grain = types.ModuleType("grain.python")
    vars(grain).update(
        PyGrainCheckpointSave=Save, PyGrainCheckpointRestore=Restore
    )
    monkeypatch.setitem(sys.modules, "grain.python", grain)
    with pytest.raises(TypeError, match="Unsupported type for data_iter"):
        p2p.args.Composite(state=1, data_iter=2)
    options = p2p.options.CheckpointManagerOptions(
        local=p2p.options.LocalCheckpointOptions(save_interval_steps=1)
    )
    with p2p.checkpoint_manager.CheckpointManager(
        mesh(), state(0), tmp_path / "local", options=options
    ) as steps:
        composite = p2p.args.Composite
        args = composite(state=saving(3).state, data_iter=Save(Iterator(b"x7")))
        assert steps.save(3, args)
        asked = composite(
            state=ours.args.PyTreeRestore(), data_iter=Restore(Iterator())
        )
        got = steps.restore(None, asked)
        assert got.data_iter is asked.data_iter.item
        assert got.data_iter.state == b"x7" and got.state["step"] == 3
        assert steps.directory == as_path(tmp_path / "local")


def test_what_is_kept_and_saved(tmp_path: Path) -> None:
    module = emergency.checkpoint_manager
    (tmp_path / "local").mkdir()
    options = module.CheckpointManagerOptions(
        local=module.LocalCheckpointOptions(read_only=True),
        persistent=module.PersistentCheckpointOptions(
            save_interval_steps=2, max_to_keep=1, keep_period=4
        ),
        enable_async_checkpointing=False,
    )
    with module.CheckpointManager(
        tmp_path / "local",
        tmp_path / "persistent",
        mesh(),
        state(0),
        options=options,
        persistent_non_replicated_directory=tmp_path / "data",
    ) as steps:
        saved = [
            steps.save(s, saving(s, dataset=ours.args.JsonSave({"at": s})))
            for s in range(9)
        ]
        assert saved == [s % 2 == 0 for s in range(9)]
        kept = sorted(p.name for p in (tmp_path / "persistent").glob("[0-9]*"))
        assert kept == ["0", "4", "8"]
        got = steps.restore(
            4, ours.args.Composite(dataset=ours.args.JsonRestore())
        )
        assert got.dataset == {"at": 4}
        assert elements(got.state["w"]) == elements(state(4)["w"])


def test_programs_that_import_orbax(tmp_path: Path) -> None:
    found = seen(
        "-m", "holdfast.as_orbax", PROGRAM, "orbax.checkpoint", tmp_path
    )
    assert found["two slices"]["kept"] == [10, 15]
    tiers = tmp_path / "two slices" / "local" / "orbax_emergency"
    assert list(tiers.glob("20.*"))


def test_what_cannot_be_is_refused_in_words(tmp_path: Path) -> None:
    module = emergency.checkpoint_manager
    policy = ours.preservation_policy.PreserveAll()
    for options, words in (
        (
            module.CheckpointManagerOptions(
                local=module.LocalCheckpointOptions(preservation_policy=policy)
            ),
            "the hosts keep only the newest",
        ),
        (
            module.CheckpointManagerOptions(
                step_name_format=ours.step.standard_name_format(
                    step_prefix="step"
                )
            ),
            "named by their plain numbers",
        ),
    ):
        with pytest.raises(NotImplementedError, match=words):
            module.CheckpointManager(
                tmp_path,
                tmp_path / "persistent",
                mesh(),
                state(0),
                options=options,
            )
    with pytest.raises(NotImplementedError, match=r"holdfast\.TieredManager"):
        emergency.p2p.service.P2PNode(tmp_path)


def test_files_of_process_metadata(tmp_path: Path) -> None:
    for package in ("orbax.checkpoint", "holdfast.orbax"):
        handlers = pytest.importorskip(
            f"{package}.experimental.emergency"
            ".process_metadata_checkpoint_handler"
        )
        handler = handlers.ProcessMetadataCheckpointHandler(
            distributed_to_device_ids_fn=lambda: [[0, 1], [2, 3]]
        )
        path = as_path(tmp_path / package)
        handler.save(path, handlers.ProcessMetadataSaveArgs(mesh()))
    first, second = tmp_path / "orbax.checkpoint", tmp_path / "holdfast.orbax"
    names = sorted(path.name for path in first.iterdir())
    assert names == sorted(path.name for path in second.iterdir())
    for name in names:
        assert (first / name).read_text() == (second / name).read_text()
    own = emergency.mesh_consistency.read_process_metadata(as_path(first))
    assert own == ([[0, 1], [2, 3]], [d.id for d in mesh().devices.flat])


def as_path(path: Path) -> Any:
    from etils import epath

    return epath.Path(path)
