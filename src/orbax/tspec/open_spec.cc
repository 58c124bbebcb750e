#include "holdfast/orbax/open_spec.h"

#include <initializer_list>
#include <utility>

#include "formats/zarr/format/json_read.h"
#include "ground/base/status_macros.h"
#include "orbax/tspec/handles.h"
#include "orbax/tspec/kvstore_spec.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast {
namespace {

using spec::KvStoreSpec;
using zarr::AtMember;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

// A valid spec. Exactly one of the first three members has a value.
struct ParsedArray {
  std::optional<spec::ZarrSpec> zarr;
  std::optional<spec::JsonMemberSpec> json;
  std::shared_ptr<const ParsedArray> cast_base;
  DType cast_dtype = DType::kUint8;
};

// The flags that a cast's base inherits from the cast's spec.
struct Inherited {
  std::optional<bool> open;
  std::optional<bool> create;
  std::optional<bool> delete_existing;
  std::optional<bool> assume_metadata;
};

Result<ParsedArray> ParseArray(const Json& value, const Inherited& inherited);

Status Refuse(const Json& object, std::string_view driver,
              std::initializer_list<std::string_view> members) {
  for (const std::string_view member : members) {
    if (Find(object, member) == nullptr) continue;
    return UnimplementedError("\"" + std::string(member) + "\" of driver \"" +
                              std::string(driver) +
                              "\" is not part of this release yet");
  }
  return Status();
}

Result<std::optional<bool>> ReadFlag(const Json& object, std::string_view name,
                                     const std::optional<bool>& inherited) {
  const Json* const value = Find(object, name);
  if (value == nullptr) return inherited;
  HF_ASSIGN_OR_RETURN(const bool flag, InMember(name, zarr::ReadBool(value)));
  // A keyword of the call takes precedence over the spec.
  return inherited ? inherited : std::optional<bool>(flag);
}

Result<bool> ReadBool(const Json& object, std::string_view name, bool absent) {
  HF_ASSIGN_OR_RETURN(const std::optional<bool> flag,
                      ReadFlag(object, name, std::nullopt));
  return flag.value_or(absent);
}

Result<std::optional<DType>> ReadDType(const Json& object) {
  const Json* const value = Find(object, "dtype");
  if (value == nullptr) return std::optional<DType>();
  HF_ASSIGN_OR_RETURN(const std::string name,
                      InMember("dtype", zarr::ReadString(value)));
  const std::optional<DType> dtype = DTypeFromName(name);
  if (dtype) return dtype;
  return AtMember(
      "dtype", InvalidArgumentError("Unsupported data type: \"" + name + "\""));
}

// Accepts true, false, "open" or a time, and ignores it, because nothing is
// cached between two handles.
Status CheckRecheck(const Json& object, std::string_view name) {
  const Json* const value = Find(object, name);
  if (value == nullptr || value->is_boolean() || value->is_number()) {
    return Status();
  }
  if (value->is_string() && *value == "open") return Status();
  return AtMember(
      name, InvalidArgumentError("Expected boolean, number, or \"open\", " +
                                 zarr::Received(value)));
}

Result<KvStoreSpec> ReadKvStore(const Json& object, std::string_view driver) {
  const Json* const value = Find(object, "kvstore");
  if (value == nullptr) {
    return InvalidArgumentError("Error opening \"" + std::string(driver) +
                                "\" driver: \"kvstore\" must be specified");
  }
  return InMember("kvstore", spec::ParseKvStore(*value));
}

Result<spec::OpenMode> ReadMode(const Json& object, std::string_view driver,
                                const Inherited& inherited) {
  HF_ASSIGN_OR_RETURN(const auto open,
                      ReadFlag(object, "open", inherited.open));
  HF_ASSIGN_OR_RETURN(const auto create,
                      ReadFlag(object, "create", inherited.create));
  HF_ASSIGN_OR_RETURN(
      const auto delete_existing,
      ReadFlag(object, "delete_existing", inherited.delete_existing));
  HF_ASSIGN_OR_RETURN(
      const auto assume_metadata,
      ReadFlag(object, "assume_metadata", inherited.assume_metadata));
  const Result<spec::OpenMode> mode =
      spec::CheckMode(open, create, delete_existing.value_or(false),
                      assume_metadata.value_or(false));
  if (mode.ok()) return mode;
  return mode.status().WithContext("Error opening \"" + std::string(driver) +
                                   "\" driver");
}

Status ReadMetadata(const Json& object, spec::ArrayConstraints& constraints) {
  const Json* const metadata = Find(object, "metadata");
  if (metadata == nullptr) return Status();
  HF_RETURN_IF_ERROR(InMember("metadata", zarr::ReadObject(metadata)).status());
  constraints.metadata = *metadata;
  return AtMember("metadata", spec::CheckConstraints(constraints));
}

Result<ParsedArray> ParseZarr(const Json& object, const std::string& driver,
                              const Inherited& inherited) {
  spec::ZarrSpec zarr_spec;
  zarr_spec.constraints.zarr_format = driver == kZarrVer3 ? 3 : 2;
  HF_ASSIGN_OR_RETURN(zarr_spec.constraints.dtype, ReadDType(object));
  HF_RETURN_IF_ERROR(ReadMetadata(object, zarr_spec.constraints));
  HF_RETURN_IF_ERROR(CheckRecheck(object, "recheck_cached_data"));
  HF_RETURN_IF_ERROR(CheckRecheck(object, "recheck_cached_metadata"));
  HF_ASSIGN_OR_RETURN(zarr_spec.fill_missing_data_reads,
                      ReadBool(object, "fill_missing_data_reads", true));
  HF_ASSIGN_OR_RETURN(
      zarr_spec.store_data_equal_to_fill_value,
      ReadBool(object, "store_data_equal_to_fill_value", false));
  if (const Json* const key = Find(object, "metadata_key")) {
    HF_ASSIGN_OR_RETURN(zarr_spec.metadata_key,
                        InMember("metadata_key", zarr::ReadString(key)));
  }
  HF_RETURN_IF_ERROR(
      Refuse(object, driver,
             {"schema", "transform", "rank", "field", "path", "key_encoding",
              "selected_field", "assume_cached_metadata", "fill_value"}));
  HF_RETURN_IF_ERROR(zarr::CheckMembers(
      object,
      {"driver", "kvstore", "dtype", "metadata", "metadata_key", "open",
       "create", "delete_existing", "assume_metadata", "context", "cache_pool",
       "metadata_cache_pool", "data_copy_concurrency", "recheck_cached_data",
       "recheck_cached_metadata", "recheck_cached", "fill_missing_data_reads",
       "store_data_equal_to_fill_value"}));
  HF_ASSIGN_OR_RETURN(zarr_spec.kvstore, ReadKvStore(object, driver));
  zarr_spec.kvstore = spec::AsDirectory(std::move(zarr_spec.kvstore));
  HF_ASSIGN_OR_RETURN(zarr_spec.mode, ReadMode(object, driver, inherited));
  ParsedArray parsed;
  parsed.zarr = std::move(zarr_spec);
  return parsed;
}

Result<ParsedArray> ParseCast(const Json& object, const Inherited& inherited) {
  HF_ASSIGN_OR_RETURN(const std::optional<DType> dtype, ReadDType(object));
  const Json* const base = Find(object, "base");
  HF_RETURN_IF_ERROR(InMember("base", zarr::ReadObject(base)).status());
  HF_RETURN_IF_ERROR(Refuse(object, "cast", {"schema", "transform", "rank"}));
  HF_RETURN_IF_ERROR(
      zarr::CheckMembers(object, {"driver", "base", "dtype", "context"}));
  if (!dtype) {
    return InvalidArgumentError(
        "Error opening \"cast\" driver: dtype must be specified");
  }
  HF_ASSIGN_OR_RETURN(ParsedArray parsed_base,
                      InMember("base", ParseArray(*base, inherited)));
  if (parsed_base.json) {
    return InvalidArgumentError(
        "Error opening \"cast\" driver: json has no conversion to " +
        std::string(DTypeName(*dtype)));
  }
  ParsedArray parsed;
  parsed.cast_base =
      std::make_shared<const ParsedArray>(std::move(parsed_base));
  parsed.cast_dtype = *dtype;
  return parsed;
}

Result<ParsedArray> ParseJsonMember(const Json& object) {
  spec::JsonMemberSpec member;
  if (const Json* const pointer = Find(object, "json_pointer")) {
    HF_ASSIGN_OR_RETURN(member.pointer,
                        InMember("json_pointer", zarr::ReadString(pointer)));
    HF_RETURN_IF_ERROR(
        AtMember("json_pointer", spec::CheckJsonPointer(member.pointer)));
  }
  if (const Json* const dtype = Find(object, "dtype")) {
    HF_RETURN_IF_ERROR(
        InMember("dtype", zarr::ReadOneOf(dtype, {"json"})).status());
  }
  HF_RETURN_IF_ERROR(CheckRecheck(object, "recheck_cached_data"));
  HF_RETURN_IF_ERROR(Refuse(object, "json", {"schema", "transform", "rank"}));
  HF_RETURN_IF_ERROR(zarr::CheckMembers(
      object,
      {"driver", "kvstore", "json_pointer", "dtype", "context", "cache_pool",
       "data_copy_concurrency", "recheck_cached_data", "recheck_cached"}));
  HF_ASSIGN_OR_RETURN(member.kvstore, ReadKvStore(object, "json"));
  ParsedArray parsed;
  parsed.json = std::move(member);
  return parsed;
}

Result<ParsedArray> ParseArray(const Json& value, const Inherited& inherited) {
  if (value.is_string()) {
    return UnimplementedError(
        "an array by its URL is not part of this release yet; pass a spec");
  }
  HF_RETURN_IF_ERROR(zarr::ReadObject(&value).status());
  HF_ASSIGN_OR_RETURN(
      const std::string driver,
      InMember("driver", zarr::ReadString(Find(value, "driver"))));
  if (driver == kZarrVer2 || driver == kZarrVer3) {
    return ParseZarr(value, driver, inherited);
  }
  if (driver == "cast") return ParseCast(value, inherited);
  if (driver == "json") return ParseJsonMember(value);
  for (const std::string_view later :
       {"array", "auto", "avif", "bmp", "downsample", "jpeg", "n5",
        "neuroglancer_precomputed", "png", "stack", "tiff", "virtual_chunked",
        "webp"}) {
    if (driver != later) continue;
    return UnimplementedError("driver \"" + driver +
                              "\" is not part of this release yet");
  }
  return AtMember("driver",
                  InvalidArgumentError("\"" + driver +
                                       "\" is not a registered TensorStore "
                                       "driver"));
}

class OpenedKeys final : public KvStoreHandle {
 public:
  OpenedKeys(spec::OpenedKvStore opened, KvStoreSpec spec)
      : opened_(std::move(opened)), spec_(std::move(spec)) {}

