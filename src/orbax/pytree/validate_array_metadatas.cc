#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/check/checked_files.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/tree/python_repr.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "orbax/handlers/small_files.h"
#include "stores/place/directory_ops.h"
#include "stores/place/place.h"
#include "stores/storage/url_path.h"

namespace holdfast {
namespace {

using Rows = std::vector<SerializedArrayMetadata>;

constexpr std::string_view kProcessFilePrefix = "process_";

std::optional<int> ProcessOfFile(std::string_view name) {
  if (!name.starts_with(kProcessFilePrefix)) return std::nullopt;
  name.remove_prefix(kProcessFilePrefix.size());
  int process = 0;
  const auto [end, error] =
      std::from_chars(name.data(), name.data() + name.size(), process);
  const bool is_number =
      error == std::errc() && end == name.data() + name.size();
  return is_number && process >= 0 ? std::optional<int>(process) : std::nullopt;
}

Result<Rows> ReadRows(const CheckedFiles& files, const std::string& name) {
  HF_ASSIGN_OR_RETURN(const Bytes text, files.Read(name));
  Result<std::vector<ArrayMetadataRecord>> records =
      ParseArrayMetadatas(text.view());
  if (!records.ok())
    return records.status().WithContext(files.store().Describe(name));
  Rows rows;
  for (ArrayMetadataRecord& record : *records) {
    rows.push_back({std::move(record.param_name), std::move(record.write_shape),
                    std::move(record.chunk_shape),
                    PythonJsonText(record.ext_metadata)});
  }
  return rows;
}

std::string Process(int process) {
  return "process_index=" + std::to_string(process);
}

// Returns the names in `a` that `b` lacks, sorted.
std::vector<std::string> Missing(const Rows& a, const Rows& b) {
  std::set<std::string_view> known;
  for (const SerializedArrayMetadata& row : b) known.insert(row.param_name);
  std::set<std::string> missing;
  for (const SerializedArrayMetadata& row : a) {
    if (!known.contains(row.param_name)) missing.insert(row.param_name);
  }
  return {missing.begin(), missing.end()};
}

// Returns a text that ends with "3 params: {'a', 'b'}.".
std::string MissingText(int process, const std::vector<std::string>& names) {
  std::string text = Process(process) + " is missing " +
                     std::to_string(names.size()) + " params: {";
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += ", ";
    AppendPythonRepr(text, names[i]);
  }
  return text + "}.";
}

struct ProcessRows {
  int process;
  const Rows* rows;
};

Status CheckParamCount(const ProcessRows& reference, const ProcessRows& other) {
  if (reference.rows->size() == other.rows->size()) return Status();
  std::string text = "Diff:";
  const auto missing = Missing(*reference.rows, *other.rows);
  if (!missing.empty()) text += " " + MissingText(other.process, missing);
  const auto extra = Missing(*other.rows, *reference.rows);
  if (!extra.empty()) text += " " + MissingText(reference.process, extra);
  return InvalidArgumentError(
      "ArrayMetadata Store contains different number of params: " +
      Process(reference.process) + " has " +
      std::to_string(reference.rows->size()) + ", but " +
      Process(other.process) + " has " + std::to_string(other.rows->size()) +
      " params. " + text);
}

Status CheckParams(const ProcessRows& reference, const ProcessRows& other) {
  const std::string what =
      "ArrayMetadata Store contains different params: comparing with ";
  const auto missing = Missing(*reference.rows, *other.rows);
  if (!missing.empty()) {
    return InvalidArgumentError(what + Process(reference.process) + ", " +
                                MissingText(other.process, missing));
  }
  const auto extra = Missing(*other.rows, *reference.rows);
  if (extra.empty()) return Status();
  return InvalidArgumentError(what + Process(other.process) + ", " +
                              MissingText(reference.process, extra));
}

std::string PrngImplText(const std::string& ext_metadata) {
  const auto json = nlohmann::ordered_json::parse(ext_metadata, nullptr, false);
  if (!json.is_object() || !json.contains("random_key_impl")) return "None";
  const auto& impl = json["random_key_impl"];
  return impl.is_string() ? impl.get<std::string>() : PythonJsonText(impl);
}

// Formats JSON as Python would: "{'random_key_impl': 'fry'}".
std::string PythonReprOfJson(const std::string& text) {
  const auto json = nlohmann::ordered_json::parse(text, nullptr, false);
  if (json.is_null() || json.is_discarded()) return "None";
  if (json.is_boolean()) return json.get<bool>() ? "True" : "False";
  std::string repr;
  if (json.is_string()) {
    AppendPythonRepr(repr, json.get<std::string>());
    return repr;
  }
  if (!json.is_object()) return PythonJsonText(json);
  const char* before = "{";
  for (const auto& [name, value] : json.items()) {
    repr += before;
    AppendPythonRepr(repr, name);
    repr += ": " + PythonReprOfJson(value.dump());
    before = ", ";
  }
  return repr.empty() ? "{}" : repr + "}";
}

// Returns the name of the JSON type.
std::string_view TypeOfJson(const std::string& text) {
  return nlohmann::ordered_json::parse(text, nullptr, false).type_name();
}

// The values of a parameter's field in two processes.
struct FieldPair {
  std::string_view what;
  const std::string& param_name;
  std::string reference;
  std::string other;
};

Status CheckField(const ProcessRows& reference, const ProcessRows& other,
                  const FieldPair& pair) {
  if (pair.reference == pair.other) return Status();
  return InvalidArgumentError(
      std::string(pair.what) + " param: " + pair.param_name + ". " +
      Process(other.process) + " has " + pair.other + ", but " +
      Process(reference.process) + " has " + pair.reference + ".");
}

using RowsByName = std::map<std::string_view, const SerializedArrayMetadata*>;

// Returns the rows by name. If a parameter has several rows, the last row
// counts.
RowsByName ByName(const Rows& rows) {
  RowsByName by_name;
  for (const SerializedArrayMetadata& row : rows)
    by_name[row.param_name] = &row;
  return by_name;
}

Status CheckRow(const ProcessRows& reference, const ProcessRows& other,
                const SerializedArrayMetadata& same,
                const SerializedArrayMetadata& row) {
  const auto check = [&](std::string_view what, std::string theirs,
                         std::string ours) {
    return CheckField(
        reference, other,
        {what, row.param_name, std::move(theirs), std::move(ours)});
  };
  HF_RETURN_IF_ERROR(
      check("ArrayMetadata Store contains different chunk_shape for",
            ShapeToString(same.chunk_shape), ShapeToString(row.chunk_shape)));
  HF_RETURN_IF_ERROR(
      check("ArrayMetadata Store contains different write_shape for",
            ShapeToString(same.write_shape), ShapeToString(row.write_shape)));
  if (TypeOfJson(same.ext_metadata) != TypeOfJson(row.ext_metadata)) {
    return check("Different ext_metadata types",
                 PythonReprOfJson(same.ext_metadata),
                 PythonReprOfJson(row.ext_metadata));
  }
  // Orbax passes these two in the opposite order, so this does too.
  return check(
      "ArrayMetadata Store contains different ext_metadata.random_key_impl for",
      PrngImplText(row.ext_metadata), PrngImplText(same.ext_metadata));
}

Status CheckRows(const ProcessRows& reference, const ProcessRows& other) {
  const RowsByName expected = ByName(*reference.rows);
  const RowsByName found = ByName(*other.rows);
  for (const SerializedArrayMetadata& row : *other.rows) {
    if (found.at(row.param_name) != &row) continue;
    HF_RETURN_IF_ERROR(
        CheckRow(reference, other, *expected.at(row.param_name), row));
  }
  return Status();
}

}  // namespace

