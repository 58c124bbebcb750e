"""Adapts the limit on concurrent device-to-host copies to past memory use.

A profiler measures a save's peak memory use, and a PID controller computes the
next save's limit from that peak. Sizes are in GiB (2^30 bytes) unless a name
says otherwise.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import math
from collections.abc import Iterator

from holdfast._log import log

_BYTES_PER_GIB = 1024.0**3


class MemoryProfiler(abc.ABC):
    """Measures the memory that a save uses, for a regulator."""

    def __init__(self) -> None:
        self._peak_usage_bytes = 0

    @property
    def peak_usage_bytes(self) -> int:
        """The peak memory use during the measurement, in bytes."""
        return self._peak_usage_bytes

    @abc.abstractmethod
    def profiler_start(self) -> None:
        """Starts the measurement; called when a save begins."""

    @abc.abstractmethod
    def profiler_end(self) -> None:
        """Ends the measurement; called when the save has copied everything."""

    @property
    def peak_usage_gib(self) -> float:
        """`peak_usage_bytes` in GiB."""
        return self.peak_usage_bytes / _BYTES_PER_GIB

    def get_prev_blocking_time_sec(self) -> float:
        """Returns for how many seconds the previous save was blocked."""
        return 0.0

    def get_expected_surge_gib(self) -> float:
        """Returns the memory that other users are expected to need."""
        return 0.0

    @property
    def total_memory_gib(self) -> float:
        """The memory of the machine.

        Raises:
            NotImplementedError: the profiler does not know the memory's size.
        """
        raise NotImplementedError


class _Registered:
    """The profiler of regulators that have no profiler of their own."""

    profiler: MemoryProfiler | None = None


def register_memory_profiler(profiler: MemoryProfiler | None) -> None:
    """Sets the profiler of regulators that have no profiler of their own."""
    _Registered.profiler = profiler


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Runs the registered profiler, if any, during the block."""
    profiler = _Registered.profiler
    if profiler is None:
        yield
        return
    profiler.profiler_start()
    try:
        yield
    finally:
        profiler.profiler_end()


