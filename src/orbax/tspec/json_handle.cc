#include <utility>
#include <vector>

#include "formats/zarr/format/json_read.h"
#include "ground/base/status_macros.h"
#include "orbax/tspec/handles.h"
#include "orbax/tspec/spec_json.h"

namespace holdfast::spec {
namespace {

using zarr::Json;

// Returns the names on the path to the member, with "~1" and "~0" decoded to
// "/" and "~".
std::vector<std::string> Tokens(std::string_view pointer) {
  std::vector<std::string> tokens;
  for (size_t at = 0; at < pointer.size(); ++at) {
    if (pointer[at] == '/') {
      tokens.emplace_back();
    } else if (pointer[at] == '~') {
      tokens.back() += pointer[++at] == '1' ? '/' : '~';
    } else {
      tokens.back() += pointer[at];
    }
  }
  return tokens;
}

// Returns the pointer up to and including its first `token_count` names.
std::string Prefix(std::string_view pointer, size_t token_count) {
  size_t end = 0;
  for (size_t i = 0; i < token_count; ++i) {
    end = std::min(pointer.find('/', end + 1), pointer.size());
  }
  return std::string(pointer.substr(0, end));
}

std::optional<size_t> Index(const std::string& token) {
  if (token.empty() || token.size() > 18) return std::nullopt;
  if (token.size() > 1 && token[0] == '0') return std::nullopt;
  if (token.find_first_not_of("0123456789") != std::string::npos) {
    return std::nullopt;
  }
  return std::stoull(token);
}

class JsonMember {
 public:
  explicit JsonMember(std::string pointer)
      : pointer_(std::move(pointer)), tokens_(Tokens(pointer_)) {}

  Result<const Json*> Find(const Json& document) const {
    const Json* value = &document;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string& token = tokens_[i];
      if (value->is_object()) {
        value = zarr::Find(*value, token);
        if (value == nullptr) {
          return NotFoundError("JSON Pointer \"" + Prefix(pointer_, i + 1) +
                               "\" refers to non-existent object member");
        }
      } else if (value->is_array()) {
        const std::optional<size_t> index = Index(token);
        if (!index) return BadIndex(i);
        if (*index >= value->size()) return OutOfArray(i, value->size());
        value = &(*value)[*index];
      } else {
        return NoContainer(i, *value);
      }
    }
    return value;
  }

  // Sets the member. Creates missing objects along the path.
  Status Set(Json value, Json& document) const {
    Json* place = &document;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string& token = tokens_[i];
      if (place->is_discarded()) *place = Json::object();
      if (place->is_object()) {
        const bool is_new = !place->contains(token);
        place = &(*place)[token];
        if (is_new) *place = Json(Json::value_t::discarded);
      } else if (place->is_array()) {
        const bool appends = token == "-";
        const std::optional<size_t> index =
            appends ? place->size() : Index(token);
        if (!index) return BadIndex(i);
        if (*index > place->size()) return OutOfArray(i, place->size());
        if (*index == place->size()) {
          place->push_back(Json(Json::value_t::discarded));
        }
        place = &(*place)[*index];
      } else {
        return NoContainer(i, *place);
      }
    }
    *place = std::move(value);
    return Status();
  }

