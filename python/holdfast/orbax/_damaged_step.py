"""The error of a manager whose newest step is damaged."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from holdfast import _engine, errors


def damaged_step_error(
    directory: Any,
    step: int,
    path: Any,
    error: Exception,
    others: Iterable[tuple[int, Any]],
) -> errors.DataLossError | None:
    """The error to raise in place of `error`; None if the step is not damaged.

    An older step in its place would be a quiet loss of work; so the error names
    the newest of the others that is whole.

    Args:
        directory: of all steps.
        step: the newest one, which was to be restored.
        path: where it is.
        error: why it could not be.
        others: the steps that there are, and where.
    """
    try:
        known = _engine.list_steps(os.fspath(directory))
    except (OSError, errors.HoldfastError):
        return None
    rows = {info.name: info for info in known}
    own = rows.get(os.path.basename(os.fspath(path)))
    why = (own.damage if own is not None else "") or _damage_of(error)
    if not why:
        return None
    whole = -1
    for other, place in others:
        row = rows.get(os.path.basename(os.fspath(place)))
        is_whole = row is not None and row.committed and not row.damage
        if is_whole and other != step:
            whole = max(whole, other)
    hint = "no other step is whole"
    if whole >= 0:
        hint = (
            f"the newest step that is whole is {whole}, which is read when"
            f" step {whole} is asked for"
        )
    return errors.DataLossError(
        f"step {step} of {os.fspath(directory)} was committed and is damaged:"
        f" {why}; {hint}"
    )


def _damage_of(error: BaseException | None) -> str:
    """The words of the damage that an error is about, or none."""
    while error is not None:
        if isinstance(error, errors.DataLossError):
            return str(error)
        error = error.__cause__
    return ""
