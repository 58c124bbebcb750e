"""A step that stays while somebody reads it, even if the original is deleted.

The files are linked if the file system can, else copied: files of a committed
step never change.
"""

from __future__ import annotations

import os
import shutil
import uuid

from holdfast import _files


def _link_or_copy(source: str, destination: str) -> None:
    try:
        os.link(source, destination)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, destination)


def create_snapshot(source: str, snapshot: str) -> None:
    """Makes a second directory with the files of a step.

    Args:
        source: the step's directory.
        snapshot: what to make; absolute.

    Raises:
        ValueError: there is no step, or the path is relative.
        FileNotFoundError: the step was deleted meanwhile.
        OSError: files cannot be made.
    """
    if _files.is_url(source) or _files.is_url(snapshot):
        raise ValueError(
            "Snapshot is not supported in object stores, which know no links:"
            f" {source} to {snapshot}."
        )
    if not os.path.isabs(snapshot):
        raise ValueError(
            f"Snapshot destination must be absolute, but was '{snapshot}'."
        )
    if not os.path.exists(source):
        raise ValueError(f"Snapshot source does not exist: {source}'.")
    # The rename makes the snapshot appear whole.
    unfinished = f"{snapshot}.pending_{uuid.uuid4().hex}"
    try:
        _copy_tree(source, unfinished)
        os.rename(unfinished, snapshot)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _copy_tree(source: str, destination: str) -> None:
    os.mkdir(destination)
    with os.scandir(source) as entries:
        for entry in entries:
            target = os.path.join(destination, entry.name)
            if entry.is_dir():
                _copy_tree(entry.path, target)
            else:
                _link_or_copy(entry.path, target)


def release_snapshot(snapshot: str) -> None:
    """Removes a snapshot.

    Raises:
        FileNotFoundError: there is none.
        OSError: it cannot be removed.
    """
    if not os.path.exists(snapshot):
        raise FileNotFoundError(f"Snapshot does not exist: {snapshot}")
    shutil.rmtree(snapshot)
