// Processes: the processes that save an item together, according to
// MultiprocessingOptions.
//
// Thread-safety: one thread at a time. Ownership: borrows the group.
// Errors: those of ProcessGroup and of FinishItem.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/pending_save.h"
#include "holdfast/process_group.h"

namespace holdfast {

class Processes {
 public:
  // REQUIRES: options that MakePyTreeSettings accepts.
  explicit Processes(const MultiprocessingOptions& options);

  // Returns whether each process writes a part of the item, which FinishItem
  // assembles.
  bool are_many() const { return group_ != nullptr; }
  bool is_primary() const { return is_primary_; }
  ProcessPart part() const;
  // Returns the first failure among the participating processes, or `mine` if
  // each process saves for itself.
  Status Agree(std::string_view phase, const std::string& directory,
               const Status& mine);
  // Sets the options of FinishItem that describe the processes.
  void Describe(FinishItemOptions& options) const;

 private:
  ProcessGroup* group_ = nullptr;  // null: one process
  std::unique_ptr<ProcessGroup> subgroup_;
  std::vector<int64_t> ranks_ = {0};
  int64_t rank_ = 0;
  bool is_primary_ = true;
  bool is_alone_ = true;  // each process saves to its own disk
  std::string prefix_;
};

}  // namespace holdfast
