// Names in the trash of a root: `<name>.<nanoseconds>`, with ".removing" behind
// it where nobody may bring the step back.
//
// Thread-safety: any thread. Units: nanoseconds since 1970-01-01 UTC.
// Errors: of RemoveTrashed: those of the place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "holdfast/status.h"

namespace holdfast {

struct TrashName {
  std::string name;  // of the step's directory
  int64_t time_ns = 0;
  bool is_being_removed = false;
};

std::string TrashNameText(const TrashName& name);
// nullopt for names that others made: those are never touched.
std::optional<TrashName> ParseTrashName(std::string_view text);

std::string TrashPath(const std::string& root);

// Removes the files of a step in the trash. In a bucket a step keeps its name,
// and another save may write there again: only what is still marked goes.
Status RemoveTrashed(const std::string& path);

}  // namespace holdfast
