"""`orbax.checkpoint.experimental`: v1, model surgery, emergency checkpoints."""

from __future__ import annotations

import importlib
from typing import Any

from holdfast.orbax._compat.attributes import attribute_error


def __getattr__(name: str) -> Any:
    if name == "v1":
        # Imported late: v1's imports need this package's parent.
        return importlib.import_module(f"{__name__}.v1")
    raise attribute_error(__name__, name)
