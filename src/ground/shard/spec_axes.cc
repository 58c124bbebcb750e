#include "ground/shard/spec_axes.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

std::string PythonTuple(const std::vector<std::string>& words) {
  std::string text = "(";
  for (const std::string& word : words) text += "'" + word + "', ";
  if (!words.empty()) text.pop_back();
  if (words.size() > 1) text.pop_back();
  return text + ")";
}

std::string SpecText(const PartitionSpec& spec) {
  std::string text = "PartitionSpec(";
  for (size_t d = 0; d < spec.size(); ++d) {
    if (d > 0) text += ", ";
    text += spec[d].empty()       ? "None"
            : spec[d].size() == 1 ? "'" + spec[d][0] + "'"
                                  : PythonTuple(spec[d]);
  }
  return text + ")";
}

std::string TilingText(const Shape& parts) {
  std::string text = "[";
  for (size_t d = 0; d < parts.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(parts[d]);
  }
  return text + "]";
}

// Returns the index of an axis in the mesh.
Result<size_t> FindAxis(const NamedSharding& sharding,
                        const std::string& axis) {
  const std::vector<std::string>& names = sharding.mesh.axis_names;
  const auto found = std::find(names.begin(), names.end(), axis);
  if (found != names.end()) return found - names.begin();
  return InvalidArgumentError(
      "Resource axis: " + axis + " of " + SpecText(sharding.spec) +
      " is not found in mesh: " + PythonTuple(names) + ".");
}

}  // namespace

Result<std::vector<std::vector<size_t>>> SpecAxes(
    const NamedSharding& sharding) {
  std::vector<std::vector<size_t>> axes(sharding.spec.size());
  std::vector<bool> is_used(sharding.mesh.axis_names.size());
  for (size_t d = 0; d < sharding.spec.size(); ++d) {
    for (const std::string& name : sharding.spec[d]) {
      HF_ASSIGN_OR_RETURN(const size_t axis, FindAxis(sharding, name));
      if (is_used[axis]) {
        return InvalidArgumentError(
            "A single NamedSharding spec specification can map every mesh axis "
            "to at most one positional dimension, but " +
            SpecText(sharding.spec) + " has duplicate entries for `" + name +
            "`");
      }
      is_used[axis] = true;
      axes[d].push_back(axis);
    }
  }
  return axes;
}

Result<Shape> PartCounts(const NamedSharding& sharding,
                         const std::vector<std::vector<size_t>>& axes,
                         const Shape& array_shape) {
  if (axes.size() > array_shape.size()) {
    return InvalidArgumentError("Sharding " + SpecText(sharding.spec) +
                                " is only valid for values of rank at least " +
                                std::to_string(axes.size()) +
                                ", but was applied to a value of rank " +
                                std::to_string(array_shape.size()));
  }
  Shape parts(array_shape.size(), 1);
  for (size_t d = 0; d < axes.size(); ++d) {
    for (const size_t axis : axes[d]) parts[d] *= sharding.mesh.shape[axis];
  }
  for (size_t d = 0; d < parts.size(); ++d) {
    if (array_shape[d] % parts[d] == 0) continue;
    return InvalidArgumentError(
        "Sharding " + SpecText(sharding.spec) + " implies that array axis " +
        std::to_string(d) + " is partitioned " + std::to_string(parts[d]) +
        " times, but the dimension size is " + std::to_string(array_shape[d]) +
        " (full shape: " + ShapeToString(array_shape) +
        ", per-dimension tiling factors: " + TilingText(parts) +
        " should evenly divide the shape)");
  }
  return parts;
}

int64_t DeviceNumber(const std::string& device_str) {
  const std::string_view name =
      std::string_view(device_str).substr(0, device_str.find('('));
  const size_t last = name.find_last_not_of("0123456789");
  const size_t first = last == std::string_view::npos ? 0 : last + 1;
  int64_t number = 0;
  std::from_chars(name.data() + first, name.data() + name.size(), number);
  return number;
}

}  // namespace holdfast
