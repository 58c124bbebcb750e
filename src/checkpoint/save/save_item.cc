// SaveItem, and its twin for many processes: items in a directory of the
// caller's, without a commit.
#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/commit/layout.h"
#include "checkpoint/commit/lease.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/save/adopt.h"
#include "checkpoint/save/earlier_item.h"
#include "checkpoint/save/item_parts.h"
#include "checkpoint/save/item_writer.h"
#include "holdfast/pending_save.h"
#include "place/open_store.h"

namespace holdfast {
namespace {

Status CheckDirectory(const std::string& directory) {
  if (!directory.empty() && directory.find('\0') == std::string::npos) {
    return Status();
  }
  return InvalidArgumentError("item directory is empty or holds a NUL byte");
}

// In an object store a save that was taken over may still be writing.
std::string GuardedPath(const std::string& path, const SaveOptions& options) {
  return IsUrl(path) && !options.adopt_existing ? path : "";
}

// What lies in the directory and is no work of `files`; then the digests.
Status CloseItem(const std::string& directory, bool use_ocdbt,
                 bool adopt_existing, bool write_digests, FileWriter& files) {
  if (adopt_existing) {
    HF_RETURN_IF_ERROR(AdoptFiles(directory, use_ocdbt, write_digests, files));
  }
  if (write_digests) HF_RETURN_IF_ERROR(files.WriteDigests());
  return files.SyncNames();
}

}  // namespace

Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options) {
  Stopwatch watch, total;
  HF_RETURN_IF_ERROR(CheckDirectory(directory));
  return CatchBadAlloc([&]() -> Result<SaveResult> {
    const SaveOptions complete = OptionsFor(directory, ItemOptions(options));
    HF_ASSIGN_OR_RETURN(
        const nlohmann::ordered_json custom_metadata,
        ParseJsonObject(options.item_custom_metadata, "item_custom_metadata"));
    HF_ASSIGN_OR_RETURN(const SavePlan plan, MakeSavePlan(tree, complete));
    const std::string path = AbsolutePath(directory);
    HF_RETURN_IF_ERROR(CheckFreeSpace(plan, complete, path));
    HF_RETURN_IF_ERROR(CheckLeasesAbove(path, 0));
    const std::shared_ptr<Store> store = StoreAt(path);
    HF_RETURN_IF_ERROR(RemoveEarlierItem(complete.adopt_existing, *store));
    if (!complete.adopt_existing) {
      HF_RETURN_IF_ERROR(
          RemoveEarlierPart(ProcessDirectoryName({"0", false}), 0, *store));
    }
    FileWriter files(*store, complete.sync, GuardedPath(path, complete));
    Run run(complete.run);
    SaveResult result;
    HF_RETURN_IF_ERROR(WriteItem(plan, complete, custom_metadata, files, run,
                                 watch, result.stats));
    HF_RETURN_IF_ERROR(CloseItem(path, complete.use_ocdbt,
                                 complete.adopt_existing,
                                 complete.write_digests, files));
    result.stats.commit_seconds = watch.Lap();
    result.stats.total_seconds = total.Lap();
    return result;
  });
}

Result<SaveResult> SaveItemPart(const std::string& directory, const Tree& tree,
                                const SaveOptions& options,
                                const ProcessPart& part) {
  Stopwatch watch, total;
  HF_RETURN_IF_ERROR(CheckDirectory(directory));
  HF_RETURN_IF_ERROR(CheckProcessPart(part));
  return CatchBadAlloc([&]() -> Result<SaveResult> {
    const SaveOptions complete = OptionsFor(directory, ItemOptions(options));
    HF_ASSIGN_OR_RETURN(
        const nlohmann::ordered_json custom_metadata,
        ParseJsonObject(options.item_custom_metadata, "item_custom_metadata"));
    const PlanPart plan_part{.is_partial = true, .is_primary = part.is_primary};
    HF_ASSIGN_OR_RETURN(const SavePlan plan,
                        MakeSavePlan(tree, complete, plan_part));
    const std::string path = AbsolutePath(directory);
    HF_RETURN_IF_ERROR(CheckFreeSpace(plan, complete, path));
    HF_RETURN_IF_ERROR(CheckLeasesAbove(path, 0));
    const std::shared_ptr<Store> store = StoreAt(path);
    if (part.is_primary) {
      HF_RETURN_IF_ERROR(RemoveEarlierItem(complete.adopt_existing, *store));
    }
    if (!complete.adopt_existing) {
      HF_RETURN_IF_ERROR(
          RemoveEarlierPart(ProcessDirectoryOf(part), part.rank, *store));
    }
    FileWriter files(*store, complete.sync, GuardedPath(path, complete));
    Run run(complete.run);
    SaveResult result;
    HF_RETURN_IF_ERROR(WriteItemPart(plan, complete, part, custom_metadata,
                                     files, run, watch, result.stats));
    result.stats.commit_seconds = watch.Lap();
    result.stats.total_seconds = total.Lap();
    return result;
  });
}

Status FinishItem(const std::string& directory,
                  const FinishItemOptions& options) {
  HF_RETURN_IF_ERROR(CheckDirectory(directory));
  return CatchBadAlloc([&]() -> Status {
    FinishItemOptions complete = options;
    const SaveOptions sources = WithSources({});
    if (!complete.now_ns) complete.now_ns = sources.now_ns;
    if (!complete.random_hex) complete.random_hex = sources.random_hex;
    const std::string path = AbsolutePath(directory);
    HF_RETURN_IF_ERROR(CheckLeasesAbove(path, 0));
    const std::shared_ptr<Store> store = StoreAt(path);
    FileWriter files(*store, complete.sync && !IsUrl(path));
    HF_RETURN_IF_ERROR(FinishItemParts(complete, files));
    return CloseItem(path, complete.use_ocdbt, complete.adopt_existing,
                     complete.write_digests, files);
  });
}

}  // namespace holdfast
