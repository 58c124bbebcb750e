#include "orbax/manager/manager_options.h"

#include <algorithm>
#include <cmath>

#include "ground/base/status_macros.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

Status CheckNameFormat(const CheckpointManagerOptions& options) {
  const bool format_broadcasts =
      options.step_name_format != nullptr &&
      options.step_name_format->single_host_load_and_broadcast();
  if (options.single_host_load_and_broadcast &&
      options.step_name_format != nullptr && !format_broadcasts) {
    return InvalidArgumentError(
        "`CheckpointManagerOptions.single_host_load_and_broadcast=True` "
        "requires `step_name_format.single_host_load_and_broadcast` to be set "
        "to True.");
  }
  if (format_broadcasts && !options.single_host_load_and_broadcast) {
    return InvalidArgumentError(
        "`step_name_format.single_host_load_and_broadcast=True` but "
        "`CheckpointManagerOptions.single_host_load_and_broadcast=False`. "
        "Please set "
        "CheckpointManagerOptions.single_host_load_and_broadcast=True.");
  }
  return Status();
}

Status CheckValues(const CheckpointManagerOptions& options) {
  if (options.best_mode != "min" && options.best_mode != "max") {
    return InvalidArgumentError(
        "`CheckpointManagerOptions.best_mode` must be one of None, 'min' or "
        "'max'. Got " +
        options.best_mode + ".");
  }
  if (!options.preservation_policy && options.max_to_keep &&
      *options.max_to_keep < 0) {
    return InvalidArgumentError(
        "Setting of `max_to_keep` must be None or non-negative.");
  }
  return Status();
}

Status CheckDeletion(const CheckpointManagerOptions& options) {
  if (options.todelete_subdir && options.todelete_full_path) {
    return InvalidArgumentError(
        "todelete_subdir and todelete_full_path both cannot be set togther");
  }
  if (options.enable_per_process_directory_creation &&
      options.multiprocessing_options.primary_host) {
    return InvalidArgumentError(
        "enable_per_process_directory_creation can only be used when "
        "primary_host is None.");
  }
  return Status();
}

// Refuses at once what Orbax would refuse only after it has saved a step.
Status CheckPolicies(const std::string& directory,
                     const CheckpointManagerOptions& options) {
  if (options.todelete_full_path && UrlScheme(directory) != "gs") {
    return UnimplementedError(
        "todelete_full_path: only where steps are on Google Cloud Storage");
  }
  if (options.keep_period == 0) {
    return InvalidArgumentError("keep_period: interval_steps must not be 0.");
  }
  const bool is_shared = options.multiprocessing_options.group != nullptr &&
                         options.multiprocessing_options.group->size() > 1;
  if (is_shared && options.decision_group == nullptr &&
      options.save_decision_policy &&
      IsContinuous(*options.save_decision_policy)) {
    return InvalidArgumentError(
        "ContinuousCheckpointingPolicy needs, with several processes, a "
        "decision_group");
  }
  return Status();
}

template <typename T>
void TakeAway(T& option, T value, bool is_set, const std::string& text,
              const CheckpointManagerOptions& options) {
  if (!is_set) return;
  option = std::move(value);
  if (options.warn) {
    options.warn("CheckpointManagerOptions.read_only=True, setting " + text +
                 ".");
  }
}

void MakeReadOnly(CheckpointManagerOptions& o) {
  TakeAway(o.save_interval_steps, std::optional<int64_t>(0),
           o.save_interval_steps.value_or(0) > 0, "save_interval_steps=0", o);
  TakeAway(o.max_to_keep, std::optional<int64_t>(), o.max_to_keep.has_value(),
           "max_to_keep=None", o);
  TakeAway(o.keep_time_interval_seconds, std::optional<double>(),
           o.keep_time_interval_seconds.has_value(), "keep_time_interval=None",
           o);
  TakeAway(o.keep_period, std::optional<int64_t>(), o.keep_period.has_value(),
           "keep_period=None", o);
  TakeAway(o.create, false, o.create, "create=False", o);
  TakeAway(o.cleanup_tmp_directories, false, o.cleanup_tmp_directories,
           "cleanup_tmp_directories=False", o);
  TakeAway(o.save_on_steps, {}, !o.save_on_steps.empty(), "save_on_steps=None",
           o);
  TakeAway(o.todelete_subdir, std::optional<std::string>(),
           o.todelete_subdir.has_value(), "todelete_subdir=None", o);
  TakeAway(o.todelete_full_path, std::optional<std::string>(),
           o.todelete_full_path.has_value(), "todelete_full_path=None", o);
  TakeAway(o.should_save_fn, {}, static_cast<bool>(o.should_save_fn),
           "should_save_fn=None", o);
}

}  // namespace

