#include "cli/prove_flags.h"

#include <limits>
#include <string>

#include "cli/flag_value.h"
#include "cli/units.h"

namespace holdfast::cli {

Status ApplyRoot(std::string_view value, Args* args) {
  if (value.empty()) return BadValue("root", value, "a directory");
  args->prove.root = value;
  return Status();
}

Status ApplyStates(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, std::numeric_limits<int64_t>::max());
  if (!count) return BadValue("states", value, "a number of states; 0: all");
  args->prove.state_count_max = static_cast<uint64_t>(*count);
  return Status();
}

Status ApplySeed(std::string_view value, Args* args) {
  const auto seed = ParseInt(value, 0, int64_t{1} << 31);
  if (!seed) return BadValue("seed", value, "a number >= 0");
  args->prove.seed = static_cast<uint64_t>(*seed);
  return Status();
}

Status ApplyCheckCommand(std::string_view value, Args* args) {
  if (value.find("{root}") == std::string_view::npos) {
    return BadValue("check", value, "a command with {root}");
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
  if (value.empty()) return BadValue("python", value, "an interpreter");
  args->python = value;
  return Status();
}

}  // namespace holdfast::cli
