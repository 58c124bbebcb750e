// Save: plan, one item, commit. doc/architecture.md, "The path of a save",
// describes it step by step.
#include "engine/save/pending_saver.h"
#include "engine/save/save_options.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/record/call_record.h"
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
  RootRecord record;
  record.custom_metadata = options.custom_metadata;
  record.is_v1 = options.format == Format::kOrbaxV1;
  HF_ASSIGN_OR_RETURN(ParsedRootRecord root, ParseRootRecord(record));
  root.handlers = std::string(kPyTreeHandlerTypestr);
  if (root.is_v1) {
    root.handlers = CompositeHandlers{
        {options.checkpointable_name, std::string(kV1PyTreeHandlerTypestr)}};
  }
  return root;
}

Result<SaveResult> SaveTree(const Place& place, const Tree& tree,
                            const SaveOptions& options,
                            const Stopwatch& begun) {
  SavePlan plan;
  ParsedRootRecord root;
  const auto prepare = [&]() -> Status {
    HF_RETURN_IF_ERROR(CheckCheckpointableName(options.checkpointable_name));
    HF_ASSIGN_OR_RETURN(plan,
                        MakeSavePlan(tree, options, PlanPartOf(options.group)));
    HF_ASSIGN_OR_RETURN(root, RootOf(options));
    return Status();
  };
  HF_ASSIGN_OR_RETURN(
      const auto pending,
      PendingSaver::Begin(place,
                          {options.group, options.overwrite, options.sync,
                           options.write_digests, options.now_ns,
                           options.commit_mode, options.directory_mode},
                          prepare()));
  SaveCall call(plan, begun);
  HF_RETURN_IF_ERROR(
      pending->Write(root.is_v1 ? options.checkpointable_name : "", call));
  HF_RETURN_IF_ERROR(pending->CommitOwnFiles(root, call.run.cancel().Check()));
  SaveResult result = call.Result();
  result.notes = pending->notes();
  return result;
}

}  // namespace

Result<SaveResult> Save(const std::string& path, const Tree& tree,
                        const SaveOptions& options) {
  const Stopwatch begun;
  return InCall(CallKind::kSave, path, [&] {
    return InGroupCall(options.group, [&] {
      return CatchBadAlloc([&] {
        const Place place(path);
        return SaveTree(place, tree, OptionsFor(place, options), begun);
      });
    });
  });
}

}  // namespace holdfast
