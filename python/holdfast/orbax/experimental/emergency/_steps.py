"""The steps of an emergency manager: on the hosts, and on shared storage.

A `holdfast.TieredManager` makes all saves. A plain CheckpointManager for the
persistent directory decides when to save persistent steps, and which of them to
keep.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

from holdfast import _engine, _process_group, errors
from holdfast._log import log, say_ignored
from holdfast._tiers import (
    LocalTierOptions,
    ParityOptions,
    SharedTierOptions,
    TieredManager,
)
from holdfast.orbax._devices.multislice import replica_devices
from holdfast.orbax._manager.finalize import call_all
from holdfast.orbax._manager.options import (
    CheckpointManagerOptions,
    keep_policy_of,
    save_policy_of,
)
from holdfast.orbax._manager.run import Run, new_info, step_number
from holdfast.orbax.checkpoint_manager import CheckpointManager
from holdfast.orbax.multihost import (
    global_max,
    process_count,
    process_index,
    unique_processes_from_devices,
)
from holdfast.orbax.options import MultiprocessingOptions
from holdfast.orbax.preservation_policy import LatestN, PreservationPolicy
from holdfast.orbax.save_decision_policy import SaveDecisionPolicy
from holdfast.orbax.step import standard_name_format

_RUN = "orbax_emergency"
_TIER_SECONDS = 600.0


def slice_count(mesh: Any, axis: int) -> int:
    """Returns the number of slices in a mesh."""
    if len(mesh.shape_tuple) == 1:
        return 1
    return int(mesh.devices.shape[axis])


def slice_of_process(mesh: Any, axis: int) -> int:
    """Returns the first slice in which this process has a device, or -1."""
    for index in range(slice_count(mesh, axis)):
        devices = mesh.devices
        if len(mesh.shape_tuple) > 1:
            devices = replica_devices(mesh, index, axis)
        if process_index() in unique_processes_from_devices(devices):
            return index
    return -1


def exchanged(value: Any, place: str, timeout_seconds: float) -> list[Any]:
    """Returns each process's JSON value, in order; all processes call it."""
    group = _process_group.process_group("auto")
    if group is None:
        return [value]
    with group.begin(place, timeout_seconds) as call:
        texts = call.engine.all_gather(
            "exchange", place, json.dumps(value).encode()
        )
    return [json.loads(text) for text in texts]


def check_step_names(name_format: Any) -> None:
    """Raises NotImplementedError if step names are not plain numbers."""
    name = name_format.build_name(1234)
    if name != "1234":
        raise NotImplementedError(
            f"step_name_format: steps would be named {name!r}, but steps of"
            " emergency checkpoints are named by their plain numbers here; use"
            " step.standard_name_format()"
        )


def kept_count(policy: PreservationPolicy | None, count: int | None) -> int:
    """Returns the number of local steps to keep.

    Raises:
        NotImplementedError: the policy keeps steps other than the newest.
    """
    if policy is None:
        return max(1, 1 if count is None else count)
    if isinstance(policy, LatestN) and policy.n is not None:
        return max(1, policy.n)
    raise NotImplementedError(
        f"preservation_policy: {policy!r} for local steps; the hosts keep only"
        " the newest steps: give LatestN, or max_to_keep"
    )


def local_rules(
    interval: int,
    should_save_fn: Any,
    save_decision_policy: SaveDecisionPolicy | None,
) -> Run:
    """Returns an object that decides when to save local steps.

    It does not know the existing steps yet.
    """
    options = CheckpointManagerOptions(
        save_interval_steps=interval,
        should_save_fn=should_save_fn,
        save_decision_policy=save_decision_policy,
    )
    return Run(
        save_policy_of(options),
        keep_policy_of(options),
        MultiprocessingOptions(),
    )


