#include "handlers/small_files.h"

#include <set>
#include <utility>

#include "base/status_macros.h"
#include "checkpoint/format/directory_names.h"

namespace holdfast {
namespace {

// The parsed content; NotFound when there is no file.
template <typename T, typename Parse>
Result<T> ReadJsonFile(Store& store, const std::string& name,
                       const Parse& parse) {
  HF_ASSIGN_OR_RETURN(const Bytes text, store.Read(name));
  Result<T> parsed = parse(text.view());
  if (!parsed.ok()) return parsed.status().WithContext(store.Describe(name));
  return parsed;
}

// An empty one when there is no file.
template <typename T>
Result<T> OrEmpty(Result<T> file) {
  if (file.status().code() == StatusCode::kNotFound) return T();
  return file;
}

Status Replace(Store& store, const std::string& name, const std::string& text) {
  HF_RETURN_IF_ERROR(DropDigests(store));
  return store.Write(name, text);
}

std::string ArrayMetadatasPath() {
  return std::string(kArrayMetadatasDirectory) + "/" +
         ArrayMetadatasFileName(0);
}

}  // namespace

Result<StringsFile> ReadStrings(Store& store, const std::string& filename) {
  return ReadJsonFile<StringsFile>(store, filename, ParseStringsFile);
}

Status AddStrings(Store& store, const std::string& filename,
                  const StringsFile& strings) {
  HF_ASSIGN_OR_RETURN(StringsFile all, OrEmpty(ReadStrings(store, filename)));
  for (const auto& [name, text] : strings) all[name] = text;
  HF_ASSIGN_OR_RETURN(const std::string text, SerializeStringsFile(all));
  return Replace(store, filename, text);
}

Result<ShardingFile> ReadShardings(Store& store) {
  return ReadJsonFile<ShardingFile>(store, std::string(kShardingFile),
                                    ParseShardingFile);
}

Status AddShardings(Store& store, const ShardingFile& shardings) {
  if (shardings.empty()) return Status();
  HF_ASSIGN_OR_RETURN(ShardingFile all, OrEmpty(ReadShardings(store)));
  for (const auto& [name, text] : shardings) all[name] = text;
  return Replace(store, std::string(kShardingFile), SerializeShardingFile(all));
}

Result<std::vector<ArrayMetadataRecord>> ReadArrayMetadataRecords(
    Store& store) {
  return OrEmpty(ReadJsonFile<std::vector<ArrayMetadataRecord>>(
      store, ArrayMetadatasPath(), ParseArrayMetadatas));
}

Status AddArrayMetadataRecords(Store& store,
                               std::vector<ArrayMetadataRecord> records) {
  if (records.empty()) return Status();
  HF_ASSIGN_OR_RETURN(std::vector<ArrayMetadataRecord> all,
                      ReadArrayMetadataRecords(store));
  std::set<std::string> names;
  for (const ArrayMetadataRecord& record : records) {
    names.insert(record.param_name);
  }
  std::erase_if(all, [&](const ArrayMetadataRecord& record) {
    return names.contains(record.param_name);
  });
  for (ArrayMetadataRecord& record : records) all.push_back(std::move(record));
  return Replace(store, ArrayMetadatasPath(), SerializeArrayMetadatas(all));
}

Status DropDigests(Store& store) { return store.Delete(kDigestFile); }

}  // namespace holdfast
