"""Checks that the shards of all ranks fit together and fit the checkpoint."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from enum import Enum
from typing import Any

from holdfast import _engine, _files
from holdfast.megatron import ranks
from holdfast.megatron._errors import coded, from_engine
from holdfast.megatron._rows import row_of
from holdfast.megatron.core import CheckpointingException, maybe_load_config
from holdfast.megatron.dict_utils import (
    diff,
    extract_matching_values,
    nested_values,
)
from holdfast.megatron.mapping import (
    CommonStateDict,
    ShardedBase,
    ShardedStateDict,
)
from holdfast.megatron.strategies.base import (
    LoadCommonStrategy,
    LoadShardedStrategy,
    StrategyAction,
    get_default_strategy,
)

__all__ = [
    "StrictHandling",
    "adjust_non_strict_load",
    "check_integrity",
    "determine_global_metadata",
    "maybe_report_missing_and_unexpected_keys",
    "parse_strict_flag",
    "validate_common_state_dict",
    "validate_integrity_and_strict_load",
    "validate_sharded_objects_handling",
    "validate_sharding_integrity",
    "verify_checkpoint_and_load_strategy",
]

logger = logging.getLogger(__name__)

LocalMetadata = list[Any]
GlobalMetadata = Sequence[LocalMetadata]


class StrictHandling(Enum):
    """How a load treats keys that only one side has.

    A key is unexpected if this rank requests it and the checkpoint lacks it. A
    key is missing if the checkpoint has it and no rank requests it.
    """

    # Compare nothing; the loader raises for keys that it does not find.
    ASSUME_OK_UNEXPECTED = "assume_ok_unexpected"
    # Remove unexpected keys from the request, and log them.
    LOG_UNEXPECTED = "log_unexpected"
    LOG_ALL = "log_all"
    RAISE_UNEXPECTED = "raise_unexpected"
    RAISE_ALL = "raise_all"
    # Remove unexpected keys from the request, and return them.
    RETURN_UNEXPECTED = "return_unexpected"
    RETURN_ALL = "return_all"
    IGNORE_ALL = "ignore_all"

    @staticmethod
    def requires_explicit_ckpt_mismatch_check(val: StrictHandling) -> bool:
        """Returns whether the checkpoint's keys must be compared."""
        return val is not StrictHandling.ASSUME_OK_UNEXPECTED

    @staticmethod
    def requires_global_app_metadata(val: StrictHandling) -> bool:
        """Returns whether the requested keys of all ranks are needed."""
        return val in (
            StrictHandling.IGNORE_ALL,
            StrictHandling.RAISE_ALL,
            StrictHandling.RETURN_ALL,
            StrictHandling.LOG_ALL,
        )

    @staticmethod
    def requires_returning_mismatch_keys(val: StrictHandling) -> bool:
        """Returns whether `load` returns the state dict, missing keys and
        unexpected keys."""
        return val in (
            StrictHandling.RETURN_UNEXPECTED,
            StrictHandling.RETURN_ALL,
        )


def parse_strict_flag(strict: str | StrictHandling) -> StrictHandling:
    """Returns the mode with that name. Raises ValueError for an unknown name.

    Also accepts Megatron Core's own members.
    """
    if isinstance(strict, StrictHandling):
        return strict
    if isinstance(strict, Enum) and type(strict).__name__ == "StrictHandling":
        strict = strict.value
    try:
        return StrictHandling(strict)
    except (ValueError, TypeError) as error:
        raise coded(
            "INVALID_STRICT", f"Invalid strict flag: {error}", ValueError
        ) from error


