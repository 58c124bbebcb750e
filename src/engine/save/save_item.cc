// SaveItem, and its counterpart for many processes. Both save items into the
// caller's own directory, without a commit.
#include "engine/save/save_item.h"

#include "engine/commit/layout.h"
#include "engine/commit/lease.h"
#include "engine/format/directory_names.h"
#include "engine/save/earlier_item.h"
#include "engine/save/item_parts.h"
#include "engine/save/item_writer.h"
#include "engine/save/save_options.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

Status CheckDirectory(const Place& directory) {
  const std::string& path = directory.path();
  if (!path.empty() && path.find('\0') == std::string::npos) {
    return Status();
  }
  return InvalidArgumentError("item directory is empty or holds a NUL byte");
}

Status CheckProcessPart(const ProcessPart& part) {
  if (part.rank >= 0 && ParseProcessDirectory(ProcessDirectoryOf(part))) {
    return Status();
  }
  return InvalidArgumentError("process " + std::to_string(part.rank) +
                              ": bad rank or id \"" + part.id +
                              "\" (want letters and digits)");
}

Result<SaveResult> SaveIn(const Place& directory, const Tree& tree,
                          const SaveOptions& options, const ProcessPart* part) {
  const Stopwatch begun;
  return CatchBadAlloc([&]() -> Result<SaveResult> {
    HF_ASSIGN_OR_RETURN(
        const SavePlan plan,
        MakeSavePlan(tree, ItemOptions(directory, options), PlanPartOf(part)));
    return SavePlannedItem(directory, plan, part, begun);
  });
}

}  // namespace

PlanPart PlanPartOf(const ProcessPart* part) {
  if (part == nullptr) return {};
  return {.is_partial = true, .is_primary = part->is_primary};
}

Result<SaveResult> SavePlannedItem(const Place& directory, const SavePlan& plan,
                                   const ProcessPart* part,
                                   const Stopwatch& begun) {
  HF_RETURN_IF_ERROR(CheckDirectory(directory));
  if (part != nullptr) HF_RETURN_IF_ERROR(CheckProcessPart(*part));
  if (part != nullptr && plan.also) {
    return UnimplementedError(
        "save a part in files of another format, too: want a process group, "
        "which knows the plan when it puts the parts together");
  }
  SaveCall call(plan, begun);
  const SaveOptions& options = *plan.options;
  const Place place = directory.Absolute();
  HF_RETURN_IF_ERROR(CheckFreeSpace(plan, place));
  HF_RETURN_IF_ERROR(CheckLeasesAbove(place.path(), 0));
  const std::shared_ptr<Store> store = place.OpenStore();
  HF_RETURN_IF_ERROR(RemoveEarlierItem(part != nullptr ? *part : ProcessPart(),
                                       options.adopt_existing, *store));
  FileWriter files(*store, place, options.sync, options.adopt_existing);
  HF_RETURN_IF_ERROR(WriteItem(part, files, call));
  if (part == nullptr) {
    HF_RETURN_IF_ERROR(
        CloseItem(place, FinishOptionsOf(options, "", 1), files));
  }
  return call.Result();
}

Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options) {
  return SaveIn(Place(directory), tree, options, nullptr);
}

Result<SaveResult> SaveItemPart(const std::string& directory, const Tree& tree,
                                const SaveOptions& options,
                                const ProcessPart& part) {
  return SaveIn(Place(directory), tree, options, &part);
}

Status FinishItem(const std::string& directory,
                  const FinishItemOptions& options) {
  HF_RETURN_IF_ERROR(CheckDirectory(Place(directory)));
  return CatchBadAlloc([&]() -> Status {
    FinishItemOptions complete = options;
    const SaveOptions sources = WithSources({});
    if (!complete.now_ns) complete.now_ns = sources.now_ns;
    if (!complete.random_hex) complete.random_hex = sources.random_hex;
    const Place place = Place(directory).Absolute();
    HF_RETURN_IF_ERROR(CheckLeasesAbove(place.path(), 0));
    const std::shared_ptr<Store> store = place.OpenStore();
    FileWriter files(*store, place, complete.sync, /*may_replace=*/true);
    HF_RETURN_IF_ERROR(FinishItemParts(complete, files));
    return CloseItem(place, complete, files);
  });
}

}  // namespace holdfast
