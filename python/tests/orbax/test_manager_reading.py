"""CheckpointManager: finding steps and restoring from them."""

from __future__ import annotations

import datetime
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import holdfast.orbax as ocp

STANDARD = (
    "orbax.checkpoint._src.handlers.standard_checkpoint_handler"
    ".StandardCheckpointHandler"
)
JSON = (
    "orbax.checkpoint._src.handlers.json_checkpoint_handler"
    ".JsonCheckpointHandler"
)


def make_step(
    root: Path,
    name: str,
    items: dict[str, Any],
    metrics: dict[str, Any] | None = None,
) -> Path:
    """Makes a committed step, in which a dict becomes a JSON item and an array
    a pytree; returns its path."""
    step = root / name
    handlers = {}
    for item, value in items.items():
        (step / item).mkdir(parents=True)
        if isinstance(value, dict):
            ocp.JsonCheckpointHandler().save(step / item, value)
        else:
            ocp.StandardCheckpointHandler().save(step / item, {"x": value})
        handlers[item] = JSON if isinstance(value, dict) else STANDARD
    if metrics is not None:
        (step / "metrics").mkdir()
        (step / "metrics" / "metrics").write_text(json.dumps(metrics))
        handlers["metrics"] = JSON
    record = {"item_handlers": handlers, "commit_timestamp_nsecs": 7 * 10**9}
    (step / "_CHECKPOINT_METADATA").write_text(json.dumps(record))
    return step


def manager(root: Path, **options: Any) -> ocp.CheckpointManager:
    return ocp.CheckpointManager(
        root, options=ocp.CheckpointManagerOptions(read_only=True, **options)
    )


@pytest.fixture
def single(tmp_path: Path) -> Path:
    """Returns a root of three steps with a single item, and losses 3, 1 and
    2."""
    for step, loss in ((2, 3.0), (10, 1.0), (11, 2.0)):
        value = np.full(3, step, np.int32)
        make_step(tmp_path, str(step), {"default": value}, {"loss": loss})
    return tmp_path


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """Returns a root with one step, which has a pytree and a JSON document."""
    items = {"state": np.arange(4.0), "meta": {"lang": "en"}}
    make_step(tmp_path, "5", items)
    return tmp_path


def test_steps(single: Path) -> None:
    (single / "todelete" / "3").mkdir(parents=True)
    (single / "12.orbax-checkpoint-tmp").mkdir()
    (single / "013").mkdir()
    (single / "14").write_text("a file")
    with manager(single) as found:
        assert found.all_steps() == [2, 10, 11]
        assert found.latest_step() == 11
        assert found.best_step() == 11
        assert found.directory == single


@pytest.mark.parametrize("mode, best", [("min", 10), ("max", 2)])
def test_best_step(single: Path, mode: str, best: int) -> None:
    make_step(single, "12", {"default": np.zeros(1)})
    options = {"best_fn": lambda metrics: metrics["loss"], "best_mode": mode}
    assert manager(single, **options).best_step() == best
    # A step has no rank until its metrics are read.
    lazy = manager(single, lightweight_initialize=True, **options)
    assert lazy.best_step() is None
    lazy.reload()
    assert lazy.best_step() == best


def test_reload(single: Path) -> None:
    found = manager(single)
    make_step(single, "20", {"default": np.zeros(1)})
    assert found.latest_step() == 11
    found.reload()
    assert found.latest_step() == 20
    shutil.rmtree(single / "20")
    assert found.all_steps(read=True) == [2, 10, 11]


@pytest.mark.parametrize(
    "options, steps",
    [
        ({}, [7, 12345]),
        ({"step_prefix": "ckpt"}, [8]),
        ({"step_format_fixed_length": 4}, [9, 12345]),
        ({"step_prefix": "ckpt", "step_format_fixed_length": 3}, [10]),
        ({"step_prefix": "."}, []),
    ],
)
def test_names(
    tmp_path: Path, options: dict[str, Any], steps: list[int]
) -> None:
    for name in ("7", "ckpt_8", "0009", "12345", "ckpt_010", "x_1"):
        make_step(tmp_path, name, {"default": np.zeros(1)})
    assert manager(tmp_path, **options).all_steps() == steps


