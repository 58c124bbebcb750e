// Names of steps in the trash of a root: `<name>.<nanoseconds>`, followed by
// ".removing" if the step must not be restored.
//
// Thread-safety: any thread. Units: nanoseconds since 1970-01-01 UTC.
// Errors: none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

struct TrashName {
  std::string name;  // of the step's directory
  int64_t time_ns = 0;
  bool is_being_removed = false;
};

std::string TrashNameText(const TrashName& name);
// Returns nullopt for names made by others: such entries are never touched.
std::optional<TrashName> ParseTrashName(std::string_view text);

std::string TrashPath(const std::string& root);

}  // namespace holdfast
