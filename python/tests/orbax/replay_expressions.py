"""The value functions of recorded transforms, as expressions of arrays.

An expression is, for example, `{"op": "concat", "args": [...], "axis": 0}`. An
`input` names a leaf of the stored tree by its keys, joined with slashes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401 (numpy knows its names then)
import numpy as np

_OPERATIONS: dict[str, Callable[[dict[str, Any], list[Any]], Any]] = {
    "add": lambda e, args: args[0] + args[1],
    "astype": lambda e, args: np.asarray(args[0]).astype(np.dtype(e["dtype"])),
    "concat": lambda e, args: np.concatenate(args, axis=e["axis"]),
    "const": lambda e, args: e["value"],
    "mul": lambda e, args: args[0] * args[1],
    "reshape": lambda e, args: np.reshape(args[0], e["shape"]),
    "slice": lambda e, args: np.asarray(args[0])[
        tuple(slice(*bounds) for bounds in e["slices"])
    ],
    "stack": lambda e, args: np.stack(args, axis=e["axis"]),
    "transpose": lambda e, args: np.transpose(args[0], e.get("axes")),
}


def evaluate(expression: dict[str, Any], tree: Any, value: Any) -> Any:
    """Returns the value of an expression.

    Args:
        expression: the recorded expression.
        tree: the stored tree, for `input`.
        value: the leaf, for `value`.
    """
    operation = expression["op"]
    if operation == "value":
        return value
    if operation == "input":
        for key in expression["key"].split("/"):
            is_sequence = isinstance(tree, list | tuple)
            tree = tree[int(key) if is_sequence else key]
        return tree
    args = [evaluate(e, tree, value) for e in expression.get("args", [])]
    return _OPERATIONS[operation](expression, args)
