// A process group that forwards every call to another one. Tests derive from it
// and override single calls.
//
// Thread-safety, errors: the inner group's. Ownership: borrows it.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/process_group.h"

namespace holdfast {

class ForwardingGroup : public ProcessGroup {
 public:
  explicit ForwardingGroup(ProcessGroup& group) : group_(group) {}

  int64_t rank() const override { return group_.rank(); }
  int64_t size() const override { return group_.size(); }
  Result<std::vector<std::string>> AllGather(const Meeting& meeting,
                                             std::string value) override {
    return group_.AllGather(meeting, std::move(value));
  }
  Result<std::string> Broadcast(const Meeting& meeting, int64_t root,
                                std::string value) override {
    return group_.Broadcast(meeting, root, std::move(value));
  }
  Status Agree(const Meeting& meeting, const Status& mine) override {
    return group_.Agree(meeting, mine);
  }
  std::unique_ptr<ProcessGroup> Subgroup(const std::vector<int64_t>& ranks,
                                         std::string_view name) override {
    return group_.Subgroup(ranks, name);
  }
  void BeginCall() override { group_.BeginCall(); }
  void EndCall(const Status& mine, double wait_seconds_max) override {
    group_.EndCall(mine, wait_seconds_max);
  }
  uint64_t call_number() const override { return group_.call_number(); }
  std::vector<int64_t> failed_ranks() const override {
    return group_.failed_ranks();
  }

 protected:
  ProcessGroup& group_;
};

}  // namespace holdfast
