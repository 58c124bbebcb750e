// The names of LinkKind.
#include <array>
#include <utility>

#include "holdfast/tools/view.h"

namespace holdfast {
namespace {

constexpr std::array<std::pair<LinkKind, std::string_view>, 4> kLinkNames = {
    {{LinkKind::kSymbolic, "symlink"},
     {LinkKind::kHard, "hard"},
     {LinkKind::kReflink, "reflink"},
     {LinkKind::kCopy, "copy"}}};

}  // namespace

std::string_view LinkKindName(LinkKind kind) {
  for (const auto& [known, name] : kLinkNames) {
    if (known == kind) return name;
  }
  return "";
}

std::optional<LinkKind> LinkKindFromName(std::string_view name) {
  for (const auto& [kind, known] : kLinkNames) {
    if (known == name) return kind;
  }
  return std::nullopt;
}

}  // namespace holdfast
