#include "cli/layout_text.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kNotCut = "None";

Status Wrong(std::string_view what, std::string_view text,
             std::string_view wanted) {
  return InvalidArgumentError(std::string(what) + ": got '" +
                              std::string(text) + "', want " +
                              std::string(wanted));
}

}  // namespace

Result<Mesh> ParseMesh(std::string_view text) {
  constexpr std::string_view kWanted =
      "axes and their sizes, such as data=4,model=2";
  Mesh mesh;
  for (const std::string_view part : Split(text, ',')) {
    const size_t equals = part.find('=');
    if (equals == 0 || equals == std::string_view::npos) {
      return Wrong("mesh", text, kWanted);
    }
    const auto extent = ParseInt(part.substr(equals + 1), 1,
                                 std::numeric_limits<int64_t>::max());
    if (!extent) return Wrong("mesh", text, kWanted);
    mesh.axis_names.emplace_back(part.substr(0, equals));
    mesh.shape.push_back(*extent);
  }
  std::vector<std::string> names = mesh.axis_names;
  std::sort(names.begin(), names.end());
  if (std::adjacent_find(names.begin(), names.end()) != names.end()) {
    return Wrong("mesh", text, "each axis once");
  }
  return mesh;
}

Result<SpecRule> ParseSpecRule(std::string_view text) {
  SpecRule rule;
  const size_t equals = text.rfind('=');
  if (equals != std::string_view::npos) {
    rule.pattern = text.substr(0, equals);
    text.remove_prefix(equals + 1);
  }
  if (text.empty()) return rule;
  for (const std::string_view entry : Split(text, ',')) {
    std::vector<std::string>& axes = rule.spec.emplace_back();
    if (entry == kNotCut) continue;
    for (const std::string_view axis : Split(entry, '+')) {
      if (axis.empty() || axis == kNotCut) {
        return Wrong("spec", text,
                     "an axis, axes joined by '+', or None for each dimension, "
                     "such as data,None");
      }
      axes.emplace_back(axis);
    }
  }
  return rule;
}

std::string SpecText(const PartitionSpec& spec) {
  if (spec.empty()) return "-";
  std::string text;
  for (const std::vector<std::string>& entry : spec) {
    if (!text.empty()) text += ',';
    if (entry.empty()) text += kNotCut;
    for (size_t i = 0; i < entry.size(); ++i) {
      text += (i > 0 ? "+" : "") + entry[i];
    }
  }
  return PrintableText(text);
}

std::string BoxText(const Shape& origin, const Shape& shape) {
  std::string text = "[";
  for (size_t d = 0; d < shape.size(); ++d) {
    text += (d > 0 ? "," : "") + std::to_string(origin[d]) + ":" +
            std::to_string(origin[d] + shape[d]);
  }
  return text + "]";
}

}  // namespace holdfast::cli
