#include <algorithm>
#include <charconv>
#include <map>
#include <utility>

#include "base/status_macros.h"
#include "holdfast/sharding.h"
#include "shard/mesh_check.h"

namespace holdfast {
namespace {

// The digits that end the name, before any "(process=0,...)".
int64_t DeviceNumber(const std::string& device_str) {
  const std::string_view name =
      std::string_view(device_str).substr(0, device_str.find('('));
  const size_t last = name.find_last_not_of("0123456789");
  const size_t first = last == std::string_view::npos ? 0 : last + 1;
  int64_t number = 0;
  std::from_chars(name.data() + first, name.data() + name.size(), number);
  return number;
}

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

// The place of an axis in the mesh.
Result<size_t> FindAxis(const NamedSharding& sharding,
                        const std::string& axis) {
  const std::vector<std::string>& names = sharding.mesh.axis_names;
  const auto found = std::find(names.begin(), names.end(), axis);
  if (found != names.end()) return found - names.begin();
  return InvalidArgumentError(
      "Resource axis: " + axis + " of " + SpecText(sharding.spec) +
      " is not found in mesh: " + PythonTuple(names) + ".");
}

// The axes that cut each dimension of the spec, by their places in the mesh.
Result<std::vector<std::vector<size_t>>> AxesOf(const NamedSharding& sharding) {
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

std::string TilingText(const Shape& parts) {
  std::string text = "[";
  for (size_t d = 0; d < parts.size(); ++d) {
    text += (d > 0 ? ", " : "") + std::to_string(parts[d]);
  }
  return text + "]";
}

// The number of parts of each dimension of the array.
Result<Shape> PartsOf(const NamedSharding& sharding,
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

// The next place of the mesh in C order.
void Advance(const Shape& shape, Shape& place) {
  for (size_t i = shape.size(); i-- > 0;) {
    if (++place[i] < shape[i]) return;
    place[i] = 0;
  }
}

Result<std::vector<DeviceShard>> BoxesOf(const NamedSharding& sharding,
                                         const Shape& array_shape) {
  const Mesh& mesh = sharding.mesh;
  HF_ASSIGN_OR_RETURN(const int64_t device_count, CheckMesh(mesh));
  HF_ASSIGN_OR_RETURN(const auto axes, AxesOf(sharding));
  HF_ASSIGN_OR_RETURN(const Shape parts, PartsOf(sharding, axes, array_shape));
  std::vector<DeviceShard> shards(device_count);
  std::map<Shape, int64_t> replica_counts;
  Shape place(mesh.shape.size(), 0);
  for (int64_t i = 0; i < device_count; ++i, Advance(mesh.shape, place)) {
    DeviceShard& shard = shards[i];
    shard.device_id = mesh.device_ids.empty() ? i : mesh.device_ids[i];
    shard.origin.assign(array_shape.size(), 0);
    shard.shape = array_shape;
    for (size_t d = 0; d < axes.size(); ++d) {
      int64_t part = 0;
      for (const size_t axis : axes[d]) {
        part = part * mesh.shape[axis] + place[axis];
      }
      shard.shape[d] = array_shape[d] / parts[d];
      shard.origin[d] = part * shard.shape[d];
    }
    shard.replica_id = replica_counts[shard.origin]++;
  }
  return shards;
}

}  // namespace

Result<std::vector<DeviceShard>> ShardBoxes(const Sharding& sharding,
                                            const Shape& array_shape) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) {
    return BoxesOf(*named, array_shape);
  }
  const auto& single = std::get<SingleDeviceSharding>(sharding);
  return std::vector<DeviceShard>{{DeviceNumber(single.device_str), 0,
                                   Shape(array_shape.size(), 0), array_shape}};
}

}  // namespace holdfast
