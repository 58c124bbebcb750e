"""`holdfast.fingerprint` and `holdfast.check_replicas`: 128 bits a tensor, and
the copies of a tensor compared by them. The engine decides; here objects become
what it takes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast import _dtensor, _engine, _process_group
from holdfast._adapt import adapt
from holdfast._lazy import importing
from holdfast._process_group import GroupArgument, ProcessGroup
from holdfast._pytree import jax_if_imported, joined
from holdfast._results import ReplicaCounts

__all__ = ["check", "check_replicas", "fingerprint"]


def fingerprint(tree: Any) -> str | dict[str, str]:
    """The fingerprint of an array, or those of a tree's arrays and numbers.

    Each is 32 hex digits: equal for equal dtype, shape and bits, however the
    elements are cut and wherever they are. `doc/fingerprints.md` says how they
    are made.

    Args:
      tree: an array, or a tree as `holdfast.save` takes it.

    Returns:
      The text for an array; for a tree texts by name, as
      `holdfast.open(path).fingerprints()` has them once it has been saved.

    Raises:
      errors.InvalidArgumentError: a leaf that cannot be saved, or one that is
        partly on other processes.
    """
    found = _engine.fingerprints(
        _engine.build_tree(tree, adapt=adapt, int_keys=True)
    )
    return found[""] if list(found) == [""] else found


def check_replicas(
    tree: Any, *, group: GroupArgument = "auto", timeout: float = 600.0
) -> ReplicaCounts:
    """Raises unless all copies of each tensor of a tree have the same bits.

    Compared are equal boxes: arrays of one name that several processes hold
    whole, shards of jax.Arrays and local parts of DTensors, those on devices of
    one process too, and numbers. 16 bytes a tensor travel. Texts are not
    compared. All processes of the group make the call; a tensor that is to
    differ between them (a state of a random generator, a part that
    tensor-parallel code keeps as a plain tensor) must not be in the tree.

    Args:
      tree: as `holdfast.save` takes it; this process's own.
      group: the processes that hold replicas; as for `holdfast.save`, but that
        "auto" is all of `jax.distributed` or `torch.distributed` wherever one
        of them is initialised.
      timeout: seconds that a rank waits for the others at each meeting.

    Returns:
      How many were compared.

    Raises:
      errors.DataLossError: on all ranks, naming tensors and ranks: those that
        differ from the majority, or all of them without a majority.
      errors.DeadlineExceededError: ranks that did not come, naming them.
    """
    return check(tree, _process_group.process_group(group), timeout)


def check(
    tree: Any, processes: ProcessGroup | None, timeout: float
) -> ReplicaCounts:
    """`check_replicas` with a group that was chosen."""
    return check_made(lambda: tree, processes, timeout)[1]


def check_made(
    make: Callable[[], Any], processes: ProcessGroup | None, timeout: float
) -> tuple[Any, ReplicaCounts]:
    """The tree that `make` gives, once it was checked.

    The other processes hear of a failure of `make`, too.
    """
    call = None
    if processes is not None:
        call = processes.begin("replicas", timeout)
    with call or contextlib.nullcontext():
        tree = make()
        built = _engine.build_tree(
            tree, adapt=partial(_adapt_all, processes), int_keys=True
        )
        counts = _engine.check_replicas(
            built, group=None if call is None else call.engine
        )
    return tree, ReplicaCounts(*counts)


def _adapt_all(
    processes: ProcessGroup | None, value: Any, path: tuple[Any, ...]
) -> Any:
    """Like `adapt`, but keeps every copy this process holds; a save keeps one
    of each element."""
    jax = jax_if_imported()
    if jax is not None and isinstance(value, jax.Array):
        with importing:
            from holdfast import _jax_arrays

        if _jax_arrays.is_array(value):
            return _jax_arrays.replicas_leaf(value, path)
    if processes is not None and _dtensor.is_dtensor(value):
        return _dtensor.array_leaf(value, joined(path), every_replica=True)
    return adapt(value, path)