Result<CheckpointManagerOptions> CheckedManagerOptions(
    CheckpointManagerOptions options) {
  HF_RETURN_IF_ERROR(CheckNameFormat(options));
  HF_RETURN_IF_ERROR(CheckValues(options));
  if (options.read_only) MakeReadOnly(options);
  HF_RETURN_IF_ERROR(CheckDeletion(options));
  return options;
}

Result<CheckpointManagerOptions> ResolveOptions(
    const std::string& directory, CheckpointManagerOptions options) {
  HF_ASSIGN_OR_RETURN(options, CheckedManagerOptions(std::move(options)));
  HF_RETURN_IF_ERROR(CheckPolicies(directory, options));
  return options;
}

Status CheckItems(const ManagerItems& items) {
  if (items.item_names && items.default_item_handler != nullptr) {
    return InvalidArgumentError(
        "`item_handlers` in default item mode and `item_names` should not be "
        "provided together.");
  }
  const bool has_handlers =
      items.default_item_handler != nullptr || !items.item_handlers.empty();
  if (has_handlers && items.handler_registry != nullptr) {
    return InvalidArgumentError(
        "`item_handlers` and `handler_registry` are mutually exclusive - "
        "prefer configuring the handler registry.");
  }
  if (items.item_names && items.handler_registry != nullptr) {
    return InvalidArgumentError(
        "`item_names` and `handler_registry` are mutually exclusive - prefer "
        "configuring the handler registry.");
  }
  return Status();
}

SaveDecisionPolicy SavePolicyOf(const CheckpointManagerOptions& options) {
  if (options.save_decision_policy) return *options.save_decision_policy;
  AnySavePolicy any;
  if (options.should_save_fn) {
    any.policies.push_back(CustomSavePolicy{
        [fn = options.should_save_fn](const StepRecord& step,
                                      std::span<const StepRecord> previous,
                                      const DecisionContext&) {
          return fn(step.step, previous.empty()
                                   ? std::nullopt
                                   : std::optional(previous.back().step));
        }});
    any.policies.push_back(PreemptionCheckpointingPolicy{});
    return any;
  }
  if (options.save_interval_steps) {
    any.policies.push_back(FixedIntervalPolicy{*options.save_interval_steps});
  }
  any.policies.push_back(SpecificStepsPolicy{options.save_on_steps});
  any.policies.push_back(PreemptionCheckpointingPolicy{});
  any.policies.push_back(InitialSavePolicy{});
  return any;
}

Result<PreservationPolicy> PreservationPolicyOf(
    const CheckpointManagerOptions& options) {
  if (options.preservation_policy &&
      (options.keep_time_interval_seconds.value_or(0) != 0 ||
       options.max_to_keep.value_or(0) != 0 ||
       options.keep_period.value_or(0) != 0)) {
    return InvalidArgumentError(
        "`preservation_policy` and `delete options` are mutually exclusive - "
        "do not use together.");
  }
  if (options.preservation_policy) return *options.preservation_policy;
  AnyPreservationPolicy any;
  if (options.keep_period) {
    any.policies.push_back(EveryNSteps{*options.keep_period});
  }
  if (options.keep_time_interval_seconds) {
    any.policies.push_back(
        EveryNSeconds{std::trunc(*options.keep_time_interval_seconds)});
  }
  if (options.best_fn) {
    any.policies.push_back(BestN{options.best_fn, options.best_mode == "min",
                                 options.max_to_keep,
                                 options.keep_checkpoints_without_metrics});
  } else {
    any.policies.push_back(LatestN{options.max_to_keep});
  }
  return PreservationPolicy(std::move(any));
}

std::shared_ptr<const StepNameFormat> NameFormatOf(
    const CheckpointManagerOptions& options) {
  if (options.step_name_format != nullptr) return options.step_name_format;
  return StandardNameFormat(
      {options.step_prefix, options.step_format_fixed_length,
       options.single_host_load_and_broadcast, options.committed_by});
}

bool IsContinuous(const SaveDecisionPolicy& policy) {
  if (std::holds_alternative<ContinuousCheckpointingPolicy>(policy.rule)) {
    return true;
  }
  const auto* any = std::get_if<AnySavePolicy>(&policy.rule);
  return any != nullptr &&
         std::any_of(any->policies.begin(), any->policies.end(), IsContinuous);
}

}  // namespace holdfast
