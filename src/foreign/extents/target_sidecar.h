// The sidecar of a conversion's target: when it is needed, and its contents.
//
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "foreign/extents/target.h"
#include "foreign/sidecar/tree_sidecar.h"

namespace holdfast {

// True when safetensors or npz without a sidecar would lose something of the
// plan: leaves other than arrays, key paths that are not one name, dtypes that
// the format lacks, what a program said about its arrays, metadata of the
// checkpoint. Formats that can say more of this decide for themselves.
bool NeedsSidecar(const TargetPlan& plan, std::string_view format);

// Facts that most formats have no place for: of the checkpoint, and of a leaf.
bool HasCustomMetadata(const CheckpointInfo& info);
bool HasTraits(const TargetLeaf& leaf);
// Whether the leaf's path is this one name.
bool HasOneKey(const TargetLeaf& leaf, std::string_view key);

// `stored`: for each leaf of the plan the name under which the format has it,
// or "" for a leaf whose value the sidecar holds.
TreeSidecar SidecarOf(const TargetPlan& plan,
                      const std::vector<std::string>& stored);

}  // namespace holdfast
