#include "megatron/files.h"

#include "base/status_macros.h"
#include "storage/file_store.h"

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

std::string JoinPath(std::string_view directory, std::string_view name) {
  std::string path(directory);
  if (!path.empty() && path.back() != '/') path += '/';
  return path.append(name);
}

Result<std::string> ReadWholeFile(const std::string& path, size_t bytes_max) {
  const SplitPath split = SplitAtName(path);
  FileStore store(split.directory, {.open_files_max = 0});
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store.Stat(split.name));
  if (info.byte_count > bytes_max) {
    return DataLossError(path + " has " + std::to_string(info.byte_count) +
                         " bytes, more than the " + std::to_string(bytes_max) +
                         " that are read of it");
  }
  HF_ASSIGN_OR_RETURN(const Bytes bytes, store.Read(split.name));
  return bytes.ToString();
}

Status PutFile(const std::string& path, std::string_view content, bool sync) {
  const SplitPath split = SplitAtName(path);
  FileStore store(split.directory);
  return store.Write(split.name, content, {.sync = sync, .atomic = true});
}

}  // namespace holdfast::megatron