  std::string spec_json() const override { return spec::Dump(spec_.ToJson()); }

  Result<std::vector<std::string>> List(
      std::string_view prefix) const override {
    std::vector<std::string> keys;
    HF_RETURN_IF_ERROR(opened_.store->List(
        Key(prefix), [&](std::string_view key, const ObjectInfo&) {
          keys.emplace_back(key.substr(opened_.prefix.size()));
          return Status();
        }));
    return keys;
  }

  Result<std::string> Read(std::string_view key) const override {
    HF_ASSIGN_OR_RETURN(const Bytes value, opened_.store->Read(Key(key)));
    return value.ToString();
  }

  Status Write(std::string_view key, std::string_view value) override {
    return opened_.store->Write(Key(key), value, opened_.write);
  }

  Status Delete(std::string_view key) override {
    return opened_.store->Delete(Key(key));
  }

  Status Commit() override { return opened_.commit(); }

 private:
  std::string Key(std::string_view key) const {
    return opened_.prefix + std::string(key);
  }

  const spec::OpenedKvStore opened_;
  const KvStoreSpec spec_;
};

Result<std::unique_ptr<SpecHandle>> OpenParsed(const ParsedArray& parsed,
                                               const OpenSpecOptions& options) {
  if (parsed.zarr) return spec::OpenZarr(*parsed.zarr, options);
  if (parsed.json) return spec::OpenJsonMember(*parsed.json, options);
  HF_ASSIGN_OR_RETURN(std::unique_ptr<SpecHandle> base,
                      OpenParsed(*parsed.cast_base, options));
  return spec::MakeCast(std::move(base), parsed.cast_dtype);
}

// Returns a mistake in a spec as InvalidArgument. The JSON readers, which were
// made for stored metadata, return FailedPrecondition.
template <typename T>
Result<T> OfRequest(Result<T> parsed) {
  if (parsed.status().code() != StatusCode::kFailedPrecondition) return parsed;
  return InvalidArgumentError(std::string(parsed.status().message()));
}

}  // namespace

