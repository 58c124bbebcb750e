"""Results of calls: plain values that describe what was found or done.

A notebook displays some of them as a page. Sizes are in bytes, times in
seconds.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import numpy.typing as npt

from holdfast import _engine
from holdfast._stats import Stats

__all__ = [
    "ArrayPatch",
    "BisectProbe",
    "BisectResult",
    "BisectStep",
    "ConvertResult",
    "ConvertedLeaf",
    "CopiedLeaf",
    "DiffResult",
    "FollowerUpdate",
    "LeafDiff",
    "LeafStats",
    "LeafSummary",
    "LogEntry",
    "LostLeaf",
    "MergeResult",
    "ReplicaCounts",
    "Report",
    "RescueReport",
    "ResumeDifference",
    "ResumeReport",
    "StatsResult",
    "TierRestore",
    "TierStats",
    "TierStep",
    "VerifyReport",
    "ViewResult",
]


@dataclasses.dataclass(frozen=True)
class VerifyReport:
    """The result of `verify`. True if everything is as it was saved.

    Attributes:
      damages: each damaged or missing part, with its `leaf`, `file`, `offset`,
        `message` and `code`.
      not_supported: each leaf that holdfast cannot read because its dtype or
        object is unknown, in the same form. It is neither damaged nor checked.
      notes: other findings, such as values without a checksum.
      leaf_count: number of checked leaves.
      stats: what was read and how long it took.
    """

    path: str
    damages: list[_engine.Damage]
    not_supported: list[_engine.Damage]
    notes: list[str]
    leaf_count: int
    stats: Stats

    @property
    def ok(self) -> bool:
        return not self.damages and not self.not_supported

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        verdict = f"{len(self.damages) or 'no'} damage"
        if len(self.damages) > 1:
            verdict += "s"
        if self.not_supported:
            verdict += f", {len(self.not_supported)} not supported"
        lines = [f"{self.path}: {self.leaf_count} leaves: {verdict}"]
        for damage in [*self.damages, *self.not_supported]:
            where = damage.file
            if damage.offset is not None:
                where += f" at {damage.offset}"
            lines.append(f"  {damage.leaf or '-'}: {where}: {damage.message}")
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    def _repr_html_(self) -> str:
        from holdfast import _pages

        return _pages.of_verify(self)


@dataclasses.dataclass(frozen=True)
class LeafSummary:
    """A leaf on one side: its name, kind ("array", "scalar", "string", ...),
    dtype (None if it has no elements), shape, and bytes in memory."""

    name: str
    kind: str
    dtype: str | None
    shape: tuple[int, ...]
    bytes: int


@dataclasses.dataclass(frozen=True)
class LeafDiff:
    """The comparison of one leaf by `diff`.

    Attributes:
      name: the name in A, or in B if A does not have the leaf.
      what: "same", or the first difference: "only in a", "only in b", "kind",
        "shape", "dtype", "values", "bits"; or "unreadable".
      a, b: the leaf on each side, or None.
      renamed: for a leaf on only one side, the leaf with the same value on the
        other side.
      element_count: number of compared elements.
      different_count: how many of these are not equal.
      beyond_count: how many of these exceed the tolerances.
      nan_mismatch_count: how many of these are NaN on only one side.
      bits_only_count: elements that are equal but differ in bits: -0.0 and 0.0,
        NaNs.
      max_abs_error: the largest |a - b|, over elements without NaN.
      max_rel_error: the largest |a - b| / max(|a|, |b|).
      max_abs_error_exact: max_abs_error as an int, for integer tensors.
      first_index: index of the first element, in C order, that is not equal.
      first_a, first_b: that element on each side, as an array without
        dimensions.
      first_byte: the offset of the first different byte of strings.
      error: why the leaf could not be compared.
    """

    name: str
    what: str
    a: LeafSummary | None
    b: LeafSummary | None
    renamed: str | None
    element_count: int
    different_count: int
    beyond_count: int
    nan_mismatch_count: int
    bits_only_count: int
    max_abs_error: float
    max_rel_error: float
    max_abs_error_exact: int | None
    first_index: tuple[int, ...] | None
    first_a: Any
    first_b: Any
    first_byte: int | None
    error: str | None


@dataclasses.dataclass(frozen=True)
class DiffResult:
    """The result of `diff`. True if both checkpoints have equal leaves.

    Attributes:
      leaves: the leaves of A in A's order, then leaves that only B has.
      worst: the leaves that differ, the worst first.
      stats: what was read and how long it took.
    """

    leaves: list[LeafDiff]
    worst: list[LeafDiff]
    stats: Stats

    @property
    def same(self) -> bool:
        return not self.worst

    def __bool__(self) -> bool:
        return self.same

    def _repr_html_(self) -> str:
        from holdfast import _pages

        return _pages.of_diff(self)


@dataclasses.dataclass(frozen=True)
class LeafStats:
    """The statistics of one tensor. Except for the counts, they cover only its
    finite elements.

    Attributes:
      element_count, bytes: the size of the complete tensor.
      finite_count, zero_count, nan_count, infinity_count: numbers of elements.
      min, max, absmax: ints for integer tensors. None if no element is
        finite; min and max are also None for complex tensors.
      mean: complex for complex tensors; NaN if no element is finite.
      std: the population standard deviation, as numpy.std computes it.
      l2_norm: square root of the sum of squared moduli.
      error: why the tensor could not be read.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    element_count: int
    bytes: int
    finite_count: int
    zero_count: int
    nan_count: int
    infinity_count: int
    min: int | float | None
    max: int | float | None
    absmax: int | float | None
    mean: float | complex
    std: float
    l2_norm: float
    error: str | None


