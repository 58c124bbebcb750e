#include "orbax/pytree/processes.h"

#include <numeric>

namespace holdfast {

Processes::Processes(const MultiprocessingOptions& options)
    : prefix_(options.barrier_sync_key_prefix.value_or("")) {
  if (!prefix_.empty()) prefix_ += '_';  // as in Orbax
  if (options.group == nullptr || options.group->size() == 1) return;
  group_ = options.group;
  rank_ = group_->rank();
  is_alone_ = !options.primary_host;
  is_primary_ = is_alone_ || *options.primary_host == rank_;
  if (is_alone_) {
    ranks_ = {rank_};
  } else if (options.active_processes) {
    ranks_.assign(options.active_processes->begin(),
                  options.active_processes->end());
    subgroup_ = group_->Subgroup(ranks_, prefix_ + "active_processes");
    group_ = subgroup_.get();
  } else {
    ranks_.resize(group_->size());
    std::iota(ranks_.begin(), ranks_.end(), int64_t{0});
  }
}

ProcessPart Processes::part() const { return {rank_, is_primary_, "", ""}; }

Status Processes::Agree(std::string_view phase, const std::string& directory,
                        const Status& mine) {
  if (is_alone_) return mine;
  const std::string name = prefix_ + std::string(phase);
  return group_->Agree({name, directory}, mine);
}

void Processes::Describe(FinishItemOptions& options) const {
  options.ranks = ranks_;
  options.is_partial = is_alone_;
}

}  // namespace holdfast
