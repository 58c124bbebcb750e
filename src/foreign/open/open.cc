// Open and Load for all formats.
#include "foreign/open/open.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/check/view_sources.h"
#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/commit/layout.h"
#include "engine/commit/place_check.h"
#include "foreign/chain/delta_checkpoint.h"
#include "foreign/dcp/dcp.h"
#include "foreign/extents/load_leaves.h"
#include "foreign/megatron/open.h"
#include "foreign/npz/npz.h"
#include "foreign/open/source_place.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/sidecar/joined_leaves.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "foreign/torch/torch_checkpoint.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "holdfast/read_again.h"
#include "holdfast/steps/steps.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"

namespace holdfast {
namespace {

// The largest sidecar. A sidecar is read completely.
constexpr uint64_t kSidecarBytesMax = uint64_t{1} << 30;

Status CheckForeignOptions(const Place& place, const OpenOptions& options) {
  if (options.step) {
    return InvalidArgumentError("a step was asked for, but " + place.path() +
                                " is not a directory of steps");
  }
  if (options.item.empty()) return Status();
  return ItemNotFoundError(options.item, place.path(),
                           "its format has no items");
}

// Returns the directory of the checkpoint. `place` may be a file at the head of
// the checkpoint.
Result<Place> DirectoryOf(const Place& place) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(place));
  return is_directory ? place : place.parent();
}

// Returns the list of checksums next to safetensors files: in a directory of
// links that a view made, or in a save that is also safetensors. Null if there
// is no list. DataLoss if a link no longer leads to its original target.
Result<std::shared_ptr<const DigestIndex>> ListBeside(const Place& place) {
  std::shared_ptr<const DigestIndex> none;
  if (place.is_remote()) return none;
  HF_ASSIGN_OR_RETURN(const Place directory, DirectoryOf(place));
  HF_ASSIGN_OR_RETURN(std::optional<DigestIndex> list,
                      DigestIndex::Read(*directory.OpenStore()));
  if (!list) return none;
  const bool is_one_file = directory.path() != place.path() &&
                           place.name().ends_with(kSafetensorsSuffix);
  for (const SourceFile& row : list->sources()) {
    if (is_one_file && row.path != place.name()) continue;
    HF_RETURN_IF_ERROR(CheckSource(directory, row, *list));
  }
  return std::make_shared<const DigestIndex>(*std::move(list));
}

Result<std::unique_ptr<Checkpoint>> OpenChecked(const Place& place,
                                                bool use_sidecar) {
  HF_ASSIGN_OR_RETURN(auto list, ListBeside(place));
  return OpenSafetensors(place, use_sidecar, std::move(list));
}

// Returns the sidecar among an item's documents.
Result<std::optional<TreeSidecar>> ItemSidecar(const Item& item) {
  const TreeMetadata* metadata = item.tree_metadata();
  if (metadata == nullptr) return std::optional<TreeSidecar>();
  const auto found = metadata->documents.find(kSidecarKey);
  if (found == metadata->documents.end()) return std::optional<TreeSidecar>();
  const std::string text =
      found->is_string()
          ? found->get<std::string>()
          : found->dump(-1, ' ', false,
                        nlohmann::ordered_json::error_handler_t::replace);
  HF_ASSIGN_OR_RETURN(TreeSidecar sidecar, ParseSidecar(text));
  return std::optional(std::move(sidecar));
}

// Prefixes keys and names with the item's name if there are several items.
void AddItemName(const std::string& item, SidecarLeaf& leaf) {
  leaf.key_kinds.resize(leaf.key.size());
  leaf.key_kinds.insert(leaf.key_kinds.begin(), KeyKind::kName);
  leaf.key.insert(leaf.key.begin(), item);
  if (!leaf.stored.empty()) leaf.stored = item + "." + leaf.stored;
}

// Joins the sidecars of all items into one sidecar for the checkpoint.
Result<std::optional<TreeSidecar>> OrbaxSidecar(
    const OpenedCheckpoint& checkpoint) {
  std::optional<TreeSidecar> all;
  for (const auto& item : checkpoint.items()) {
    auto found = ItemSidecar(*item);
    if (!found.ok()) {
      return found.status().WithContext(checkpoint.info().path);
    }
    if (!*found) continue;
    if (checkpoint.items().size() == 1) return found;
    if (!all) {
      all.emplace();
      all->is_partial = true;
    }
    for (SidecarLeaf& leaf : (*found)->leaves) {
      AddItemName(item->place().name, leaf);
      all->leaves.push_back(std::move(leaf));
    }
  }
  return all;
}

