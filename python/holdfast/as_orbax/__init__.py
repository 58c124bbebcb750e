"""Runs programs that import Orbax on holdfast, without an edit.

    import holdfast.as_orbax        # first of all
    import orbax.checkpoint as ocp  # holdfast.orbax

    python -m holdfast.as_orbax train.py --steps 100
    python -m holdfast.as_orbax -m trainer --steps 100

Every module `orbax.checkpoint.X` is then, in this process, the same object as
the module `holdfast.orbax.X`. Other packages of the namespace, such as
`orbax.export`, do not change. Orbax need not be installed.
"""

from __future__ import annotations

import sys

from holdfast.as_orbax._finder import Finder, NamespaceFinder
from holdfast.as_orbax._names import ORBAX

__all__ = ["install"]


def install() -> None:
    """Makes `import orbax.checkpoint` find holdfast; may be called twice.

    Raises:
        ImportError: the real `orbax.checkpoint` is already imported.
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    real = sys.modules.get(ORBAX)
    if real is not None:
        raise ImportError(
            f"{ORBAX} is already imported from {real.__file__}: objects of"
            " both packages would meet in one program. Import"
            f" {__name__} before everything that imports {ORBAX}, or run the"
            f" program with `python -m {__name__}`",
            name=ORBAX,
        )
    sys.meta_path.insert(0, Finder())
    sys.meta_path.append(NamespaceFinder())


install()
