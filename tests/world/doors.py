"""The ways to read a checkpoint, which must all return the same values.

A door is a function of a path, an item name ("" if there are no items) and the
expected tree. It returns a description of what is wrong, or None, and raises if
holdfast refuses to read.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from calls import command
from trees import leaves, problem, tree

import holdfast

Door = Callable[[str, str, dict[str, Any]], "str | None"]


def _item(item: str) -> dict[str, Any]:
    return {"item": item} if item else {}


def by_load(path: str, item: str, want: dict[str, Any]) -> str | None:
    return problem(holdfast.load(path, **_item(item)), want)


def by_target(path: str, item: str, want: dict[str, Any]) -> str | None:
    target = tree(0) | {key: ... for key in want}
    target |= {"w": np.zeros_like(want["w"]), "list": want["list"]}
    got = holdfast.load(path, {k: target[k] for k in want}, **_item(item))
    wrong = problem(got["w"], want["w"], "w")
    return wrong or problem(got["list"], want["list"], "list")


def by_slices(path: str, item: str, want: dict[str, Any]) -> str | None:
    with holdfast.open(path, **_item(item)) as checkpoint:
        got = checkpoint["w"][7:300:3]
        other = checkpoint["nest.frozen"][-1]
    if got.tobytes() != want["w"][7:300:3].tobytes():
        return "w[7:300:3]: other elements"
    return None if int(other) == 49 else f"nest.frozen[-1]: {other}"


def by_keys(path: str, item: str, want: dict[str, Any]) -> str | None:
    got = holdfast.load(path, select=["nest.h"], **_item(item))
    return problem(got, {"nest": {"h": want["nest"]["h"]}})


def by_mmap(path: str, item: str, want: dict[str, Any]) -> str | None:
    return problem(
        holdfast.load(path, mmap=True, verify=True, **_item(item)), want
    )


def by_verify(path: str, item: str, want: dict[str, Any]) -> str | None:
    report = holdfast.verify(path, **_item(item))
    if not report.ok:
        raise holdfast.errors.DataLossError(f"verify: {report}")
    return None


def _digests(want: dict[str, Any]) -> dict[str, str]:
    return {
        name: hashlib.sha256(value.tobytes()).hexdigest()
        for name, value in leaves(want)
        if isinstance(value, np.ndarray)
    }


def _compared(got: dict[str, str], want: dict[str, Any]) -> str | None:
    for name, text in _digests(want).items():
        if got.get(name) != text:
            return f"digest of {name}: {got.get(name)}, want {text}"
    return None


def by_digest(path: str, item: str, want: dict[str, Any]) -> str | None:
    return _compared(holdfast.digest(path, **_item(item)), want)


def by_command(path: str, item: str, want: dict[str, Any]) -> str | None:
    words = ["--item", item] if item else []
    shown = json.loads(command("digest", path, "--json", *words))
    return _compared(
        {leaf["name"]: leaf["sha256"] for leaf in shown["leaves"]}, want
    )


def by_cat(path: str, item: str, want: dict[str, Any]) -> str | None:
    words = ["--item", item] if item else []
    shown = json.loads(command("cat", path, "step", "--json", *words))
    return problem(shown["value"], want["step"], "step")


def by_command_verify(path: str, item: str, want: dict[str, Any]) -> str | None:
    words = ["--item", item] if item else []
    command("verify", path, "-q", *words)
    return None


def by_diff(path: str, item: str, want: dict[str, Any]) -> str | None:
    if item:
        return None
    result = holdfast.diff(path, path)
    if any(leaf.what == "unreadable" for leaf in result.worst):
        raise holdfast.errors.DataLossError("diff: leaves cannot be read")
    return None if result.same else "diff: not the same as itself"


def by_dropin(path: str, item: str, want: dict[str, Any]) -> str | None:
    from holdfast import orbax as ocp

    if item:
        path = f"{path}/{item}"
    return problem(ocp.PyTreeCheckpointer().restore(path), want)


def by_dropin_v1(path: str, item: str, want: dict[str, Any]) -> str | None:
    from holdfast.orbax import v1

    if item:
        return problem(v1.load_checkpointables(path)[item], want)
    return problem(v1.load_pytree(path), want)


def by_stock(path: str, item: str, want: dict[str, Any]) -> str | None:
    import orbax.checkpoint as ocp

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if item:
            path = f"{path}/{item}"
        return problem(ocp.PyTreeCheckpointer().restore(path), want)


CHEAP: dict[str, Door] = {
    "target": by_target,
    "slices": by_slices,
    "keys": by_keys,
    "mmap": by_mmap,
    "verify": by_verify,
    "digest": by_digest,
    "command digest": by_command,
    "command cat": by_cat,
    "command verify": by_command_verify,
    "diff": by_diff,
}
# These doors import jax.
DROPIN: dict[str, Door] = {
    "drop-in": by_dropin,
    "drop-in v1": by_dropin_v1,
}
STOCK: dict[str, Door] = {"stock Orbax": by_stock}