Result<std::unique_ptr<SpecHandle>> OpenSpec(const std::string& json,
                                             const OpenSpecOptions& options) {
  HF_ASSIGN_OR_RETURN(const Json value,
                      zarr::ParseJson(json, StatusCode::kInvalidArgument));
  const Inherited inherited{options.open, options.create,
                            options.delete_existing, options.assume_metadata};
  HF_ASSIGN_OR_RETURN(const ParsedArray parsed,
                      OfRequest(ParseArray(value, inherited)));
  return OpenParsed(parsed, options);
}

ArrayMetadata ArrayMetadataFromTensorstore(
    const SpecHandle& t, const ParamInfo& info,
    const std::optional<Sharding>& sharding) {
  ArrayMetadata metadata;
  metadata.name = info.name;
  metadata.directory = info.parent_dir;
  metadata.shape = t.shape();
  metadata.dtype = t.dtype();
  metadata.sharding = sharding;
  metadata.storage = StorageMetadata{t.read_chunk_shape(), info.write_shape};
  return metadata;
}

Result<std::unique_ptr<KvStoreHandle>> OpenKvStore(
    const std::string& json, const OpenSpecOptions& options) {
  HF_ASSIGN_OR_RETURN(const Json value,
                      zarr::ParseJson(json, StatusCode::kInvalidArgument));
  HF_ASSIGN_OR_RETURN(KvStoreSpec parsed, OfRequest(spec::ParseKvStore(value)));
  HF_ASSIGN_OR_RETURN(spec::OpenedKvStore opened,
                      spec::OpenStore(parsed, options));
  return std::unique_ptr<KvStoreHandle>(
      std::make_unique<OpenedKeys>(std::move(opened), std::move(parsed)));
}

}  // namespace holdfast
