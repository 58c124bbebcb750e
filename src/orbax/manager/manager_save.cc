// A manager's saves: the decision to save, the save, and the removal of old
// steps after it.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "engine/steps/step_lists.h"
#include "ground/base/no_throw.h"
#include "ground/base/start_threads.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/item_handlers.h"
#include "orbax/manager/manager.h"
#include "orbax/manager/manager_options.h"

namespace holdfast {
namespace {

constexpr std::string_view kMetricsItem = "metrics";

// Returns facts that other processes may not know, as one letter each.
std::string ContextText(const DecisionContext& context) {
  return std::string(context.reached_preemption ? "p" : "") +
         (context.is_saving_in_progress ? "s" : "");
}

DecisionContext MergedContext(const std::vector<std::string>& texts) {
  DecisionContext merged;
  for (const std::string& text : texts) {
    merged.reached_preemption |= text.find('p') != text.npos;
    merged.is_saving_in_progress |= text.find('s') != text.npos;
  }
  return merged;
}

Status AfterClose(const std::string& directory) {
  return FailedPreconditionError("manager of " + directory + ": it is closed");
}

// Wraps a borrowed value for callers that want a shared one.
std::shared_ptr<const CheckpointArgs> Borrowed(const CheckpointArgs& args) {
  return std::shared_ptr<const CheckpointArgs>(
      std::shared_ptr<const CheckpointArgs>(), &args);
}

}  // namespace

Status Manager::CheckOpen() const {
  return is_closed_ ? AfterClose(directory_) : Status();
}

Status Manager::CheckArgs(const CheckpointArgs& args) const {
  const bool is_composite =
      dynamic_cast<const CompositeArgs*>(&args) != nullptr;
  if (is_default_item_.value_or(!is_composite) != is_composite) return Status();
  if (is_composite) {
    return InvalidArgumentError(
        "Cannot provide `args` of type `Composite` when dealing with a single, "
        "unnamed (default) checkpointable object.");
  }
  return InvalidArgumentError(
      "Must provide `args` of type `Composite` when dealing with multiple "
      "checkpointable objects.");
}

CompositeArgs Manager::WholeArgs(const CheckpointArgs& args) const {
  const auto* composite = dynamic_cast<const CompositeArgs*>(&args);
  if (composite != nullptr) return *composite;
  CompositeArgs whole;
  whole.items[std::string(kDefaultItemName)] = Borrowed(args);
  return whole;
}

Result<bool> Manager::ShouldSave(int64_t step) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (options_.read_only) return false;
  const std::optional<int64_t> latest = LatestStep();
  if (latest && *latest >= step) return false;
  return Decide({step, NowNs(), std::nullopt});
}

Result<bool> Manager::Decide(const StepRecord& step) {
  const bool is_continuous = IsContinuous(save_policy_);
  const Status ready = is_continuous ? EnsureMetadata() : Status();
  DecisionContext context;
  context.is_saving_in_progress =
      options_.enable_should_save_is_saving_in_progress_check &&
      IsSavingInProgress();
  context.reached_preemption = ReachedPreemption(step.step);
  ProcessGroup* const group = options_.decision_group;
  const bool must_agree = group != nullptr && group->size() > 1 &&
                          (is_continuous || options_.reached_preemption);
  if (!must_agree) {
    HF_RETURN_IF_ERROR(ready);
    return holdfast::ShouldSave(save_policy_, step, list_.Records(), context);
  }
  return InGroupCall(group, [&]() -> Result<bool> {
    HF_RETURN_IF_ERROR(ready);
    return DecideTogether(step, context, *group);
  });
}

Result<bool> Manager::DecideTogether(const StepRecord& step,
                                     const DecisionContext& context,
                                     ProcessGroup& group) const {
  const Meeting meeting{"whether to save", directory_};
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> contexts,
                      group.AllGather(meeting, ContextText(context)));
  // The clocks of processes differ, so rank 0 decides.
  const Result<bool> mine = holdfast::ShouldSave(
      save_policy_, step, list_.Records(), MergedContext(contexts));
  HF_RETURN_IF_ERROR(group.Agree(meeting, mine.status()));
  HF_ASSIGN_OR_RETURN(const std::string answer,
                      group.Broadcast(meeting, 0, *mine ? "1" : "0"));
  return answer == "1";
}

