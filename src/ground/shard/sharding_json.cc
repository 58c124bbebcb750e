// Reads and writes the text of a sharding in `_sharding`.
// Source: orbax-checkpoint 0.12.8, _src/metadata/sharding.py.
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/shard/mesh_check.h"
#include "holdfast/sharding.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kAxisTypePrefix = "AxisType.";

// Quotes text as json.dumps does: ASCII only.
std::string Quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace);
}

// Returns "[a, b]".
template <typename List, typename ToText>
std::string ListText(const List& list, const ToText& to_text) {
  std::string text = "[";
  for (const auto& element : list) {
    if (text.size() > 1) text += ", ";
    text += to_text(element);
  }
  return text + "]";
}

std::string SpecEntryText(const std::vector<std::string>& axes) {
  if (axes.empty()) return "null";
  return axes.size() == 1 ? Quoted(axes[0]) : ListText(axes, Quoted);
}

std::vector<std::string> AxisTypes(const Mesh& mesh) {
  if (!mesh.axis_types.empty()) return mesh.axis_types;
  return std::vector<std::string>(mesh.shape.size(), "Auto");
}

// Returns the devices as nested lists, starting with device index `next`.
std::string DevicesText(const Mesh& mesh, size_t dim, size_t& next) {
  if (dim == mesh.shape.size()) {
    const size_t i = next++;
    const int64_t id = i < mesh.device_ids.size() ? mesh.device_ids[i]
                                                  : static_cast<int64_t>(i);
    return "{\"id\": " + std::to_string(id) + "}";
  }
  std::string text = "[";
  for (int64_t i = 0; i < mesh.shape[dim]; ++i) {
    if (i > 0) text += ", ";
    text += DevicesText(mesh, dim + 1, next);
  }
  return text + "]";
}

std::string NamedShardingText(const NamedSharding& sharding) {
  const Mesh& mesh = sharding.mesh;
  size_t next = 0;
  return R"({"sharding_type": "NamedSharding", "shape": )" +
         ListText(mesh.shape,
                  [](int64_t extent) { return std::to_string(extent); }) +
         R"(, "axis_names": )" + ListText(mesh.axis_names, Quoted) +
         R"(, "axis_types": )" +
         ListText(AxisTypes(mesh),
                  [](const std::string& type) {
                    return Quoted(std::string(kAxisTypePrefix) + type);
                  }) +
         R"(, "partition_spec": )" + ListText(sharding.spec, SpecEntryText) +
         R"(, "device_mesh": {"mesh": )" + DevicesText(mesh, 0, next) + "}}";
}

Status Malformed(const std::string& what, std::string_view text) {
  return DataLossError("Sharding data not found in deserialized_dict: " + what +
                       " in " + std::string(text.substr(0, 200)));
}

std::optional<std::vector<std::string>> Strings(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  std::vector<std::string> strings;
  for (const Json& element : json) {
    if (!element.is_string()) return std::nullopt;
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

std::optional<Shape> Extents(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  Shape shape;
  for (const Json& extent : json) {
    if (!extent.is_number_integer()) return std::nullopt;
    shape.push_back(extent.get<int64_t>());
  }
  return shape;
}

std::optional<PartitionSpec> Spec(const Json& json) {
  if (!json.is_array()) return std::nullopt;
  PartitionSpec spec;
  for (const Json& entry : json) {
    std::optional<std::vector<std::string>> axes =
        entry.is_null()     ? std::vector<std::string>()
        : entry.is_string() ? std::vector<std::string>{entry.get<std::string>()}
                            : Strings(entry);
    if (!axes) return std::nullopt;
    spec.push_back(*std::move(axes));
  }
  return spec;
}

// Reads nested lists of {"id": n} of any shape: only the ids and their count
// matter.
bool AddDevices(const Json& json, size_t depth, std::vector<int64_t>& ids) {
  if (json.is_object()) {
    const auto id = json.find("id");
    if (id == json.end() || !id->is_number_integer()) return false;
    ids.push_back(id->get<int64_t>());
    return true;
  }
  if (!json.is_array() || depth == 0) return false;
  for (const Json& element : json) {
    if (!AddDevices(element, depth - 1, ids)) return false;
  }
  return true;
}

bool ReadAxisTypes(const Json& json, Mesh& mesh) {
  const auto found = json.find("axis_types");
  if (found == json.end() || found->is_null()) return true;
  std::optional<std::vector<std::string>> types = Strings(*found);
  if (!types) return false;
  for (const std::string& type : *types) {
    if (!type.starts_with(kAxisTypePrefix)) return false;
    mesh.axis_types.push_back(type.substr(kAxisTypePrefix.size()));
  }
  return true;
}

bool ReadDevices(const Json& json, Mesh& mesh) {
  const auto found = json.find("device_mesh");
  if (found == json.end() || found->is_null()) return true;
  return found->is_object() && found->contains("mesh") &&
         AddDevices((*found)["mesh"], mesh.shape.size(), mesh.device_ids);
}

Result<Sharding> ReadNamed(const Json& json, std::string_view text) {
  for (const char* member : {"shape", "axis_names", "partition_spec"}) {
    if (!json.contains(member)) return Malformed(member, text);
  }
  NamedSharding sharding;
  std::optional<Shape> shape = Extents(json["shape"]);
  if (!shape) return Malformed("shape", text);
  sharding.mesh.shape = *std::move(shape);
  auto names = Strings(json["axis_names"]);
  if (!names) return Malformed("axis_names", text);
  sharding.mesh.axis_names = *std::move(names);
  auto spec = Spec(json["partition_spec"]);
  if (!spec) return Malformed("partition_spec", text);
  sharding.spec = *std::move(spec);
  if (!ReadAxisTypes(json, sharding.mesh)) return Malformed("axis_types", text);
  if (!ReadDevices(json, sharding.mesh)) return Malformed("device_mesh", text);
  const Status checked = CheckMesh(sharding.mesh).status();
  if (!checked.ok()) return Malformed(std::string(checked.message()), text);
  return Sharding(std::move(sharding));
}

Result<Sharding> ReadSingle(const Json& json, std::string_view text) {
  const auto device = json.find("device_str");
  if (device != json.end() && device->is_string()) {
    return Sharding(SingleDeviceSharding{device->get<std::string>()});
  }
  return DataLossError("Device str not found in deserialized_dict: " +
                       std::string(text.substr(0, 200)));
}

}  // namespace

std::string ShardingToJson(const Sharding& sharding) {
  if (const auto* named = std::get_if<NamedSharding>(&sharding)) {
    return NamedShardingText(*named);
  }
  const auto& single = std::get<SingleDeviceSharding>(sharding);
  return R"({"sharding_type": "SingleDeviceSharding", "device_str": )" +
         Quoted(single.device_str) + "}";
}

Result<Sharding> ShardingFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  const auto type = json.is_object() ? json.find("sharding_type") : json.end();
  if (!json.is_object() || type == json.end() || !type->is_string()) {
    return Malformed("sharding_type", text);
  }
  const std::string name = type->get<std::string>();
  if (name == "NamedSharding") return ReadNamed(json, text);
  if (name == "SingleDeviceSharding") return ReadSingle(json, text);
  if (name == "PositionalSharding") {
    return InvalidArgumentError(
        "jax.sharding.PositionalSharding has been deprecated. Please use "
        "jax.NamedSharding instead.");
  }
  return UnimplementedError("Conversion for " + name +
                            " has not been implemented.");
}

}  // namespace holdfast
