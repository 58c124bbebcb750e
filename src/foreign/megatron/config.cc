#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "foreign/megatron/error.h"
#include "foreign/megatron/files.h"
#include "foreign/megatron/python_text.h"
#include "ground/base/status_macros.h"
#include "holdfast/megatron/zarr.h"
#include "stores/place/directory_ops.h"

namespace holdfast::megatron {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::string_view kConfigName = "metadata.json";
// Far more than any writer produces; a larger file is not a config.
constexpr size_t kConfigBytesMax = size_t{1} << 20;

Status BadConfig(std::string_view python_class, std::string_view text) {
  return MakeError(StatusCode::kFailedPrecondition, "METADATA_INVALID",
                   python_class, text);
}

Result<ConfigValue> ConfigValueOf(std::string_view name, const json& value) {
  if (value.is_null()) return ConfigValue(std::monostate());
  if (value.is_boolean()) return ConfigValue(value.get<bool>());
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return ConfigValue(value.get<double>());
  }
  if (value.is_number_integer()) return ConfigValue(value.get<int64_t>());
  if (value.is_number_float()) return ConfigValue(value.get<double>());
  if (value.is_string()) return ConfigValue(value.get<std::string>());
  return BadConfig("TypeError", "unhashable type: '" + std::string(name) +
                                    "' of metadata.json "
                                    "is a " +
                                    value.type_name());
}

ordered_json JsonOf(const ConfigValue& value) {
  return std::visit(
      [](const auto& v) -> ordered_json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>,
                                     std::monostate>) {
          return nullptr;
        } else {
          return v;
        }
      },
      value);
}

// Returns the position at which the parser stopped, as Python counts it.
std::string SyntaxText(std::string_view text, size_t byte) {
  const size_t at = byte == 0 ? 0 : std::min(byte - 1, text.size());
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at; ++i) {
    line += text[i] == '\n' ? 1 : 0;
    column = text[i] == '\n' ? 1 : column + 1;
  }
  return "Expecting value: line " + std::to_string(line) + " column " +
         std::to_string(column) + " (char " + std::to_string(at) +
         ") of metadata.json";
}

Result<json> ParseObject(std::string_view text) {
  if (text.size() > kConfigBytesMax) {
    return BadConfig(
        "JSONDecodeError",
        "metadata.json has " + std::to_string(text.size()) + " bytes");
  }
  // nlohmann parses without recursion, but destroys a value recursively, so the
  // depth is limited here.
  size_t depth = 0;
  for (const char c : text) {
    if (c == '[' || c == '{') ++depth;
    if (depth > 100) {
      return BadConfig("JSONDecodeError", "metadata.json is nested too deeply");
    }
  }
  try {
    json parsed = json::parse(text);
    if (parsed.is_object()) return parsed;
    return BadConfig("TypeError",
                     "holdfast reads an object from metadata.json, not " +
                         std::string(parsed.type_name()));
  } catch (const json::parse_error& error) {
    return BadConfig("JSONDecodeError", SyntaxText(text, error.byte));
  } catch (const json::exception&) {
    return BadConfig("JSONDecodeError", SyntaxText(text, 0));
  }
}

}  // namespace

std::string ConfigValueRepr(const ConfigValue& value) {
  if (std::holds_alternative<std::monostate>(value)) return "None";
  if (const auto* b = std::get_if<bool>(&value)) return *b ? "True" : "False";
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return json(*d).dump();
  return PythonRepr(std::get<std::string>(value));
}

std::string ConfigText(const CheckpointingConfig& config) {
  const auto dump = [](const ConfigValue& value) {
    return JsonOf(value).dump(-1, ' ', true,
                              ordered_json::error_handler_t::replace);
  };
  return "{\"sharded_backend\": " + dump(config.sharded_backend) +
         ", \"sharded_backend_version\": " +
         dump(config.sharded_backend_version) +
         ", \"common_backend\": " + dump(config.common_backend) +
         ", \"common_backend_version\": " +
         dump(config.common_backend_version) + "}";
}