def test_several_name_formats(tmp_path: Path) -> None:
    plain = ocp.step.standard_name_format()
    padded = ocp.step.standard_name_format(
        step_prefix="s", step_format_fixed_length=3
    )
    make_step(tmp_path, "1", {"default": np.array([1])})
    make_step(tmp_path, "s_002", {"default": np.array([2])})
    both = ocp.step.composite_name_format(plain, [plain, padded])
    found = manager(tmp_path, step_name_format=both)
    assert found.all_steps() == [1, 2]
    assert found.restore(2)["x"].tolist() == [2]
    with pytest.raises(ValueError) as info:
        found.restore(3)
    assert str(info.value) == (
        'No step path found with name=3, NameFormat=StandardNameFormat("1234")'
        f" for step=3 under {tmp_path}.\nNo step path found with name=s_003,"
        ' NameFormat=StandardNameFormat("s_1234") for step=3 under'
        f" {tmp_path}."
    )


@pytest.mark.parametrize(
    "mode, allows_rename, steps",
    [
        ("auto", False, [1, 2]),
        ("atomic_rename", False, [1, 2]),
        ("commit_file", False, [2]),
        ("commit_file", True, [1, 2]),
    ],
)
def test_commit_files(
    tmp_path: Path, mode: str, allows_rename: bool, steps: list[int]
) -> None:
    make_step(tmp_path, "1", {"default": np.zeros(1)})
    step = make_step(tmp_path, "2", {"default": np.zeros(1)})
    (step / "commit_success.txt").touch()
    atomicity = ocp.options.AtomicityOptions(
        ocp.options.AtomicityMode(mode), allows_rename
    )
    found = manager(tmp_path, atomicity_options=atomicity)
    assert found.all_steps() == steps
    if steps == [2]:
        with pytest.raises(ValueError, match="Found incomplete checkpoint at"):
            found.restore(1, args=ocp.args.StandardRestore())


def test_restores_the_single_item(single: Path) -> None:
    with manager(single) as found:
        assert found.restore(None)["x"].tolist() == [11] * 3
        restored = found.restore(2, args=ocp.args.StandardRestore())
        assert restored["x"].tolist() == [2] * 3
        elsewhere = found.restore(10, directory=single)
        assert elsewhere["x"].tolist() == [10] * 3


def test_restores_items(several: Path) -> None:
    restored = manager(several).restore(5)
    assert sorted(restored.keys()) == ["meta", "state"]
    assert restored.meta == {"lang": "en"}
    assert restored["state"]["x"].tolist() == [0, 1, 2, 3]
    args = ocp.args.Composite(meta=ocp.args.JsonRestore())
    only = manager(several).restore(5, args=args)
    assert dict(only) == {"meta": {"lang": "en"}}


def raised(call: Any) -> tuple[type, str]:
    """Returns the class and the message of the error that a call raises."""
    with pytest.raises(Exception) as info:
        call()
    return type(info.value), str(info.value)


def test_missing_steps(several: Path) -> None:
    args = ocp.args.Composite(state=ocp.args.StandardRestore())
    assert raised(lambda: manager(several).restore(6, args=args)) == (
        FileNotFoundError,
        f"Checkpoint at {several}/6 not found.",
    )
    assert raised(lambda: manager(several).metadata(6)) == (
        FileNotFoundError,
        f"Directory does not exist: {several}/6",
    )
    nowhere = several / "nowhere"
    assert raised(lambda: manager(nowhere).restore(None)) == (
        FileNotFoundError,
        f"No steps found in {nowhere}.",
    )
    assert manager(several).metrics(6) is None
    assert not nowhere.exists()


