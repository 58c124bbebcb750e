"""Results of calls: plain values, which say what was found or done.

Those of notebooks' interest show themselves as pages. Sizes are in bytes, times
in seconds.
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
    """The result of `verify`. True when all is as it was saved.

    Attributes:
      damages: each damaged or missing part: `leaf`, `file`, `offset`,
        `message`, `code`.
      not_supported: the same of each leaf that holdfast does not read (a dtype
        or an object that it lacks): neither damaged nor checked.
      notes: such as values that carry no checksum.
      leaf_count: leaves that were checked.
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
    """A leaf of one side: its name, kind ("array", "scalar", "string", ...),
    dtype (None for what has no elements), shape, and bytes in memory."""

    name: str
    kind: str
    dtype: str | None
    shape: tuple[int, ...]
    bytes: int


@dataclasses.dataclass(frozen=True)
class LeafDiff:
    """One leaf of `diff`.

    Attributes:
      name: in A; in B where A does not have it.
      what: "same", or the first thing that is different: "only in a", "only in
        b", "kind", "shape", "dtype", "values", "bits"; "unreadable".
      a, b: the leaf on each side, or None.
      renamed: the leaf that holds the same value on the other side, of a leaf
        on one side.
      element_count: elements compared.
      different_count: of these, not equal.
      beyond_count: of these, not within the tolerances.
      nan_mismatch_count: of these, for a NaN on one side.
      bits_only_count: equal elements of other bits: -0.0 and 0.0, NaNs.
      max_abs_error: the largest |a - b|, over elements without NaN.
      max_rel_error: the largest |a - b| / max(|a|, |b|).
      max_abs_error_exact: the same as an int, of integer tensors.
      first_index: of the first element that is not equal, in C order.
      first_a, first_b: that element, an array of no dimensions.
      first_byte: of texts.
      error: why it could not be compared.
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
    """The result of `diff`. True when both hold the same.

    Attributes:
      leaves: the leaves of A in its order, then those only in B.
      worst: those that are not the same, the worst first.
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
    """The numbers of one tensor. All but the counts are over its finite
    elements.

    Attributes:
      element_count, bytes: of the whole tensor.
      finite_count, zero_count, nan_count, infinity_count: elements.
      min, max, absmax: ints of integer tensors; None when nothing is finite,
        and min and max of complex tensors.
      mean: complex of complex tensors; NaN when nothing is finite.
      std: of the whole, as numpy.std has it.
      l2_norm: root of the sum of squared moduli.
      error: why it could not be read.
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
    """The result of `stats`: one entry a tensor, in the checkpoint's order, and
    the norm and largest modulus of all elements together."""

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
      leaf: its name in the source.
      new_name: its name in the target; None: it was left out.
      what: "renamed", "cast to float16", "left out", "stored as ...".
    """

    leaf: str
    new_name: str | None
    what: str


@dataclasses.dataclass(frozen=True)
class ConvertResult:
    """The result of a conversion. Sizes in bytes, times in seconds.

    Attributes:
      target: the new checkpoint.
      format: its format.
      leaf_count: leaves in it.
      decoded_bytes: bytes of its arrays.
      read_bytes: read from storage for them.
      written_bytes: written to storage for them.
      checked_bytes: compared afterwards, decoded.
      total_seconds: of the whole call.
      leaves: those that were renamed, cast, left out or stored as bits.
      notes: rules that matched no leaf, and the like.
      resumed: whether it continued an earlier call.
      resume_text: what it continued, or why it started over; may be empty.
      kept_bytes: decoded bytes that an earlier call left.
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
      name: the leaf's, keys joined with ".".
      shape: of the whole array.
      indices: int64, ascending, into the array in C order.
      values: the new elements, one axis, in the array's dtype.
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
      path: its path or URL.
      delta_count: deltas that were applied; 0: the step was read whole.
      read_bytes: bytes read from storage for the arrays.
      changed: names of the arrays that are not as they were.
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
      step: its number; None where the directory's name has none.
      path: its directory.
      committed: a save was finished.
      problem: why it was not, or what of a committed step is gone; "" for a
        step that is whole.
      commit_timestamp_ns: since 1970 UTC; None when it is not recorded.
      save_seconds: from the beginning of the save to its commit, likewise.
      bytes: of all files below it.
      metrics: numbers, by their keys joined with ".".
      moved_against: the step that `moved` is against; "": none was compared.
      moved: names of the tensors that moved most and how far, relative to what
        they were.
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
    """A step by its number, and its directory's name and path."""

    step: int
    name: str
    path: str


@dataclasses.dataclass(frozen=True)
class BisectProbe:
    """One look: `verdict` is "good", "bad" or "skip"."""

    step: BisectStep
    verdict: str
    why: str
    leaf_count: int
    bytes: int


