"""Makes Megatron Core's dist_checkpointing work on a machine without GPUs.

Import this module before any module of megatron.core. It skips the __init__ of
megatron.core, which imports Transformer Engine and much else that is not
needed, and replaces the CUDA functions that Megatron calls.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

# Stored objects contain BytesIO, which torch.load refuses by default.
os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")

import torch  # noqa: E402


def _without_init(name: str, path: str) -> None:
    module = types.ModuleType(name)
    module.__path__ = [path]  # type: ignore[attr-defined]
    sys.modules[name] = module
    parent, _, child = name.rpartition(".")
    setattr(sys.modules[parent], child, module)


torch.cuda.synchronize = lambda *_: None
torch.cuda.current_device = lambda: "cpu"
_spec = importlib.util.find_spec("megatron")
assert _spec is not None and _spec.submodule_search_locations
_ROOT = next(iter(_spec.submodule_search_locations))
import megatron  # noqa: E402

_without_init("megatron.core", os.path.join(_ROOT, "core"))
# Must be imported before megatron.core.utils: the two import each other.
import megatron.core.parallel_state  # noqa: E402, F401
