#include "orbax/handlers/small_files.h"

#include <utility>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "holdfast/orbax/type_handlers.h"
#include "stores/place/place.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

// Returns the parsed content of a file. NotFound if the file does not exist.
template <typename T>
Result<T> ReadChecked(const CheckedFiles& files, const std::string& name,
                      Result<T> (*parse)(std::string_view)) {
  HF_ASSIGN_OR_RETURN(const Bytes text, files.Read(name));
  Result<T> parsed = parse(text.view());
  if (parsed.ok()) return parsed;
  return parsed.status().WithContext(files.store().Describe(name));
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
                               std::vector<ArrayMetadataRecord> records,
                               int64_t process) {
  const std::string file = ArrayMetadatasPath(process);
  HF_ASSIGN_OR_RETURN(std::vector<ArrayMetadataRecord> all,
                      ReadOrEmpty(store, file, ParseArrayMetadatas));
  for (ArrayMetadataRecord& record : records) all.push_back(std::move(record));
  return Replace(store, file, SerializeArrayMetadatas(all));
}

Result<std::optional<std::map<std::string, std::string>>> RecordedShardings(
    const std::string& directory) {
  using Texts = std::map<std::string, std::string>;
  HF_ASSIGN_OR_RETURN(const CheckedFiles files,
                      CheckedFiles::OfItem(Place(AbsolutePath(directory))));
  const Result<Bytes> text = files.Read(kShardingFile);
  if (text.status().code() == StatusCode::kNotFound) {
    return std::optional<Texts>();
  }
  if (!text.ok()) return text.status();
  const Result<ShardingFile> parsed = ParseShardingFile(text->view());
  if (!parsed.ok()) {
    return FailedPreconditionError("Error reading local file \"" +
                                   files.store().Describe(kShardingFile) +
                                   "\": Invalid JSON");
  }
  return std::optional<Texts>(Texts(parsed->begin(), parsed->end()));
}

Status RecordShardings(const std::string& directory,
                       const std::map<std::string, std::string>& shardings) {
  return AddShardings(*Place(directory).Absolute().OpenStore(),
                      ShardingFile(shardings.begin(), shardings.end()));
}

}  // namespace holdfast
