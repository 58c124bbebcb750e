#include "engine/checkpoint/opened_checkpoint.h"

#include <algorithm>

#include "engine/checkpoint/still_there.h"
#include "engine/commit/layout.h"
#include "engine/commit/place_check.h"
#include "engine/commit/unfinished.h"
#include "engine/format/own_documents.h"
#include "engine/restore/leaf_request.h"
#include "engine/restore/restore.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/record/recorder.h"
#include "ground/tensor/copy.h"

namespace holdfast {
namespace {

void DescribeLeaf(const StoredLeaf& leaf, LeafInfo& info) {
  info.key.reserve(leaf.path.size());
  info.key_kinds.reserve(leaf.path.size());
  for (const KeyElement& element : leaf.path) {
    info.key.push_back(element.key);
    info.key_kinds.push_back(element.kind);
  }
  info.sharding_json = leaf.sharding_json;
  if (leaf.layout != nullptr) info.array_metadata = leaf.layout->text;
  info.problem = leaf.problem;
}

bool IsBare(const ItemPlace& item) {
  return item.kind != ItemKind::kPytree && item.kind != ItemKind::kJson;
}

// Checks that the directory still is what `found` says. The first look may have
// been at a directory that a save had just made, or that a removal was
// emptying. The files that identify a checkpoint are written first, and removed
// last.
Status CheckStillThat(const Place& place, const OpenOptions& options,
                      const FoundCheckpoint& found) {
  const std::vector<ItemPlace>& items = found.items;
  if (items[0].is_named_by_file) return Status();
  if (!IsFinished(found.directory, options.commit_mode)) {
    return IncompleteError(Place(found.info.path));
  }
  const bool is_sure = found.metadata_text.has_value() &&
                       std::none_of(items.begin(), items.end(), IsBare);
  if (is_sure) return Status();
  const Result<FoundCheckpoint> now = FindCheckpoint(place, options);
  const bool is_same =
      now.ok() && now->damage.ok() &&
      std::equal(now->items.begin(), now->items.end(), items.begin(),
                 items.end(), [](const ItemPlace& a, const ItemPlace& b) {
                   return a.kind == b.kind &&
                          a.directory.path() == b.directory.path();
                 });
  if (is_same) return Status();
  return UnavailableError("read " + place.path() +
                          ": it is being written or removed; read it again");
}

}  // namespace

LookFor LookForOf(const OpenOptions& options) {
  return options.leaves_only ? LookFor::kLeaves : LookFor::kValues;
}

Result<std::unique_ptr<OpenedCheckpoint>> OpenedCheckpoint::Open(
    const Place& place, const OpenOptions& options) {
  const PhaseScope scope(Phase::kOpen, place.path());
  const LookScope look(place, LookForOf(options));
  BringBack(look.place().Absolute());  // before it is classified
  std::string id;
  HF_ASSIGN_OR_RETURN(FoundCheckpoint found,
                      FindCheckpointAndId(look.place(), options, id));
  std::unique_ptr<OpenedCheckpoint> opened(new OpenedCheckpoint);
  const auto open_items = [&]() -> Status {
    HF_RETURN_IF_ERROR(found.damage);
    if (options.verify) HF_RETURN_IF_ERROR(CheckFound(options, found));
    opened->info_ = found.info;
    const bool name_items = found.items.size() > 1;
    for (const ItemPlace& item_place : found.items) {
      HF_ASSIGN_OR_RETURN(std::unique_ptr<Item> item,
                          Item::Open(item_place, options));
      opened->AddItem(std::move(item), name_items);
    }
    if (opened->items_.size() == 1) opened->AddItemInfo(*opened->items_[0]);
    return look.place().is_remote() ? Status()
                                    : CheckStillThat(place, options, found);
  };
  const Status status = open_items();
  // A replaced directory also explains a failure.
  HF_RETURN_IF_ERROR(CheckSamePlace(found.directory, id));
  HF_RETURN_IF_ERROR(status);
  return opened;
}

std::unique_ptr<OpenedCheckpoint> OpenedCheckpoint::OfItem(
    std::unique_ptr<Item> item) {
  std::unique_ptr<OpenedCheckpoint> opened(new OpenedCheckpoint);
  opened->info_.path = item->place().directory.path();
  opened->AddItem(std::move(item), /*name_it=*/false);
  opened->DescribeLeaves();
  return opened;
}

void OpenedCheckpoint::AddItem(std::unique_ptr<Item> item, bool name_it) {
  const std::string& item_name = item->place().name;
  for (const StoredLeaf& leaf : item->leaves()) {
    leaves_.push_back({item.get(), &leaf});
    if (name_it) {
      names_.push_back(leaf.path.empty() ? item_name
                                         : item_name + "." + leaf.info.name);
    }
  }
  info_.use_ocdbt |= item->use_ocdbt();
  if (item->zarr_format() != 0) info_.zarr_format = item->zarr_format();
  items_.push_back(std::move(item));
}

void OpenedCheckpoint::DescribeLeaves() {
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto& [item, leaf] = leaves_[i];
    LeafInfo& info = infos_.emplace_back(leaf->info);
    DescribeLeaf(*leaf, info);
    if (names_.empty()) continue;
    info.name = names_[i];
    info.key.insert(info.key.begin(), item->place().name);
    info.key_kinds.insert(info.key_kinds.begin(), KeyKind::kName);
  }
}

