// A training run that can be stopped and started. Every start continues from
// the latest step. The run keeps the last two steps, and the steps divisible by
// 5.
//
//   example_training_run DIRECTORY STEPS
#include <holdfast/holdfast.h>
#include <holdfast/orbax/orbax.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

int Fail(const holdfast::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

holdfast::Tree StateOf(const std::vector<float>& weights) {
  return holdfast::Tree::Dict({{"w", holdfast::Array::Of(weights)}});
}

std::vector<float> WeightsOf(const holdfast::Tree& state) {
  const auto values = state.FindPath({"w"})->array().As<float>().value();
  return {values.begin(), values.end()};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s DIRECTORY STEPS\n", argv[0]);
    return 2;
  }
  holdfast::CheckpointManagerOptions options;
  options.max_to_keep = 2;
  options.keep_period = 5;
  auto manager = holdfast::CheckpointManager::Make(argv[1], options);
  if (!manager.ok()) return Fail(manager.status());

  std::vector<float> weights = {0, 0, 0};
  const auto latest = (*manager)->LatestStep();
  if (latest) {
    const auto state = (*manager)->Restore(latest);
    if (!state.ok()) return Fail(state.status());
    weights = WeightsOf(*state);
  }
  const int64_t start = latest ? *latest + 1 : 0;
  for (int64_t step = start; step < start + std::atoll(argv[2]); ++step) {
    for (float& weight : weights) weight += 1;
    const holdfast::StandardSave args(StateOf(weights));
    const auto saved = (*manager)->Save(step, args);
    if (!saved.ok()) return Fail(saved.status());
  }
  const holdfast::Status closed = (*manager)->Close();
  if (!closed.ok()) return Fail(closed);

  std::printf("weights are %g, from step %lld on; kept:", weights[0],
              static_cast<long long>(start));
  const auto steps = holdfast::ScanSteps(argv[1]);
  if (!steps.ok()) return Fail(steps.status());
  for (const holdfast::ScannedStep& step : *steps) {
    std::printf(" %lld", static_cast<long long>(step.step));
  }
  std::printf("\n");
  return 0;
}