// Returns the document in which a delta describes itself; null for any other
// item, even if it was saved with a delta's custom metadata.
const nlohmann::ordered_json* FindDelta(const Item& item) {
  const TreeMetadata* metadata = item.tree_metadata();
  if (metadata == nullptr) return nullptr;
  const auto found = metadata->documents.find(kDeltaKey);
  if (found == metadata->documents.end()) return nullptr;
  const auto is_mark = [](const StoredLeaf& leaf) {
    return leaf.path.size() == 1 && leaf.path[0].key == kDeltaMarkArray;
  };
  return std::ranges::any_of(item.leaves(), is_mark) ? &*found : nullptr;
}

// Sets the members of `step` that are about deltas.
Status FindDeltas(const OpenedCheckpoint& checkpoint, OpenedStep& step) {
  const auto& items = checkpoint.items();
  if (items.size() > 1) {
    step.has_delta_items = std::ranges::any_of(
        items, [](const auto& item) { return FindDelta(*item) != nullptr; });
    return Status();
  }
  const nlohmann::ordered_json* const found = FindDelta(*items[0]);
  if (found == nullptr) return Status();
  auto info = ParseDeltaInfo(*found);
  if (!info.ok()) return info.status().WithContext(checkpoint.info().path);
  step.delta = *std::move(info);
  step.is_item = !step.delta->item.empty() && items[0]->place().name.empty();
  return Status();
}

// Returns the tree according to the sidecar. If the sidecar does not fit, it
// belongs to another item whose custom metadata were saved again with this
// item, and is ignored, unless `_METADATA` names it for this item.
Result<std::unique_ptr<Checkpoint>> SeenThrough(
    std::unique_ptr<OpenedCheckpoint> opened, const TreeSidecar& sidecar,
    const Place& place, const OpenOptions& options) {
  const bool is_theirs =
      std::ranges::all_of(opened->items(), [](const auto& item) {
        const TreeMetadata* metadata = item->tree_metadata();
        return metadata == nullptr || metadata->names_documents;
      });
  auto seen = WithSidecar(std::move(opened), sidecar);
  const bool does_not_fit =
      seen.status().code() == StatusCode::kFailedPrecondition;
  if (is_theirs || !does_not_fit) return seen;
  HF_ASSIGN_OR_RETURN(auto again, OpenedCheckpoint::Open(place, options));
  again->DescribeLeaves();
  return std::unique_ptr<Checkpoint>(std::move(again));
}

// Opens an Orbax checkpoint as a tree. If it is a delta, does not open its
// chain.
Result<OpenedStep> OpenOrbaxStep(const Place& place,
                                 const OpenOptions& options) {
  HF_ASSIGN_OR_RETURN(std::unique_ptr<OpenedCheckpoint> opened,
                      OpenedCheckpoint::Open(place, options));
  opened->DescribeLeaves();
  OpenedStep step;
  if (!options.use_sidecar) {
    step.checkpoint = std::move(opened);
    return step;
  }
  HF_RETURN_IF_ERROR(FindDeltas(*opened, step));
  HF_ASSIGN_OR_RETURN(const auto sidecar, OrbaxSidecar(*opened));
  if (!sidecar) {
    step.checkpoint = std::move(opened);
    return step;
  }
  HF_ASSIGN_OR_RETURN(step.checkpoint,
                      SeenThrough(std::move(opened), *sidecar, place, options));
  return step;
}

// Returns the step of an open delta, which may be the step itself or one of its
// items.
Place StepPlaceOf(const OpenedStep& step) {
  const Place opened(step.checkpoint->info().path);
  return step.is_item ? opened.parent() : opened;
}

Result<std::unique_ptr<Checkpoint>> WithChain(
    OpenedStep step, OpenOptions options,
    std::optional<GivenStep> given = std::nullopt) {
  options.step.reset();
  // Sizes are reported only for the newest step. Collecting them here would
  // read arrays of the base that the delta does not need and that may be
  // damaged.
  options.stored_sizes = false;
  const Place place = StepPlaceOf(step);
  return OpenDelta(
      place, std::move(step),
      [&](const Place& base, const std::string& item) -> Result<OpenedStep> {
        options.item = item;
        const LookScope look(base);
        HF_ASSIGN_OR_RETURN(const ForeignPlace found,
                            FindForeignPlace(look.place(), options));
        if (found.format == ForeignFormat::kNone) {
          // A base that is itself a single item has no item names.
          const auto self = ClassifyItem(look.place(), options);
          if (self.ok() && self->kind != ItemKind::kUnknown) {
            options.item.clear();
          }
          return OpenOrbaxStep(look.place(), options);
        }
        OpenedStep step;
        HF_ASSIGN_OR_RETURN(
            step.checkpoint,
            OpenForeign(found.format, found.place, found.options));
        return step;
      },
      std::move(given));
}

