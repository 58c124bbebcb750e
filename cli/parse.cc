#include "cli/parse.h"

#include <algorithm>

#include "cli/flags.h"
#include "cli/units.h"

namespace holdfast::cli {
namespace {

std::string DidYouMean(std::string_view prefix, std::string_view nearest) {
  if (nearest.empty()) return "";
  return " (did you mean " + std::string(prefix) + std::string(nearest) + "?)";
}

Status UnknownFlag(std::string_view name, const std::optional<VerbId>& verb) {
  std::vector<std::string_view> names;
  for (const Flag& flag : AllFlags()) {
    if (!verb || Applies(flag, *verb)) names.push_back(flag.name);
  }
  return InvalidArgumentError("unknown option " +
                              Quoted("--" + std::string(name)) +
                              DidYouMean("--", Nearest(name, names)));
}

Status UnknownVerb(std::string_view name) {
  if (name == "check") {  // in python/holdfast/_check.py
    return InvalidArgumentError(
        "check imports your program, which needs Python: python3 -m holdfast "
        "check PATH --target MODULE:FUNCTION");
  }
  std::vector<std::string_view> names;
  for (const Verb& verb : AllVerbs()) names.push_back(verb.name);
  return InvalidArgumentError("unknown verb " + Quoted(name) +
                              DidYouMean("", Nearest(name, names)));
}

class Parser {
 public:
  explicit Parser(const std::vector<std::string>& words) : words_(words) {}

  Result<Args> Run() {
    while (next_ < words_.size()) {
      const Status status = TakeWord(words_[next_++]);
      if (!status.ok()) return status;
    }
    const Status status = CheckVerb();
    if (!status.ok()) return status;
    return args_;
  }

 private:
  Status TakeWord(std::string_view word) {
    if (!only_operands_ && word == "--") {
      only_operands_ = true;
      return Status();
    }
    if (only_operands_ || word.size() < 2 || word[0] != '-') {
      return TakeOperand(word);
    }
    if (word[1] == '-') return TakeLong(word.substr(2));
    return TakeShort(word.substr(1));
  }

  Status TakeOperand(std::string_view word) {
    if (args_.verb) {
      args_.operands.emplace_back(word);
      return Status();
    }
    const Verb* verb = FindVerb(word);
    if (verb == nullptr) return UnknownVerb(word);
    args_.verb = verb->id;
    return Status();
  }

  Status TakeLong(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) return UnknownFlag(name, args_.verb);
    if (equals == std::string_view::npos) return TakeValue(*flag);
    if (!flag->takes_value()) {
      return InvalidArgumentError("--" + std::string(name) +
                                  " does not take a value");
    }
    return Apply(*flag, word.substr(equals + 1));
  }

  // Parses the letters after one dash: several switches may share it, and a
  // value may follow without a space.
  Status TakeShort(std::string_view letters) {
    while (!letters.empty()) {
      const Flag* flag = FindShortFlag(letters[0]);
      if (flag == nullptr) {
        return InvalidArgumentError("unknown option " +
                                    Quoted("-" + std::string(letters)));
      }
      letters.remove_prefix(1);
      if (flag->takes_value() && !letters.empty()) {
        return Apply(*flag, letters);
      }
      const Status status = TakeValue(*flag);
      if (!status.ok()) return status;
    }
    return Status();
  }

  // Sets the flag. If it takes a value, the next word is the value.
  Status TakeValue(const Flag& flag) {
    if (!flag.takes_value()) return Apply(flag, "");
    if (next_ == words_.size()) {
      return InvalidArgumentError("--" + std::string(flag.name) +
                                  " needs a value (" +
                                  std::string(flag.value_name) + ")");
    }
    return Apply(flag, words_[next_++]);
  }

  Status Apply(const Flag& flag, std::string_view value) {
    used_.push_back(&flag);
    const Status status = flag.apply(value, &args_);
    const std::string name = "--" + std::string(flag.name);
    const bool is_named =
        status.ok() || status.message().find(name) != std::string_view::npos;
    return is_named ? status : status.WithContext(name);
  }

  Status CheckVerb() const {
    if (args_.help || args_.version) return Status();
    if (!args_.verb) return InvalidArgumentError("no verb given");
    const Verb& verb = VerbOf(*args_.verb);
    for (const Flag* flag : used_) {
      if (Applies(*flag, verb.id)) continue;
      return InvalidArgumentError("--" + std::string(flag->name) +
                                  " is not an option of " + Quoted(verb.name));
    }
    if (!args_.recipe.empty() && !Applies(*FindFlag("reverse"), verb.id)) {
      return InvalidArgumentError(
          "--map: got " + Quoted(args_.recipe) +
          ", want PATTERN=NEW: " + std::string(verb.name) + " takes no recipe");
    }
    if (args_.operands.size() < verb.operand_count_min) {
      return InvalidArgumentError("missing operand: want holdfast " +
                                  std::string(verb.name) + " " +
                                  std::string(verb.operands));
    }
    if (args_.operands.size() > verb.operand_count_max) {
      return InvalidArgumentError(
          "unexpected operand " +
          Quoted(args_.operands[verb.operand_count_max]));
    }
    return Status();
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  bool only_operands_ = false;
  std::vector<const Flag*> used_;
  Args args_;
};

}  // namespace

Result<Args> ParseArgs(const std::vector<std::string>& words) {
  return Parser(words).Run();
}

size_t EditDistance(std::string_view a, std::string_view b) {
  // Three rows of the optimal string alignment table: the row before last, the
  // last row, and the current one.
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1),
      row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, change});
      const bool swapped =
          i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last[b.size()];
}

std::string_view Nearest(std::string_view word,
                         const std::vector<std::string_view>& candidates) {
  std::string_view nearest;
  // A distance above a third of the letters means another word, not a typing
  // error.
  size_t distance_max = std::max<size_t>(1, (word.size() + 1) / 3);
  for (const std::string_view candidate : candidates) {
    // The distance is at least the difference of the lengths.
    const size_t longer = std::max(word.size(), candidate.size());
    const size_t shorter = std::min(word.size(), candidate.size());
    if (longer - shorter > distance_max) continue;
    const size_t distance = EditDistance(word, candidate);
    if (distance > distance_max) continue;
    if (!nearest.empty() && distance == distance_max) continue;
    nearest = candidate;
    distance_max = distance;
  }
  return nearest;
}

}  // namespace holdfast::cli
