"""Programs that import Orbax, run on holdfast."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from conftest import Script

pytest.importorskip("orbax.checkpoint")

_RUN = (sys.executable, "-m", "holdfast.as_orbax")


def run(*command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with additional environment variables."""
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
        timeout=300,
    )


def test_modules_are_the_same_objects(run_python: Script) -> None:
    run_python("""
import holdfast.as_orbax
import importlib, pkgutil, pickle, sys
import orbax.checkpoint as ocp
from orbax import checkpoint
import orbax.checkpoint.metadata.value as value
from orbax.checkpoint.experimental import v1
import holdfast.orbax

assert ocp is checkpoint is holdfast.orbax
assert ocp.args is holdfast.orbax.args
for found in pkgutil.walk_packages(ocp.__path__, "holdfast.orbax."):
    name = found.name.removeprefix("holdfast.orbax.")
    if any(part.startswith("_") for part in name.split(".")):
        continue
    ours = importlib.import_module(found.name)
    theirs = importlib.import_module(f"orbax.checkpoint.{name}")
    assert theirs is ours, name
    assert ours.__spec__.name == found.name
assert v1.training.Checkpointer is holdfast.orbax.v1.training.Checkpointer
info = ocp.RestoreArgs(restore_type=int)
assert isinstance(info, holdfast.orbax.RestoreArgs)
assert pickle.loads(pickle.dumps(info)) == info
assert not [name for name in sys.modules if name.startswith("tensorstore")]
""")


def test_private_modules_of_orbax(run_python: Script) -> None:
    run_python("""
import holdfast.as_orbax
import importlib
from holdfast.as_orbax._names import ORBAX, _PRIVATE
import orbax.checkpoint as ocp

for path, ours in _PRIVATE.items():
    module = importlib.import_module(f"{ORBAX}.{path}")
    assert module is importlib.import_module(f"holdfast.orbax.{ours}"), path
# Importing Orbax is enough for these.
assert ocp._src.path.step is ocp.step
assert ocp.experimental.v1.Context is ocp.v1.Context
""")


def test_pickles_that_name_orbax(run_python: Script) -> None:
    by_orbax = run_python("""
import pickle, sys
import orbax.checkpoint as ocp
print(pickle.dumps(ocp.SaveArgs(aggregate=True)).hex())
""").stdout.split()[-1]
    run_python(f"""
import holdfast.as_orbax, pickle
import holdfast.orbax
args = pickle.loads(bytes.fromhex({by_orbax!r}))
assert type(args) is holdfast.orbax.SaveArgs
assert args.aggregate
""")


def test_names_that_are_not_orbaxs(run_python: Script) -> None:
    run_python("""
import holdfast.as_orbax, pytest
for name in ("_jax", "nothing_of_the_kind", "_src.nothing", "args.nothing"):
    with pytest.raises(ModuleNotFoundError, match=name.split(".")[-1]):
        __import__(f"orbax.checkpoint.{name}")
import orbax.checkpoint
assert not hasattr(orbax.checkpoint._src, "nothing")
with pytest.raises(ImportError, match="nothing"):
    from orbax.checkpoint import nothing
""")


def test_machinery_that_only_orbax_calls(run_python: Script) -> None:
    """Libraries import such names everywhere, so they exist, but refuse to be
    used."""
    run_python("""
import holdfast.as_orbax, pytest
import jax
from orbax.checkpoint._src.serialization import (
    async_io_engine, cloud_pathways_array_handler, cloud_pathways_helper,
    replica_slices, serialization,
)
import orbax.checkpoint as ocp
import orbax.checkpoint._src.serialization.ocdbt_process_spec
assert replica_slices.__name__.startswith("orbax.checkpoint._src")
words = "not supported: .*started without holdfast.as_orbax"
for call in (
    lambda: replica_slices.get_replica_slices(jax.numpy.ones(2), 0, False),
    replica_slices.ReplicaSlices,
    serialization.async_serialize,
    cloud_pathways_helper.write_arrays,
    async_io_engine.AsyncIoEngine,
):
    with pytest.raises(NotImplementedError, match=words):
        call()
handler = cloud_pathways_array_handler.CloudPathwaysArrayHandler
assert issubclass(handler, ocp.type_handlers.ArrayHandler)
with pytest.raises(NotImplementedError, match="Pathways' persistence"):
    handler()
assert cloud_pathways_array_handler.extract_parent_dir_and_name([]) == ([], [])
class Handler(ocp.StandardCheckpointHandler):
    def primary(self):
        return self._impl._primary_host
assert Handler().primary() == 0
assert ocp.AsyncCheckpointer(Handler())._primary_host == 0
""")


def test_the_flag_of_distributed_ids(run_python: Script, ckpt: Path) -> None:
    """MaxText sets the flag even with one process, without
    `jax.distributed`."""
    run_python(f"""
import holdfast.as_orbax
from absl import flags
import jax, numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import multihost
flags.FLAGS(["program"])
flags.FLAGS.experimental_orbax_use_distributed_process_id = True
device = jax.devices()[0]
assert multihost.process_index() == 0
assert multihost.process_index_from_device(device) == 0
assert multihost.unique_processes_from_devices(np.array([device])) == {{0}}
multihost.initialize_runtime_to_distributed_ids()
multihost.initialize_distributed_to_device_ids()
assert multihost.runtime_to_distributed_ids() == [0]
assert multihost.distributed_to_device_ids() == [[d.id for d in jax.devices()]]
state = {{"w": jax.numpy.arange(4.0)}}
with ocp.CheckpointManager({str(ckpt)!r}) as manager:
    manager.save(0, args=ocp.args.StandardSave(state))
    manager.wait_until_finished()
    got = manager.restore(0, args=ocp.args.StandardRestore(state))
np.testing.assert_array_equal(got["w"], state["w"])
""")


