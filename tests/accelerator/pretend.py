"""Stand-ins for the parts of torch.cuda that the checks and the bench use, so
that both can be tested on a machine without a GPU. Streams do nothing, because
the CPU works in order."""

from __future__ import annotations

import contextlib
import sys
from typing import Any


class Stream:
    def __init__(self, *_: Any, **__: Any) -> None:
        self.cuda_stream = 0

    def synchronize(self) -> None: ...
    def wait_stream(self, stream: Any) -> None: ...
    def wait_event(self, event: Any) -> None: ...


def install() -> None:
    """Replaces functions of torch.cuda, if torch is installed."""
    with contextlib.suppress(ImportError):
        import torch

        cuda: Any = sys.modules["torch.cuda"]
        cuda.Stream = Stream
        cuda.stream = lambda stream: contextlib.nullcontext()
        cuda.current_stream = Stream
        cuda.synchronize = lambda *_: None
        cuda._sleep = lambda cycles: None
        cuda.device_count = lambda: 1
        cuda.empty_cache = lambda: None
        cuda.mem_get_info = lambda *_: (1 << 30, 1 << 31)
        cuda.max_memory_allocated = lambda *_: 0
        cuda.reset_peak_memory_stats = lambda *_: None
        torch.Tensor.pin_memory = lambda self: self