// Adds to `info_` the contents of `_METADATA` other than its entries.
void OpenedCheckpoint::AddItemInfo(const Item& item) {
  if (item.digests() != nullptr) {
    for (const SourceFile& row : item.digests()->sources()) {
      info_.sources.push_back(row.from);
    }
  }
  const TreeMetadata* metadata = item.tree_metadata();
  if (metadata == nullptr) return;
  info_.has_tree_metadata = true;
  info_.use_zarr3 = metadata->use_zarr3;
  info_.store_array_data_equal_to_fill_value =
      metadata->store_array_data_equal_to_fill_value;
  if (!metadata->custom_metadata.is_null()) {
    info_.item_custom_metadata = PythonJsonText(metadata->custom_metadata);
  }
  if (!metadata->documents.is_null()) {
    info_.item_documents = PythonJsonText(metadata->documents);
    const auto id = metadata->documents.find(kResultIdKey);
    if (id != metadata->documents.end() && id->is_string()) {
      info_.result_id = id->get<std::string>();
    }
  }
  info_.value_metadata_tree = metadata->value_metadata_tree.value_or("");
}

std::string_view OpenedCheckpoint::LeafName(size_t leaf) const {
  return names_.empty() ? leaves_[leaf].second->info.name : names_[leaf];
}

Result<ConstArrayView> OpenedCheckpoint::ViewOfValue(size_t leaf) const {
  const Tree& value = leaves_[leaf].second->value;
  if (value.is_leaf() && value.leaf_kind() == LeafKind::kScalar) {
    const Scalar& scalar = value.scalar();
    return ConstArrayView{scalar.dtype, scalar.bytes.data(), {}, {}};
  }
  if (value.is_leaf() && value.leaf_kind() == LeafKind::kArray) {
    return value.array().view();
  }
  return DataLossError("leaf " + infos_[leaf].name + " has no elements");
}

Result<LeafExtents> OpenedCheckpoint::ExtentsOf(size_t leaf) const {
  const auto [item, stored] = leaves_[leaf];
  HF_RETURN_IF_ERROR(stored->problem);
  if (stored->layout == nullptr) return LeafExtents{"in a file of values", {}};
  return ExtentsOfChunks(*item, stored->array());
}

const ValueDigest* OpenedCheckpoint::DigestOf(const std::string& file,
                                              uint64_t offset,
                                              uint64_t byte_count) const {
  for (const auto& item : items_) {
    const DigestIndex* list = item->digests();
    const std::string prefix = item->place().directory.path() + "/";
    if (list == nullptr || list->block_bytes() != kDigestBlockBytes ||
        !file.starts_with(prefix)) {
      continue;
    }
    const ValueDigest* row =
        list->FindValue(std::string_view(file).substr(prefix.size()), offset);
    if (row != nullptr && row->byte_count == byte_count &&
        row->kind == RowKind::kValue) {
      return row;
    }
  }
  return nullptr;
}