@dataclasses.dataclass
class MemoryRegulator:
    """Adjusts a limit so that the peak approaches a fraction of all memory.

    Attributes:
        max_memory_limit_gib: maximum of the limit.
        target_ratio: the fraction of all memory to use.
        min_memory_limit_gib: minimum of the limit.
        kp: proportional coefficient.
        ki: integral coefficient.
        kd: derivative coefficient.
        profiler: measures the peaks; None means the registered profiler.
        integral: sum of past errors, within `integral_windup_limit`.
        prev_error: the last error.
        integral_windup_limit: limit of `integral`.
        current_limit_bytes: the current limit, in bytes.

    Raises:
        ValueError: a limit is not positive, or the minimum is not less than
            `target_ratio` times the maximum.
    """

    max_memory_limit_gib: float
    target_ratio: float = 0.80
    min_memory_limit_gib: float = 10.0
    kp: float = 0.4
    ki: float = 0.05
    kd: float = 0.1
    profiler: MemoryProfiler | None = None

    integral: float = dataclasses.field(init=False, default=0.0)
    prev_error: float = dataclasses.field(init=False, default=0.0)
    integral_windup_limit: float = dataclasses.field(init=False, default=50.0)
    current_limit_bytes: int = dataclasses.field(init=False)
    _prev_surge_gib: float = dataclasses.field(init=False, default=0.0)

    def __post_init__(self) -> None:
        self.current_limit_bytes = int(
            self.min_memory_limit_gib * _BYTES_PER_GIB
        )
        for name in ("max_memory_limit_gib", "min_memory_limit_gib"):
            if getattr(self, name) <= 0:
                raise ValueError(
                    f"{name} must be positive, got {getattr(self, name)}"
                )
        target_gib = self.max_memory_limit_gib * self.target_ratio
        if self.min_memory_limit_gib >= target_gib:
            raise ValueError(
                "min_memory_limit_gib must be less than target memory"
                f" ({target_gib} GiB)"
            )

    def get_next_memory_limit(
        self,
        *,
        current_limit_gib: float,
        peak_memory_usage_gib: float,
        blocking_time_sec: float,
        expected_surge_gib: float = 0.0,
        total_memory_gib: float,
    ) -> float:
        """Returns the next save's limit.

        Args:
            current_limit_gib: the last save's limit.
            peak_memory_usage_gib: the last save's peak memory use.
            blocking_time_sec: ignored; accepted because Orbax has it.
            expected_surge_gib: memory to leave for other users; while this is
                above 0, the limit does not rise and the integral does not
                change.
            total_memory_gib: the memory of the machine.

        Returns:
            The next limit; the current limit if a reading is invalid.
        """
        del blocking_time_sec
        readings = (peak_memory_usage_gib, total_memory_gib)
        if not (
            all(math.isfinite(r) and r >= 0 for r in readings)
            and expected_surge_gib >= 0
        ):
            log.warning(
                "MemoryRegulated: Ignoring invalid memory readings (peak=%f"
                " GiB, total=%f GiB, expected_surge=%f GiB); keeping the limit"
                " at %f GiB.",
                peak_memory_usage_gib,
                total_memory_gib,
                expected_surge_gib,
                current_limit_gib,
            )
            return current_limit_gib
        error = total_memory_gib * self.target_ratio - peak_memory_usage_gib
        adjustment = (
            self.kp * error
            + self.ki * self.integral
            + self.kd * (error - self.prev_error)
        )
        overflow = total_memory_gib - peak_memory_usage_gib
        if overflow < 0:
            adjustment = min(overflow, adjustment)
        if expected_surge_gib > 0:
            adjustment = min(0.0, adjustment)
        else:
            bound = self.integral_windup_limit
            self.integral = max(-bound, min(bound, self.integral + error))
            self.prev_error = error
        calm = current_limit_gib + self._prev_surge_gib + adjustment
        limit = self._clamped(calm - expected_surge_gib)
        self._prev_surge_gib = self._clamped(calm) - limit
        return limit

    def _clamped(self, limit_gib: float) -> float:
        return max(
            self.min_memory_limit_gib, min(self.max_memory_limit_gib, limit_gib)
        )

    def update_limit_bytes(
        self,
        current_limit_bytes: int | None = None,
        *,
        expected_surge_bytes: float | None = None,
    ) -> int:
        """Returns the next limit in bytes, from the profiler's readings.

        Args:
            current_limit_bytes: the limit to change; None means the current
                limit.
            expected_surge_bytes: memory to leave for other users; None asks the
                profiler.
        """
        if current_limit_bytes is None:
            current_limit_bytes = self.current_limit_bytes
        source = self.profiler or _Registered.profiler
        surge_gib = source.get_expected_surge_gib() if source else 0.0
        if expected_surge_bytes is not None:
            surge_gib = expected_surge_bytes / _BYTES_PER_GIB
        next_gib = self.get_next_memory_limit(
            current_limit_gib=current_limit_bytes / _BYTES_PER_GIB,
            peak_memory_usage_gib=source.peak_usage_gib if source else 0.0,
            blocking_time_sec=(
                source.get_prev_blocking_time_sec() if source else 0.0
            ),
            expected_surge_gib=surge_gib,
            total_memory_gib=source.total_memory_gib if source else 0.0,
        )
        self.current_limit_bytes = int(next_gib * _BYTES_PER_GIB)
        return self.current_limit_bytes

    @contextlib.contextmanager
    def regulate(
        self, *, expected_surge_bytes: float | None = None
    ) -> Iterator[int]:
        """Yields the limit, in bytes, for the save in the block, and profiles
        that save.

        Raises:
            ValueError: there is no profiler, or it is the registered profiler,
                which saves already start and end.
        """
        profiler = self.profiler
        if profiler is None:
            raise ValueError("MemoryRegulator.regulate() requires a profiler.")
        if profiler is _Registered.profiler:
            raise ValueError(
                "The profiler of a MemoryRegulator must not also be registered"
                " with register_memory_profiler() when using regulate()."
            )
        limit_bytes = self.update_limit_bytes(
            expected_surge_bytes=expected_surge_bytes
        )
        profiler.profiler_start()
        try:
            yield limit_bytes
        finally:
            profiler.profiler_end()
