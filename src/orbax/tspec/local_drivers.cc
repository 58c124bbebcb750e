// The drivers file and memory, and functions that all drivers share.
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "orbax/tspec/kvstore_drivers.h"
#include "orbax/tspec/listed_store.h"
#include "stores/storage/file_store.h"
#include "stores/storage/memory_store.h"
#include "stores/storage/url_path.h"

namespace holdfast::spec {
namespace {

using zarr::AtMember;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

class Memory : public SpecMemory {
 public:
  std::shared_ptr<Store> store = std::make_shared<MemoryStore>();
};

Status CheckFilePath(const std::string& path) {
  if (path.find('\0') == std::string::npos &&
      path.find("//") == std::string::npos) {
    return Status();
  }
  return InvalidArgumentError("Invalid file path: \"" + path + "\"");
}

Status ReadLocking(const Json& object, KvStoreSpec& spec) {
  const Json* const locking = Find(object, "file_io_locking");
  if (locking == nullptr || !locking->is_object()) return Status();
  const Json* const mode = Find(*locking, "mode");
  if (mode == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(
      const std::string name,
      InMember("file_io_locking",
               InMember("mode", zarr::ReadOneOf(mode, {"os", "lockfile", "none",
                                                       "non_atomic"}))));
  spec.atomic = name != "non_atomic";
  return Status();
}

}  // namespace

Status ReadPath(const Json& object, KvStoreSpec& spec) {
  const Json* const path = Find(object, "path");
  if (path == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(spec.path, InMember("path", zarr::ReadString(path)));
  return Status();
}

Status CheckResources(const Json& object,
                      std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    const Json* const value = Find(object, name);
    if (value == nullptr || value->is_object() || value->is_string()) continue;
    return AtMember(name, zarr::ReadObject(value).status());
  }
  return Status();
}

Status ReadOptionalBool(const Json& object, std::string_view name,
                        bool& value) {
  const Json* const member = Find(object, name);
  if (member == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(value, InMember(name, zarr::ReadBool(member)));
  return Status();
}

Status ParseFile(const Json& object, KvStoreSpec& spec) {
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(CheckResources(
      object, {"context", "file_io_concurrency", "file_io_locking",
               "file_io_mode", "file_io_retries"}));
  HF_RETURN_IF_ERROR(ReadLocking(object, spec));
  HF_RETURN_IF_ERROR(ReadOptionalBool(object, "file_io_sync", spec.sync));
  HF_RETURN_IF_ERROR(CheckFilePath(spec.path));
  return zarr::CheckMembers(
      object,
      {"driver", "path", "context", "file_io_concurrency", "file_io_locking",
       "file_io_mode", "file_io_retries", "file_io_sync"});
}

Status FileUrl(std::string_view rest, KvStoreSpec& spec) {
  HF_RETURN_IF_ERROR(MemoryUrl(rest, spec));
  if (spec.path.starts_with('/')) return CheckFilePath(spec.path);
  return InvalidArgumentError("file URLs have no host: want file:///...");
}

// Opens the store at the directory of the path. The part after the last '/'
// becomes a prefix of keys.
Result<OpenedKvStore> OpenFile(const KvStoreSpec& spec,
                               const OpenSpecOptions& /*options*/) {
  const size_t name_at = spec.path.rfind('/') + 1;  // npos + 1 is 0
  std::string root = spec.path.substr(0, name_at);
  if (root.empty()) root = ".";
  OpenedKvStore opened;
  const auto store = std::make_shared<FileStore>(std::move(root));
  opened.prefix = spec.path.substr(name_at);
  opened.write = {.sync = spec.sync, .atomic = spec.atomic};
  opened.commit = [store, sync = spec.sync] {
    return sync ? store->SyncNames() : Status();
  };
  std::string directory = AbsolutePath(spec.path.substr(0, name_at));
  opened.store = std::make_shared<ListedStore>(store, std::move(directory));
  return opened;
}

Status MemoryUrl(std::string_view rest, KvStoreSpec& spec) {
  spec.path = PercentDecoded(rest);
  return Status();
}

Status ParseMemory(const Json& object, KvStoreSpec& spec) {
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(
      CheckResources(object, {"context", "memory_key_value_store"}));
  bool atomic = true;
  HF_RETURN_IF_ERROR(ReadOptionalBool(object, "atomic", atomic));
  return zarr::CheckMembers(object, {"driver", "path", "context", "atomic",
                                     "memory_key_value_store"});
}

Result<OpenedKvStore> OpenMemory(const KvStoreSpec& spec,
                                 const OpenSpecOptions& options) {
  const auto* const shared = dynamic_cast<const Memory*>(options.memory.get());
  OpenedKvStore opened;
  opened.store =
      shared == nullptr ? std::make_shared<MemoryStore>() : shared->store;
  opened.prefix = spec.path;
  opened.commit = [] { return Status(); };
  return opened;
}

}  // namespace holdfast::spec

namespace holdfast {

std::shared_ptr<SpecMemory> SpecMemory::Make() {
  return std::make_shared<spec::Memory>();
}

}  // namespace holdfast