Status ValidateAllArrayMetadatas(const ArrayMetadatasByProcess& metadatas,
                                 const ArrayMetadataCheckOptions& options) {
  if (metadatas.empty()) return Status();
  const int first = options.reference.value_or(metadatas.begin()->first);
  const auto expected = metadatas.find(first);
  if (expected == metadatas.end()) {
    return InvalidArgumentError("no rows of the reference " + Process(first));
  }
  const ProcessRows reference{first, &expected->second};
  if (reference.rows->empty()) {
    return InvalidArgumentError(
        "ArrayMetadata Store contains no metadata for " +
        Process(reference.process) + ".");
  }
  if (metadatas.size() == 1 && options.process_count != 1) {
    return InvalidArgumentError(
        "ArrayMetadata Store contains metadata from just one process (" +
        Process(reference.process) + "), but found " +
        std::to_string(options.process_count) + " processes.");
  }
  for (const auto& [process, rows] : metadatas) {
    if (process == reference.process) continue;
    const ProcessRows other{process, &rows};
    HF_RETURN_IF_ERROR(CheckParamCount(reference, other));
    HF_RETURN_IF_ERROR(CheckParams(reference, other));
    HF_RETURN_IF_ERROR(CheckRows(reference, other));
  }
  return Status();
}

Result<ArrayMetadatasByProcess> ReadArrayMetadatas(
    const std::string& directory) {
  ArrayMetadatasByProcess metadatas;
  const std::string path =
      directory + "/" + std::string(kArrayMetadatasDirectory);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(Place(path)));
  if (kind != PathKind::kDirectory) return metadatas;
  HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(Place(path)));
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(Place(AbsolutePath(directory))));
  for (const std::string& name : names) {
    const std::optional<int> process = ProcessOfFile(name);
    if (!process) continue;
    HF_ASSIGN_OR_RETURN(
        metadatas[*process],
        ReadRows(files, std::string(kArrayMetadatasDirectory) + "/" + name));
  }
  return metadatas;
}

Status AddArrayMetadatas(const std::string& directory, int process,
                         const std::vector<SerializedArrayMetadata>& rows) {
  std::vector<ArrayMetadataRecord> records;
  for (const SerializedArrayMetadata& row : rows) {
    HF_ASSIGN_OR_RETURN(auto ext_metadata, ParseJsonText(row.ext_metadata));
    records.push_back({row.param_name, row.write_shape, row.chunk_shape,
                       std::move(ext_metadata)});
  }
  return AddArrayMetadataRecords(*Place(directory).Absolute().OpenStore(),
                                 std::move(records), process);
}

}  // namespace holdfast
