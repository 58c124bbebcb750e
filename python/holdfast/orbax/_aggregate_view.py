"""Old items whose msgpack file has a name of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import Any

from holdfast.orbax._paths import handler_path
from holdfast.orbax._source import AGGREGATE_FILE


@contextlib.contextmanager
def aggregate_view(directory: Any, filename: str) -> Iterator[Any]:
    """The directory as if its msgpack file were named as usual.

    Args:
        directory: the item's.
        filename: of the msgpack file, which need not exist.

    Raises:
        OSError: there is no place for a temporary directory.
    """
    if filename == AGGREGATE_FILE:
        yield directory
        return
    path = os.path.abspath(os.fspath(directory))
    # Readers know one name only, and follow no symbolic links.
    with tempfile.TemporaryDirectory(prefix="holdfast-") as view:
        for parent, directories, files in os.walk(path):
            target = os.path.join(view, os.path.relpath(parent, path))
            for name in directories:
                os.mkdir(os.path.join(target, name))
            for name in files:
                source = os.path.join(parent, name)
                if parent == path:
                    if name == AGGREGATE_FILE:
                        continue
                    name = AGGREGATE_FILE if name == filename else name
                _link_or_copy(source, os.path.join(target, name))
        yield handler_path(view)


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)
