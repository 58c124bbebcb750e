#include "megatron/files.h"

#include "base/status_macros.h"
#include "place/open_store.h"
#include "storage/file_store.h"
#include "storage/url_path.h"

namespace holdfast::megatron {
namespace {

struct SplitPath {
  std::string directory;
  std::string name;
};

SplitPath SplitAtName(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {".", path};
  return {slash == 0 ? "/" : path.substr(0, slash), path.substr(slash + 1)};
}

}  // namespace

std::shared_ptr<Store> StoreForOneRead(const std::string& directory) {
  if (IsUrl(directory)) return StoreAt(directory);
  return std::make_shared<FileStore>(directory,
                                     FileStoreOptions{.open_files_max = 0});
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max) {
  const SplitPath split = SplitAtName(path);
  const std::shared_ptr<Store> store = StoreForOneRead(split.directory);
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(split.name));
  if (info.byte_count > bytes_max) {
    return DataLossError(path + " has " + std::to_string(info.byte_count) +
                         " bytes, more than the " + std::to_string(bytes_max) +
                         " that are read of it");
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store->Read(split.name));
  return bytes.ToString();
}

Status PutFile(const std::string& path, std::string_view content, bool sync) {
  const SplitPath split = SplitAtName(path);
  return StoreAt(split.directory)
      ->Write(split.name, content, {.sync = sync, .atomic = true});
}

}  // namespace holdfast::megatron
