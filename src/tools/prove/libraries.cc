// Small programs that save three steps with a Python library.
#include "holdfast/tools/prove.h"

namespace holdfast {
namespace {

// A step counts as saved when the library says so. The program then leaves a
// mark.
constexpr std::string_view kBefore = R"(
import os
import numpy as np
root = os.environ["HOLDFAST_PROVE_ROOT"]
def tree(step):
    rng = np.random.default_rng(step)
    return {"w": rng.standard_normal((128, 64)).astype("float32"),
            "b": rng.standard_normal(64).astype("float32"),
            "step": np.full((1,), step)}
def saved(step):
    try:
        os.rmdir(f"{root}/.holdfast-crash-mark saved {step}")
    except OSError:
        pass
)";

struct Library {
  std::string_view name;
  std::string_view program;
};
constexpr Library kLibraries[] = {
    {"holdfast", R"(
import holdfast
for step in range(3):
    holdfast.save(f"{root}/{step}", tree(step))
    saved(step)
)"},
    {"holdfast-manager", R"(
import holdfast.orbax as ocp
with ocp.CheckpointManager(root) as manager:
    for step in range(3):
        manager.save(step, args=ocp.args.StandardSave(tree(step)))
        manager.wait_until_finished()
        saved(step)
)"},
    {"orbax", R"(
import orbax.checkpoint as ocp
with ocp.CheckpointManager(root) as manager:
    for step in range(3):
        manager.save(step, args=ocp.args.StandardSave(tree(step)))
        manager.wait_until_finished()
        saved(step)
)"},
    {"torch", R"(
import torch
for step in range(3):
    torch.save({k: torch.from_numpy(v) for k, v in tree(step).items()},
               f"{root}/step_{step}.pt")
    saved(step)
)"},
    {"dcp", R"(
import torch
import torch.distributed.checkpoint as dcp
for step in range(3):
    dcp.save({k: torch.from_numpy(v) for k, v in tree(step).items()},
             checkpoint_id=f"{root}/{step}")
    saved(step)
)"},
    {"safetensors", R"(
from safetensors.numpy import save_file
for step in range(3):
    save_file(tree(step), f"{root}/step_{step}.safetensors")
    saved(step)
)"},
    {"numpy", R"(
for step in range(3):
    np.savez(f"{root}/step_{step}.npz", **tree(step))
    saved(step)
)"},
};

}  // namespace

Result<std::vector<std::string>> ProveLibraryCommand(const std::string& python,
                                                     std::string_view library) {
  std::string names;
  for (const Library& known : kLibraries) {
    if (known.name == library) {
      return std::vector<std::string>{
          python, "-c", std::string(kBefore) + std::string(known.program)};
    }
    names += (names.empty() ? "" : ", ") + std::string(known.name);
  }
  return InvalidArgumentError("no library '" + std::string(library) +
                              "', want one of " + names);
}

}  // namespace holdfast
