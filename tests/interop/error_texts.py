"""Compares the messages of two errors, if the message is Orbax's own."""

import re
import traceback


def is_worded_by_orbax(error):
    """Whether Orbax's own code raised the error, not a library that it uses."""
    frames = traceback.extract_tb(error.__traceback__)
    return (bool(frames) and "/orbax/checkpoint/" in frames[-1].filename and
            frames[-1].line.startswith("raise "))


def plain_text(error, *paths, any_shape=False):
    """Returns the message without what differs from one run to the next.

    Args:
        error: an exception.
        *paths: file names, which are replaced by "PATH".
        any_shape: whether to remove shapes as well, because any of several bad
            leaves may be named.
    """
    text = re.sub(r"0x[0-9a-f]+", "0x", str(error))
    text = re.sub(r"\b(holdfast\.)?orbax\.[\w.]*\.(?=\w)", "", text)
    text = re.sub(r"PosixGPath\(('[^']*')\)", r"\1", text)
    if any_shape:
        text = re.sub(r"\(\d+,[\d, ]*\)", "SHAPE", text)
    for path in paths:
        text = text.replace(str(path), "PATH")
    return text


def text_differs(want, got, *paths, any_shape=False, with_causes=False):
    """Returns what is wrong with the message of `got`, or None.

    `want` is Orbax's error; `got` may say more. Messages that do not come from
    Orbax itself are not compared. `with_causes` compares the messages of the
    causes as well. The other arguments are those of `plain_text`.
    """
    if not is_worded_by_orbax(want):
        return None
    wanted, found = (plain_text(error, *paths, any_shape=any_shape)
                     for error in (want, got))
    if wanted not in found:
        return f"text {found!r}, want {wanted!r}"
    if not with_causes or want.__cause__ is None:
        return None
    if got.__cause__ is None:
        return f"no cause, want {want.__cause__!r}"
    return text_differs(want.__cause__, got.__cause__, *paths,
                        any_shape=any_shape, with_causes=True)
