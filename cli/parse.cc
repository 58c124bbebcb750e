#include "cli/parse.h"

#include <algorithm>
#include <limits>

#include "cli/flags.h"
#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr int64_t kCountMax = std::numeric_limits<int64_t>::max();

std::string DidYouMean(std::string_view prefix, std::string_view nearest) {
  if (nearest.empty()) return "";
  return " (did you mean " + std::string(prefix) + std::string(nearest) + "?)";
}

Status UnknownFlag(std::string_view name, const Verb* verb) {
  std::vector<std::string_view> names;
  for (const Flag& flag : AllFlags()) {
    if (verb == nullptr || Applies(flag, *verb)) names.push_back(flag.name);
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

  Result<Words> Run() {
    while (next_ < words_.size()) {
      const Status status = TakeWord(words_[next_++]);
      if (!status.ok()) return status;
    }
    const Status status = CheckVerb();
    if (!status.ok()) return status;
    return parsed_;
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
    if (parsed_.verb != nullptr) {
      parsed_.operands.emplace_back(word);
      return Status();
    }
    parsed_.verb = FindVerb(word);
    return parsed_.verb == nullptr ? UnknownVerb(word) : Status();
  }

  Status TakeLong(std::string_view word) {
    const size_t equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const Flag* flag = FindFlag(name);
    if (flag == nullptr) return UnknownFlag(name, parsed_.verb);
    if (equals == std::string_view::npos) return TakeValue(*flag);
    if (!flag->takes_value()) {
      return InvalidArgumentError("--" + std::string(name) +
                                  " does not take a value");
    }
    return Take(*flag, word.substr(equals + 1));
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
        return Take(*flag, letters);
      }
      const Status status = TakeValue(*flag);
      if (!status.ok()) return status;
    }
    return Status();
  }

  // Takes the flag. If it has a value, that is the next word.
  Status TakeValue(const Flag& flag) {
    if (!flag.takes_value()) return Take(flag, "");
    if (next_ == words_.size()) {
      return InvalidArgumentError("--" + std::string(flag.name) +
                                  " needs a value (" +
                                  std::string(flag.value_name) + ")");
    }
    return Take(flag, words_[next_++]);
  }

  Status Take(const Flag& flag, std::string_view value) {
    parsed_.options.push_back({&flag, std::string(value)});
    return Status();
  }

  Status CheckVerb() const {
    if (parsed_.Has("help") || parsed_.Has("version")) return Status();
    if (parsed_.verb == nullptr) return InvalidArgumentError("no verb given");
    const Verb& verb = *parsed_.verb;
    for (const Typed& typed : parsed_.options) {
      if (Applies(*typed.flag, verb)) continue;
      return InvalidArgumentError("--" + std::string(typed.flag->name) +
                                  " is not an option of " + Quoted(verb.name));
    }
    return CheckOperands(verb);
  }

  Status CheckOperands(const Verb& verb) const {
    const std::vector<std::string>& operands = parsed_.operands;
    const std::vector<std::string_view> bounds = Lines(verb.operand_count);
    const auto least = ParseInt(bounds[0], 0, kCountMax);
    const auto most = ParseInt(bounds[1], 0, kCountMax).value_or(kCountMax);
    const auto count = static_cast<int64_t>(operands.size());
    if (count < *least) {
      return InvalidArgumentError("missing operand: want holdfast " +
                                  std::string(verb.name) + " " +
                                  std::string(verb.operands));
    }
    if (count > most) {
      return InvalidArgumentError("unexpected operand " +
                                  Quoted(operands[static_cast<size_t>(most)]));
    }
    return Status();
  }

  const std::vector<std::string>& words_;
  size_t next_ = 0;
  bool only_operands_ = false;
  Words parsed_;
};

}  // namespace

Result<Words> ParseWords(const std::vector<std::string>& words) {
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