class TierSteps:
    """The steps of a run on both tiers.

    All processes make the same calls. Thread-safety: one call at a time.
    """

    def __init__(
        self,
        local_directory: Any,
        *,
        rules: Run,
        keeps: int,
        slices: tuple[int, int],
        persistent: CheckpointManager | None = None,
        item: str = "default",
        saves_local: bool = True,
        is_async: bool = True,
        timeout_seconds: float = 120.0,
    ) -> None:
        """Finds the steps, together with the other processes.

        Args:
            local_directory: this process's own directory.
            rules: decides when a local step is due.
            keeps: number of local steps to keep.
            slices: this process's slice, and the number of slices, any one of
                which may be lost.
            persistent: the manager of the persistent directory; it never saves
                steps itself.
            item: the tree's name in a persistent step.
            saves_local: whether to save steps that are due only on the hosts.
            is_async: whether saves continue in the background.
            timeout_seconds: how long to wait for the slowest process. The tiers
                wait longer, because they notice a dead process immediately.
        """
        index, count = slices
        self._local = rules
        self._keeps = keeps
        self._begun: list[int] = []  # since the last wait
        self._copied = -1  # the last step that was to be copied
        self._persistent = persistent
        self._saves_local = saves_local
        self._is_async = is_async
        self._timeout_seconds = timeout_seconds
        shared = None
        if persistent is not None:
            shared = SharedTierOptions(os.fspath(persistent.directory))
        self._tiers = TieredManager(
            LocalTierOptions(os.fspath(local_directory), max_to_keep=keeps),
            shared=shared,
            parity=ParityOptions(
                data_shards=max(1, count - 1),
                # The processes of a slice may be lost together.
                failure_domain=f"slice {index}" if count > 1 else "",
            ),
            run=_RUN,
            item=item,
            group="jax" if process_count() > 1 else None,
            timeout_seconds=max(timeout_seconds, _TIER_SECONDS),
            zarr_format=3,
        )
        self._find_local()

    def _find_local(self) -> None:
        own = [step.step for step in self._tiers.steps() if step.is_local]
        everyones = exchanged(own, "local steps", self._timeout_seconds)
        self._local.set(
            new_info(step) for step in sorted({s for e in everyones for s in e})
        )

    def all_steps(self, read: bool = False) -> list[int]:
        """Returns the steps of both tiers, in order.

        Args:
            read: find the steps again.
        """
        if read:
            self.reload()
        known = {info.step for info in self._local}
        if self._persistent is not None:
            known |= set(self._persistent.all_steps())
        return sorted(known)

    def local(self) -> list[int]:
        """Returns the steps on the hosts, in order."""
        return [info.step for info in self._local]

    def latest_step(self) -> int | None:
        return max(self.all_steps(), default=None)

    def reload(self) -> None:
        """Finds the steps again."""
        self._tiers.wait_protected()
        if self._persistent is not None:
            self._persistent.reload()
            known = {info.step for info in self._persistent._checkpoints}
            if self._copied in self._begun and self._copied not in known:
                self._remember(self._copied)
        self._find_local()

    def _due(self, step: int) -> tuple[bool, bool]:
        """Returns whether a step is due on the hosts, and on shared storage.

        A step is due if any process says so.
        """
        latest = self.latest_step()
        if latest is not None and latest >= step:
            return False, False
        local = self._saves_local and self._local.should_save(
            step, self._local.all(), is_saving=False
        )
        persistent = self._persistent is not None and (
            self._persistent.should_save(step)
        )
        if process_count() == 1:
            return local, persistent
        due = global_max([int(local), int(persistent)])
        return bool(due[0]), bool(due[1])

    def should_save(self, step: int) -> bool:
        return any(self._due(step_number(step)))

    def save(
        self,
        step: Any,
        state: Any,
        *,
        force: bool,
        custom_metadata: Any,
        files: Callable[[], dict[str, bytes]] = dict,
    ) -> bool:
        """Begins to save a step if it is due on at least one tier.

        Args:
            step: the step's number.
            state: a tree.
            force: save on both tiers, even if the step is not due.
            custom_metadata: has no effect.
            files: returns this process's additional files for the step; called
                only if the step is saved.

        Raises:
            ValueError: the step exists.
            Exception: any error from the previous save.
        """
        say_ignored("custom_metadata", custom_metadata, "nothing can read it")
        number = step_number(step)
        has_both = self._persistent is not None
        local, persistent = (True, has_both) if force else self._due(number)
        if not local and not persistent:
            return False
        if number in self.all_steps():
            raise ValueError(f"Checkpoint for step {number} already exists.")
        if persistent:
            # First, the previous save must end, and old steps be removed.
            self.wait_until_finished()
        self._tiers._save(
            number, lambda: state, True, files(), is_shared=persistent
        )
        self._begun.append(number)
        # Older steps are removed when this step is protected.
        self._local.set([*self._local, new_info(number)][-self._keeps :])
        if persistent:
            self._remember(number)
        if not self._is_async:
            self.wait_until_finished()
        return True

    def _remember(self, step: int) -> None:
        """Records a persistent step that is being copied."""
        manager = self._persistent
        assert manager is not None
        self._copied = step
        path = manager.directory / str(step)
        manager._checkpoints.append(new_info(step, path=path))

    def restore(self, target: Any, step: int | None) -> Any:
        """Restores a step in the form of the target.

        Without a step, restores the newest step that passes verification.

        Raises:
            FileNotFoundError: the step does not exist.
        """
        return self.restore_with(lambda _: target, step)

    def restore_with(
        self,
        target_of: Callable[[_engine.Checkpoint], Any],
        step: int | None,
    ) -> Any:
        """Restores like `restore`; `target_of` makes the target for the step's
        checkpoint."""
        number = None if step is None else step_number(step)
        try:
            tree = self._tiers._restore_as(target_of, number, cast=True)
        except errors.NotFoundError as error:
            raise self._not_found(number) from error
        found = self._tiers.restored
        assert found is not None
        for note in found.notes:
            log.warning("%s", note)
        if number is None:
            # The run continues from here, so newer steps are obsolete.
            self._local.set([i for i in self._local if i.step <= found.step])
        return tree

    def _not_found(self, step: int | None) -> Exception:
        """Returns Orbax's error for a missing step."""
        if step is None:
            return FileNotFoundError(
                "No steps found in persistent or local storage."
            )
        if self._persistent is not None:
            try:
                standard_name_format().find_step(
                    self._persistent.directory, step
                )
            except ValueError as error:
                return error
        return FileNotFoundError(
            f"All restore strategies failed for step {step}."
        )

    @property
    def restored_step(self) -> int | None:
        """The number of the last restored step."""
        found = self._tiers.restored
        return None if found is None else found.step

    def read_file(self, path: str) -> bytes:
        """Returns a file of the last restored step."""
        return self._tiers.read_file(path)

    def check_for_errors(self) -> None:
        """Does nothing: the next save or wait raises a save's error."""

    def wait_until_finished(self) -> None:
        """Waits for saves; raises their errors."""
        begun, self._begun = self._begun, []
        try:
            self._tiers.wait()
        except Exception:
            self._local.take(set(begun))
            if self._persistent is not None:
                self._persistent.reload()
            raise
        self._retire()

    def _retire(self) -> None:
        manager = self._persistent
        if manager is None:
            return
        old = manager._get_old_steps_to_remove()
        dropped = manager._checkpoints.forget(old)
        manager._deleter.delete_steps([info.step for info in dropped])

    def close(self) -> None:
        """Waits for saves, and for the other processes."""
        calls = [self.wait_until_finished, self._tiers.close]
        if self._persistent is not None:
            calls.append(self._persistent.close)
        call_all(*calls)
