#include "orbax/pytree/item_source.h"

#include <utility>
#include <vector>

#include "engine/checkpoint/opened_checkpoint.h"
#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"

namespace holdfast {

ItemSource::ItemSource(std::string directory,
                       std::unique_ptr<Checkpoint> checkpoint)
    : directory_(std::move(directory)), checkpoint_(std::move(checkpoint)) {
  const std::vector<LeafInfo>& leaves = checkpoint_->leaves();
  by_name_.reserve(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) by_name_[leaves[i].name] = i;
}

Result<std::unique_ptr<ItemSource>> ItemSource::Open(
    const std::string& directory, MissingChunks missing) {
  OpenOptions options;
  options.stored_sizes = false;
  options.missing_chunks = missing;
  HF_ASSIGN_OR_RETURN(auto checkpoint,
                      OpenCheckpoint(Place(directory), options));
  return std::unique_ptr<ItemSource>(
      new ItemSource(directory, std::move(checkpoint)));
}

std::optional<size_t> ItemSource::Find(std::string_view name) const {
  const auto found = by_name_.find(name);
  if (found == by_name_.end()) return std::nullopt;
  return found->second;
}

ValueMetadataEntry EntryOf(const LeafInfo& leaf) {
  return {leaf.value_type, leaf.skip_deserialize, leaf.write_shape};
}

Result<Tree> EmptyOfType(std::string_view value_type) {
  // Without rich types, Orbax restores an empty named tuple as None.
  std::optional<Tree> empty = EmptyOfValueType(value_type, {});
  if (empty) return *std::move(empty);
  return InvalidArgumentError(
      "Unrecognized typestr: " + std::string(value_type) +
      " with pytree_metadata_options: "
      "PyTreeMetadataOptions(support_rich_types=False).");
}

Result<Tree> EntryTree(const Checkpoint& checkpoint) {
  if (checkpoint.leaves().empty()) {
    return InvalidArgumentError(
        "Unable to uniquely reconstruct tree from empty flattened list (it "
        "could be {} or []).");
  }
  return checkpoint.IndexTree();
}

}  // namespace holdfast
