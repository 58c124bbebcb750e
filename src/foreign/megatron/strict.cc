#include <algorithm>
#include <array>

#include "foreign/megatron/error.h"
#include "foreign/megatron/python_text.h"
#include "holdfast/megatron/megatron.h"

namespace holdfast::megatron {
namespace {

constexpr std::array<std::string_view, 8> kStrictNames = {
    "assume_ok_unexpected", "log_unexpected", "log_all",
    "raise_unexpected",     "raise_all",      "return_unexpected",
    "return_all",           "ignore_all"};

KeySet Minus(const KeySet& a, const KeySet& b) {
  KeySet rest;
  std::set_difference(a.begin(), a.end(), b.begin(), b.end(),
                      std::inserter(rest, rest.end()), std::less<>());
  return rest;
}

std::string MismatchText(const KeySet& missing, const KeySet& unexpected) {
  std::string text;
  if (!missing.empty()) {
    text +=
        "Some keys found in the checkpoint are missing in the provided sharded "
        "state dict. ";
  }
  if (!unexpected.empty()) {
    text +=
        "Unexpected keys (not found in the checkpoint) encountered in the "
        "provided sharded state dict. ";
  }
  text += "\n";
  if (!missing.empty()) {
    text += "Missing keys (for all ranks): " + PythonSet(missing) + ". ";
  }
  if (!unexpected.empty()) {
    text += "Unexpected keys (for this rank): " + PythonSet(unexpected) + ". ";
  }
  return text;
}

}  // namespace

std::string_view StrictHandlingName(StrictHandling strict) {
  return kStrictNames[static_cast<size_t>(strict)];
}

Result<StrictHandling> ParseStrictFlag(std::string_view name) {
  for (size_t i = 0; i < kStrictNames.size(); ++i) {
    if (kStrictNames[i] == name) return static_cast<StrictHandling>(i);
  }
  return MakeError(StatusCode::kInvalidArgument, "INVALID_STRICT", "ValueError",
                   "Invalid strict flag: " + PythonRepr(name) +
                       " is not a valid StrictHandling");
}

bool NeedsCheckpointKeys(StrictHandling strict) {
  return strict != StrictHandling::kAssumeOkUnexpected;
}

bool NeedsAllRanksKeys(StrictHandling strict) {
  return strict == StrictHandling::kLogAll ||
         strict == StrictHandling::kRaiseAll ||
         strict == StrictHandling::kReturnAll ||
         strict == StrictHandling::kIgnoreAll;
}

bool ReturnsMismatchKeys(StrictHandling strict) {
  return strict == StrictHandling::kReturnUnexpected ||
         strict == StrictHandling::kReturnAll;
}

Result<StrictOutcome> ApplyStrictness(StrictHandling strict,
                                      const KeySet& checkpoint_keys,
                                      const KeySet& this_rank,
                                      const KeySet& all_ranks) {
  StrictOutcome outcome;
  if (!NeedsCheckpointKeys(strict)) return outcome;
  outcome.unexpected = Minus(this_rank, checkpoint_keys);
  if (NeedsAllRanksKeys(strict)) {
    outcome.missing = Minus(checkpoint_keys, all_ranks);
  }
  const bool any = !outcome.unexpected.empty() || !outcome.missing.empty();
  if (any && (strict == StrictHandling::kRaiseUnexpected ||
              strict == StrictHandling::kRaiseAll)) {
    return CheckpointingError(
        StatusCode::kFailedPrecondition, "KEYS_MISMATCH",
        MismatchText(outcome.missing, outcome.unexpected));
  }
  if (any && (strict == StrictHandling::kLogUnexpected ||
              strict == StrictHandling::kLogAll)) {
    outcome.warnings.push_back(
        MismatchText(outcome.missing, outcome.unexpected));
  }
  outcome.dropped = outcome.unexpected;
  return outcome;
}

}  // namespace holdfast::megatron
