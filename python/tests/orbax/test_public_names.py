"""The drop-in has all of Orbax's public names, by tools/orbax_names.py."""

from __future__ import annotations

import copy
import importlib.util
import inspect
import pickle
import sys
from pathlib import Path
from typing import Any, Optional

import pytest

import holdfast.orbax as ours
from holdfast.orbax import v1

jax = pytest.importorskip("jax")
orbax = pytest.importorskip("orbax.checkpoint", reason="Orbax is the measure")

TOOLS = Path(__file__).resolve().parents[3] / "tools"


@pytest.fixture(scope="module")
def names() -> Any:
    """Imports the tool as a module."""
    sys.path.insert(0, str(TOOLS))
    try:
        spec = importlib.util.spec_from_file_location(
            "orbax_names", TOOLS / "orbax_names.py"
        )
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["orbax_names"] = module
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(TOOLS))


@pytest.fixture(scope="module")
def gaps(names: Any) -> list[tuple[str, str]]:
    return list(names.gaps())


def test_no_gap_is_unexplained(names: Any, gaps: Any) -> None:
    page = TOOLS.parent / "doc" / "support.md"
    rows = names.explained(page.read_text("utf-8"))
    unexplained = [
        gap
        for gap in gaps
        if not any(names.matches(pattern, gap[0]) for pattern, _ in rows)
    ]
    assert unexplained == []
    for pattern, _ in rows:
        assert any(names.matches(pattern, name) for name, _ in gaps), pattern


def test_emergency_names_are_all_there(gaps: Any) -> None:
    missing = [
        (name, what)
        for name, what in gaps
        if ".emergency" in name and what.startswith(("missing", "no module"))
    ]
    assert missing == []


def test_the_tool_finds_gaps(names: Any) -> None:
    class Theirs:
        LIMIT = 3

        def method(self, a: int, b: int = 2, *, c: int) -> None: ...

        def other(self) -> None: ...

    class Ours:
        LIMIT = 4

        def method(self, b: int, a: int, d: int) -> None: ...

    Theirs.__module__ = "orbax.checkpoint.example"
    found = list(names.differences(Theirs, Ours, set()))
    assert found == [
        ".LIMIT: is 4, not 3",
        ".method: requires b",
        ".method: no parameter c",
        ".method: positions: self, a, b",
        ".method: requires d",
        ".other: missing",
    ]
    assert list(names.differences(Theirs, 3, set())) == ["no class"]
    assert list(names.differences(3, 4, set())) == ["is 4, not 3"]
    assert not names.matches("orbax.checkpoint.a", "orbax.checkpoint.ab")
    assert names.matches("orbax.checkpoint.*.b", "orbax.checkpoint.a.b.c")


def test_the_rule_of_public_names(names: Any) -> None:
    modules, _ = names.public_modules()
    found = {module.path: dict(module.names()) for module in modules}
    assert "CheckpointManager" in found["checkpoint_manager"]
    assert "BarrierSyncFn" in found["multihost"]
    assert "deleter" in found["path"] and "PathDeleter" in found["path.deleter"]
    assert "experimental.v1.training.errors" in found
    for path, public in found.items():
        assert not {"Any", "jax", "os", "epath", "logging"} & public.keys() - (
            {"logging"} if path == "" else set()
        ), path


@pytest.mark.parametrize(
    "name", ["", ".arrays", ".training.errors", ".path.step", ".handlers"]
)
def test_v1_is_the_same_by_both_paths(name: str) -> None:
    older = importlib.import_module(f"holdfast.orbax.experimental.v1{name}")
    newer = importlib.import_module(f"holdfast.orbax.v1{name}")
    for public in newer.__all__:
        if not inspect.ismodule(getattr(newer, public)):
            assert getattr(older, public) is getattr(newer, public)


def test_emergency_names_refuse() -> None:
    from holdfast.orbax.experimental.emergency import (
        local_checkpoint_data_debugging,
        p2p,
    )

    with pytest.raises(NotImplementedError) as info:
        p2p.service.P2PNode("/tmp", options=None)
    assert str(info.value).startswith(
        "holdfast.orbax.experimental.emergency.p2p.service.P2PNode is not"
        " supported: it needs Pathways"
    )
    with pytest.raises(NotImplementedError, match="open_tensorstore is not"):
        local_checkpoint_data_debugging.open_tensorstore("/tmp")


