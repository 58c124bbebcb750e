"""Megatron Core on a machine without GPUs: only its dist_checkpointing.

`import megatron_core` before anything of megatron.core. Its __init__ imports
Transformer Engine and much else that is not needed, so it is left out; what it
asks of CUDA is answered.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

# Objects hold BytesIO, which torch.load's default refuses.
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
# Before megatron.core.utils, which it imports and which imports it.
import megatron.core.parallel_state  # noqa: E402, F401
