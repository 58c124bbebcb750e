"""Programs that tests/remote/test_python.py runs in other processes, and
functions that they share with tests.

python python_programs.py NAME ARGUMENT...
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np


def state_of(step: int) -> dict[str, Any]:
    """Returns the state of a training program after a step."""
    rng = np.random.default_rng(step)
    return {
        "w": rng.standard_normal((64, 32), dtype=np.float32),
        "b": np.arange(32, dtype=np.int32) + step,
        "step": step,
    }


@contextlib.contextmanager
def this_process_at(server: Any) -> Iterator[None]:
    """Makes holdfast in this process use a server of servers.py, until the
    context ends."""
    from holdfast import remote

    kept = dict(os.environ)
    environment = server.environment()
    os.environ.clear()
    os.environ.update(environment)
    remote.configure(remote.Settings())
    yield
    os.environ.clear()
    os.environ.update(kept)
    remote.configure(remote.Settings())


def train(url: str, last: str, stuck: str) -> None:
    """Saves one step after the other; the save of step `stuck` never ends."""
    import jax
    import jax.numpy as jnp

    import holdfast.orbax as ocp

    cursor = ocp.JsonCheckpointHandler()
    write = cursor._write

    def write_or_hang(directory: Any, text: str) -> None:
        write(directory, text)
        if directory.parent.name == stuck:  # the machine dies in this save
            print("in the middle", flush=True)
            time.sleep(600)

    cursor._write = write_or_hang  # type: ignore[method-assign]
    options = ocp.CheckpointManagerOptions(
        max_to_keep=2, enable_async_checkpointing=False
    )
    with ocp.CheckpointManager(
        url,
        options=options,
        item_handlers={
            "state": ocp.StandardCheckpointHandler(),
            "cursor": cursor,
        },
    ) as manager:
        first = manager.latest_step()
        state = jax.tree.map(jnp.asarray, state_of(0))
        if first is not None:
            restored = manager.restore(
                first,
                args=ocp.args.Composite(
                    state=ocp.args.StandardRestore(state),
                    cursor=ocp.args.JsonRestore(),
                ),
            )
            assert restored.cursor == {"step": first}
            np.testing.assert_array_equal(
                restored.state["w"], state_of(first)["w"]
            )
        print(f"from {first}", flush=True)
        for step in range((first or 0) + 1, int(last) + 1):
            manager.save(
                step,
                args=ocp.args.Composite(
                    state=ocp.args.StandardSave(
                        jax.tree.map(jnp.asarray, state_of(step))
                    ),
                    cursor=ocp.args.JsonSave({"step": step}),
                ),
            )
        print(f"steps {list(manager.all_steps())}", flush=True)


def _orbax_on_remote_paths() -> Any:
    """Returns stock Orbax, for which `epath.Path("gs://…")` is a RemotePath.

    Orbax cannot use gs:// without Google's or TensorFlow's packages; arrays go
    through TensorStore's own drivers.
    """
    from etils import epath

    from holdfast import remote

    epath.register_path_cls(["gs://", "s3://"])(remote.RemotePath)
    import orbax.checkpoint as ocp

    return ocp


def orbax_saves(url: str) -> None:
    """Saves step 3 at the URL with stock Orbax."""
    ocp = _orbax_on_remote_paths()
    with ocp.PyTreeCheckpointer() as checkpointer:
        checkpointer.save(url, state_of(3))
    print("saved", flush=True)


def orbax_restores(url: str) -> None:
    """Restores step 3 from the URL with stock Orbax; raises if that fails."""
    ocp = _orbax_on_remote_paths()
    with ocp.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(url)
    for name, value in state_of(3).items():
        np.testing.assert_array_equal(np.asarray(restored[name]), value)
    print("restored", flush=True)


def main() -> None:
    """Runs the program that the command line names."""
    programs = {f.__name__: f for f in (train, orbax_saves, orbax_restores)}
    programs[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
