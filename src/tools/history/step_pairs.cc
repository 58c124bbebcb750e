#include "tools/history/step_pairs.h"

#include <memory>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

struct OpenedStep {
  Result<std::unique_ptr<Checkpoint>> checkpoint = InternalError("not opened");
  std::string identity;

  const Checkpoint* get() const {
    return checkpoint.ok() ? checkpoint->get() : nullptr;
  }
};

OpenedStep OpenForPair(const std::string& path, const StatsCache* cache) {
  OpenedStep step;
  step.checkpoint = Open(path, {.stored_sizes = false});
  if (step.checkpoint.ok() && cache != nullptr) {
    step.identity = StatsCache::IdentityOf(*step.get());
  }
  return step;
}

Result<DriftResult> DriftOf(const OpenedStep& before, const OpenedStep& now,
                            const RunOptions& run, StatsCache* cache) {
  HF_RETURN_IF_ERROR(before.checkpoint.status());
  HF_RETURN_IF_ERROR(now.checkpoint.status());
  DriftOptions options;
  options.run = run;
  options.cache = cache;
  options.identity_before = before.identity;
  options.identity_now = now.identity;
  return ComputeDrift(*before.get(), *now.get(), options);
}

}  // namespace

Status ForEachStepPair(const std::vector<const StepInfo*>& steps,
                       const RunOptions& run, StatsCache* cache,
                       const std::function<void(const StepPair&)>& on_pair) {
  OpenedStep before;
  for (size_t i = 0; i < steps.size(); ++i) {
    OpenedStep now = OpenForPair(steps[i]->path, cache);
    if (i > 0) {
      const Result<DriftResult> drift = DriftOf(before, now, run, cache);
      if (drift.status().code() == StatusCode::kCancelled) {
        return drift.status();
      }
      on_pair({*steps[i - 1], *steps[i], now.get(), drift});
    }
    before = std::move(now);
  }
  return Status();
}

}  // namespace holdfast
