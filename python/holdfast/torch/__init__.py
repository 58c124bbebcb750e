"""PyTorch training states, and storage for torch.distributed.checkpoint.

    import holdfast.torch

    holdfast.torch.save("/ckpt/7", model=model, optimizer=optimizer, epoch=7)
    rest = holdfast.torch.restore("/ckpt/7", model=model, optimizer=optimizer)
    first = rest["epoch"] + 1

`TieredManager` keeps steps on the training hosts (`doc/tiers.md`).

For `torch.distributed.checkpoint`:

    import torch.distributed.checkpoint as dcp
    from holdfast.torch import StorageReader, StorageWriter

    dcp.save(state_dict, storage_writer=StorageWriter("/ckpt/7"))
    dcp.load(state_dict, storage_reader=StorageReader("/ckpt/7"))

The writer makes an Orbax checkpoint, which `holdfast.load`, the command line
and stock Orbax can read. The reader reads everything that `holdfast.open`
opens. Ranks, planners, resharding and asynchronous saves come from
torch.distributed.checkpoint.
"""

from __future__ import annotations

from holdfast.torch._reader import StorageReader
from holdfast.torch._state import load, restore, save
from holdfast.torch._tiers import TieredManager
from holdfast.torch._writer import StorageWriter

__all__ = [
    "StorageReader",
    "StorageWriter",
    "TieredManager",
    "load",
    "restore",
    "save",
]