Result<std::optional<Metrics>> Manager::MetricsToSave(
    const ManagerSaveOptions& options) const {
  if (!options.metrics) {
    if (options_.best_fn && options_.warn) {
      options_.warn("Requested `tracked_metric`; did not provide metrics.");
    }
    return std::optional<Metrics>();
  }
  HF_ASSIGN_OR_RETURN(const std::string json, JsonTextOf(*options.metrics));
  Metrics metrics = MetricsOfJson(json);
  if (options_.best_fn && options_.warn &&
      std::isnan(options_.best_fn(metrics))) {
    options_.warn("The metric that ranks this step is NaN: it is the worst.");
  }
  return std::optional<Metrics>(std::move(metrics));
}

Result<bool> Manager::Save(int64_t step, const CheckpointArgs& args,
                           const ManagerSaveOptions& options) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (step < 0) {
    return InvalidArgumentError("step " + std::to_string(step) +
                                ": want 0 or more");
  }
  HF_RETURN_IF_ERROR(CheckArgs(args));
  if (!is_default_item_) {
    is_default_item_ = dynamic_cast<const CompositeArgs*>(&args) == nullptr;
  }
  if (!options.force) {
    HF_ASSIGN_OR_RETURN(const bool is_due, ShouldSave(step));
    if (!is_due) return false;
  }
  HF_RETURN_IF_ERROR(WaitUntilFinished());
  if (list_.Has(step)) {
    return AlreadyExistsError("Checkpoint for step " + std::to_string(step) +
                              " already exists.");
  }
  Result<std::optional<Metrics>> metrics = MetricsToSave(options);
  Status ready = metrics.status();
  const KnownStep saved{
      {step, NowNs(), metrics.ok() ? *std::move(metrics) : std::nullopt},
      format_->BuildName(step)};
  HF_ASSIGN_OR_RETURN(const std::vector<int64_t> removed,
                      AgreeOnRemoval(saved, std::move(ready)));
  is_saving_ = true;
  const Status started = StartSave(step, args, options);
  if (!started.ok()) {
    is_saving_ = false;
    return started;
  }
  NoteSaved(saved, removed);
  if (async_ != nullptr) return true;
  HF_RETURN_IF_ERROR(WaitUntilFinished());
  return true;
}

Result<std::vector<int64_t>> Manager::AgreeOnRemoval(KnownStep saved,
                                                     Status ready) {
  if (ready.ok()) ready = EnsureMetadata();
  StepList with_it = list_;
  with_it.Add(std::move(saved));
  Result<std::vector<int64_t>> mine =
      StepsToRemove(preservation_policy_, with_it, NowNs());
  if (!ready.ok()) mine = std::move(ready);
  if (!is_shared()) return mine;
  // The clocks of processes differ, so the primary host decides.
  ProcessGroup& group = *processes().group;
  const Meeting meeting{"steps to remove", directory_};
  HF_RETURN_IF_ERROR(group.Agree(meeting, mine.status()));
  std::vector<FoundStep> steps;
  for (const int64_t step : *mine) steps.push_back({step, ""});
  HF_ASSIGN_OR_RETURN(
      const std::string text,
      group.Broadcast(meeting, processes().primary_host.value_or(0),
                      PackSteps(steps)));
  HF_ASSIGN_OR_RETURN(steps, UnpackSteps(text, *format_));
  std::vector<int64_t> agreed;
  for (const FoundStep& step : steps) agreed.push_back(step.step);
  return agreed;
}

Status Manager::StartSave(int64_t step, const CheckpointArgs& args,
                          const ManagerSaveOptions& options) {
  CompositeArgs whole = WholeArgs(args);
  if (options.metrics && options_.best_fn && !options_.prevent_write_metrics) {
    whole.items[std::string(kMetricsItem)] =
        std::make_shared<JsonSave>(*options.metrics);
  }
  // An older step with this name may still be in the process of being removed.
  disposal_.WaitFor(format_->BuildName(step));
  CheckpointerSaveOptions save;
  save.custom_metadata = options.custom_metadata;
  return checkpointer_->Save(BuildStepPath(directory_, *format_, step), whole,
                             save);
}

