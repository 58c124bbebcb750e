#include "cli/goodput_flags.h"

namespace holdfast::cli {

Status ApplyLostShare(std::string_view value, Args* args) {
  const auto share = ParseNumber(value);
  if (!share || *share < 0 || *share > 1) {
    return Unwanted(value, "want a number from 0 to 1");
  }
  args->goodput.lost_share = *share;
  return Status();
}

Status ApplyBudget(std::string_view value, Args* args) {
  const Result<uint64_t> bytes = ParseBytes(value);
  if (!bytes.ok()) return bytes.status();
  args->budget_bytes = *bytes;
  return Status();
}

}  // namespace holdfast::cli
