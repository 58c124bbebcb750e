// The driver ocdbt.
#include <limits>
#include <set>
#include <utility>

#include "formats/ocdbt/format/limits.h"
#include "formats/ocdbt/pending_store.h"
#include "ground/base/status_macros.h"
#include "orbax/tspec/kvstore_drivers.h"

namespace holdfast::spec {
namespace {

using zarr::AtMember;
using zarr::Find;
using zarr::InMember;
using zarr::Json;

Status ReadCompression(const Json& config, ocdbt::BulkWriteOptions& write) {
  const Json* const compression = Find(config, "compression");
  if (compression == nullptr) return Status();
  write.compress_nodes = !compression->is_null();
  if (!write.compress_nodes) return Status();
  HF_RETURN_IF_ERROR(
      InMember("compression", zarr::ReadObject(compression)).status());
  HF_RETURN_IF_ERROR(AtMember(
      "compression",
      InMember("id", zarr::ReadOneOf(Find(*compression, "id"), {"zstd"}))
          .status()));
  return AtMember("compression",
                  zarr::CheckMembers(*compression, {"id", "level"}));
}

Status ReadConfigNumber(const Json& config, std::string_view name, int64_t low,
                        int64_t high, const std::function<void(int64_t)>& set) {
  const Json* const value = Find(config, name);
  if (value == nullptr) return Status();
  HF_ASSIGN_OR_RETURN(const int64_t number,
                      InMember(name, zarr::ReadInt(value, low, high)));
  set(number);
  return Status();
}

Status ReadConfig(const Json& config, ocdbt::BulkWriteOptions& write) {
  HF_RETURN_IF_ERROR(ReadConfigNumber(
      config, "max_inline_value_bytes", 0, ocdbt::kInlineValueBytesMax,
      [&](int64_t n) { write.max_inline_value_bytes = n; }));
  HF_RETURN_IF_ERROR(ReadConfigNumber(
      config, "max_decoded_node_bytes", 0, std::numeric_limits<uint32_t>::max(),
      [&](int64_t n) { write.max_decoded_node_bytes = n; }));
  HF_RETURN_IF_ERROR(ReadConfigNumber(
      config, "version_tree_arity_log2", 1, ocdbt::kVersionTreeArityLog2Max,
      [&](int64_t n) { write.version_tree_arity_log2 = n; }));
  HF_RETURN_IF_ERROR(ReadCompression(config, write));
  if (const Json* const kind = Find(config, "manifest_kind")) {
    HF_ASSIGN_OR_RETURN(
        const std::string name,
        InMember("manifest_kind",
                 zarr::ReadOneOf(kind, {"single", "numbered"})));
    if (name == "numbered") {
      return UnimplementedError(
          "manifest_kind \"numbered\" is not part of this release yet");
    }
  }
  return zarr::CheckMembers(
      config, {"max_inline_value_bytes", "max_decoded_node_bytes",
               "version_tree_arity_log2", "compression", "manifest_kind"});
}

Status ReadPrefixes(const Json& object, ocdbt::BulkWriteOptions& write) {
  std::set<std::string> prefixes;
  for (const std::string_view name :
       {"value_data_prefix", "btree_node_data_prefix",
        "version_tree_node_data_prefix"}) {
    const Json* const value = Find(object, name);
    if (value == nullptr) {
      prefixes.insert(write.data_prefix);
      continue;
    }
    HF_ASSIGN_OR_RETURN(std::string prefix,
                        InMember(name, zarr::ReadString(value)));
    prefixes.insert(std::move(prefix));
  }
  if (prefixes.size() > 1) {
    return UnimplementedError(
        "value_data_prefix that is not btree_node_data_prefix as well is not "
        "part of this release yet");
  }
  write.data_prefix = *prefixes.begin();
  return Status();
}

bool IsSamePlace(const KvStoreSpec& a, const KvStoreSpec& b) {
  if (a.driver != b.driver || a.path != b.path || a.bucket != b.bucket ||
      a.base_url != b.base_url || a.endpoint != b.endpoint) {
    return false;
  }
  if (a.base == nullptr || b.base == nullptr) return a.base == b.base;
  return IsSamePlace(*a.base, *b.base);
}

// Reads `base` and `manifest`. TensorStore accepts two specs, because data
// files may be written without a rename, and the manifest may not. Here each
// object is written in the way it needs, so both specs must name the same
// place.
Status ReadBase(const Json& object, KvStoreSpec& spec) {
  const Json* const base = Find(object, "base");
  if (base == nullptr) {
    return AtMember("base", zarr::ReadObject(base).status());
  }
  HF_ASSIGN_OR_RETURN(KvStoreSpec parsed,
                      InMember("base", ParseKvStore(*base)));
  parsed = AsDirectory(std::move(parsed));
  if (const Json* const manifest = Find(object, "manifest")) {
    HF_ASSIGN_OR_RETURN(KvStoreSpec other,
                        InMember("manifest", ParseKvStore(*manifest)));
    other = AsDirectory(std::move(other));
    if (!IsSamePlace(parsed, other)) {
      return UnimplementedError(
          "a manifest in another place than the base is not part of this "
          "release yet");
    }
    spec.write.sync = other.sync;
  }
  spec.base = std::make_shared<const KvStoreSpec>(std::move(parsed));
  return Status();
}

}  // namespace

ocdbt::BulkWriteOptions DefaultWriteOptions() {
  ocdbt::BulkWriteOptions write;
  write.max_inline_value_bytes = 100;
  write.max_decoded_node_bytes = 8388608;
  return write;
}

Status ParseOcdbt(const Json& object, KvStoreSpec& spec) {
  spec.write = DefaultWriteOptions();
  HF_RETURN_IF_ERROR(ReadPath(object, spec));
  HF_RETURN_IF_ERROR(ReadBase(object, spec));
  HF_RETURN_IF_ERROR(CheckResources(
      object,
      {"context", "cache_pool", "data_copy_concurrency", "coordinator"}));
  if (const Json* const config = Find(object, "config")) {
    HF_RETURN_IF_ERROR(InMember("config", zarr::ReadObject(config)).status());
    HF_RETURN_IF_ERROR(AtMember("config", ReadConfig(*config, spec.write)));
  }
  if (const Json* const size = Find(object, "target_data_file_size")) {
    // 2^62 keeps sums of two sizes inside an int64_t.
    const bool fits = size->is_number_unsigned() &&
                      size->get<uint64_t>() <= uint64_t{1} << 62;
    if (!fits) {
      return AtMember(
          "target_data_file_size",
          InvalidArgumentError(
              "Expected 64-bit unsigned integer, but received: " +
              size->dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
    spec.write.target_data_file_bytes = size->get<int64_t>();
  }
  HF_RETURN_IF_ERROR(ReadPrefixes(object, spec.write));
  bool assume_config = false;
  HF_RETURN_IF_ERROR(ReadOptionalBool(object, "assume_config", assume_config));
  if (Find(object, "version") != nullptr) {
    return UnimplementedError(
        "\"version\" of driver \"ocdbt\" is not part of this release yet");
  }
  return zarr::CheckMembers(
      object, {"driver", "path", "base", "manifest", "context", "cache_pool",
               "data_copy_concurrency", "coordinator", "config",
               "assume_config", "target_data_file_size", "value_data_prefix",
               "btree_node_data_prefix", "version_tree_node_data_prefix",
               "experimental_read_coalescing_threshold_bytes",
               "experimental_read_coalescing_merged_bytes",
               "experimental_read_coalescing_interval"});
}

Result<OpenedKvStore> OpenOcdbt(const KvStoreSpec& spec,
                                const OpenSpecOptions& options) {
  HF_ASSIGN_OR_RETURN(const OpenedKvStore base, OpenStore(*spec.base, options));
  ocdbt::BulkWriteOptions write = spec.write;
  write.sync = write.sync && base.write.sync;
  ocdbt::OpenOptions open;
  open.node_cache_bytes_max = options.context.cache_pool_bytes;
  HF_ASSIGN_OR_RETURN(
      std::shared_ptr<ocdbt::PendingStore> store,
      ocdbt::PendingStore::Open(base.store, base.prefix, write, open));
  OpenedKvStore opened;
  opened.prefix = spec.path;
  // This database commits before its base, because the base must not become
  // visible without the entries that this database adds to it.
  opened.commit = [store, commit_base = base.commit] {
    HF_RETURN_IF_ERROR(store->Commit());
    return commit_base();
  };
  opened.store = std::move(store);
  return opened;
}

}  // namespace holdfast::spec
