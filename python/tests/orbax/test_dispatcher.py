"""ArrayHandlers with a dispatcher, which runs their work elsewhere, compared
with Orbax's."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from meshes import sharding

import holdfast.orbax as ours

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint")

pytestmark = pytest.mark.filterwarnings("ignore")


class Dispatcher:
    """Does the work in this process, and records the requests."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def name(self) -> str:
        return "here"

    def device_to_host(self, arrays: Any) -> Any:
        self.asked.append(("to host", len(arrays)))
        return arrays

    def dispatch(
        self,
        func: Any,
        *,
        input_arrays: Any = None,
        result_specs: Any = None,
        func_args: tuple[Any, ...] = (),
        func_kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = () if input_arrays is None else (input_arrays,)
        result = func(*given, *func_args, **(func_kwargs or {}))
        if result_specs is None:
            self.asked.append(("write", len(input_arrays)))
            return jax.numpy.ones(())
        self.asked.append(
            [(spec.shape, spec.dtype, spec.sharding) for spec in result_specs]
        )
        return result


@pytest.mark.parametrize("ocp", [orbax, ours], ids=["orbax", "holdfast"])
def test_work_goes_through_a_dispatcher(ocp: Any, tmp_path: Path) -> None:
    dispatcher = Dispatcher()
    handlers = ocp.type_handlers
    handler = handlers.ArrayHandler(dispatcher=dispatcher)
    assert handler.has_dispatcher()
    registry = handlers.create_type_handler_registry(
        (jax.Array, handler), (int, handlers.ScalarHandler())
    )
    tree = {
        "a": jax.device_put(
            np.arange(16.0, dtype=np.float32), sharding((8,), "x")
        ),
        "b": jax.device_put(np.arange(8, dtype=np.int32), sharding((8,))),
        "n": 3,
    }
    item = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
    args = {
        "a": ocp.ArrayRestoreArgs(sharding=sharding((8,))),
        "b": ocp.ArrayRestoreArgs(sharding=sharding((8,), "x")),
        "n": ocp.RestoreArgs(),
    }
    with ocp.Checkpointer(item) as checkpointer:
        checkpointer.save(tmp_path / "a", args=ocp.args.PyTreeSave(tree))
        assert dispatcher.asked == [("to host", 2), ("write", 2)]
        dispatcher.asked.clear()
        restored = checkpointer.restore(
            tmp_path / "a", args=ocp.args.PyTreeRestore(restore_args=args)
        )
    assert dispatcher.asked == [
        [
            ((16,), np.float32, sharding((8,))),
            ((8,), np.int32, sharding((8,), "x")),
        ]
    ]
    for name in "ab":
        np.testing.assert_array_equal(restored[name], tree[name])
        assert restored[name].sharding == args[name].sharding
    assert restored["n"] == 3
    plain = orbax.PyTreeCheckpointer().restore(tmp_path / "a")
    np.testing.assert_array_equal(plain["a"], tree["a"])


def test_what_is_sent_can_be_pickled() -> None:
    from holdfast.orbax._processes import dispatching

    handler = ours.type_handlers.ArrayHandler(dispatcher=Dispatcher())
    worker = pickle.loads(pickle.dumps(handler._worker()))
    assert not worker.has_dispatcher()
    for function in (dispatching.write_on_worker, dispatching.read_on_worker):
        assert pickle.loads(pickle.dumps(function)) is function


def test_restores_need_a_sharding(tmp_path: Path) -> None:
    handlers = ours.type_handlers
    registry = handlers.create_type_handler_registry(
        (jax.Array, handlers.ArrayHandler(dispatcher=Dispatcher()))
    )
    item = ours.PyTreeCheckpointHandler(type_handler_registry=registry)
    with ours.Checkpointer(item) as checkpointer:
        checkpointer.save(
            tmp_path / "a", args=ours.args.PyTreeSave({"a": jax.numpy.ones(2)})
        )
        with pytest.raises(ValueError, match="'a': a handler with a dispatch"):
            checkpointer.restore(
                tmp_path / "a",
                args=ours.args.PyTreeRestore(
                    restore_args={"a": ours.ArrayRestoreArgs()}
                ),
            )