def test_other_packages_of_the_namespace(
    run_python: Script, tmp_path: Path
) -> None:
    folder = tmp_path / "orbax" / "export"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("WHO = 'orbax'\n")
    (folder / "checkpoint.py").write_text("WHO = 'its own'\n")
    run_python(
        """
import sys
sys.path.insert(0, sys.argv[1])
import holdfast.as_orbax
import orbax.checkpoint
from orbax import export
import orbax.export.checkpoint
assert (export.WHO, export.checkpoint.WHO) == ("orbax", "its own")
""",
        tmp_path,
    )


def test_without_orbax(run_python: Script) -> None:
    run_python("""
import sys, holdfast.as_orbax, holdfast.orbax, holdfast.orbax.v1
sys.path.clear()
import orbax.checkpoint as ocp
assert ocp is holdfast.orbax
""")


def test_orbax_that_came_first(run_python: Script) -> None:
    run_python("""
import pytest, sys
import orbax.checkpoint as ocp
with pytest.raises(ImportError) as info:
    import holdfast.as_orbax
assert ocp.__file__ in str(info.value)
assert "python -m holdfast.as_orbax" in str(info.value)
assert sys.modules["orbax.checkpoint"] is ocp
import orbax.checkpoint.args
assert orbax.checkpoint.args.__name__ == "orbax.checkpoint.args"
""")


_PROGRAM = """
import multiprocessing, os, sys
import orbax.checkpoint as ocp
import neighbour

def save(path):
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(path, {"a": neighbour.VALUE})

if __name__ == "__main__":
    assert sys.modules["__main__"].save is save
    save(os.path.abspath(sys.argv[1]))
    print(ocp.__name__, sys.argv[1:])
    sys.exit(7)
"""


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Returns a script that has a module next to it."""
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "neighbour.py").write_text(
        "import numpy\nVALUE = numpy.arange(3)\n"
    )
    (folder / "script.py").write_text(_PROGRAM)
    return folder


def test_running_a_script(program: Path, ckpt: Path) -> None:
    import holdfast

    done = run(*_RUN, program / "script.py", ckpt, "--steps")
    assert done.returncode == 7, done.stderr
    assert done.stdout.endswith(f"holdfast.orbax ['{ckpt}', '--steps']\n")
    np.testing.assert_array_equal(holdfast.load(ckpt)["a"], np.arange(3))


def test_running_a_module(program: Path, ckpt: Path) -> None:
    path = os.pathsep.join([str(program), *sys.path])
    done = run(*_RUN, "-m", "script", ckpt, PYTHONPATH=path)
    assert done.returncode == 7, done.stderr
    assert done.stdout.endswith(f"holdfast.orbax ['{ckpt}']\n")


def test_running_code() -> None:
    code = "import sys, orbax.checkpoint as o; print(o.__name__, sys.argv)"
    done = run(*_RUN, "-c", code, "-m", "x")
    assert done.stdout == "holdfast.orbax ['-c', '-m', 'x']\n", done.stderr


def test_wrong_command_lines() -> None:
    for arguments in ((), ("-m",), ("--instal",)):
        done = run(*_RUN, *arguments)
        assert done.returncode == 1
        assert "usage: python -m holdfast.as_orbax" in done.stderr
    assert run(*_RUN, "--help").stdout.startswith("Runs a program")


def test_the_variable_of_the_environment(tmp_path: Path) -> None:
    home = tmp_path / "venv"
    venv.create(home, symlinks=True)
    python = home / "bin" / "python"
    packages = next((home / "lib").glob("python*/site-packages"))
    (packages / "base.pth").write_text("\n".join(filter(None, sys.path)))
    code = "import orbax.checkpoint as o; print(o.__name__)"

    def who(**variables: str) -> str:
        return run(python, "-c", code, **variables).stdout.strip()

    assert who(HOLDFAST_AS_ORBAX="1") == "orbax.checkpoint"
    done = run(python, "-m", "holdfast.as_orbax", "--install")
    written = packages / "holdfast_as_orbax.pth"
    assert f"wrote {written}: programs of {python}" in done.stdout, done.stderr
    assert who(HOLDFAST_AS_ORBAX="1") == "holdfast.orbax"
    assert who(HOLDFAST_AS_ORBAX="0") == "orbax.checkpoint"
    spawned = (
        "import subprocess, sys;"
        f"print(subprocess.check_output([sys.executable, '-c', {code!r}]))"
    )
    done = run(python, "-m", "holdfast.as_orbax", "-c", spawned)
    assert "holdfast.orbax" in done.stdout, done.stderr

    done = run(python, "-m", "holdfast.as_orbax", "--uninstall")
    assert done.stdout == f"removed {written}\n"
    assert who(HOLDFAST_AS_ORBAX="1") == "orbax.checkpoint"
    done = run(python, "-m", "holdfast.as_orbax", "--uninstall")
    assert done.stdout == f"nothing to remove: {written} does not exist\n"
