"""holdfast: checkpoints that are fast, byte-compatible with Orbax and
impossible to corrupt quietly.

    import holdfast

    holdfast.save("/ckpt/7", {"params": params, "step": 7})
    tree = holdfast.load("/ckpt/7")               # dicts of numpy arrays
    state = holdfast.load("/ckpt/7", state)       # the same types as `state`
    rows = holdfast.open("/ckpt/7")["params.w"][0:10]

It depends only on numpy, and uses jax, torch and ml_dtypes when the program
does. `holdfast.orbax` is a drop-in for `import orbax.checkpoint as ocp`;
`holdfast.torch` is storage for `torch.distributed.checkpoint`. Every path may
be gs://bucket/…, s3://bucket/… or, for reading, https://… and hf://org/model;
see `holdfast.remote`.
"""

from __future__ import annotations

import importlib
from typing import Any

from holdfast import _libcurl, errors
from holdfast._api import digest, load, open, save, steps, verify
from holdfast._compare import diff, merge, stats
from holdfast._convert import convert, recipes
from holdfast._delta import DeltaPolicy, Follower, patches
from holdfast._engine import version as __version__
from holdfast._fingerprint import check_replicas, fingerprint
from holdfast._future import Future
from holdfast._history import bisect, log, resolve
from holdfast._log import enable_logging
from holdfast._mapping import Checkpoint
from holdfast._metrics import crash_mark, metrics, metrics_text
from holdfast._process_group import (
    ProcessGroup,
    ProcessTransport,
    process_group,
)
from holdfast._report import report
from holdfast._rescue import rescue
from holdfast._results import (
    ArrayPatch,
    BisectProbe,
    BisectResult,
    BisectStep,
    ConvertedLeaf,
    ConvertResult,
    CopiedLeaf,
    DiffResult,
    FollowerUpdate,
    LeafDiff,
    LeafStats,
    LogEntry,
    LostLeaf,
    MergeResult,
    ReplicaCounts,
    Report,
    RescueReport,
    ResumeDifference,
    ResumeReport,
    StatsResult,
    TierRestore,
    TierStats,
    TierStep,
    VerifyReport,
    ViewResult,
)
from holdfast._resume import resume_check, resume_record
from holdfast._stats import Stats
from holdfast._stats import last as last_stats
from holdfast._stored_array import StoredArray
from holdfast._tiers import (
    LocalTierOptions,
    ParityOptions,
    SharedTierOptions,
    TieredManager,
)
from holdfast._view import materialize, view

__all__ = [
    "ArrayPatch",
    "BisectProbe",
    "BisectResult",
    "BisectStep",
    "Checkpoint",
    "ConvertResult",
    "ConvertedLeaf",
    "CopiedLeaf",
    "DeltaPolicy",
    "DiffResult",
    "Follower",
    "FollowerUpdate",
    "Future",
    "LeafDiff",
    "LeafStats",
    "LocalTierOptions",
    "LogEntry",
    "LostLeaf",
    "MergeResult",
    "ParityOptions",
    "ProcessGroup",
    "ProcessTransport",
    "ReplicaCounts",
    "Report",
    "RescueReport",
    "ResumeDifference",
    "ResumeReport",
    "SharedTierOptions",
    "Stats",
    "StatsResult",
    "StoredArray",
    "TierRestore",
    "TierStats",
    "TierStep",
    "TieredManager",
    "VerifyReport",
    "ViewResult",
    "__version__",
    "bisect",
    "check_replicas",
    "convert",
    "crash_mark",
    "diff",
    "digest",
    "enable_logging",
    "errors",
    "fingerprint",
    "last_stats",
    "load",
    "log",
    "materialize",
    "merge",
    "metrics",
    "metrics_text",
    "open",
    "patches",
    "process_group",
    "recipes",
    "report",
    "rescue",
    "resume_check",
    "resume_record",
    "resolve",
    "save",
    "stats",
    "steps",
    "verify",
    "view",
]


_libcurl.tell_engine()


def __getattr__(name: str) -> Any:
    # Separate modules, imported on first use.
    if name in ("megatron", "orbax", "remote", "torch"):
        return importlib.import_module(f"holdfast.{name}")
    raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
