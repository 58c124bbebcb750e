"""JsonCheckpointHandler: the file, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import holdfast.orbax as ocp

DOCUMENT = {"lang": "en", "list": [1, None, True, {"k": "ü"}]}


def test_checkpoint_has_orbax_files(ckpt: Path) -> None:
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as checkpointer:
        checkpointer.save(ckpt, args=ocp.args.JsonSave(DOCUMENT))
        assert checkpointer.restore(ckpt) == DOCUMENT
    assert (ckpt / "metadata").read_text() == json.dumps(DOCUMENT)
    recorded = json.loads((ckpt / "_CHECKPOINT_METADATA").read_text())
    assert recorded["item_handlers"] == (
        "orbax.checkpoint._src.handlers.json_checkpoint_handler"
        ".JsonCheckpointHandler"
    )


def test_other_file_name(tmp_path: Path) -> None:
    handler = ocp.JsonCheckpointHandler("config")
    handler.save(tmp_path, DOCUMENT)
    assert json.loads((tmp_path / "config").read_text()) == DOCUMENT
    assert handler.restore(tmp_path) == DOCUMENT


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as info:
        ocp.JsonCheckpointHandler().restore(tmp_path)
    assert str(info.value) == f"File {tmp_path}/metadata not found."


def test_damaged_file(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text("{")
    with pytest.raises(json.JSONDecodeError):
        ocp.JsonCheckpointHandler().restore(tmp_path)


def test_not_json_leaves_nothing(ckpt: Path) -> None:
    item: Any = {"x": object()}
    with ocp.Checkpointer(ocp.JsonCheckpointHandler()) as checkpointer:
        with pytest.raises(TypeError, match="not JSON serializable"):
            checkpointer.save(ckpt, args=ocp.args.JsonSave(item))
    assert list(ckpt.parent.iterdir()) == []


def test_args_given_as_item(tmp_path: Path) -> None:
    args: Any = ocp.args.JsonSave(DOCUMENT)
    with pytest.raises(ValueError, match="Make sure to specify kwarg name"):
        ocp.JsonCheckpointHandler().save(tmp_path, args)
