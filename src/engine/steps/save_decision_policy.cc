#include "holdfast/steps/save_decision_policy.h"

#include "engine/steps/step_scan.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

struct SaveDecider {
  const StepRecord& step;
  std::span<const StepRecord> previous;
  const DecisionContext& context;

  Result<bool> operator()(const FixedIntervalPolicy& policy) const {
    if (policy.interval == 0) {
      return InvalidArgumentError("save interval of 0 steps");
    }
    return step.step % policy.interval == 0;
  }

  Result<bool> operator()(const SpecificStepsPolicy& policy) const {
    return policy.steps.contains(step.step);
  }

  Result<bool> operator()(const ContinuousCheckpointingPolicy& policy) const {
    if (context.is_saving_in_progress) return false;
    if (previous.empty() || !policy.minimum_interval_secs) return true;
    const double passed_ns =
        static_cast<double>(step.time_ns - previous.back().time_ns);
    return passed_ns >=
           *policy.minimum_interval_secs * static_cast<double>(kNsASecond);
  }

  Result<bool> operator()(const PreemptionCheckpointingPolicy&) const {
    return context.reached_preemption;
  }

  Result<bool> operator()(const InitialSavePolicy&) const {
    return previous.empty();
  }

  Result<bool> operator()(const CustomSavePolicy& policy) const {
    return policy.should_save(step, previous, context);
  }

  Result<bool> operator()(const AnySavePolicy& any) const {
    for (const SaveDecisionPolicy& policy : any.policies) {
      HF_ASSIGN_OR_RETURN(const bool is_wanted, std::visit(*this, policy.rule));
      if (is_wanted) return true;
    }
    return false;
  }
};

}  // namespace

Result<bool> ShouldSave(const SaveDecisionPolicy& policy,
                        const StepRecord& step,
                        std::span<const StepRecord> previous,
                        const DecisionContext& context) {
  return std::visit(SaveDecider{step, previous, context}, policy.rule);
}

}  // namespace holdfast