Result<Stats> OpenedCheckpoint::DoReadInto(
    const std::vector<ReadRequest>& requests, const RunOptions& run) const {
  return ReadLeaves(requests, run, nullptr);
}

Result<Stats> OpenedCheckpoint::ReadEncoded(
    const std::vector<ReadRequest>& requests, const RunOptions& run,
    EncodedSink& sink) const {
  return ReadLeaves(requests, run, &sink);
}

Result<Stats> OpenedCheckpoint::ReadLeaves(
    const std::vector<ReadRequest>& requests, const RunOptions& run_options,
    EncodedSink* sink) const {
  Stopwatch watch, total;
  std::vector<const ReadRequest*> order;
  for (const ReadRequest& request : requests) order.push_back(&request);
  std::stable_sort(order.begin(), order.end(),
                   [](const ReadRequest* a, const ReadRequest* b) {
                     return a->leaf < b->leaf;
                   });
  std::vector<RestoreTarget> targets;
  for (const ReadRequest* request : order) {
    const auto& [item, stored] = leaves_[request->leaf];
    const ArrayView& target = request->target;
    if (stored->layout != nullptr) {
      const bool is_whole = target.shape == infos_[request->leaf].shape;
      targets.push_back({item, stored->array(),
                         is_whole ? Shape() : request->origin, target});
      continue;
    }
    HF_ASSIGN_OR_RETURN(const ConstArrayView value, ViewOfValue(request->leaf));
    ConvertStrided(Subview(value, {request->origin, target.shape}), target);
  }
  Run run(run_options, RequestsInFlight(targets));
  Stats stats;
  Result<RestorePlan> planned = PlanRestore(std::move(targets), run);
  // A replaced item explains the failure.
  if (!planned.ok()) HF_RETURN_IF_ERROR(CheckStillThere(items_));
  HF_ASSIGN_OR_RETURN(RestorePlan plan, std::move(planned));
  stats.plan_seconds = watch.Lap();
  run.StartPhase("read", WantedBytes(plan.targets));
  HF_RETURN_IF_ERROR(Restore(std::move(plan), run, stats, nullptr, sink));
  stats.total_seconds = total.Lap();
  return stats;
}

Result<Tree> OpenedCheckpoint::TreeOf(std::vector<ItemEntries> items) const {
  std::vector<Tree::Member> members;
  for (ItemEntries& item : items) {
    HF_ASSIGN_OR_RETURN(Tree tree, Unflatten(std::move(item.entries)));
    members.emplace_back(item.item->place().name, std::move(tree));
  }
  const bool is_single = items_.size() == 1 && members.size() == 1;
  return is_single ? std::move(members.front().second)
                   : Tree::Dict(std::move(members));
}

Result<Tree> OpenedCheckpoint::DoStructure() const {
  std::vector<ItemEntries> items;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    const auto& [item, stored] = leaves_[i];
    if (items.empty() || items.back().item != item) {
      items.push_back({item, {}});
    }
    const Tree number(static_cast<int64_t>(i));
    items.back().entries.push_back({stored->path, IsEmptyKind(stored->info.kind)
                                                      ? stored->value
                                                      : number});
  }
  return TreeOf(std::move(items));
}

Result<std::string> OpenedCheckpoint::DoReadText(size_t leaf) const {
  return leaves_[leaf].second->value.text();
}

Result<std::unique_ptr<Checkpoint>> OpenCheckpoint(const Place& place,
                                                   const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(auto opened, OpenedCheckpoint::Open(place, options));
    opened->DescribeLeaves();
    return std::unique_ptr<Checkpoint>(std::move(opened));
  });
}

}  // namespace holdfast
