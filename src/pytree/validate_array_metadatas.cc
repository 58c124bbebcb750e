#include "pytree/validate_array_metadatas.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/check/checked_files.h"
#include "checkpoint/format/array_metadatas.h"
#include "checkpoint/format/directory_names.h"
#include "checkpoint/format/json_text.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "place/directory_ops.h"
#include "storage/url_path.h"
#include "tree/python_repr.h"

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

// Names in `a` that `b` lacks, sorted.
std::vector<std::string> Missing(const Rows& a, const Rows& b) {
  std::set<std::string_view> known;
  for (const SerializedArrayMetadata& row : b) known.insert(row.param_name);
  std::set<std::string> missing;
  for (const SerializedArrayMetadata& row : a) {
    if (!known.contains(row.param_name)) missing.insert(row.param_name);
  }
  return {missing.begin(), missing.end()};
}

// "3 params: {'a', 'b'}."
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

// One field of one parameter in two processes.
struct FieldPair {
  std::string_view field;
  const std::string& param_name;
  std::string reference;
  std::string other;
};

Status CheckField(const ProcessRows& reference, const ProcessRows& other,
                  const FieldPair& pair) {
  if (pair.reference == pair.other) return Status();
  return InvalidArgumentError(
      "ArrayMetadata Store contains different " + std::string(pair.field) +
      " for param: " + pair.param_name + ". " + Process(other.process) +
      " has " + pair.other + ", but " + Process(reference.process) + " has " +
      pair.reference + ".");
}

Status CheckRows(const ProcessRows& reference, const ProcessRows& other) {
  std::map<std::string_view, const SerializedArrayMetadata*> by_name;
  for (const auto& row : *reference.rows) by_name[row.param_name] = &row;
  for (const SerializedArrayMetadata& row : *other.rows) {
    const SerializedArrayMetadata& same = *by_name.at(row.param_name);
    HF_RETURN_IF_ERROR(CheckField(
        reference, other,
        {"chunk_shape", row.param_name, ShapeToString(same.chunk_shape),
         ShapeToString(row.chunk_shape)}));
    HF_RETURN_IF_ERROR(CheckField(
        reference, other,
        {"write_shape", row.param_name, ShapeToString(same.write_shape),
         ShapeToString(row.write_shape)}));
    HF_RETURN_IF_ERROR(CheckField(
        reference, other,
        {"ext_metadata.random_key_impl", row.param_name,
         PrngImplText(same.ext_metadata), PrngImplText(row.ext_metadata)}));
  }
  return Status();
}

}  // namespace

Status ValidateAllArrayMetadatas(const ArrayMetadatasByProcess& metadatas) {
  if (metadatas.empty()) return Status();
  const ProcessRows reference{metadatas.begin()->first,
                              &metadatas.begin()->second};
  if (reference.rows->empty()) {
    return InvalidArgumentError(
        "ArrayMetadata Store contains no metadata for " +
        Process(reference.process) + ".");
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
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(path));
  if (kind != PathKind::kDirectory) return metadatas;
  HF_ASSIGN_OR_RETURN(const auto names, ListDirectory(path));
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(AbsolutePath(directory)));
  for (const std::string& name : names) {
    const std::optional<int> process = ProcessOfFile(name);
    if (!process) continue;
    HF_ASSIGN_OR_RETURN(
        metadatas[*process],
        ReadRows(files, std::string(kArrayMetadatasDirectory) + "/" + name));
  }
  return metadatas;
}

}  // namespace holdfast
