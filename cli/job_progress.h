// Shows a progress bar while a verb's job runs.
//
// Thread-safety: as in ProgressBar. Ownership: borrows the Env. The job must
// end before the object is destroyed.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cli/args.h"
#include "cli/env.h"
#include "cli/progress_bar.h"
#include "holdfast/options.h"
#include "holdfast/process_group.h"

namespace holdfast::cli {

class JobProgress {
 public:
  struct Options {
    std::string label;  // "verify"
    // The name of the last phase, which is as much work as all phases before
    // it.
    std::string last_phase;
    // Only the group's rank 0 shows a bar. Null means that this process works
    // by itself.
    const ProcessGroup* group = nullptr;
  };

  // Sets run.progress if UseProgress allows a bar.
  JobProgress(const Args& args, Env& env, const Options& options,
              RunOptions& run);
  JobProgress(const JobProgress&) = delete;
  JobProgress& operator=(const JobProgress&) = delete;

 private:
  std::optional<ProgressBar> bar_;
};

}  // namespace holdfast::cli
