#include "engine/format/array_metadatas.h"

#include "engine/format/directory_names.h"
#include "engine/format/shape_json.h"
#include "ground/json/scanner.h"
#include "ground/json/text.h"

namespace holdfast {
namespace {

constexpr const char* kPrngImplMember = "random_key_impl";

void AppendRecord(std::string& out, const ArrayMetadataRecord& record) {
  out += "{\"array_metadata\": {\"param_name\": ";
  AppendPythonJsonString(out, record.param_name);
  out += ", \"write_shape\": ";
  AppendJsonShape(out, record.write_shape);
  out += ", \"chunk_shape\": ";
  AppendJsonShape(out, record.chunk_shape);
  out += ", \"ext_metadata\": ";
  AppendPythonJson(out, record.ext_metadata);
  out += "}}";
}

Status ReadFields(JsonScanner& in, ArrayMetadataRecord& record) {
  bool has_name = false;
  bool has_write_shape = false;
  bool has_chunk_shape = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key == "param_name") {
      has_name = true;
      return in.ReadString(record.param_name);
    }
    if (key == "write_shape") {
      has_write_shape = true;
      return ReadJsonShape(in, record.write_shape);
    }
    if (key == "chunk_shape") {
      has_chunk_shape = true;
      return ReadJsonShape(in, record.chunk_shape);
    }
    if (key == "ext_metadata") return in.ReadDocument(record.ext_metadata);
    return in.SkipValue();
  }));
  if (has_name && has_write_shape && has_chunk_shape) return Status();
  return in.Error("want param_name, write_shape and chunk_shape");
}

Status ReadRecord(JsonScanner& in, ArrayMetadataRecord& record) {
  bool has_fields = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key != "array_metadata" || has_fields) return in.SkipValue();
    has_fields = true;
    return ReadFields(in, record);
  }));
  return has_fields ? Status() : in.Error("want a member array_metadata");
}

// Reads the file. Orbax treats a file without the list as an empty list, but
// never writes such a file. So this would be another file under the same name,
// and typed keys would silently become plain numbers.
Status ReadFile(JsonScanner& in, std::vector<ArrayMetadataRecord>& records) {
  bool has_list = false;
  HF_RETURN_IF_ERROR(in.ReadObject([&](std::string_view key) {
    if (key != "array_metadatas") return in.SkipValue();
    has_list = true;
    return in.ReadArray([&] { return ReadRecord(in, records.emplace_back()); });
  }));
  if (!has_list) return in.Error("want a member array_metadatas");
  return in.ReadEnd();
}

}  // namespace

nlohmann::ordered_json ExtMetadataOf(const std::string& prng_impl) {
  if (prng_impl.empty()) return nullptr;
  nlohmann::ordered_json ext_metadata;
  ext_metadata[kPrngImplMember] = prng_impl;
  return ext_metadata;
}

std::string PrngImplOf(const nlohmann::ordered_json& ext_metadata) {
  if (!ext_metadata.is_object()) return "";
  const auto impl = ext_metadata.find(kPrngImplMember);
  const bool is_there = impl != ext_metadata.end() && impl->is_string();
  return is_there ? impl->get<std::string>() : "";
}

std::string SerializeArrayMetadatas(
    const std::vector<ArrayMetadataRecord>& records) {
  std::string out = "{\"array_metadatas\": [";
  for (size_t i = 0; i < records.size(); ++i) {
    if (i > 0) out += ", ";
    AppendRecord(out, records[i]);
  }
  out += "]}";
  return out;
}

Result<std::vector<ArrayMetadataRecord>> ParseArrayMetadatas(
    std::string_view text) {
  JsonScanner in(text);
  std::vector<ArrayMetadataRecord> records;
  const Status status = ReadFile(in, records);
  if (!status.ok()) return status.WithContext(kArrayMetadatasDirectory);
  return records;
}

}  // namespace holdfast