@dataclasses.dataclass(frozen=True)
class StatsResult:
    """The result of `stats`: one entry per tensor, in the checkpoint's order,
    and the norm and largest modulus over all elements together."""

    leaves: list[LeafStats]
    l2_norm: float
    absmax: float
    stats: Stats

    def __getitem__(self, name: str) -> LeafStats:
        for leaf in self.leaves:
            if leaf.name == name:
                return leaf
        raise KeyError(name)

    def _repr_html_(self) -> str:
        from holdfast import _pages

        return _pages.of_stats(self)


@dataclasses.dataclass(frozen=True)
class MergeResult:
    """The result of `merge`. Sizes in bytes, times in seconds."""

    target: str
    format: str
    leaf_count: int
    decoded_bytes: int
    written_bytes: int
    checked_bytes: int
    total_seconds: float


@dataclasses.dataclass(frozen=True)
class ConvertedLeaf:
    """A leaf that the conversion changed or left out.

    Attributes:
      leaf: the name in the source.
      new_name: the name in the target; None if the leaf was left out.
      what: "renamed", "cast to float16", "left out", "stored as ...".
    """

    leaf: str
    new_name: str | None
    what: str


@dataclasses.dataclass(frozen=True)
class ConvertResult:
    """The result of a conversion. Sizes in bytes, times in seconds.

    Attributes:
      target: the path of the new checkpoint.
      format: the format of the new checkpoint.
      leaf_count: number of leaves in the new checkpoint.
      decoded_bytes: decoded size of the new checkpoint's arrays.
      read_bytes: bytes read from storage for the arrays.
      written_bytes: bytes written to storage for the arrays.
      checked_bytes: decoded bytes compared afterwards.
      total_seconds: duration of the call.
      leaves: leaves that were renamed, cast, left out or stored as bits.
      notes: rules that matched no leaf, and similar findings.
      resumed: whether the call continued an earlier call.
      resume_text: what the call continued, or why it started over; may be
        empty.
      kept_bytes: decoded bytes that an earlier call had already converted.
    """

    target: str
    format: str
    leaf_count: int
    decoded_bytes: int
    read_bytes: int
    written_bytes: int
    checked_bytes: int
    total_seconds: float
    leaves: list[ConvertedLeaf]
    notes: list[str]
    resumed: bool
    resume_text: str
    kept_bytes: int


@dataclasses.dataclass(frozen=True)
class ArrayPatch:
    """The elements of one array that a delta changes.

    Attributes:
      name: the leaf's name: its keys joined with ".".
      shape: the shape of the complete array.
      indices: ascending int64 indices into the array in C order.
      values: the new elements on one axis, in the array's dtype.
    """

    name: str
    shape: tuple[int, ...]
    indices: npt.NDArray[Any]
    values: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class FollowerUpdate:
    """The result of `Follower.poll`.

    Attributes:
      step: the step that the arrays hold now.
      path: path or URL of this step.
      delta_count: number of applied deltas; 0 if the full step was read.
      read_bytes: bytes read from storage for the arrays.
      changed: names of the arrays that changed.
    """

    step: int
    path: str
    delta_count: int
    read_bytes: int
    changed: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class LogEntry:
    """One step of a run.

    Attributes:
      step: the step's number; None if the directory's name has no number.
      path: the step's directory.
      committed: whether a save of the step was finished.
      problem: why the step is not committed, or which part of a committed step
        is missing; "" for a complete step.
      commit_timestamp_ns: nanoseconds since 1970 UTC; None if not recorded.
      save_seconds: from the beginning of the save to its commit; None if not
        recorded.
      bytes: total size of all files below `path`.
      metrics: the step's metrics by name, their keys joined with ".".
      moved_against: the step that `moved` compares with; "" if there is no
        comparison.
      moved: names of the tensors that moved most and how far, relative to
        their old values.
      moved_problem: why the two steps could not be compared.
    """

    step: int | None
    path: str
    committed: bool
    problem: str
    commit_timestamp_ns: int | None
    save_seconds: float | None
    bytes: int
    metrics: dict[str, float]
    moved_against: str
    moved: list[tuple[str, float]]
    moved_problem: str