def test_arguments_of_the_wrong_kind(several: Path) -> None:
    standard = ocp.args.StandardRestore()
    make_step(several, "9", {"default": np.zeros(1)})

    def restore(step: int, *given: Any, **options: Any) -> tuple[type, str]:
        return raised(lambda: manager(several).restore(step, *given, **options))

    assert restore(5, args=standard) == (
        ValueError,
        "Must provide `args` of type `Composite` when dealing with multiple"
        " checkpointable objects.",
    )
    assert restore(9, args=ocp.args.Composite(default=standard)) == (
        ValueError,
        "Cannot provide `args` of type `Composite` when dealing with a single,"
        " unnamed (default) checkpointable object.",
    )
    assert restore(5, args={"state": None}) == (
        ValueError,
        "Expected args of type `CheckpointArgs`; found <class 'dict'>.",
    )
    assert restore(5, standard) == (
        ValueError,
        "Found an instance of `CheckpointArgs` provided for `items`. This may"
        " be due to misuse of the newer API - make sure to specify the"
        " argument keyword (e.g. `args=args`).",
    )
    assert restore(5, items={"state": None}) == (
        ValueError,
        'Unknown key "state" in CompositeCheckpointHandler.',
    )


def test_items_that_do_not_fit(several: Path) -> None:
    make = ocp.args.Composite
    kind, text = raised(lambda: manager(several).restore(5, args=make(no=None)))
    assert kind is KeyError
    listed = [p.name for p in (several / "5").iterdir() if p.is_dir()]
    assert text == repr(
        f'Item "no" was not found in the checkpoint. Available items: {listed}'
    )
    kind, text = raised(
        lambda: manager(several).restore(5, args=make(state=None))
    )
    assert kind is ValueError
    assert text.startswith(
        "Provided `None` for `CheckpointArgs`, and the `CheckpointHandler` for"
        ' item "state" was not configured.'
    )
    found = manager(several)
    found.restore(5, args=make(meta=ocp.args.JsonRestore()))
    kind, text = raised(
        lambda: found.restore(5, args=make(meta=ocp.args.ArrayRestore()))
    )
    assert kind is ValueError
    assert text.startswith(
        'Item "meta" and args "ArrayRestoreArgs(item=None, restore_args=None)"'
        " does not match with any registered handler! Registered handlers:"
        " dict_items([(('metrics', <class 'orbax.checkpoint._src.handlers"
        ".json_checkpoint_handler.JsonSaveArgs'>), <orbax.checkpoint._src"
    )


@pytest.mark.parametrize("record", ["", "{}", '{"item_handlers": {}}'])
def test_items_of_unknown_handlers(several: Path, record: str) -> None:
    (several / "5" / "_CHECKPOINT_METADATA").write_text(record)
    shutil.rmtree(several / "5" / "meta")
    assert raised(lambda: manager(several).restore(5)) == (
        ValueError,
        'Item "state" was found in the checkpoint, but could not be restored.'
        " Please provide a `CheckpointHandlerRegistry`, or call `restore` with"
        " an appropriate `CheckpointArgs` subclass.",
    )
    args = ocp.args.Composite(state=ocp.args.PyTreeRestore())
    restored = manager(several).restore(5, args=args)
    assert restored.state["x"].tolist() == [0, 1, 2, 3]


def test_given_handlers(several: Path) -> None:
    (several / "5" / "_CHECKPOINT_METADATA").unlink()
    handlers = {
        "state": ocp.PyTreeCheckpointHandler(),
        "meta": ocp.JsonCheckpointHandler(),
    }
    options = ocp.CheckpointManagerOptions(read_only=True)
    with ocp.CheckpointManager(
        several, options=options, item_handlers=handlers
    ) as found:
        assert found.restore(5).meta == {"lang": "en"}
        restored = found.restore(5, items={"meta": None})
        assert dict(restored) == {"meta": {"lang": "en"}}
        assert found.item_metadata(5).state.tree["x"].shape == (4,)
    registry = ocp.DefaultCheckpointHandlerRegistry()
    registry.add(None, ocp.args.JsonRestore)
    args = ocp.args.Composite(meta=ocp.args.JsonRestore())
    with ocp.CheckpointManager(
        several, options=options, handler_registry=registry
    ) as found:
        assert found.restore(5, args=args).meta == {"lang": "en"}


