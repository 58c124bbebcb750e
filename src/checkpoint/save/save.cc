// Save: plan, one item, commit. doc/architecture.md, "The way of a save", tells
// it step by step.
#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/save/item_writer.h"
#include "checkpoint/save/pending_saver.h"
#include "checkpoint/save/save_plan.h"
#include "holdfast/checkpoint.h"

namespace holdfast {
namespace {

Status CheckCheckpointableName(const std::string& name) {
  if (name == "metrics" || name == "AUTO" || name == "_CHECKPOINT_DELETION") {
    return InvalidArgumentError("checkpointable name \"" + name +
                                "\" is reserved");
  }
  return CheckKey(name).WithContext("checkpointable name");
}

Result<ParsedRootRecord> RootOf(const SaveOptions& options) {
  ParsedRootRecord root;
  root.is_v1 = options.format == Format::kOrbaxV1;
  if (root.is_v1) {
    root.handlers = CompositeHandlers{
        {options.checkpointable_name, std::string(kV1PyTreeHandlerTypestr)}};
  } else {
    root.handlers = std::string(kPyTreeHandlerTypestr);
  }
  HF_ASSIGN_OR_RETURN(
      nlohmann::ordered_json custom_metadata,
      ParseJsonObject(options.custom_metadata, "custom_metadata"));
  if (!custom_metadata.is_null()) {
    root.custom_metadata = std::move(custom_metadata);
  }
  return root;
}

Result<SaveResult> SaveTree(const std::string& path, const Tree& tree,
                            const SaveOptions& options, Stopwatch watch) {
  Stopwatch total = watch;
  SavePlan plan;
  nlohmann::ordered_json item_custom_metadata;
  ParsedRootRecord root;
  const auto prepare = [&]() -> Status {
    HF_RETURN_IF_ERROR(CheckCheckpointableName(options.checkpointable_name));
    HF_ASSIGN_OR_RETURN(plan,
                        MakeSavePlan(tree, options, PlanPartOf(options.group)));
    HF_ASSIGN_OR_RETURN(
        item_custom_metadata,
        ParseJsonObject(options.item_custom_metadata, "item_custom_metadata"));
    HF_ASSIGN_OR_RETURN(root, RootOf(options));
    return Status();
  };
  HF_ASSIGN_OR_RETURN(
      const auto pending,
      PendingSaver::Begin(path,
                          {options.group, options.overwrite, options.sync,
                           options.write_digests, options.now_ns,
                           options.commit_mode, options.directory_mode},
                          prepare()));
  Run run(options.run);
  SaveResult result;
  HF_RETURN_IF_ERROR(pending->SavePlanned(
      root.is_v1 ? options.checkpointable_name : "", plan, options,
      item_custom_metadata, run, watch, result.stats));
  HF_RETURN_IF_ERROR(pending->CommitOwnFiles(root, run.cancel().Check()));
  result.stats.commit_seconds = watch.Lap();
  result.stats.total_seconds = total.Lap();
  return result;
}

}  // namespace

Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options) {
  const Stopwatch watch;
  return InGroupCall(options.group, [&] {
    return CatchBadAlloc([&] {
      return SaveTree(path, tree, OptionsFor(path, WithSources(options)),
                      watch);
    });
  });
}

}  // namespace holdfast