def verify_checkpoint_and_load_strategy(
    checkpoint_dir: str | os.PathLike[str],
    sharded_strategy: Any = None,
    common_strategy: Any = None,
) -> tuple[LoadShardedStrategy, LoadCommonStrategy]:
    """Returns the strategies to load a checkpoint with: the given ones (objects
    or (backend, version)), or those named in its `metadata.json`.

    Raises CheckpointingException if the path is not a directory or not a
    checkpoint, or if no strategy exists; also the errors of
    `maybe_load_config`.
    """
    if not _files.isdir(checkpoint_dir):
        raise CheckpointingException(
            f"Checkpoint directory {os.fspath(checkpoint_dir)} does not exist",
            code="DIR_NOT_FOUND",
        )
    config = maybe_load_config(checkpoint_dir)
    if config is None:
        raise CheckpointingException(
            f"{os.fspath(checkpoint_dir)} is not a distributed checkpoint",
            code="NOT_A_DIST_CKPT",
        )
    if sharded_strategy is None:
        sharded_strategy = (
            config.sharded_backend,
            config.sharded_backend_version,
        )
    if isinstance(sharded_strategy, tuple):
        sharded_strategy = get_default_strategy(
            StrategyAction.LOAD_SHARDED, *sharded_strategy
        )
    if common_strategy is None:
        common_strategy = (config.common_backend, config.common_backend_version)
    if isinstance(common_strategy, tuple):
        common_strategy = get_default_strategy(
            StrategyAction.LOAD_COMMON, *common_strategy
        )
    sharded_strategy.check_backend_compatibility(config.sharded_backend)
    sharded_strategy.check_version_compatibility(config.sharded_backend_version)
    common_strategy.check_backend_compatibility(config.common_backend)
    common_strategy.check_version_compatibility(config.common_backend_version)
    return sharded_strategy, common_strategy


def validate_integrity_and_strict_load(
    sharded_state_dict: ShardedStateDict,
    strict: StrictHandling,
    validate_access_integrity: bool,
    local_metadata: LocalMetadata | None = None,
    global_metadata: GlobalMetadata | None = None,
    ckpt_sharded_metadata: dict[str, Any] | None = None,
) -> tuple[ShardedStateDict, set[str], set[str]]:
    """Makes both checks of the tensors that a load requests.

    Returns the request without unexpected keys, the missing keys, and the
    unexpected keys. Raises CheckpointingException for keys that `strict`
    refuses, and for shards that do not fit together.
    """
    missing: set[str] = set()
    unexpected: set[str] = set()
    if StrictHandling.requires_explicit_ckpt_mismatch_check(strict):
        if ckpt_sharded_metadata is None:
            raise CheckpointingException(
                "Cannot verify checkpoint mismatch with"
                " ckpt_sharded_metadata=None."
            )
        if local_metadata is None:
            local_metadata = _metadata_of(sharded_state_dict)
        needs_all = StrictHandling.requires_global_app_metadata(strict)
        missing, unexpected = _determine_missing_and_unexpected_keys(
            ckpt_sharded_metadata,
            local_metadata,
            global_metadata if needs_all else None,
        )
        sharded_state_dict = adjust_non_strict_load(
            sharded_state_dict, unexpected
        )
        if strict is StrictHandling.IGNORE_ALL:
            missing, unexpected = set(), set()
        elif strict.value.startswith(("raise", "log")):
            maybe_report_missing_and_unexpected_keys(
                missing, unexpected, strict.value.startswith("raise")
            )
    if validate_access_integrity:
        if global_metadata is None:
            raise CheckpointingException(
                "Cannot check sharding intergrity without global_metadata"
                " (None)."
            )
        validate_sharding_integrity(global_metadata)
    return sharded_state_dict, missing, unexpected


def adjust_non_strict_load(
    sharded_state_dict: ShardedStateDict, sharded_keys_to_remove: set[str]
) -> ShardedStateDict:
    """Returns the state dict without the sharded leaves of those keys."""
    _, kept = extract_matching_values(
        sharded_state_dict,
        lambda x: (
            isinstance(x, ShardedBase) and x.key in sharded_keys_to_remove
        ),
    )
    rest: ShardedStateDict = kept
    return rest


