"""`holdfast.fingerprint` and `holdfast.check_replicas`: compute 128-bit
fingerprints of tensors, and compare copies of a tensor by fingerprint. The
engine does the work; this module converts objects to the engine's types.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast import _dtensor, _engine, _process_group
from holdfast._adapt import host_adapt
from holdfast._lazy import importing
from holdfast._process_group import GroupArgument, ProcessGroup
from holdfast._pytree import jax_if_imported, joined
from holdfast._results import ReplicaCounts

__all__ = ["check", "check_replicas", "fingerprint"]


def fingerprint(tree: Any) -> str | dict[str, str]:
    """Returns the fingerprint of an array, or of each array and number in a
    tree.

    A fingerprint is 32 hex digits. Tensors with equal dtype, shape and bits
    have equal fingerprints, however their elements are split and wherever they
    are stored. `doc/fingerprints.md` defines the computation.

    Args:
      tree: an array, or a tree that `holdfast.save` accepts.

    Returns:
      One string for an array. For a tree, strings by leaf name, as
      `holdfast.open(path).fingerprints()` returns them after a save.

    Raises:
      errors.InvalidArgumentError: a leaf cannot be saved, or is partly on other
        processes.
    """
    found = _engine.fingerprints(
        _engine.build_tree(tree, adapt=host_adapt, int_keys=True)
    )
    return found[""] if list(found) == [""] else found


def check_replicas(
    tree: Any, *, group: GroupArgument = "auto", timeout_seconds: float = 600.0
) -> ReplicaCounts:
    """Raises unless all copies of each tensor of a tree have the same bits.

    It compares equal boxes: complete arrays with the same name on several
    processes, shards of jax.Arrays and local parts of DTensors (also between
    devices of one process), and numbers. It sends 16 bytes for each tensor.
    Strings are not compared. All processes of the group make the call. The tree
    must not contain a tensor that is meant to differ between processes, such as
    a random generator's state, or a part that tensor-parallel code stores as a
    plain tensor.

    Args:
      tree: this process's own tree, as for `holdfast.save`.
      group: the processes that hold replicas, as for `holdfast.save`, except
        that "auto" means all of `jax.distributed` or `torch.distributed` if one
        of them is initialised.
      timeout_seconds: how long a rank waits for the others at each barrier.

    Returns:
      How many boxes and copies were compared.

    Raises:
      errors.DataLossError: replicas differ. Raised on all ranks. The error
        names tensors, and the ranks that differ from the majority, or all ranks
        if there is no majority.
      errors.DeadlineExceededError: ranks did not arrive in time; the error
        names them.
    """
    return check(tree, _process_group.process_group(group), timeout_seconds)


def check(
    tree: Any, processes: ProcessGroup | None, timeout_seconds: float
) -> ReplicaCounts:
    """Does what `check_replicas` does, with a chosen group."""
    return check_made(lambda: tree, processes, timeout_seconds)[1]


def check_made(
    make: Callable[[], Any],
    processes: ProcessGroup | None,
    timeout_seconds: float,
) -> tuple[Any, ReplicaCounts]:
    """Returns the tree that `make` returns, after checking it.

    If `make` fails, the other processes are notified.
    """
    call = None
    if processes is not None:
        call = processes.begin("replicas", timeout_seconds)
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
    """Like `adapt`, but returns every copy that this process holds; a save
    needs only one copy of each element."""
    jax = jax_if_imported()
    if jax is not None and isinstance(value, jax.Array):
        with importing:
            from holdfast import _jax_arrays

        if _jax_arrays.is_array(value):
            return _jax_arrays.replicas_leaf(value, path)
    if processes is not None and _dtensor.is_dtensor(value):
        return _dtensor.array_leaf(value, joined(path), every_replica=True)
    return host_adapt(value, path)
