// ItemSource: an opened item, whose leaves are found by parameter name.
//
// Thread-safety: const methods may run concurrently. Ownership: owns the
// checkpoint. Errors: those of Open.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "engine/restore/leaf_request.h"
#include "ground/tree/key_path.h"
#include "holdfast/checkpoint.h"
#include "holdfast/pytree_metadata.h"

namespace holdfast {

class ItemSource {
 public:
  static Result<std::unique_ptr<ItemSource>> Open(const std::string& directory,
                                                  MissingChunks missing);

  const std::string& directory() const { return directory_; }
  const Checkpoint& checkpoint() const { return *checkpoint_; }
  const LeafInfo& leaf(size_t index) const {
    return checkpoint_->leaves()[index];
  }
  std::optional<size_t> Find(std::string_view name) const;

 private:
  ItemSource(std::string directory, std::unique_ptr<Checkpoint> checkpoint);

  std::string directory_;
  std::unique_ptr<Checkpoint> checkpoint_;
  std::unordered_map<std::string_view, size_t> by_name_;
};

ValueMetadataEntry EntryOf(const LeafInfo& leaf);
// Returns None or the empty container that a value_type names. InvalidArgument
// "Unrecognized typestr: ..." for other types.
Result<Tree> EmptyOfType(std::string_view value_type);

// Returns the tree that `_METADATA` lists. Each of its leaves, also one for an
// empty value, is the leaf's index in leaves(), as an int64 scalar.
// InvalidArgument for an item without leaves.
Result<Tree> EntryTree(const Checkpoint& checkpoint);

}  // namespace holdfast