def test_deprecated_checkpointers(single: Path) -> None:
    found = ocp.CheckpointManager(
        single,
        ocp.PyTreeCheckpointer(),
        options=ocp.CheckpointManagerOptions(read_only=True),
    )
    restore_args = {"x": ocp.RestoreArgs(restore_type=np.ndarray, dtype=float)}
    restored = found.restore(2, restore_kwargs={"restore_args": restore_args})
    assert restored["x"].dtype == np.float64
    assert restored["x"].tolist() == [2, 2, 2]


def test_metadata_of_a_step(single: Path) -> None:
    found = manager(single)
    assert found.item_metadata(2) is None
    found.restore(2)
    metadata = found.metadata(2)
    assert metadata.item_metadata.tree["x"].dtype == np.int32
    assert metadata.item_handlers == {"default": STANDARD, "metrics": JSON}
    assert metadata.commit_timestamp_nsecs == 7 * 10**9
    assert metadata.metrics == {"loss": 3.0} == found.metrics(2)


def test_metadata_of_the_run(single: Path) -> None:
    assert manager(single).metadata() == ocp.metadata.RootMetadata()
    (single / "metadata").mkdir()
    kind, text = raised(manager(single).metadata)
    assert kind is OSError
    assert text == f"Failed to read metadata from {single}/metadata/metadata"
    (single / "metadata" / "metadata").write_text('{"run": "a"}')
    assert manager(single).metadata().custom_metadata == {"run": "a"}
    record = '{"internal_metadata": {}, "custom_metadata": {"run": "b"}}'
    (single / "metadata" / "_ROOT_METADATA").write_text(record)
    assert manager(single).metadata().custom_metadata == {"run": "b"}


def test_damaged_metadata(single: Path) -> None:
    record = single / "10" / "_CHECKPOINT_METADATA"
    record.write_text("[1]")
    assert manager(single).latest_step() == 11
    assert raised(lambda: manager(single).metadata(10)) == (
        ValueError,
        "Metadata dict must be a dictionary, but got list",
    )
    record.write_text('{"item_handlers": "x"}')
    kind, text = raised(lambda: manager(single).metadata(10))
    assert kind is ValueError
    assert text.startswith("StepMetadata.item_handlers must be a dict, but is")
    # A step with damaged metrics has no rank.
    (single / "10" / "metrics" / "metrics").write_text("{")
    with pytest.raises(json.JSONDecodeError):
        manager(single).metrics(10)
    best = manager(single, best_fn=lambda m: m["loss"], best_mode="min")
    assert best.best_step() == 11


def test_should_save(single: Path) -> None:
    def wanted(**options: Any) -> list[int]:
        chosen = ocp.CheckpointManagerOptions(create=False, **options)
        found = ocp.CheckpointManager(single, options=chosen)
        return [step for step in range(8, 18) if found.should_save(step)]

    assert wanted() == [12, 13, 14, 15, 16, 17]
    assert wanted(save_interval_steps=3) == [12, 15]
    assert wanted(save_interval_steps=8, save_on_steps=[9, 13]) == [13, 16]
    assert wanted(should_save_fn=lambda step, last: step == last + 3) == [14]
    assert wanted(read_only=True) == []
    policy = ocp.checkpoint_managers.ContinuousCheckpointingPolicy(
        minimum_interval_secs=10
    )
    assert wanted(save_decision_policy=policy) == [12, 13, 14, 15, 16, 17]


@pytest.mark.parametrize(
    "options, text",
    [
        (
            {"best_mode": "x"},
            "`CheckpointManagerOptions.best_mode` must be one of None, 'min' or"
            " 'max'. Got x.",
        ),
        (
            {"max_to_keep": -1},
            "Setting of `max_to_keep` must be None or non-negative.",
        ),
        (
            {"todelete_subdir": "a", "todelete_full_path": "b"},
            "todelete_subdir and todelete_full_path both cannot be set togther",
        ),
        (
            {"enable_per_process_directory_creation": True},
            "enable_per_process_directory_creation can only be used when"
            " primary_host is None.",
        ),
    ],
)
def test_options_that_contradict(options: dict[str, Any], text: str) -> None:
    assert raised(lambda: ocp.CheckpointManagerOptions(**options)) == (
        ValueError,
        text,
    )


