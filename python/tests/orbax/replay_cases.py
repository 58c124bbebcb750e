"""The golden corpus, the requests recorded on it, and their replay."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from replay_decode import decode, sharding
from replay_encode import JsonDocument, encode

import holdfast.orbax as ocp

GOLDEN = Path(__file__).parents[3] / "tests" / "golden"

# Matches an object's address in a message.
_ADDRESS = re.compile(r"( at )0x[0-9a-f]{6,}")


def recorded(name: str) -> list[dict[str, Any]]:
    """Returns the requests in a file of `tests/golden/orbax_requests`."""
    file = GOLDEN / "orbax_requests" / name
    requests: list[dict[str, Any]] = json.loads(file.read_text("utf-8"))
    return requests


def unpack_corpus(directory: Path) -> Path:
    """Unpacks the corpus below `directory`; returns where its cases are."""
    with tarfile.open(GOLDEN / "corpus" / "open.tar.xz") as archive:
        archive.extractall(directory)
    return directory / "open"


def message_of(error: BaseException, case: Path) -> str:
    """Returns an error's message without what differs between runs."""
    text = str(error).replace(str(case), "$CASE")
    return _ADDRESS.sub(r"\g<1>0x$ADDR", text)


# ----------------------------------------------------------- changes to a case
def _delete(path: Path, change: dict[str, Any]) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def _truncate(path: Path, change: dict[str, Any]) -> None:
    os.truncate(path, change["size"])


def _xor(path: Path, change: dict[str, Any]) -> None:
    content = bytearray(path.read_bytes())
    content[change["offset"]] ^= change["mask"]
    path.write_bytes(content)


def _append(path: Path, change: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(bytes.fromhex(change["hex"]))


def _write_text(path: Path, change: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(change["text"], "utf-8")


def _replace_text(path: Path, change: dict[str, Any]) -> None:
    text = path.read_text("utf-8")
    assert change["old"] in text
    path.write_text(text.replace(change["old"], change["new"]), "utf-8")


_CHANGES: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    "append": _append,
    "delete": _delete,
    "replace_text": _replace_text,
    "truncate": _truncate,
    "write_text": _write_text,
    "xor": _xor,
}


def prepare(corpus: Path, request: dict[str, Any], directory: Path) -> Path:
    """Copies the request's case to `directory`, makes the request's changes,
    and returns the copy."""
    case = directory / "case"
    shutil.copytree(corpus / request["case"], case)
    for change in request.get("modifications", []):
        _CHANGES[change["op"]](case / change["path"], change)
    return case


# ------------------------------------------------------------------- requests
def _given(
    request: dict[str, Any], decoders: dict[str, Callable[[Any], Any]]
) -> dict[str, Any]:
    """Returns the recorded arguments, decoded."""
    return {
        name: decoders.get(name, lambda value: value)(value)
        for name, value in request.items()
    }


_TREES = dict.fromkeys(("item", "restore_args", "transforms"), decode)


def _pytree_restore(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    args = ocp.args.PyTreeRestore(**_given(asked, _TREES))
    return ocp.PyTreeCheckpointHandler(**handler).restore(path, args=args)


def _pytree_metadata(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    return ocp.PyTreeCheckpointHandler(**handler).metadata(path).tree


def _standard_restore(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    decoders = {"item": decode, "fallback_sharding": sharding}
    args = ocp.args.StandardRestore(**_given(asked, decoders))
    return ocp.StandardCheckpointHandler(**handler).restore(path, args=args)


def _json_restore(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    json_handler = ocp.JsonCheckpointHandler(asked.get("filename"))
    return JsonDocument(json_handler.restore(path, args=ocp.args.JsonRestore()))


def _array_restore(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    args = ocp.args.ArrayRestore(**_given(asked, _TREES))
    return ocp.ArrayCheckpointHandler().restore(path, args=args)


def _v1_load(path: Path, handler: dict[str, Any], asked: dict[str, Any]) -> Any:
    context = ocp.v1.Context()
    context.array.loading.enable_padding_and_truncation = asked.get(
        "enable_padding_and_truncation", False
    )
    context.pytree.loading.partial_load = asked.get("partial_load", False)
    names = {"checkpointable_name"} & asked.keys()
    with context:
        return ocp.v1.load(
            path, decode(asked.get("item")), **{n: asked[n] for n in names}
        )


def _v1_load_checkpointables(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    return ocp.v1.load_checkpointables(path, decode(asked.get("item")))


def _open_manager(path: Path, options: dict[str, Any]) -> Any:
    given = dict(options)
    if "atomicity_mode" in given:
        mode = ocp.options.AtomicityMode(given.pop("atomicity_mode"))
        given["atomicity_options"] = ocp.options.AtomicityOptions(mode=mode)
    if "best_metric" in given:
        keys = given.pop("best_metric").split("/")
        given["best_fn"] = lambda m: functools.reduce(dict.__getitem__, keys, m)
    manager_options = ocp.CheckpointManagerOptions(read_only=True, **given)
    return ocp.CheckpointManager(path, options=manager_options)


def _item_args(asked: dict[str, Any] | None) -> Any:
    """Returns the arguments of one item of a manager."""
    if asked is None:
        return None
    kinds = {
        "array": ocp.args.ArrayRestore,
        "json": ocp.args.JsonRestore,
        "pytree": ocp.args.PyTreeRestore,
        "standard": ocp.args.StandardRestore,
    }
    given = {name: value for name, value in asked.items() if name != "type"}
    return kinds[asked["type"]](**_given(given, _TREES))


def _manager_restore(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    composite = asked.get("composite", {})
    items = {name: _item_args(item) for name, item in composite.items()}
    args = ocp.args.Composite(**items) if items else _item_args(asked["args"])
    with _open_manager(path, asked.get("options", {})) as manager:
        restored = manager.restore(asked.get("step"), args=args)
    if not items:
        return restored
    return {
        name: JsonDocument(value)
        if isinstance(items[name], ocp.args.JsonRestore)
        else value
        for name, value in restored.items()
    }


def _manager_steps(
    path: Path, handler: dict[str, Any], asked: dict[str, Any]
) -> Any:
    with _open_manager(path, asked.get("options", {})) as manager:
        return JsonDocument(
            {
                "all_steps": manager.all_steps(),
                "latest_step": manager.latest_step(),
                "best_step": manager.best_step(),
            }
        )


_CALLS: dict[str, Callable[[Path, dict[str, Any], dict[str, Any]], Any]] = {
    "ArrayCheckpointHandler.restore": _array_restore,
    "CheckpointManager.restore": _manager_restore,
    "CheckpointManager.steps": _manager_steps,
    "JsonCheckpointHandler.restore": _json_restore,
    "PyTreeCheckpointHandler.metadata": _pytree_metadata,
    "PyTreeCheckpointHandler.restore": _pytree_restore,
    "StandardCheckpointHandler.restore": _standard_restore,
    "v1.load": _v1_load,
    "v1.load_checkpointables": _v1_load_checkpointables,
}


def run(request: dict[str, Any], case: Path) -> Any:
    """Makes a request on a prepared case; returns the result, encoded."""
    call = _CALLS[request["api"]]
    handler = request.get("handler", {})
    path = case / request["path"]
    result = call(path, handler, request["request"])
    return json.loads(json.dumps(encode(result)))
