#include "stores/place/file_set.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "ground/base/status_macros.h"
#include "stores/storage/errno_status.h"
#include "stores/storage/read_only_store.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

class FileSet final : public ReadOnlyStore {
 public:
  // Adds a file. Does not check whether an object exists, which saves a
  // request: its first reader finds out.
  Status Add(const std::string& name, const Place& place) {
    const std::string& path = place.path();
    if (place.is_remote()) {
      AddFile(name, path, place);
      return Status();
    }
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    const bool is_file = !error && fs::is_regular_file(real, error);
    if (!error && !is_file) error.assign(ENOENT, std::generic_category());
    if (error.value() == ENOENT || error.value() == ENOTDIR) {
      return NotFoundError("read " + path + ": there is no such file");
    }
    if (error) return ErrnoStatus(error.value(), "read", path);
    AddFile(name, path, Place(real.string()));
    return Status();
  }

  std::string Describe(std::string_view key) const override {
    const auto file = files_.find(key);
    return file == files_.end() ? std::string(key) : file->second.path;
  }
  Result<ObjectInfo> Stat(std::string_view key) override {
    HF_ASSIGN_OR_RETURN(const File* file, Find(key));
    return file->store->Stat(file->name);
  }
  Result<Bytes> Read(std::string_view key, ByteRange range) override {
    HF_ASSIGN_OR_RETURN(const File* file, Find(key));
    return file->store->Read(file->name, range);
  }
  Status ReadInto(std::string_view key, uint64_t offset,
                  std::span<char> target) override {
    HF_ASSIGN_OR_RETURN(const File* file, Find(key));
    return file->store->ReadInto(file->name, offset, target);
  }
  int requests_in_flight() const override {
    int count = 1;
    for (const auto& [directory, store] : stores_) {
      count = std::max(count, store->requests_in_flight());
    }
    return count;
  }
  Status List(
      std::string_view prefix,
      const std::function<Status(std::string_view key, const ObjectInfo& info)>&
          fn) override {
    for (const auto& [name, file] : files_) {
      if (!name.starts_with(prefix)) continue;
      HF_ASSIGN_OR_RETURN(const ObjectInfo info, file.store->Stat(file.name));
      HF_RETURN_IF_ERROR(fn(name, info));
    }
    return Status();
  }

 private:
  struct File {
    Store* store;
    std::string name;
    std::string path;
  };

  void AddFile(const std::string& name, const std::string& path,
               const Place& real) {
    const Place directory = real.parent();
    std::shared_ptr<Store>& store = stores_[directory.path()];
    if (store == nullptr) store = directory.OpenStore();
    files_[name] = {store.get(), real.name(), path};
  }
  Result<const File*> Find(std::string_view key) const {
    const auto file = files_.find(key);
    if (file != files_.end()) return &file->second;
    return NotFoundError("read " + std::string(key) +
                         ": there is no such file");
  }

  std::map<std::string, std::shared_ptr<Store>> stores_;
  std::map<std::string, File, std::less<>> files_;
};

}  // namespace

Result<std::shared_ptr<Store>> MakeFileSet(
    const std::map<std::string, Place>& places) {
  auto set = std::make_shared<FileSet>();
  for (const auto& [name, place] : places) {
    HF_RETURN_IF_ERROR(set->Add(name, place));
  }
  return std::shared_ptr<Store>(std::move(set));
}

}  // namespace holdfast
