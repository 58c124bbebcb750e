#include "handlers/small_files.h"

#include <set>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"

namespace holdfast {
namespace {

// The parsed content; NotFound when there is no file.
template <typename T>
Result<T> ParsedFile(const Result<Bytes>& text, const std::string& place,
                     Result<T> (*parse)(std::string_view)) {
  if (!text.ok()) return text.status();
  Result<T> parsed = parse(text->view());
  if (!parsed.ok()) return parsed.status().WithContext(place);
  return parsed;
}

// An empty one when there is no file.
template <typename T>
Result<T> ReadOrEmpty(Store& store, const std::string& name,
                      Result<T> (*parse)(std::string_view)) {
  const Result<Bytes> text = store.Read(name);
  if (text.status().code() == StatusCode::kNotFound) return T();
  return ParsedFile(text, store.Describe(name), parse);
}

template <typename T>
Result<T> ReadChecked(const CheckedFiles& files, const std::string& name,
                      Result<T> (*parse)(std::string_view)) {
  return ParsedFile(files.Read(name), files.store().Describe(name), parse);
}

Status Replace(Store& store, const std::string& name, const std::string& text) {
  HF_RETURN_IF_ERROR(DropDigests(store));
  return store.Write(name, text);
}

}  // namespace

Result<StringsFile> ReadStrings(const CheckedFiles& files,
                                const std::string& filename) {
  return ReadChecked(files, filename, ParseStringsFile);
}

Status AddStrings(Store& store, const std::string& filename,
                  const StringsFile& strings) {
  HF_ASSIGN_OR_RETURN(StringsFile all,
                      ReadOrEmpty(store, filename, ParseStringsFile));
  for (const auto& [name, text] : strings) all[name] = text;
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeStringsFile(all));
  return Replace(store, filename, text);
}

Result<ShardingFile> ReadShardings(const CheckedFiles& files) {
  return ReadChecked(files, std::string(kShardingFile), ParseShardingFile);
}

Status AddShardings(Store& store, const ShardingFile& shardings) {
  if (shardings.empty()) return Status();
  HF_ASSIGN_OR_RETURN(
      ShardingFile all,
      ReadOrEmpty(store, std::string(kShardingFile), ParseShardingFile));
  for (const auto& [name, text] : shardings) all[name] = text;
  return Replace(store, std::string(kShardingFile), SerializeShardingFile(all));
}

Result<std::vector<ArrayMetadataRecord>> ReadArrayMetadataRecords(
    const CheckedFiles& files) {
  auto records = ReadChecked(files, ArrayMetadatasPath(0), ParseArrayMetadatas);
  if (records.status().code() == StatusCode::kNotFound) {
    return std::vector<ArrayMetadataRecord>();
  }
  return records;
}

Status AddArrayMetadataRecords(Store& store,
                               std::vector<ArrayMetadataRecord> records) {
  if (records.empty()) return Status();
  HF_ASSIGN_OR_RETURN(
      std::vector<ArrayMetadataRecord> all,
      ReadOrEmpty(store, ArrayMetadatasPath(0), ParseArrayMetadatas));
  std::set<std::string> names;
  for (const ArrayMetadataRecord& record : records) {
    names.insert(record.param_name);
  }
  std::erase_if(all, [&](const ArrayMetadataRecord& record) {
    return names.contains(record.param_name);
  });
  for (ArrayMetadataRecord& record : records) all.push_back(std::move(record));
  return Replace(store, ArrayMetadatasPath(0), SerializeArrayMetadatas(all));
}

Status DropDigests(Store& store) { return store.Delete(kDigestFile); }

}  // namespace holdfast