Result<std::unique_ptr<Checkpoint>> OpenOrbax(const Place& place,
                                              const OpenOptions& options);

// Opens a step with several items, each with its own chain.
Result<std::unique_ptr<Checkpoint>> OpenItems(const CheckpointInfo& info,
                                              OpenOptions options) {
  options.step.reset();
  std::vector<NamedItem> items;
  for (const auto& [name, directory] : info.items) {
    options.item = name;
    HF_ASSIGN_OR_RETURN(auto item, OpenOrbax(Place(info.path), options));
    items.emplace_back(name, std::move(item));
  }
  return JoinItems(info, items);
}

// Returns the step as the tree that was saved.
Result<std::unique_ptr<Checkpoint>> WithChains(OpenedStep step,
                                               const OpenOptions& options) {
  if (step.delta) return WithChain(std::move(step), options);
  if (step.has_delta_items) return OpenItems(step.checkpoint->info(), options);
  return std::move(step.checkpoint);
}

Result<std::unique_ptr<Checkpoint>> OpenOrbax(const Place& place,
                                              const OpenOptions& options) {
  HF_ASSIGN_OR_RETURN(OpenedStep step, OpenOrbaxStep(place, options));
  return WithChains(std::move(step), options);
}

// Loads an Orbax checkpoint: chunk by chunk, unless a sidecar says that the
// stored form of some leaves differs.
Result<LoadResult> LoadOrbax(const Place& place, const LoadOptions& options) {
  Stopwatch watch;
  OpenOptions open = options.open;
  open.stored_sizes = false;
  HF_ASSIGN_OR_RETURN(auto opened, OpenedCheckpoint::Open(place, open));
  std::optional<TreeSidecar> sidecar;
  if (open.use_sidecar) {
    OpenedStep step;
    HF_RETURN_IF_ERROR(FindDeltas(*opened, step));
    if (step.delta || step.has_delta_items) {
      opened->DescribeLeaves();
      step.checkpoint = std::move(opened);
      HF_ASSIGN_OR_RETURN(const auto chain, WithChains(std::move(step), open));
      HF_ASSIGN_OR_RETURN(LoadResult loaded, LoadLeaves(*chain, options));
      loaded.notes = chain->info().notes;
      return loaded;
    }
    HF_ASSIGN_OR_RETURN(sidecar, OrbaxSidecar(*opened));
  }
  if (sidecar || options.map != MapMode::kNever) {
    opened->DescribeLeaves();
    std::unique_ptr<Checkpoint> seen;
    if (sidecar) {
      HF_ASSIGN_OR_RETURN(
          seen, SeenThrough(std::move(opened), *sidecar, place, open));
    } else {
      seen = std::move(opened);
    }
    HF_ASSIGN_OR_RETURN(LoadResult loaded, LoadLeaves(*seen, options));
    loaded.notes = seen->info().notes;
    return loaded;
  }
  const double open_seconds = watch.Lap();
  HF_ASSIGN_OR_RETURN(LoadResult result, LoadCheckpoint(*opened, options));
  result.stats.plan_seconds += open_seconds;
  result.stats.total_seconds += open_seconds;
  return result;
}

Result<std::unique_ptr<Checkpoint>> OpenSeen(const Place& place,
                                             const OpenOptions& options) {
  HF_ASSIGN_OR_RETURN(const ForeignPlace found,
                      FindForeignPlace(place, options));
  if (found.format == ForeignFormat::kNone) return OpenOrbax(place, options);
  return OpenForeign(found.format, found.place, found.options,
                     options.use_sidecar);
}

Result<LoadResult> LoadSeen(const Place& source, const LoadOptions& options) {
  const LookScope look(source);
  HF_ASSIGN_OR_RETURN(ForeignPlace found,
                      FindForeignPlace(look.place(), options.open));
  if (found.format == ForeignFormat::kNone) {
    return LoadOrbax(look.place(), options);
  }
  found.options.stored_sizes = false;
  HF_ASSIGN_OR_RETURN(const auto checkpoint,
                      OpenForeign(found.format, found.place, found.options,
                                  options.open.use_sidecar));
  return LoadLeaves(*checkpoint, options);
}

Result<LoadResult> LoadAny(const std::string& path,
                           const LoadOptions& options) {
  HF_ASSIGN_OR_RETURN(const Place source, SourcePlace(path));
  return ReadAgainIfReplaced(source.path(),
                             [&] { return LoadSeen(source, options); });
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> WithSidecarFile(
    std::unique_ptr<Checkpoint> base, const Place& directory) {
  const std::shared_ptr<Store> store = directory.OpenStore();
  const Result<ObjectInfo> info = store->Stat(kSidecarFile);
  if (!info.ok()) {
    if (info.status().code() == StatusCode::kNotFound) return base;
    return info.status();
  }
  const std::string file = (directory / kSidecarFile).path();
  if (info->byte_count > kSidecarBytesMax) {
    return DataLossError(file + ": a tree of " +
                         std::to_string(info->byte_count) + " bytes");
  }
  HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(kSidecarFile));
  return WithSidecarText(std::move(base), text.view(), file);
}

