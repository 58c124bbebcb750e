// The words of a command line, sorted: a verb, its operands, and the options
// with their values, which Fill puts into a verb's own arguments.
//
// The arguments say with `Fields(fn)` which options they take: fn(name, member)
// for each, by the option's name in the table. The member's type and the
// table's row say how a value is parsed; a type of a verb's own brings a Store
// of its own.
//
// Thread-safety: values and pure functions.
// Ownership: borrows the tables of cli/flags.h, which live forever.
// Errors: InvalidArgument that says what is expected.
#pragma once

#include <cassert>
#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/flags.h"
#include "cli/layout_text.h"
#include "cli/when.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/merge.h"
#include "holdfast/tools/view.h"

namespace holdfast::cli {

// Returns "--memory: got 'lots', want a size such as 512M or 2GiB".
Status BadValue(const Flag& flag, std::string_view value);

// Each parses one value of an option. Lists grow with each.
Status Store(const Flag& flag, std::string_view value, bool* member);
Status Store(const Flag& flag, std::string_view value, int64_t* member);
Status Store(const Flag& flag, std::string_view value, double* member);
Status Store(const Flag& flag, std::string_view value, std::string* member);
Status Store(const Flag& flag, std::string_view value,
             std::vector<std::string>* member);
Status Store(const Flag& flag, std::string_view value, When* member);
Status Store(const Flag& flag, std::string_view value, SortKey* member);
Status Store(const Flag& flag, std::string_view value, MissingChunks* member);
Status Store(const Flag& flag, std::string_view value, Format* member);
Status Store(const Flag& flag, std::string_view value, Compression* member);
Status Store(const Flag& flag, std::string_view value, LinkKind* member);
Status Store(const Flag& flag, std::string_view value, MergePrefer* member);
Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Rename>* member);
Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Cast>* member);
Status Store(const Flag& flag, std::string_view value,
             std::vector<LeafMap::Shards>* member);
Status Store(const Flag& flag, std::string_view value, Mesh* member);
Status Store(const Flag& flag, std::string_view value,
             std::vector<SpecRule>* member);
Status Store(const Flag& flag, std::string_view value,
             std::map<std::string, int64_t>* sizes);
// Parses numbers between commas, which replace those before.
Status Store(const Flag& flag, std::string_view value,
             std::vector<double>* member);

// REQUIRES: the row's "min" and "max" fit the type.
template <std::integral Number>
Status Store(const Flag& flag, std::string_view value, Number* member) {
  int64_t number = 0;
  const Status status = Store(flag, value, &number);
  if (status.ok()) *member = static_cast<Number>(number);
  return status;
}

template <typename Value>
Status Store(const Flag& flag, std::string_view value,
             std::optional<Value>* member) {
  return Store(flag, value, &member->emplace());
}

// An option as it was typed.
struct Typed {
  const Flag* flag;
  std::string value;  // empty for a switch
};

struct Words {
  const Verb* verb = nullptr;  // null: only --help or --version were typed
  std::vector<std::string> operands;
  std::vector<Typed> options;  // in the order of the command line

  bool Has(std::string_view option) const {
    for (const Typed& typed : options) {
      if (typed.flag->option == option) return true;
    }
    return false;
  }

  // Sets the operands and the members whose options were typed. Returns
  // Internal for an option that has no member: a mistake of ours, which the
  // test of all options finds.
  template <typename VerbArgs>
  Status Fill(VerbArgs* args) const {
    args->verb = verb;
    args->operands = operands;
    for (const Typed& typed : options) {
      const Flag& flag = *typed.flag;
      Status status =
          InternalError("--" + std::string(flag.name) + ": no member takes it");
      const auto store = [&](std::string_view name, auto& member) {
        assert(IsOption(name));
        if (name == flag.option) status = Store(flag, typed.value, &member);
      };
      args->Fields(store);
      if (!status.ok()) return status;
    }
    return Status();
  }
};

}  // namespace holdfast::cli