void Manager::NoteSaved(KnownStep saved, const std::vector<int64_t>& removed) {
  finishing_ = std::make_unique<Finishing>();
  Finishing& finishing = *finishing_;
  finishing.saved = std::move(saved);
  // The list shows the outcome immediately; if the save fails, TakeFinished
  // undoes it.
  list_.Add(finishing.saved);
  const std::set<int64_t> going(removed.begin(), removed.end());
  finishing.removed = list_.Take(
      [&](const KnownStep& step) { return going.contains(step.record.step); });
  for (const KnownStep& step : list_.steps) {
    finishing.staying.push_back(step.name);
  }
  const auto finish = [this, &finishing] {
    finishing.status = CatchBadAlloc([&]() -> Status {
      if (async_ != nullptr) HF_RETURN_IF_ERROR(async_->WaitUntilFinished());
      return DisposeOfOld(finishing);
    });
    is_saving_ = false;
    finishing.is_done = true;
  };
  std::optional<std::thread> thread;
  if (async_ != nullptr) thread = TryStartThread(finish);
  if (thread) {
    finishing.thread = *std::move(thread);
  } else {
    finish();  // nothing to wait for, or no thread could be started
  }
}

Status Manager::DisposeOfOld(const Finishing& finishing) {
  if (!is_primary()) return Status();
  std::vector<std::string> names;
  for (const KnownStep& step : finishing.removed) names.push_back(step.name);
  return disposal_.Dispose(names, finishing.staying);
}

void Manager::ApplyFinishing() {
  if (finishing_ == nullptr) return;
  const StepList removed{finishing_->removed};
  list_.Take(
      [&](const KnownStep& step) { return removed.Has(step.record.step); });
  const int64_t saved = finishing_->saved.record.step;
  if (!list_.Has(saved) && !removed.Has(saved)) list_.Add(finishing_->saved);
}

Status Manager::TakeFinished() {
  if (finishing_ == nullptr) return Status();
  if (finishing_->thread.joinable()) finishing_->thread.join();
  const std::unique_ptr<Finishing> finished = std::move(finishing_);
  if (finished->status.ok()) return Status();
  // After a failure, the files decide which steps exist.
  const auto is_gone = [&](const std::string& name) {
    return !IsPathFinalized(directory_ + "/" + name, format_->committed_by());
  };
  list_.Take([&](const KnownStep& step) {
    return step.record.step == finished->saved.record.step &&
           is_gone(step.name);
  });
  for (KnownStep& step : finished->removed) {
    if (!is_gone(step.name)) list_.Add(std::move(step));
  }
  return finished->status;
}

Status Manager::WaitUntilFinished() {
  HF_RETURN_IF_ERROR(CheckOpen());
  return TakeFinished();
}

Status Manager::CheckForErrors() {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (finishing_ != nullptr && finishing_->is_done) {
    HF_RETURN_IF_ERROR(TakeFinished());
  }
  return disposal_.TakeError();
}

Status Manager::Delete(int64_t step) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (options_.read_only) {
    if (options_.warn) {
      options_.warn(directory_ + " is read only, delete will be skipped");
    }
    return Status();
  }
  if (!list_.Has(step)) {
    return NotFoundError("Requested deleting a non-existent step: " +
                         std::to_string(step) + ".");
  }
  if (finishing_ != nullptr) HF_RETURN_IF_ERROR(TakeFinished());
  const std::vector<KnownStep> taken = list_.Take(
      [&](const KnownStep& known) { return known.record.step == step; });
  Status deleted;
  for (const KnownStep& known : taken) {
    if (is_primary() && deleted.ok()) deleted = disposal_.DisposeOf(known.name);
  }
  return Agree("delete", deleted);
}

Status Manager::Close() {
  if (is_closed_) return Status();
  const Status finished = TakeFinished();
  is_closed_ = true;
  const Status closed =
      checkpointer_ == nullptr ? Status() : checkpointer_->Close();
  disposal_.Finish();
  const Status removed = disposal_.TakeError();
  if (!finished.ok()) return finished;
  return closed.ok() ? removed : closed;
}

}  // namespace holdfast