namespace {

Result<std::unique_ptr<Checkpoint>> OpenFormat(ForeignFormat format,
                                               const Place& place,
                                               const OpenOptions& options,
                                               bool use_sidecar) {
  switch (format) {
    case ForeignFormat::kSafetensors:
      if (!options.verify) return OpenSafetensors(place, use_sidecar);
      return OpenChecked(place, use_sidecar);
    case ForeignFormat::kNpz:
      return OpenNpz(place, use_sidecar, options.verify);
    case ForeignFormat::kTorchFile:
      return OpenTorchFile(place, options.verify);
    case ForeignFormat::kDcp:
    case ForeignFormat::kTorchDist: {
      OpenOptions dcp = options;
      dcp.use_sidecar = use_sidecar;
      HF_ASSIGN_OR_RETURN(const Place directory, DirectoryOf(place));
      return OpenDcp(directory, dcp);
    }
    case ForeignFormat::kMegatronZarr: {
      HF_ASSIGN_OR_RETURN(const Place directory, DirectoryOf(place));
      HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> checkpoint,
                          megatron::OpenMegatronZarr(directory, options));
      if (!use_sidecar) return checkpoint;
      return WithSidecarFile(std::move(checkpoint), directory);
    }
    case ForeignFormat::kNone:
      break;
  }
  return InternalError("OpenForeign of no foreign format");
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenForeign(ForeignFormat format,
                                                const Place& place,
                                                const OpenOptions& options,
                                                bool use_sidecar) {
  HF_RETURN_IF_ERROR(CheckForeignOptions(place, options));
  const std::string id = PlaceId(place);
  auto opened = OpenFormat(format, place, options, use_sidecar);
  // Checked first, because a replaced place also explains a failure.
  HF_RETURN_IF_ERROR(CheckSamePlace(place, id));
  return opened;
}

Result<std::unique_ptr<Checkpoint>> Open(const std::string& path,
                                         const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(const Place source, SourcePlace(path));
    return OpenPlace(source, options);
  });
}

Result<std::unique_ptr<Checkpoint>> OpenPlace(const Place& place,
                                              const OpenOptions& options) {
  return CatchBadAlloc([&] {
    return ReadAgainIfReplaced(place.path(), [&] {
      const LookScope look(place, LookForOf(options));
      return OpenSeen(look.place(), options);
    });
  });
}

Result<std::unique_ptr<Checkpoint>> OpenOver(const std::string& path,
                                             GivenStep given,
                                             const OpenOptions& options) {
  HF_ASSIGN_OR_RETURN(const Place source, SourcePlace(path));
  const LookScope look(source);
  HF_ASSIGN_OR_RETURN(const ForeignPlace found,
                      FindForeignPlace(look.place(), options));
  if (found.format != ForeignFormat::kNone) return Open(path, options);
  HF_ASSIGN_OR_RETURN(OpenedStep step, OpenOrbaxStep(look.place(), options));
  if (!step.delta) return WithChains(std::move(step), options);
  return WithChain(std::move(step), options, std::move(given));
}

Result<std::unique_ptr<Checkpoint>> OpenUnlessRoot(const std::string& path,
                                                   const OpenOptions& options) {
  return CatchBadAlloc([&]() -> Result<std::unique_ptr<Checkpoint>> {
    HF_ASSIGN_OR_RETURN(const Place source, SourcePlace(path));
    return ReadAgainIfReplaced(
        source.path(), [&]() -> Result<std::unique_ptr<Checkpoint>> {
          const LookScope look(source, LookForOf(options));
          const Result<bool> is_root = IsManagerRoot(look.place());
          if (is_root.ok() && *is_root) return std::unique_ptr<Checkpoint>();
          return OpenSeen(look.place(), options);
        });
  });
}

// Defined in this folder, not with the steps, because SourcePlace may find a
// repository of the hub in the hub's cache.
bool IsRootOfSteps(const std::string& path) {
  const Result<Place> source = SourcePlace(path);
  if (!source.ok()) return false;
  const LookScope scope(*source);
  const Result<bool> is_root = IsManagerRoot(scope.place());
  return is_root.ok() && *is_root;
}

Result<LoadResult> Load(const std::string& path, const LoadOptions& options) {
  return InCall(CallKind::kLoad, path, [&] {
    return CatchBadAlloc([&] { return LoadAny(path, options); });
  });
}

}  // namespace holdfast