@dataclasses.dataclass(frozen=True)
class BisectResult:
    """The result of `bisect`.

    Attributes:
      first_bad: None when steps before it were skipped.
      candidates: the first bad step is one of these; all but the last were
        skipped.
      last_good: the step before them.
      probes: the steps that were looked at, in this order.
      step_count: of the range.
      leaf_count: tensors that were read, all together.
      bytes: of their elements.
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
    """A page that needs nothing else. A notebook shows it where it stands.

    Attributes:
      html: the page.
      leaf_count: leaves of the checkpoint.
      unreadable_count: of these, those that could not be read.
      damage_count: what `verify` found.
      different_count: leaves that differ from those of `against`.
      cache_warning: why the file `cache` was left out; "" when it was not.
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

        # In a frame of its own: the page's style and scripts stay there.
        return (
            '<iframe title="holdfast report" sandbox="allow-scripts" '
            'style="width:100%;height:48rem;border:0" '
            f'srcdoc="{html.escape(self.html)}"></iframe>'
        )


@dataclasses.dataclass(frozen=True)
class LostLeaf:
    """A leaf that is not whole, or a file of which no more is known.

    Attributes:
      leaf: its name; "" where names are not known.
      file: where the damage is, relative to the source; may be "".
      offset: in the file; None where it is the whole of it, or not known.
      reason: why it is lost.
      filled: its value in the new step is the other step's.
    """

    leaf: str
    file: str
    offset: int | None
    reason: str
    filled: bool


@dataclasses.dataclass(frozen=True)
class RescueReport:
    """The result of a rescue. True when nothing is lost, and all was checked.

    Attributes:
      target: the new step.
      format: of the source: "orbax", "safetensors", ...
      leaf_count: leaves in the new step, filled ones included.
      filled_count: those that were taken from the other step.
      decoded_bytes: of the leaves in the new step.
      lost: leaves that are not whole, by name; filled ones, too.
      notes: what else was found; and what no checksum covers.
      names_are_known: False: there may have been leaves of which nothing is
        left.
      checksums_are_known: False: a list of checksums that the checkpoint was
        saved with is damaged or gone.
      unchecked: leaves in the new step of which no checksum covers every byte,
        so that a changed one cannot have been noticed; by name.
      total_seconds: of the whole call.
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
    """One thing that is not as it was.

    Attributes:
      what: where: "rng.dropout", "libraries.jax", "state.params.w".
      recorded: what was there; None: nothing.
      found: what is there now; None: nothing.
    """

    what: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        return f"{self.what}: was {self.recorded}, is {self.found}"


@dataclasses.dataclass(frozen=True)
class ResumeReport:
    """The result of `resume_check`; true when nothing differs.

    Attributes:
      differences: in the order in which one may explain the next: step,
        libraries, settings, flags, devices, rng, data, state.
      compared_count: values that were compared.
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
      step: its number.
      source: "local" (all of it was on the ranks of this run), "parity" (some
        of it was made again), "shared".
      id: tells this copy of the step from any other.
      notes: steps that were skipped, and why.
      rebuilt_ranks: of the save: lost, and made again.
      healed_block_count: of damaged files, on all ranks.
      peer_bytes: that this rank received to heal.
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
      step: its number.
      epoch: counts the managers that saved; the step of a later one is newer.
      is_local: this rank has its part.
      is_protected: all ranks had stored their parity.
      is_shared: it is a checkpoint of the shared tier.
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
      data_bytes: its part of the last step.
      parity_bytes: that it holds of the last step.
      received_bytes: for parity, since the manager was made.
      write_seconds: of the last step, until it was on the tier.
      protect_seconds: from then on, until all had their parity.
      drain_seconds: of the last step that was copied to the shared tier.
      drained_bytes: to the shared tier, since the manager was made.
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
      leaf: its name in the source.
      why: "compressed with zstd", "cast to float16", ...
      byte_count: its decoded bytes.
    """

    leaf: str
    why: str
    byte_count: int


@dataclasses.dataclass(frozen=True)
class ViewResult:
    """The result of `view`. Sizes in bytes, times in seconds.

    Attributes:
      target: the view.
      leaf_count: leaves in it.
      referred_leaf_count: tensors that are only referred to.
      referred_bytes: decoded bytes of these.
      source_file_count: files that it refers to.
      copied: tensors that were copied, and why.
      total_seconds: of the whole call.
      leaves: those that were renamed or left out.
      notes: rules that matched no leaf, and the like.
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
    """The counts of a `check_replicas`.

    Attributes:
      box_count: different tensors, or boxes of tensors, that some rank holds.
      replica_count: copies of them, of all ranks together.
      compared_count: those of them that are not the only copy.
    """

    box_count: int
    replica_count: int
    compared_count: int
