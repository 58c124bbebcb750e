"""A file, or a folder with everything in it, as the programs in bench/ save and
load it."""

import os
import shutil


def files_in(path):
    return [path] if path.is_file() else [
        each for each in path.rglob("*") if each.is_file()]


def stored_bytes(path):
    return sum(each.stat().st_size for each in files_in(path))


def sync(path):
    """Waits until `path`, and its name, are on the disk."""
    names = [path, path.parent]
    if path.is_dir():
        names += path.rglob("*")
    for name in names:
        handle = os.open(name, os.O_RDONLY)
        os.fsync(handle)
        os.close(handle)


def remove(path):
    """Removes `path`, if it is there."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
