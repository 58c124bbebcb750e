// Does a part of a training run with holdfast's CheckpointManager. Real Orbax
// began the run, or will continue it.
//
//   manager_steps ROOT FIRST COUNT MAX_TO_KEEP KEEP_PERIOD BEST_MODE
//     PREFIX
//
// Restores the latest step, if any, then saves COUNT steps from FIRST on and
// adds 1 to `w` for each. 0, "none" and "" leave an option unset. Prints one
// line of JSON: the final list of steps, the best step, and `w`.
#include <holdfast/holdfast.h>
#include <holdfast/orbax/orbax.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace holdfast {
namespace {

// Must be the same function as `loss` in run_managers.py.
double LossOf(int64_t step) { return static_cast<double>(step * 37 % 11) / 2; }

CheckpointManagerOptions OptionsOf(char** args) {
  CheckpointManagerOptions options;
  if (std::atoi(args[0]) > 0) options.max_to_keep = std::atoi(args[0]);
  if (std::atoi(args[1]) > 0) options.keep_period = std::atoi(args[1]);
  if (std::string(args[2]) != "none") {
    options.best_fn = MetricNamed("loss");
    options.best_mode = args[2];
  }
  if (*args[3] != '\0') options.step_prefix = args[3];
  return options;
}

Tree StateOf(double w) {
  return Tree::Dict({{"w", Array::FromBytes(DType::kFloat64, {1}, &w)}});
}

Status Train(CheckpointManager& manager, int64_t first, int64_t count,
             double& w) {
  if (manager.LatestStep()) {
    const auto state = manager.Restore(std::nullopt);
    if (!state.ok()) return state.status();
    const Array& array = state->FindPath({"w"})->array();
    w = *reinterpret_cast<const double*>(array.view().data);
  }
  for (int64_t step = first; step < first + count; ++step) {
    w += 1;
    ManagerSaveOptions options;
    options.metrics = Tree::Dict({{"loss", LossOf(step)}});
    const StandardSave args(StateOf(w));
    const auto saved = manager.Save(step, args, options);
    if (!saved.ok()) return saved.status();
  }
  return manager.WaitUntilFinished();
}

int Run(char** args) {
  auto manager = CheckpointManager::Make(args[0], OptionsOf(args + 3));
  Status status = manager.ok() ? Status() : manager.status();
  double w = 0;
  if (manager.ok()) {
    status = Train(**manager, std::atoll(args[1]), std::atoll(args[2]), w);
  }
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    return 1;
  }
  std::string steps;
  for (const int64_t step : (*manager)->AllSteps()) {
    steps += (steps.empty() ? "" : ", ") + std::to_string(step);
  }
  std::printf("{\"steps\": [%s], \"best\": %lld, \"w\": %g}\n", steps.c_str(),
              static_cast<long long>((*manager)->BestStep().value_or(-1)), w);
  return (*manager)->Close().ok() ? 0 : 1;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fprintf(stderr,
                 "usage: %s ROOT FIRST COUNT MAX_TO_KEEP KEEP_PERIOD "
                 "BEST_MODE PREFIX\n",
                 argv[0]);
    return 2;
  }
  return holdfast::Run(argv + 1);
}