 private:
  Status NoContainer(size_t i, const Json& value) const {
    return FailedPreconditionError(
        "JSON Pointer reference \"" + Prefix(pointer_, i + 1) +
        "\" cannot be applied to " + value.type_name() + " value: " +
        value.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  Status OutOfArray(size_t i, size_t size) const {
    return FailedPreconditionError("JSON Pointer \"" + Prefix(pointer_, i + 1) +
                                   "\" is out-of-range for array of size " +
                                   std::to_string(size));
  }
  Status BadIndex(size_t i) const {
    return FailedPreconditionError("JSON Pointer \"" + Prefix(pointer_, i + 1) +
                                   "\" is invalid for array value");
  }

  const std::string pointer_;
  const std::vector<std::string> tokens_;
};

class JsonHandle final : public SpecHandle {
 public:
  JsonHandle(OpenedKvStore kvstore, const JsonMemberSpec& spec)
      : kvstore_(std::move(kvstore)), spec_(spec), member_(spec.pointer) {}

  const std::string& driver() const override { return driver_; }
  DType dtype() const override { return DType::kUint8; }
  const Shape& shape() const override { return scalar_; }
  const Shape& read_chunk_shape() const override { return scalar_; }
  const Shape& write_chunk_shape() const override { return scalar_; }

  std::string spec_json() const override {
    OrderedJson json = OrderedJson::object();
    json["driver"] = driver_;
    json["dtype"] = "json";
    json["json_pointer"] = spec_.pointer;
    json["kvstore"] = spec_.kvstore.ToJson();
    return Dump(json);
  }

  Result<Array> Read(const Shape&, const Shape&) const override {
    return NoArray();
  }
  Status ReadInto(const Shape&, const ArrayView&) const override {
    return NoArray();
  }
  Status Write(const Shape&, const ConstArrayView&) override {
    return NoArray();
  }

  Result<std::string> ReadJson() const override {
    const auto read = [&]() -> Result<std::string> {
      HF_ASSIGN_OR_RETURN(const Bytes text, kvstore_.store->Read(key()));
      HF_ASSIGN_OR_RETURN(
          const Json document,
          zarr::ParseJson(text.view(), StatusCode::kFailedPrecondition));
      HF_ASSIGN_OR_RETURN(const Json* value, member_.Find(document));
      return zarr::DumpJson(*value);
    };
    Result<std::string> text = read();
    if (text.ok()) return text;
    return text.status().WithContext("Error reading " + Place());
  }

  // Writes the member: reads the complete document, changes it, and replaces
  // it.
  Status WriteJson(std::string_view text) override {
    HF_ASSIGN_OR_RETURN(Json value,
                        zarr::ParseJson(text, StatusCode::kInvalidArgument));
    const auto write = [&]() -> Status {
      Json document(Json::value_t::discarded);
      const Result<Bytes> old = kvstore_.store->Read(key());
      if (old.ok()) {
        HF_ASSIGN_OR_RETURN(
            document,
            zarr::ParseJson(old->view(), StatusCode::kFailedPrecondition));
      } else if (old.status().code() != StatusCode::kNotFound) {
        return old.status();
      }
      HF_RETURN_IF_ERROR(member_.Set(std::move(value), document));
      HF_ASSIGN_OR_RETURN(const std::string changed, zarr::DumpJson(document));
      return kvstore_.store->Write(key(), changed, kvstore_.write);
    };
    return write().WithContext("Error writing " + Place());
  }

  Status Commit() override { return kvstore_.commit(); }

 private:
  static Status NoArray() {
    return InvalidArgumentError(
        "driver \"json\" holds no array; use ReadJson and WriteJson");
  }
  const std::string& key() const { return kvstore_.prefix; }
  std::string Place() const {
    return "\"" + kvstore_.store->Describe(key()) + "\"";
  }

  const OpenedKvStore kvstore_;
  const JsonMemberSpec spec_;
  const JsonMember member_;
  const Shape scalar_;
  const std::string driver_ = "json";
};

}  // namespace

Status CheckJsonPointer(const std::string& pointer) {
  if (!pointer.empty() && pointer[0] != '/') {
    return InvalidArgumentError("JSON Pointer does not start with '/': \"" +
                                pointer + "\"");
  }
  for (size_t at = pointer.find('~'); at != std::string::npos;
       at = pointer.find('~', at + 1)) {
    const char next = at + 1 < pointer.size() ? pointer[at + 1] : ' ';
    if (next == '0' || next == '1') continue;
    return InvalidArgumentError(
        "JSON Pointer requires '~' to be followed by '0' or '1': \"" + pointer +
        "\"");
  }
  return Status();
}

Result<std::unique_ptr<SpecHandle>> OpenJsonMember(
    const JsonMemberSpec& spec, const OpenSpecOptions& options) {
  HF_ASSIGN_OR_RETURN(OpenedKvStore kvstore, OpenStore(spec.kvstore, options));
  return std::unique_ptr<SpecHandle>(
      std::make_unique<JsonHandle>(std::move(kvstore), spec));
}

}  // namespace holdfast::spec
