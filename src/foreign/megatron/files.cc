#include "foreign/megatron/files.h"

#include "ground/base/status_macros.h"
#include "stores/storage/file_store.h"

namespace holdfast::megatron {
namespace {

// Returns the directory of the file; "." for a bare name.
Place DirectoryOf(const Place& file) {
  const Place above = file.parent();
  return above.path().empty() ? Place(".") : above;
}

}  // namespace

std::shared_ptr<Store> StoreForOneRead(const Place& directory) {
  if (directory.is_remote()) return directory.OpenStore();
  return std::make_shared<FileStore>(directory.path(),
                                     FileStoreOptions{.open_files_max = 0});
}

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

Result<std::string> ReadWholeFile(const Place& file, size_t bytes_max) {
  const std::shared_ptr<Store> store = StoreForOneRead(DirectoryOf(file));
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(file.name()));
  if (info.byte_count > bytes_max) {
    return DataLossError(file.path() + " has " +
                         std::to_string(info.byte_count) +
                         " bytes, more than the " + std::to_string(bytes_max) +
                         " that are read of it");
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store->Read(file.name()));
  return bytes.ToString();
}

Status PutFile(const Place& file, std::string_view content, bool sync) {
  return DirectoryOf(file).OpenStore()->Write(file.name(), content,
                                              {.sync = sync, .atomic = true});
}

}  // namespace holdfast::megatron