@dataclasses.dataclass(frozen=True)
class BisectStep:
    """A step's number, and its directory's name and path."""

    step: int
    name: str
    path: str


@dataclasses.dataclass(frozen=True)
class BisectProbe:
    """The test of one step. `verdict` is "good", "bad" or "skip"."""

    step: BisectStep
    verdict: str
    why: str
    leaf_count: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class BisectResult:
    """The result of `bisect`.

    Attributes:
      first_bad: the first bad step; None if steps before it were skipped.
      candidates: the steps that may be the first bad step; all but the last
        were skipped.
      last_good: the step before the candidates.
      probes: the steps that were tested, in order.
      step_count: number of steps in the range.
      leaf_count: number of tensors that were read in total.
      bytes: size of these tensors' elements.
    """

    first_bad: BisectStep | None
    candidates: list[BisectStep]
    last_good: BisectStep
    probes: list[BisectProbe]
    step_count: int
    leaf_count: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class Report:
    """A self-contained page, which a notebook displays in its output.

    Attributes:
      html: the page.
      leaf_count: number of leaves in the checkpoint.
      unreadable_count: number of leaves that could not be read.
      damage_count: number of damages that `verify` found.
      different_count: number of leaves that differ from `against`.
      cache_warning: why the file `cache` was not used; "" if it was used.
    """

    html: str = dataclasses.field(repr=False)
    leaf_count: int
    unreadable_count: int
    damage_count: int
    different_count: int
    cache_warning: str = ""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the page to a file."""
        pathlib.Path(os.fspath(path)).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        import html  # slow to import

        # The frame isolates the page's style and scripts.
        return (
            '<iframe title="holdfast report" sandbox="allow-scripts" '
            'style="width:100%;height:48rem;border:0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


@dataclasses.dataclass(frozen=True)
class LostLeaf:
    """A leaf that is incomplete, or a lost file of unknown content.

    Attributes:
      leaf: the leaf's name; "" if names are not known.
      file: the damaged file, relative to the source; may be "".
      offset: offset in the file; None if the complete file is lost or the
        offset is not known.
      reason: why the leaf or file is lost.
      filled: whether the new step has the value of the `fill` step.
    """

    leaf: str
    file: str
    offset: int | None
    reason: str
    filled: bool


@dataclasses.dataclass(frozen=True)
class RescueReport:
    """The result of a rescue. True if nothing is lost and everything was
    checked.

    Attributes:
      target: the new step.
      format: the source's format: "orbax", "safetensors", ...
      leaf_count: leaves in the new step, including filled ones.
      filled_count: leaves that were taken from the `fill` step.
      decoded_bytes: decoded size of the leaves in the new step.
      lost: incomplete leaves, including filled ones, by name.
      notes: other findings, including data that no checksum covers.
      names_are_known: if False, some leaves may have been lost without a trace.
      checksums_are_known: if False, a list of checksums that the checkpoint was
        saved with is damaged or missing.
      unchecked: names of leaves in the new step that have bytes without a
        checksum; a change in these bytes would go unnoticed.
      total_seconds: duration of the call.
    """

    target: str
    format: str
    leaf_count: int
    filled_count: int
    decoded_bytes: int
    lost: list[LostLeaf]
    notes: list[str]
    names_are_known: bool
    checksums_are_known: bool
    unchecked: list[str]
    total_seconds: float

    @property
    def ok(self) -> bool:
        return (
            not self.lost
            and self.names_are_known
            and self.checksums_are_known
            and not self.unchecked
        )

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        lines = [
            f"{'filled' if leaf.filled else 'lost'}: "
            f"{leaf.leaf or leaf.file}: {leaf.reason}"
            for leaf in self.lost
        ]
        if not self.checksums_are_known:
            lines.append("a list of checksums is damaged or gone")
        if self.unchecked:
            lines.append(f"unchecked: {', '.join(self.unchecked)}")
        lines.append(
            f"{self.leaf_count - self.filled_count} leaves recovered, "
            f"{self.filled_count} filled, "
            f"{len(self.lost) - self.filled_count} lost"
        )
        return "\n".join(lines)


@dataclasses.dataclass(frozen=True)
class ResumeDifference:
    """One difference between the record and now.

    Attributes:
      what: where it is: "rng.dropout", "libraries.jax", "state.params.w".
      recorded: the recorded value; None if there was no value.
      found: the value now; None if there is no value.
    """

    what: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.what}: was {self.recorded}, is {self.found}"


@dataclasses.dataclass(frozen=True)
class ResumeReport:
    """The result of `resume_check`. True if nothing differs.

    Attributes:
      differences: the differences, ordered so that an earlier one may explain a
        later one: step, libraries, settings, flags, devices, rng, data, state.
      compared_count: number of values that were compared.
    """

    differences: tuple[ResumeDifference, ...]
    compared_count: int

    @property
    def first(self) -> ResumeDifference | None:
        """The first difference, which may explain the others."""
        return self.differences[0] if self.differences else None

    def __bool__(self) -> bool:
        return not self.differences

    def __str__(self) -> str:
        if not self.differences:
            return f"nothing differs: {self.compared_count} values agree"
        lines = "\n".join(f"  {difference}" for difference in self.differences)
        return (
            f"{len(self.differences)} of {self.compared_count} values differ;"
            f" the first may explain the others:\n{lines}"
        )


@dataclasses.dataclass(frozen=True)
class TierRestore:
    """A step that was restored.

    Attributes:
      step: the step's number.
      source: "local" (the ranks of this run had the complete step), "parity"
        (parts were rebuilt from parity) or "shared" (read from the shared
        tier).
      id: distinguishes this copy of the step from any other copy.
      notes: steps that were skipped, and why.
      rebuilt_ranks: ranks of the save whose part was lost and rebuilt.
      healed_block_count: number of repaired blocks of damaged files, on all
        ranks.
      peer_bytes: bytes that this rank received for repairs.
    """

    step: int
    source: str
    id: str
    notes: list[str]
    rebuilt_ranks: list[int]
    healed_block_count: int
    peer_bytes: int


@dataclasses.dataclass(frozen=True)
class TierStep:
    """A step of this rank's directory, or of the shared tier.

    Attributes:
      step: the step's number.
      epoch: counts the managers that have saved; a step from a later manager
        is newer.
      is_local: whether this rank has its part of the step.
      is_protected: whether all ranks had stored their parity.
      is_shared: whether the shared tier has the step as a checkpoint.
    """

    step: int
    epoch: int
    is_local: bool
    is_protected: bool
    is_shared: bool


@dataclasses.dataclass(frozen=True)
class TierStats:
    """The counts of this rank.

    Attributes:
      data_bytes: this rank's part of the last step.
      parity_bytes: parity that this rank holds for the last step.
      received_bytes: bytes received for parity since the manager was created.
      write_seconds: time until the last step was on the local tier.
      protect_seconds: time from then until all ranks had their parity of the
        last step.
      drain_seconds: time to copy the last step that went to the shared tier.
      drained_bytes: bytes copied to the shared tier since the manager was
        created.
    """

    data_bytes: int
    parity_bytes: int
    received_bytes: int
    write_seconds: float
    protect_seconds: float
    drain_seconds: float
    drained_bytes: int


@dataclasses.dataclass(frozen=True)
class CopiedLeaf:
    """A tensor that a view could not refer to.

    Attributes:
      leaf: the leaf's name in the source.
      why: "compressed with zstd", "cast to float16", ...
      byte_count: decoded bytes of the tensor.
    """

    leaf: str
    why: str
    byte_count: int


@dataclasses.dataclass(frozen=True)
class ViewResult:
    """The result of `view`. Sizes in bytes, times in seconds.

    Attributes:
      target: the view.
      leaf_count: number of leaves in the view.
      referred_leaf_count: number of tensors that the view only refers to.
      referred_bytes: decoded bytes of the tensors that it only refers to.
      source_file_count: number of files that the view refers to.
      copied: tensors that were copied, and why.
      total_seconds: duration of the call.
      leaves: leaves that were renamed or left out.
      notes: rules that matched no leaf, and similar findings.
    """

    target: str
    leaf_count: int
    referred_leaf_count: int
    referred_bytes: int
    source_file_count: int
    copied: list[CopiedLeaf]
    total_seconds: float
    leaves: list[ConvertedLeaf]
    notes: list[str]


@dataclasses.dataclass(frozen=True)
class ReplicaCounts:
    """The counts of one call of `check_replicas`.

    Attributes:
      box_count: distinct tensors, or boxes of tensors, that some rank holds.
      replica_count: copies of these tensors or boxes on all ranks together.
      compared_count: copies that were compared, because there is more than one.
    """

    box_count: int
    replica_count: int
    compared_count: int
