"""Megatron Core's own torch_dist strategy, run by a Python that has it.

usage: megatron_dist.py read DIRECTORY OUT.pt
       megatron_dist.py write IN.pt DIRECTORY

`read` loads all tensors and the common state of a checkpoint into one
torch.save file: {"tensors": {key: tensor}, "common": state}. `write` saves the
contents of such a file, each tensor that has at least two rows as two shards.
"""

import importlib.util
import sys
import types
import warnings

import torch

if importlib.util.find_spec("psutil") is None:  # Megatron logs memory with it
    sys.modules["psutil"] = types.SimpleNamespace(
        Process=lambda *_: types.SimpleNamespace(
            memory_info=lambda: types.SimpleNamespace(rss=0)))

from megatron.core import dist_checkpointing  # noqa: E402
from megatron.core.dist_checkpointing import ShardedTensor  # noqa: E402


def read(directory, out):
    tensors = dist_checkpointing.load_plain_tensors(directory)
    common = dist_checkpointing.load_common_state_dict(directory)
    tensors = {key: value for key, value in tensors.items()
               if isinstance(value, torch.Tensor)}
    torch.save({"tensors": tensors, "common": common}, out)


def shards_of(key, tensor):
    rows = tensor.shape[0] if tensor.dim() else 0
    if rows < 2 or rows % 2:
        return [ShardedTensor.from_rank_offsets(key, tensor)]
    return [ShardedTensor.from_rank_offsets(key, part.contiguous(), (0, i, 2))
            for i, part in enumerate(tensor.chunk(2))]


def write(source, directory):
    saved = torch.load(source, weights_only=False)
    state = {key: shards_of(key, tensor)
             for key, tensor in saved["tensors"].items()}
    dist_checkpointing.save({**state, **saved["common"]}, directory)


def main():
    warnings.simplefilter("ignore")
    if not torch.cuda.is_available():  # Megatron waits for the device
        torch.cuda.synchronize = lambda *_: None
        torch.cuda.current_device = lambda: torch.device("cpu")
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    {"read": read, "write": write}[sys.argv[1]](*sys.argv[2:])
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
