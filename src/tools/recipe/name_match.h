// Matches names with placeholders against the names of leaves.
//
// Thread-safety: const methods may run concurrently.
// Errors: those of Regex.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ground/names/regex.h"
#include "tools/recipe/rules.h"

namespace holdfast {

// The strings that are a placeholder's possible values. The values of a
// placeholder that is not listed are integers.
using PlaceholderTexts = std::map<std::string, std::vector<std::string>>;

inline constexpr size_t kTargetNameBytesMax = 65536;

class NameMatcher {
 public:
  static Result<NameMatcher> Make(const NameTemplate& name,
                                  const PlaceholderTexts& texts);

  // Returns the values of the placeholders, in the order of `order`: integers,
  // or indices into the placeholder's strings.
  Result<std::optional<std::vector<int64_t>>> Match(
      std::string_view leaf, const std::vector<std::string>& order) const;

 private:
  NameMatcher(std::string prefix, std::string suffix, Regex regex,
              std::vector<std::string> placeholders,
              const PlaceholderTexts& texts)
      : prefix_(std::move(prefix)),
        suffix_(std::move(suffix)),
        regex_(std::move(regex)),
        placeholders_(std::move(placeholders)),
        texts_(&texts) {}

  // The text before the first placeholder and after the last one. Checked
  // before the regex, because most names differ there.
  std::string prefix_, suffix_;
  Regex regex_;
  std::vector<std::string> placeholders_;
  const PlaceholderTexts* texts_;  // borrowed
};

// Returns the keys of the name with each placeholder replaced by its value.
// REQUIRES: `values` has a value for each placeholder.
std::vector<std::string> KeysOf(const NameTemplate& name,
                                const PlaceholderTexts& texts,
                                const std::map<std::string, int64_t>& values);

// Splits a name at dots; `\.` is a dot inside a key. Returns InvalidArgument
// for an empty key, and for a name longer than kTargetNameBytesMax.
Result<std::vector<std::string>> SplitKeys(std::string_view name);

}  // namespace holdfast
