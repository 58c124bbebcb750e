"""Names of the values in a state dict, and the tree that they represent.

torch.distributed.checkpoint flattens a state dict into names, and stores the
path behind each name: dict keys as str, list indices as int.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast import errors

__all__ = ["Path", "name_of", "nested", "path_of"]

Path = tuple[str | int, ...]


def name_of(path: Path) -> str:
    """Returns the name that torch gives the value at `path`."""
    return ".".join(map(str, path))


def path_of(name: str, planner_data: Any) -> Path:
    """Returns the path in the tree of the value called `name`.

    `planner_data` comes from the checkpoint's Metadata. If it lacks the name,
    or its path has a different name, then the name is one key of the root.
    """
    if isinstance(planner_data, Mapping):
        path = planner_data.get(name)
        if (
            isinstance(path, (tuple, list))
            and path
            and isinstance(path[0], str)
            and all(type(part) in (str, int) for part in path)
            and name_of(tuple(path)) == name
        ):
            return tuple(path)
    return (name,)


def nested(values: Iterable[tuple[Path, Any]]) -> dict[str, Any]:
    """Returns the tree of these values: dicts, and lists for indices.

    A missing list element becomes None, because torch too turns empty dicts in
    a list into None.

    Raises:
      InvalidArgumentError: a value is at a path where a different value needs a
        container (the error names both), or a container has both dict keys and
        indices.
    """
    root: dict[str | int, Any] = {}
    for path, value in values:
        node = root
        for i, part in enumerate(path[:-1]):
            node = node.setdefault(part, _Children())
            if not isinstance(node, _Children):
                raise _taken(path, path[: i + 1])
        if path[-1] in node:
            raise _taken(path, path)
        node[path[-1]] = value
    return {str(key): _finished(value, (key,)) for key, value in root.items()}


class _Children(dict[Any, Any]):
    """An unfinished container; not a value of a state dict."""


def _finished(node: Any, path: Path) -> Any:
    if not isinstance(node, _Children):
        return node
    indices = [key for key in node if isinstance(key, int)]
    children = {key: _finished(node[key], (*path, key)) for key in node}
    if not indices:
        return children
    if len(indices) < len(node) or min(indices) < 0:
        raise errors.InvalidArgumentError(
            f"leaf {name_of(path)!r}: it is a list for some values and a dict"
            f" for others (keys {sorted(map(str, node))[:4]})"
        )
    length = max(indices) + 1
    if length > 2 * len(node) + 1024:
        raise errors.InvalidArgumentError(
            f"leaf {name_of(path)!r}: a list of {length} values of which only"
            f" {len(node)} are given"
        )
    return [children.get(i) for i in range(length)]


def _taken(path: Path, by: Path) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"leaf {name_of(path)!r}: there is a value at {name_of(by)!r} already"
    )
