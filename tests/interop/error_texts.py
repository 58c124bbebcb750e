"""Whether two errors say the same, where the text is Orbax's own."""

import re
import traceback


def is_worded_by_orbax(error):
    """Whether the raise stands in Orbax, not in what it builds upon."""
    frames = traceback.extract_tb(error.__traceback__)
    return (bool(frames) and "/orbax/checkpoint/" in frames[-1].filename and
            frames[-1].line.startswith("raise "))


def plain_text(error, *paths, any_shape=False):
    """The text without what differs from one run to the next.

    Args:
        error: an exception.
        *paths: file names, replaced by "PATH".
        any_shape: take away shapes as well: of several bad leaves, any may be
            the first.
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
    """Says what is wrong with the text of `got`, or None.

    `got` may say more than `want`, which is Orbax's; only texts that Orbax
    itself words count. `with_causes` compares their causes' as well, the other
    arguments are those of `plain_text`.
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
