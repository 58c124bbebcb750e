// Plans a conversion to one of Orbax's formats: the new checkpoint's items,
// their trees, and the record of its root.
//
// An Orbax source without rules keeps its items as they are. For any other
// source, the new checkpoint is made from the leaves only.
// Thread-safety: one thread; the trees' readers may be called from any thread.
// Ownership: borrows the source, which outlives the plan.
// Errors: those of Convert.
#pragma once

#include <string>
#include <vector>

#include "holdfast/tools/convert.h"
#include "tools/convert/item_tree.h"
#include "tools/convert/leaf_map.h"
#include "tools/convert/target_layout.h"

namespace holdfast {

// One leaf of the source, and the key under which the new checkpoint must show
// it.
struct CopiedLeaf {
  size_t source = 0;
  std::vector<std::string> key;
  ValueKind kind = ValueKind::kArray;
  std::optional<DType> dtype;
  Shape shape;
};

struct PlannedItem {
  TargetItem place;
  ItemTree tree;     // unused for a JSON item
  std::string text;  // of a JSON item
  std::vector<CopiedLeaf> leaves;
  std::string item_custom_metadata;  // JSON objects, or empty
  std::string item_documents;
  std::string value_metadata_tree;
};

struct OrbaxPlan {
  std::vector<PlannedItem> items;
  RootRecord root;
  Format format = Format::kOrbax;
  int zarr_format = 2;
  bool use_ocdbt = true;
  std::string result_id;  // of a delta's result, if it is kept whole
  ConvertReport report;
};

// Makes the plan. `referred` is borrowed. Null means that everything is copied.
Result<OrbaxPlan> MakeOrbaxPlan(const Checkpoint& source,
                                const ConvertOptions& options,
                                const ReferredArrays* referred = nullptr);

}  // namespace holdfast
