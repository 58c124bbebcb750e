#include "interop/joined_items.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace holdfast {
namespace {

class JoinedItems final : public Checkpoint {
 public:
  JoinedItems(const CheckpointInfo& info, std::vector<OpenedItem> items)
      : items_(std::move(items)) {
    info_ = info;
    for (size_t i = 0; i < items_.size(); ++i) {
      AddLeaves(i);
      for (const std::string& base : items_[i].checkpoint->info().bases) {
        if (std::ranges::find(info_.bases, base) == info_.bases.end()) {
          info_.bases.push_back(base);
        }
      }
    }
  }

 protected:
  Result<Stats> DoReadInto(const std::vector<ReadRequest>& requests,
                           const RunOptions& run) const override {
    std::vector<std::vector<ReadRequest>> by_item(items_.size());
    for (const ReadRequest& request : requests) {
      const Origin& from = origins_[request.leaf];
      by_item[from.item].push_back({from.leaf, request.origin, request.target});
    }
    Stats stats;
    for (size_t i = 0; i < items_.size(); ++i) {
      if (by_item[i].empty()) continue;
      HF_ASSIGN_OR_RETURN(const Stats one,
                          items_[i].checkpoint->ReadInto(by_item[i], run));
      stats.total_seconds += one.total_seconds;
      stats.transfer_seconds += one.transfer_seconds;
      stats.decoded_bytes += one.decoded_bytes;
      stats.stored_bytes += one.stored_bytes;
      stats.chunk_count += one.chunk_count;
    }
    return stats;
  }

  Result<std::string> DoReadText(size_t leaf) const override {
    const Origin& from = origins_[leaf];
    return items_[from.item].checkpoint->ReadText(from.leaf);
  }

 private:
  struct Origin {
    size_t item = 0;
    size_t leaf = 0;
  };

  void AddLeaves(size_t item) {
    const std::vector<LeafInfo>& leaves = items_[item].checkpoint->leaves();
    for (size_t i = 0; i < leaves.size(); ++i) {
      LeafInfo& leaf = infos_.emplace_back(leaves[i]);
      leaf.name =
          items_[item].name + (leaf.name.empty() ? "" : ".") + leaf.name;
      leaf.key.insert(leaf.key.begin(), items_[item].name);
      leaf.key_kinds.insert(leaf.key_kinds.begin(), KeyKind::kName);
      origins_.push_back({item, i});
    }
  }

  const std::vector<OpenedItem> items_;
  std::vector<Origin> origins_;  // as infos_
};

}  // namespace

std::unique_ptr<Checkpoint> JoinItems(const CheckpointInfo& info,
                                      std::vector<OpenedItem> items) {
  return std::make_unique<JoinedItems>(info, std::move(items));
}

}  // namespace holdfast