def _determine_missing_and_unexpected_keys(
    ckpt_sharded_metadata: dict[str, Any],
    local_metadata: LocalMetadata,
    global_metadata: GlobalMetadata | None = None,
) -> tuple[set[str], set[str]]:
    stored = {part.key for part in ckpt_sharded_metadata.values()}
    unexpected = {part.key for part in local_metadata} - stored
    if global_metadata is None:
        return set(), unexpected
    asked = {part.key for parts in global_metadata for part in parts}
    return stored - asked, unexpected


def maybe_report_missing_and_unexpected_keys(
    missing_keys: set[str], unexpected_keys: set[str], raise_error: bool = True
) -> None:
    """Raises CheckpointingException or logs a warning if there are keys."""
    if not missing_keys and not unexpected_keys:
        return
    title = body = ""
    if missing_keys:
        title += (
            "Some keys found in the checkpoint are missing in the provided"
            " sharded state dict. "
        )
        body += f"Missing keys (for all ranks): {_set_text(missing_keys)}. "
    if unexpected_keys:
        title += (
            "Unexpected keys (not found in the checkpoint) encountered in the"
            " provided sharded state dict. "
        )
        body += (
            f"Unexpected keys (for this rank): {_set_text(unexpected_keys)}. "
        )
    if raise_error:
        raise CheckpointingException(f"{title}\n{body}", code="KEYS_MISMATCH")
    logger.warning("%s\n%s", title, body)


def _set_text(keys: set[str]) -> str:
    return "{" + ", ".join(map(repr, sorted(keys))) + "}"


def validate_common_state_dict(common_state_dict: CommonStateDict) -> None:
    """Warns if this rank's state differs from rank 0's, which is saved."""
    with ranks.call("") as group:
        if group.size == 1:
            return
        rank_0 = group.broadcast(common_state_dict)
    only_0, only_here, mismatch = diff(rank_0, common_state_dict)
    if group.rank > 0 and (only_0 or only_here or mismatch):
        logger.warning(
            "Rank %d common state dict differs from rank 0 common state dict."
            " Keys only on rank 0: %s, Keys only on %d: %s, Mismatched keys:"
            " %s",
            group.rank,
            only_0,
            group.rank,
            only_here,
            mismatch,
        )


def validate_sharding_integrity(
    global_metadata: GlobalMetadata,
    common_state_dict: CommonStateDict | None = None,
) -> None:
    """Checks that the main replicas of all ranks cover every global tensor and
    object exactly once.

    Rank 0 makes the check; other ranks return immediately. Raises
    CheckpointingException (AssertionError if ranks disagree about a tensor),
    naming the key and what is missing or duplicated.
    """
    if common_state_dict is not None:
        validate_common_state_dict(common_state_dict)
    if ranks.this_rank() == 0:
        check_integrity(global_metadata)


def check_integrity(global_metadata: GlobalMetadata) -> None:
    """Makes the check of `validate_sharding_integrity` on any rank."""
    rows = [[row_of(part) for part in parts] for parts in global_metadata]
    with from_engine():
        _engine.megatron_validate(rows)


def _metadata_of(sharded_state_dict: ShardedStateDict) -> LocalMetadata:
    return [part.without_data() for part in nested_values(sharded_state_dict)]


def determine_global_metadata(
    sharded_state_dict: ShardedStateDict,
) -> tuple[LocalMetadata, GlobalMetadata]:
    """Returns the metadata of this rank and of all ranks, without data."""
    local = _metadata_of(sharded_state_dict)
    with ranks.call("") as group:
        return local, group.all_gather(local)


def validate_sharded_objects_handling(
    sharded_strategy: Any, common_strategy: Any
) -> None:
    """Raises CheckpointingException unless one strategy handles objects."""
    if (
        not sharded_strategy.can_handle_sharded_objects
        and not common_strategy.can_handle_sharded_objects
    ):
        raise CheckpointingException(
            "Either sharded strategy or common strategy must implement"
            f" ShardedObjects handling. Both {sharded_strategy} and"
            f" {common_strategy} specify can_handle_sharded_objects=False"
        )
