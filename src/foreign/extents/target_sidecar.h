// The sidecar of a conversion's target: whether it is needed, and its contents.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"
#include "foreign/sidecar/tree_sidecar.h"

namespace holdfast {

// Returns whether safetensors or npz without a sidecar would lose a part of the
// plan: leaves other than arrays, key paths with more than one name, dtypes
// that the format lacks, what a program recorded about its arrays, or metadata
// of the checkpoint. Formats that can express more decide for themselves.
bool NeedsSidecar(const TargetPlan& plan, std::string_view format);

// Returns whether there is metadata that most formats cannot store.
bool HasCustomMetadata(const CheckpointInfo& info);
bool HasTraits(const TargetLeaf& leaf);
// Returns whether the leaf's path is only this name.
bool HasOneKey(const TargetLeaf& leaf, std::string_view key);

// Returns the sidecar of the plan. `stored` has each leaf's name in the format,
// or "" for a leaf whose value is in the sidecar.
TreeSidecar SidecarOf(const TargetPlan& plan,
                      const std::vector<std::string>& stored);

}  // namespace holdfast
