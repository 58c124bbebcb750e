"""Saves and loads sharded state dicts."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Any

from holdfast import _files
from holdfast.megatron import ranks
from holdfast.megatron.core import (
    CheckpointingConfig,
    CheckpointingException,
    save_config,
)
from holdfast.megatron.dict_utils import extract_matching_values, merge
from holdfast.megatron.mapping import (
    CommonStateDict,
    ShardedObject,
    ShardedStateDict,
    ShardedTensor,
    StateDict,
    adopt_megatron_core,
    apply_factory_merges,
)
from holdfast.megatron.state_dict_utils import load_preprocess, save_preprocess
from holdfast.megatron.strategies.base import (
    AsyncSaveShardedStrategy,
    CheckpointDir,
    LoadCommonStrategy,
    LoadShardedStrategy,
    SaveCommonStrategy,
    SaveShardedStrategy,
    StrategyAction,
    get_default_strategy,
    load_strategies,
)
from holdfast.megatron.utils import (
    extract_sharded_base,
    force_all_tensors_to_non_fp8,
)
from holdfast.megatron.validation import (
    StrictHandling,
    determine_global_metadata,
    parse_strict_flag,
    validate_integrity_and_strict_load,
    validate_sharded_objects_handling,
    verify_checkpoint_and_load_strategy,
)

__all__ = [
    "CkptShardedMetadata",
    "get_default_load_sharded_strategy",
    "get_default_save_common_strategy",
    "get_default_save_sharded_strategy",
    "load",
    "load_common_state_dict",
    "load_content_metadata",
    "load_plain_tensors",
    "load_sharded_metadata",
    "load_tensors_metadata",
    "remove_sharded_tensors",
    "save",
]

logger = logging.getLogger(__name__)

CkptShardedMetadata = dict[str, ShardedTensor | ShardedObject]

_CONTENT_METADATA_KEY = "content_metadata"


def load(
    sharded_state_dict: ShardedStateDict,
    checkpoint_dir: CheckpointDir,
    sharded_strategy: LoadShardedStrategy | tuple[str, int] | None = None,
    common_strategy: LoadCommonStrategy | tuple[str, int] | None = None,
    validate_access_integrity: bool = True,
    strict: str | StrictHandling = StrictHandling.ASSUME_OK_UNEXPECTED,
    *,
    timeout_seconds: float | None = None,
) -> Any:
    """Loads everything that a sharded state dict requests. All ranks call it.

    Args:
      sharded_state_dict: describes which box of which stored tensor to load.
        It does not change, except that ShardedObjects lose their data.
      checkpoint_dir: a directory with `metadata.json`.
      sharded_strategy: how tensors are loaded; None follows metadata.json.
      common_strategy: how everything else is loaded.
      validate_access_integrity: check on rank 0 that the main replicas of all
        ranks cover every requested tensor exactly once.
      strict: how to treat keys that only one side has.
      timeout_seconds: how long to wait for other ranks; None means 600.

    Returns:
      The common state, including the loaded objects and the loaded tensors in
      the stored dtypes. If `strict` is return_unexpected or return_all, returns
      a tuple of the state, missing keys and unexpected keys.

    Raises:
      CheckpointingException: the checkpoint, strategy, array or object does not
        exist; a global shape differs; `strict` refuses keys; shards do not
        cover a tensor.
      ValueError: a chunk has the wrong length, or `strict` is unknown.
    """
    adopt_megatron_core()
    with ranks.call(checkpoint_dir, timeout_seconds=timeout_seconds) as group:
        return _load(
            group,
            sharded_state_dict,
            checkpoint_dir,
            sharded_strategy,
            common_strategy,
            validate_access_integrity,
            strict,
        )


def _load(
    group: ranks.Ranks,
    sharded_state_dict: ShardedStateDict,
    checkpoint_dir: CheckpointDir,
    sharded_strategy: Any,
    common_strategy: Any,
    validate_access_integrity: bool,
    strict: str | StrictHandling,
) -> Any:
    # Decide this before anything can fail, so other ranks are notified of
    # failures.
    if validate_access_integrity or _meets(sharded_strategy, strict):
        group.begin()
    sharded, common = verify_checkpoint_and_load_strategy(
        checkpoint_dir, sharded_strategy, common_strategy
    )
    force_all_tensors_to_non_fp8(sharded_state_dict)
    state = common.load_common(checkpoint_dir)
    if not isinstance(state, dict):
        raise CheckpointingException(
            f"{os.fspath(checkpoint_dir)}: the common state is a"
            f" {type(state).__name__}, want a dict",
            code="COMMON_INVALID",
        )
    request, nonpersistent, factories = load_preprocess(sharded_state_dict)
    merge(state, nonpersistent)
    request, _ = extract_sharded_base(request)
    mode = parse_strict_flag(strict)
    needs_all = StrictHandling.requires_global_app_metadata(mode)
    stored = local = everything = None
    if StrictHandling.requires_explicit_ckpt_mismatch_check(mode):
        stored = load_sharded_metadata(checkpoint_dir, sharded, common)
    if validate_access_integrity or needs_all:
        local, everything = determine_global_metadata(request)
    request, missing, unexpected = validate_integrity_and_strict_load(
        request, mode, validate_access_integrity, local, everything, stored
    )
    if not sharded.can_handle_sharded_objects:
        validate_sharded_objects_handling(sharded, common)
        objects, request = extract_matching_values(
            request, lambda v: isinstance(v, ShardedObject)
        )
        merge(state, common.load_sharded_objects(objects, checkpoint_dir))
    merge(state, sharded.load(request, checkpoint_dir))
    state = apply_factory_merges(state, factories)
    if StrictHandling.requires_returning_mismatch_keys(mode):
        return state, missing, unexpected
    return state


def _meets(sharded_strategy: Any, strict: str | StrictHandling) -> bool:
    """Returns whether the ranks exchange something in this load."""
    with contextlib.suppress(ValueError):  # raised later, where it is used
        if StrictHandling.requires_global_app_metadata(
            parse_strict_flag(strict)
        ):
            return True
    return any(
        getattr(each, "is_collective", False)
        for each in load_strategies(sharded_strategy)
    )


def load_common_state_dict(checkpoint_dir: CheckpointDir) -> StateDict:
    """Loads the state that is not sharded. Raises CheckpointingException."""
    _, common = verify_checkpoint_and_load_strategy(checkpoint_dir)
    return common.load_common(checkpoint_dir)


def load_tensors_metadata(
    checkpoint_dir: CheckpointDir,
    sharded_strategy: LoadShardedStrategy | tuple[str, int] | None = None,
) -> CkptShardedMetadata:
    """Returns for each key a complete ShardedTensor without data, which has the
    global shape and dtype.

    Raises CheckpointingException; KeyError for a dtype that the format lacks.
    """
    sharded, _ = verify_checkpoint_and_load_strategy(
        checkpoint_dir, sharded_strategy
    )
    return sharded.load_tensors_metadata(checkpoint_dir)


def load_sharded_metadata(
    checkpoint_dir: CheckpointDir,
    sharded_strategy: LoadShardedStrategy | tuple[str, int] | None = None,
    common_strategy: LoadCommonStrategy | tuple[str, int] | None = None,
) -> CkptShardedMetadata:
    """Returns `load_tensors_metadata` and the ShardedObjects by unique key."""
    sharded, common = verify_checkpoint_and_load_strategy(
        checkpoint_dir, sharded_strategy, common_strategy
    )
    metadata = sharded.load_sharded_metadata(checkpoint_dir)
    if not sharded.can_handle_sharded_objects:
        validate_sharded_objects_handling(sharded, common)
        merge(metadata, common.load_sharded_metadata(checkpoint_dir))
    return metadata


def load_plain_tensors(checkpoint_dir: CheckpointDir) -> StateDict:
    """Loads every complete tensor by key; the dict also has the common state.

    Each rank reads everything by itself.
    """
    request = dict(load_tensors_metadata(checkpoint_dir))
    return load(request, checkpoint_dir, validate_access_integrity=False)  # type: ignore[no-any-return]


def load_content_metadata(
    checkpoint_dir: CheckpointDir | None = None,
    *,
    preloaded_state_dict: StateDict | None = None,
) -> dict[Any, Any] | None:
    """Returns the `content_metadata` that was passed to `save`, or None.

    With `preloaded_state_dict`, a loaded common state, it reads nothing.
    """
    if preloaded_state_dict is None:
        if checkpoint_dir is None:
            raise ValueError(
                "Both checkpoint_dir and loaded_state_dict cannot be None"
            )
        preloaded_state_dict = load_common_state_dict(checkpoint_dir)
    return preloaded_state_dict.get(_CONTENT_METADATA_KEY)


def remove_sharded_tensors(
    checkpoint_dir: CheckpointDir, key_prefix: str
) -> None:
    """Raises NotImplementedError: no strategy here can remove tensors."""
    sharded, _ = verify_checkpoint_and_load_strategy(checkpoint_dir)
    sharded.remove_sharded_tensors(checkpoint_dir, key_prefix)


def save(
    sharded_state_dict: ShardedStateDict,
    checkpoint_dir: CheckpointDir,
    sharded_strategy: SaveShardedStrategy | tuple[str, int] | None = None,
    common_strategy: SaveCommonStrategy | tuple[str, int] | None = None,
    validate_access_integrity: bool = True,
    async_sharded_save: bool = False,
    preprocess_common_before_consistancy_check: (
        Callable[[CommonStateDict], StateDict] | None
    ) = None,
    content_metadata: dict[Any, Any] | None = None,
    *,
    timeout_seconds: float | None = None,
) -> Any:
    """Saves a sharded state dict. All ranks call it.

    Args:
      sharded_state_dict: tensors and objects as ShardedTensor and
        ShardedObject. Everything else is the common state, which rank 0 saves.
        Factories in the dict are built in place.
      checkpoint_dir: an existing directory that is empty, or was left by a
        failed save and has none of these arrays.
      sharded_strategy: how tensors are written; None means zarr version 1.
      common_strategy: must be None.
      validate_access_integrity: check on every rank that the main replicas of
        all ranks cover every tensor exactly once. A rank warns if its common
        state differs from rank 0's.
      async_sharded_save: save in the background, which the zarr strategies do
        not support.
      preprocess_common_before_consistancy_check: applied to the common state
        before the comparison.
      content_metadata: stored in the common state under that name.
      timeout_seconds: how long to wait for other ranks; None means 600.

    Returns None, or the request if `async_sharded_save` is set.

    Raises:
      FileNotFoundError: the directory does not exist.
      CheckpointingException: an array already exists; an axis does not divide;
        shards do not cover a tensor; another rank has failed.
      KeyError: the format lacks a dtype.
      NotImplementedError: a common strategy was given.
      DeadlineExceededError: ranks did not arrive in time; the error names them.

    `metadata.json` is written last, so a failed save leaves no checkpoint.
    """
    adopt_megatron_core()
    with ranks.call(checkpoint_dir, timeout_seconds=timeout_seconds) as group:
        group.begin()
        if group.rank == 0:
            _look_at(checkpoint_dir)
        if common_strategy is not None:
            error = NotImplementedError(
                "The only supported common strategy is torch"
            )
            raise _with_code(error, "COMMON_STRATEGY_UNSUPPORTED")
        sharded = _save_strategy(sharded_strategy)
        common = get_default_save_common_strategy()
        if content_metadata is not None:
            sharded_state_dict[_CONTENT_METADATA_KEY] = content_metadata
        parts, state = save_preprocess(
            sharded_state_dict,
            validate_access_integrity,
            preprocess_common_before_consistancy_check,
        )
        common.save_common(state, checkpoint_dir)
        if not sharded.can_handle_sharded_objects:
            validate_sharded_objects_handling(sharded, common)
            objects, parts = extract_matching_values(
                parts, lambda v: isinstance(v, ShardedObject)
            )
            common.save_sharded_objects(objects, checkpoint_dir)

        def finish() -> None:
            with ranks.call(checkpoint_dir) as all_ranks:
                all_ranks.begin()
                if all_ranks.rank == 0:
                    config = CheckpointingConfig(
                        sharded.backend, sharded.version
                    )
                    save_config(config, checkpoint_dir)

        if not async_sharded_save:
            sharded.save(parts, checkpoint_dir)
            finish()
            return None
        if not isinstance(sharded, AsyncSaveShardedStrategy):
            raise CheckpointingException(
                f"Cannot apply async_save to non-async strategy {sharded}",
                code="ASYNC_UNSUPPORTED",
            )
        request = sharded.async_save(parts, checkpoint_dir)
        request.finalize_fns.append(finish)
        return request


def _look_at(checkpoint_dir: CheckpointDir) -> None:
    """Checks that the directory exists; warns if it is not empty."""
    try:
        with _files.scandir(checkpoint_dir) as entries:
            is_empty = next(entries, None) is None
    except FileNotFoundError as error:
        raise _with_code(error, "SAVE_DIR_MISSING") from None
    if not is_empty:
        logger.warning("Overwriting old incomplete / corrupted checkpoint...")


def _with_code(error: Exception, code: str) -> Exception:
    error.code = code  # type: ignore[attr-defined]
    return error


def _save_strategy(
    strategy: SaveShardedStrategy | tuple[str, int] | None,
) -> Any:
    if strategy is None:
        return get_default_save_sharded_strategy()
    if isinstance(strategy, tuple):
        return get_default_strategy(StrategyAction.SAVE_SHARDED, *strategy)
    if not hasattr(strategy, "save"):
        raise AssertionError(type(strategy))
    return strategy


def get_default_save_sharded_strategy(
    backend: str = "zarr", version: int = 1
) -> Any:
    """Returns the strategy that saves tensors for a back end and version."""
    return get_default_strategy(StrategyAction.SAVE_SHARDED, backend, version)


def get_default_save_common_strategy(
    backend: str = "torch", version: int = 1
) -> Any:
    """Returns the strategy that saves the common state."""
    return get_default_strategy(StrategyAction.SAVE_COMMON, backend, version)


def get_default_load_sharded_strategy(
    checkpoint_dir: CheckpointDir,
) -> LoadShardedStrategy:
    """Returns the strategy that loads a checkpoint's tensors."""
    return verify_checkpoint_and_load_strategy(checkpoint_dir)[0]