def annotations(ocp: Any, ocp1: Any) -> list[Any]:
    return [
        ocp1.path.PathLike | str,
        ocp1.path.PathLike | None,
        ocp1.path.Path | None,
        Optional[ocp1.path.PathLike],  # noqa: UP045
        ocp.step.NameFormat[ocp.step.Metadata],
        ocp1.path.step.NameFormat[int],
        ocp1.CheckpointMetadata[dict],
        ocp1.training.CheckpointMetadata[dict],
        ocp1.CheckpointableHandler[int, int],
        ocp1.AsyncResponse[int],
        ocp1.tree.PyTreeOf[int],
        ocp.tree.PyTreeOf[int],
        ocp1.tree.Leaf | None,
    ]


def test_types_can_stand_in_annotations() -> None:
    theirs = annotations(orbax, orbax.v1)
    assert len(annotations(ours, v1)) == len(theirs)


def copied(ocp: Any, ocp1: Any) -> dict[str, Any]:
    """Returns objects that can be copied and pickled if they are Orbax's."""
    handlers = ocp.type_handlers
    return {
        "registry": handlers.create_type_handler_registry(),
        "handlers": ocp.handlers.create_default_handler_registry(),
        "v1 registry": ocp1.handlers.local_registry(),
        "array": handlers.ArrayHandler(),
        "numpy": handlers.NumpyHandler(),
        "scalar": handlers.ScalarHandler(),
        "string": handlers.StringHandler(),
        "single replica": handlers.SingleReplicaArrayHandler(),
        "json": ocp.JsonCheckpointHandler(),
        "options": ocp.CheckpointManagerOptions(),
        "context": ocp1.Context(),
        "format": ocp.step.standard_name_format(step_prefix="a"),
        "policy": ocp.checkpoint_managers.LatestN(2),
        "args": ocp.args.StandardSave({"a": 1}),
    }


KINDS = list(copied(ours, v1))


@pytest.mark.parametrize("kind", KINDS)
def test_what_orbax_copies_and_pickles(kind: str) -> None:
    for ocp, ocp1 in ((orbax, orbax.v1), (ours, v1)):
        value = copied(ocp, ocp1)[kind]
        assert type(copy.deepcopy(value)) is type(value)
        assert type(pickle.loads(pickle.dumps(value))) is type(value)


def test_registries_are_copied() -> None:
    """Registries with handlers can be copied but not pickled, as in Orbax."""
    for handlers in (orbax.type_handlers, ours.type_handlers):
        registry = handlers.create_type_handler_registry(
            (str, handlers.StringHandler())
        )
        twin = copy.deepcopy(registry)
        assert twin.get(str).typestr() == "string"
        assert twin.get(str) is not registry.get(str)


@pytest.mark.parametrize(
    "name",
    [
        "PyTreeCheckpointHandler",
        "StandardCheckpointHandler",
        "BasePyTreeCheckpointHandler",
        "CompositeCheckpointHandler",
    ],
)
def test_handlers_are_copied(name: str, tmp_path: Path) -> None:
    handler = getattr(ours, name)()
    twin = copy.deepcopy(handler)
    assert type(twin) is type(handler)
    if name == "PyTreeCheckpointHandler":
        with ours.Checkpointer(twin) as checkpointer:
            checkpointer.save(tmp_path / "a", {"text": "a", "n": 1})
            assert checkpointer.restore(tmp_path / "a")["text"] == "a"


def test_attributes_that_orbax_sets(run_python: Any) -> None:
    """The submodules that `import orbax.checkpoint as ocp` makes reachable are
    reachable here, too."""
    paths = sorted(
        name.removeprefix("orbax.checkpoint.")
        for name in sys.modules
        if name.startswith("orbax.checkpoint.")
        and not any(part.startswith("_") for part in name.split("."))
    )
    program = f"""
import functools, importlib, sys
import holdfast.orbax as ocp
wanted = [path for path in {paths!r} if "emergency" not in path]
for path in wanted:
    functools.reduce(getattr, path.split(".")[:1], ocp)
ocp.experimental.v1.training.Checkpointer
ocp.path.step, ocp.metadata.tree, ocp.logging.step_statistics
"""
    assert "checkpoint_manager" in paths
    run_python(program)
