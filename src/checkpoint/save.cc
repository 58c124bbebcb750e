// Save: plan, one item, commit. doc/architecture.md, "The way of a save", tells
// it step by step.
#include "base/no_throw.h"
#include "base/status_macros.h"
#include "checkpoint/item_writer.h"
#include "checkpoint/pending_saver.h"
#include "checkpoint/save_plan.h"
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
  HF_ASSIGN_OR_RETURN(const SavePlan plan, MakeSavePlan(tree, options));
  HF_ASSIGN_OR_RETURN(
      const nlohmann::ordered_json item_custom_metadata,
      ParseJsonObject(options.item_custom_metadata, "item_custom_metadata"));
  HF_ASSIGN_OR_RETURN(const ParsedRootRecord root, RootOf(options));
  HF_ASSIGN_OR_RETURN(
      const auto pending,
      PendingSaver::Begin(path, {options.overwrite, options.sync,
                                 options.write_digests, options.now_ns}));
  Run run(options.run);
  SaveResult result;
  HF_RETURN_IF_ERROR(pending->SavePlanned(
      root.is_v1 ? options.checkpointable_name : "", plan, options,
      item_custom_metadata, run, watch, result.stats));
  HF_RETURN_IF_ERROR(run.cancel().Check());
  HF_RETURN_IF_ERROR(pending->CommitOwnFiles(root));
  result.stats.commit_seconds = watch.Lap();
  result.stats.total_seconds = total.Lap();
  return result;
}

}  // namespace

Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options) {
  const Stopwatch watch;
  if (path.empty() || path.find('\0') != std::string::npos) {
    return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
  }
  HF_RETURN_IF_ERROR(CheckCheckpointableName(options.checkpointable_name));
  return CatchBadAlloc(
      [&] { return SaveTree(path, tree, WithSources(options), watch); });
}

}  // namespace holdfast
