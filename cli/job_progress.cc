#include "cli/job_progress.h"

namespace holdfast::cli {

JobProgress::JobProgress(const Args& args, Env& env, const Options& options,
                         RunOptions& run) {
  const bool is_silent = options.group != nullptr && options.group->rank() > 0;
  if (is_silent || !UseProgress(args, env)) return;
  bar_.emplace(
      env.err, env.now_seconds,
      ProgressBar::Options{.label = options.label, .columns = env.columns});
  run.progress = [this, last = options.last_phase](const Progress& progress) {
    const uint64_t before =
        !last.empty() && progress.phase == last ? progress.total_bytes : 0;
    bar_->Update(before + progress.done_bytes,
                 progress.total_bytes * (last.empty() ? 1 : 2));
  };
}

}  // namespace holdfast::cli