@pytest.mark.parametrize("of_format", [True, False])
def test_broadcasts_of_options_and_format(of_format: bool) -> None:
    name_format = ocp.path.step.standard_name_format(
        single_host_load_and_broadcast=of_format
    )

    def make(of_options: bool) -> Any:
        return ocp.CheckpointManagerOptions(
            step_name_format=name_format,
            single_host_load_and_broadcast=of_options,
        )

    assert make(of_format).step_name_format == name_format
    kind, text = raised(lambda: make(not of_format))
    assert kind is ValueError
    assert "single_host_load_and_broadcast=True` " in text


def test_read_only_takes_options_away(
    caplog: pytest.LogCaptureFixture,
) -> None:
    options = ocp.CheckpointManagerOptions(
        read_only=True, max_to_keep=np.int64(3), save_on_steps=[1]
    )
    assert caplog.messages == [
        f"CheckpointManagerOptions.read_only=True, setting {what}."
        for what in (
            "save_interval_steps=0",
            "max_to_keep=None",
            "create=False",
            "save_on_steps=None",
        )
    ]
    assert (options.save_interval_steps, options.max_to_keep) == (0, None)
    assert options.create is False and options.save_on_steps == frozenset()


def test_read_only_options() -> None:
    options = ocp.CheckpointManagerOptions(
        read_only=True,
        max_to_keep=3,
        keep_period=2,
        keep_time_interval=datetime.timedelta(1),
        save_on_steps=[1],
        todelete_subdir="a",
        todelete_full_path="b",
        cleanup_tmp_directories=True,
        should_save_fn=lambda step, last: True,
    )
    assert options.save_interval_steps == 0
    assert options.max_to_keep is None
    assert options.keep_period is None
    assert options.keep_time_interval is None
    assert options.save_on_steps == frozenset()
    assert options.todelete_subdir is None
    assert options.todelete_full_path is None
    assert options.should_save_fn is None
    assert not options.create
    assert not options.cleanup_tmp_directories


@pytest.mark.parametrize(
    "given, text",
    [
        (
            {"checkpointers": ocp.PyTreeCheckpointer(), "item_names": ("a",)},
            "`item_names` and `checkpointers` are mutually exclusive - do not"
            " use together.",
        ),
        (
            {
                "item_handlers": ocp.JsonCheckpointHandler(),
                "item_names": ("a",),
            },
            "`item_handlers` in default item mode and `item_names` should not"
            " be provided together.",
        ),
        (
            {
                "handler_registry": ocp.DefaultCheckpointHandlerRegistry(),
                "item_names": ("a",),
            },
            "`item_names` and `handler_registry` are mutually exclusive -"
            " prefer configuring the handler registry.",
        ),
        ({"checkpointers": 5}, "Invalid type for `checkpointers`. Found 5."),
    ],
)
def test_handlers_said_twice(
    tmp_path: Path, given: dict[str, Any], text: str
) -> None:
    assert raised(lambda: ocp.CheckpointManager(tmp_path, **given)) == (
        ValueError,
        text,
    )


def test_composite() -> None:
    items = ocp.args.Composite(a=1, keys=2)
    assert (items.a, items["keys"], sorted(items.keys())) == (
        1,
        2,
        ["a", "keys"],
    )
    assert repr(items) == "Composite({'a': 1, 'keys': 2})"
    assert dict(items | {"a": 3}) == {"a": 3, "keys": 2}
    assert dict(items & {"a": 3}) == {"a": 1}
    assert items.get("no") is None
    assert raised(lambda: items.no) == (
        KeyError,
        "\"Unknown key: no. Available keys: dict_keys(['a', 'keys'])\"",
    )
    assert raised(lambda: setattr(items, "a", 2)) == (
        ValueError,
        "Composite is immutable after initialization.",
    )
    assert raised(lambda: ocp.args.Composite(**{"__a": 1})) == (
        ValueError,
        'Composite keys cannot start with "__". Got: __a',
    )
