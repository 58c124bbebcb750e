// Converts between a Tree and the flat list of its leaves, in the order of JAX
// and Orbax.
//
// Thread-safety: pure functions.
// Ownership: FlatLeaf borrows the leaf from the Tree that was flattened, and
// its value_type from there or from the constants of ground/tree/value_type.h.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ground/tree/key_path.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

struct FlatLeaf {
  KeyPath path;
  const Tree* leaf = nullptr;   // a leaf or an empty container
  std::string_view value_type;  // as `_METADATA` spells it
};

struct FlattenOptions {
  // Orbax's support_rich_types: an empty named tuple is "NamedTuple", not
  // "None".
  bool support_rich_types = false;
};

// Returns the value type that `_METADATA` records for a leaf or an empty
// container.
std::string_view ValueTypeOf(const Tree& node, const FlattenOptions& options);
// Returns None or the empty container that `value_type` names; nullopt for
// other types.
std::optional<Tree> EmptyOfValueType(std::string_view value_type,
                                     const FlattenOptions& options);

// Returns the leaves in JAX's order: dicts by sorted key (code points),
// sequences and named tuples in their own order. None and empty containers are
// leaves.
// InvalidArgument: a duplicate key in a dict, a key or string that is not
// UTF-8, more than kTreeDepthMax levels.
Result<std::vector<FlatLeaf>> Flatten(const Tree& tree,
                                      const FlattenOptions& options = {});

// Returns InvalidArgument, naming both paths, if two leaves that store a value
// share a parameter name, as in {'a.b': 1, 'a': {'b': 2}}.
Status CheckParamNames(const std::vector<FlatLeaf>& leaves);

struct UnflattenEntry {
  KeyPath path;
  Tree leaf;
};

// Rebuilds the tree that Orbax rebuilds from stored entries in any order. Nodes
// whose children have indices become lists; other nodes become dicts in sorted
// order. So a tuple comes back as a list and a named tuple as a dict. An entry
// whose path leads to another entry is dropped (partial saves leave such
// placeholders).
// DataLoss: paths that contradict each other, a gap in a sequence, two entries
// at one path, 1 and "1" in one dict, no entries, more than kTreeDepthMax
// levels.
Result<Tree> Unflatten(std::vector<UnflattenEntry> entries);

}  // namespace holdfast
