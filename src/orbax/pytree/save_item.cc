#include "orbax/pytree/save_item.h"

#include <utility>

#include "engine/save/earlier_item.h"
#include "engine/save/save_item.h"
#include "engine/save/save_options.h"
#include "ground/base/status_macros.h"
#include "ground/record/recorder.h"
#include "orbax/handlers/done_future.h"
#include "orbax/pytree/messages.h"
#include "orbax/pytree/tree_copy.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

Result<int64_t> DataFileBytes(const PyTreeSettings& settings,
                              const Place& directory,
                              const PyTreeSaveArgs& args) {
  if (!settings.options.use_ocdbt || !args.ocdbt_target_data_file_size) {
    return DefaultDataFileBytes(directory);
  }
  const int64_t bytes = *args.ocdbt_target_data_file_size;
  if (bytes >= 0) return bytes;
  return InvalidArgumentError(
      "OCDBT target_data_file_size must be >= 0, where 0 means no limit; got " +
      std::to_string(bytes));
}

Result<SaveOptions> EngineOptions(const PyTreeSettings& settings,
                                  const Place& directory,
                                  const PyTreeSaveArgs& args) {
  SaveOptions options;
  options.run = RunWithin(settings.save_bytes_max);
  options.run.cancel = settings.options.cancel;
  options.sync = settings.options.sync;
  options.zarr_format = settings.options.use_zarr3 ? 3 : 2;
  options.use_ocdbt = settings.options.use_ocdbt;
  HF_RETURN_IF_ERROR(SetHandlerCompression(
      settings.options.use_compression, settings.options.compression, options));
  HF_ASSIGN_OR_RETURN(options.ocdbt_target_data_file_bytes,
                      DataFileBytes(settings, directory, args));
  options.item_custom_metadata = args.custom_metadata;
  options.support_rich_types =
      settings.options.pytree_metadata_options.support_rich_types;
  HF_RETURN_IF_ERROR(
      ParseJsonOption(args.custom_metadata, "custom_metadata").status());
  return options;
}

Result<ParamInfo> CommonInfo(const PyTreeSettings& settings,
                             const std::string& directory,
                             const PyTreeSaveArgs& args) {
  ParamInfo info;
  info.parent_dir = directory;
  info.is_ocdbt_checkpoint = settings.options.use_ocdbt;
  info.use_compression = settings.options.use_compression;
  info.use_zarr3 = settings.options.use_zarr3;
  info.ocdbt_target_data_file_size = args.ocdbt_target_data_file_size;
  if (settings.save_bytes_max) {
    HF_ASSIGN_OR_RETURN(info.byte_limiter,
                        LimitInFlightBytes::Make(*settings.save_bytes_max));
  }
  const std::optional<int64_t> transfer_bytes_max = TransferBytesMax(settings);
  if (transfer_bytes_max && *transfer_bytes_max > 0) {
    HF_ASSIGN_OR_RETURN(info.device_host_byte_limiter,
                        LimitInFlightBytes::Make(*transfer_bytes_max));
  }
  return info;
}

Result<SavePlan> PlanOf(const PreparedSave& prepared) {
  const ProcessPart* part = prepared.part ? &*prepared.part : nullptr;
  return MakeSavePlan(prepared.parts.tree,
                      ItemOptions(prepared.directory, prepared.options),
                      PlanPartOf(part));
}

// Takes a snapshot, unless it would be larger than the limit.
Status TakeSnapshot(const PyTreeSettings& settings, PreparedSave& prepared) {
  const std::optional<int64_t> bytes_max = TransferBytesMax(settings);
  const uint64_t byte_count =
      ArrayBytes(prepared.parts.tree, settings.options.is_immutable_fn);
  if (bytes_max && byte_count > static_cast<uint64_t>(*bytes_max)) {
    return Status();
  }
  const PhaseScope scope(Phase::kSnapshot, prepared.directory.path(),
                         byte_count);
  HF_ASSIGN_OR_RETURN(
      prepared.parts.tree,
      Snapshot(prepared.parts.tree, settings.options.is_prioritized_key_fn,
               settings.options.is_immutable_fn));
  prepared.is_copy = true;
  return Status();
}

}  // namespace

Result<std::shared_ptr<PreparedSave>> PrepareSave(
    const PyTreeSettings& settings, const std::string& directory,
    const PyTreeSaveArgs& args, std::optional<ProcessPart> part,
    bool is_async) {
  if (!IsAbsoluteOrUrl(directory)) {
    return InvalidArgumentError(NotAbsoluteText(directory));
  }
  const auto made = std::make_shared<PreparedSave>();
  PreparedSave& prepared = *made;
  prepared.directory = Place(directory);
  prepared.part = std::move(part);
  HF_ASSIGN_OR_RETURN(prepared.options,
                      EngineOptions(settings, prepared.directory, args));
  HF_ASSIGN_OR_RETURN(const ParamInfo info,
                      CommonInfo(settings, directory, args));
  HF_ASSIGN_OR_RETURN(
      prepared.parts,
      SplitByHandler(args.item, args.save_args,
                     *settings.options.type_handler_registry, info));
  prepared.options.save_args = prepared.parts.save_args;
  prepared.options.adopt_existing = !prepared.parts.groups.empty();
  if (is_async) HF_RETURN_IF_ERROR(TakeSnapshot(settings, prepared));
  // The handlers write first, and a failure after that is too late, so the plan
  // is made here.
  if (prepared.options.adopt_existing) {
    HF_ASSIGN_OR_RETURN(prepared.plan, PlanOf(prepared));
  }
  return made;
}

Result<std::vector<CommitFuture>> SerializeGroups(const PreparedSave& prepared,
                                                  bool is_primary) {
  std::vector<CommitFuture> all;
  if (prepared.parts.groups.empty() || !is_primary) return all;
  const std::shared_ptr<Store> store = prepared.directory.OpenStore();
  HF_RETURN_IF_ERROR(RemoveEarlierItem({}, /*adopt_existing=*/false, *store));
  for (const SaveGroup& group : prepared.parts.groups) {
    std::vector<const Tree*> values;
    for (const Tree& value : group.values) values.push_back(&value);
    Result<std::vector<CommitFuture>> futures =
        group.handler->Serialize(values, group.infos, group.args);
    if (!futures.ok()) {
      (void)WaitForAll(all);
      return futures.status();
    }
    all.insert(all.end(), futures->begin(), futures->end());
  }
  return all;
}

// The handlers were finalized before, so the digests cover their final files.
Status WritePrepared(const PreparedSave& prepared,
                     const std::vector<CommitFuture>& futures) {
  const Stopwatch begun;
  HF_RETURN_IF_ERROR(WaitForAll(futures));
  std::optional<SavePlan> own;
  if (!prepared.plan) {
    HF_ASSIGN_OR_RETURN(own, PlanOf(prepared));
  }
  if (!prepared.part) {
    for (const SaveGroup& group : prepared.parts.groups) {
      HF_RETURN_IF_ERROR(group.handler->Finalize(prepared.directory.path()));
    }
  }
  return SavePlannedItem(prepared.directory, own ? *own : *prepared.plan,
                         prepared.part ? &*prepared.part : nullptr, begun)
      .status();
}

}  // namespace holdfast
