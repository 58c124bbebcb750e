#include "cli/prove_flags.h"

#include <limits>
#include <string>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

Status BadProveValue(std::string_view flag, std::string_view value,
                     std::string_view wanted) {
  return InvalidArgumentError("--" + std::string(flag) + ": got '" +
                              std::string(value) + "', want " +
                              std::string(wanted));
}

}  // namespace

Status ApplyRoot(std::string_view value, Args* args) {
  if (value.empty()) return BadProveValue("root", value, "a directory");
  args->prove.root = value;
  return Status();
}

Status ApplyStates(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, std::numeric_limits<int64_t>::max());
  if (!count)
    return BadProveValue("states", value, "a number of states; 0: all");
  args->prove.state_count_max = static_cast<uint64_t>(*count);
  return Status();
}

Status ApplySeed(std::string_view value, Args* args) {
  const auto seed = ParseInt(value, 0, int64_t{1} << 31);
  if (!seed) return BadProveValue("seed", value, "a number from 0");
  args->prove.seed = static_cast<uint64_t>(*seed);
  return Status();
}

Status ApplyCheckCommand(std::string_view value, Args* args) {
  if (value.find("{root}") == std::string_view::npos) {
    return BadProveValue("check", value, "a command with {root}");
  }
  args->prove.check = value;
  return Status();
}

Status ApplyWithoutSync(std::string_view value, Args* args) {
  args->prove.without_sync.emplace_back(value);
  return Status();
}

Status ApplyLibrary(std::string_view value, Args* args) {
  const auto known = ProveLibraryCommand("", value);
  if (!known.ok()) return known.status().WithContext("--library");
  args->libraries.emplace_back(value);
  return Status();
}

Status ApplyPython(std::string_view value, Args* args) {
  if (value.empty()) return BadProveValue("python", value, "an interpreter");
  args->python = value;
  return Status();
}

}  // namespace holdfast::cli
