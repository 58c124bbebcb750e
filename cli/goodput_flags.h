// Stores the values of goodput's options: each function has the contract of
// Flag::apply.
//
// Thread-safety: pure functions. Errors: InvalidArgument, with what is
// expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/args.h"
#include "cli/units.h"
#include "holdfast/status.h"

namespace holdfast::cli {

// Returns the error for a bad value. The parser adds the option's name.
inline Status Unwanted(std::string_view value, std::string_view wanted) {
  return InvalidArgumentError("got '" + std::string(value) + "', " +
                              std::string(wanted));
}

template <double GoodputModel::*field>
Status ApplyModelBytes(std::string_view value, Args* args) {
  const Result<uint64_t> bytes = ParseBytes(value);
  if (!bytes.ok()) return bytes.status();
  args->goodput.*field = static_cast<double>(*bytes);
  return Status();
}

template <double GoodputModel::*field>
Status ApplyModelSeconds(std::string_view value, Args* args) {
  const auto seconds = ParseSeconds(value);
  if (!seconds) {
    return Unwanted(value, "want a number with s, m, h, d or w");
  }
  args->goodput.*field = *seconds;
  return Status();
}

template <int64_t GoodputModel::*field>
Status ApplyModelCount(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 1, 65'536);
  if (!count) return Unwanted(value, "want a number from 1 to 65536");
  args->goodput.*field = *count;
  return Status();
}

template <int64_t GoodputPolicy::*field>
Status ApplyPolicy(std::string_view value, Args* args) {
  const auto count = ParseInt(value, 0, 1'000'000'000);
  if (!count) return Unwanted(value, "want a number >= 0");
  args->policy.*field = *count;
  return Status();
}

Status ApplyLostShare(std::string_view value, Args* args);
Status ApplyBudget(std::string_view value, Args* args);

}  // namespace holdfast::cli