Result<CheckpointingConfig> ParseConfig(std::string_view text,
                                        UnknownMembers unknown) {
  HF_ASSIGN_OR_RETURN(const json object, ParseObject(text));
  CheckpointingConfig config;
  const std::pair<std::string_view, ConfigValue*> members[] = {
      {"sharded_backend", &config.sharded_backend},
      {"sharded_backend_version", &config.sharded_backend_version},
      {"common_backend", &config.common_backend},
      {"common_backend_version", &config.common_backend_version},
  };
  for (const auto& [name, value] : object.items()) {
    const auto* member =
        std::find_if(std::begin(members), std::end(members),
                     [&](const auto& m) { return m.first == name; });
    if (member != std::end(members)) {
      HF_ASSIGN_OR_RETURN(*member->second, ConfigValueOf(name, value));
    } else if (unknown == UnknownMembers::kIgnore) {
      config.unknown_members.push_back(name);
    } else {
      return BadConfig("TypeError",
                       "CheckpointingConfig.__init__() got an unexpected "
                       "keyword argument " +
                           PythonRepr(name));
    }
  }
  if (!object.contains("sharded_backend")) {
    return BadConfig("TypeError",
                     "CheckpointingConfig.__init__() missing 1 required "
                     "positional argument: 'sharded_backend'");
  }
  return config;
}

namespace {

Result<std::optional<CheckpointingConfig>> MaybeReadConfig(
    const Place& checkpoint, UnknownMembers unknown) {
  const Result<std::string> text =
      ReadWholeFile(checkpoint / kConfigName, kConfigBytesMax + 1);
  if (text.status().code() == StatusCode::kNotFound) {
    return std::optional<CheckpointingConfig>();
  }
  if (!text.ok()) return text.status();
  HF_ASSIGN_OR_RETURN(CheckpointingConfig config, ParseConfig(*text, unknown));
  return std::optional<CheckpointingConfig>(std::move(config));
}

}  // namespace

Result<std::optional<CheckpointingConfig>> MaybeLoadConfig(
    const std::string& checkpoint_dir, UnknownMembers unknown) {
  return MaybeReadConfig(Place(checkpoint_dir), unknown);
}

Status SaveConfig(const CheckpointingConfig& config,
                  const std::string& checkpoint_dir, bool sync) {
  if (sync) HF_RETURN_IF_ERROR(SyncDirectory(Place(checkpoint_dir)));
  return PutFile(Place(checkpoint_dir) / kConfigName, ConfigText(config), sync);
}

Result<bool> CheckIsDistributedCheckpoint(const std::string& checkpoint_dir) {
  HF_ASSIGN_OR_RETURN(
      const auto config,
      MaybeReadConfig(Place(checkpoint_dir), UnknownMembers::kIgnore));
  return config.has_value();
}

Result<CheckpointingConfig> ReadConfig(const Place& checkpoint,
                                       UnknownMembers unknown) {
  HF_ASSIGN_OR_RETURN(const bool exists, LeadsToDirectory(checkpoint));
  if (!exists) {
    return CheckpointingError(
        StatusCode::kNotFound, "DIR_NOT_FOUND",
        "Checkpoint directory " + checkpoint.path() + " does not exist");
  }
  HF_ASSIGN_OR_RETURN(auto config, MaybeReadConfig(checkpoint, unknown));
  if (!config) {
    return CheckpointingError(
        StatusCode::kNotFound, "NOT_A_DIST_CKPT",
        checkpoint.path() + " is not a distributed checkpoint");
  }
  return *std::move(config);
}

Result<CheckpointingConfig> OpenConfig(const std::string& checkpoint_dir,
                                       UnknownMembers unknown) {
  return ReadConfig(Place(checkpoint_dir), unknown);
}

}  // namespace holdfast::megatron
