"""`holdfast.orbax.v1`, by its older path: the same modules."""

import importlib
import sys

from holdfast.orbax.v1 import *  # noqa: F403

for _path in (
    "arrays",
    "errors",
    "handlers",
    "multihost",
    "options",
    "partial",
    "path",
    "path.step",
    "training",
    "training.errors",
    "training.pathways",
    "training.preservation_policies",
    "training.save_decision_policies",
    "tree",
):
    _module = importlib.import_module(f"holdfast.orbax.v1.{_path}")
    sys.modules[f"{__name__}.{_path}"] = _module
