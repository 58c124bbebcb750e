#include "orbax/tspec/kvstore_tspec.h"

#include <algorithm>
#include <cstdlib>
#include <utility>
#include <vector>

#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"

namespace holdfast::spec {
namespace {

constexpr int64_t kDataFileBytes = int64_t{1} << 31;
constexpr int64_t kBucketDataFileBytes = int64_t{400} << 20;
constexpr std::string_view kGcsPrefix = "gs://";
constexpr std::string_view kS3Prefix = "s3://";
constexpr std::string_view kSplitValuePrefix = "ocdbt_data/";
constexpr std::string_view kSplitNodePrefix = "ocdbt_meta/";
constexpr std::string_view kTemporaryNodePrefix = "ocdbt_tmp_meta/";

// Returns whether the path is in a bucket. Orbax builds specs only for gs://;
// here, specs for s3:// are built in the same way.
bool IsBucketPath(std::string_view path) {
  return path.starts_with(kGcsPrefix) || path.starts_with(kS3Prefix);
}

void ReplaceAll(std::string_view from, std::string_view to, std::string& text) {
  for (size_t at = text.find(from); at != std::string::npos;
       at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
}

// Normalizes a path or URL. Normalizing turns "gs://" into "gs:/". As in Orbax,
// this is corrected wherever gs:/ occurs; s3:/ is corrected only at the
// beginning.
std::string NormalizeDirectory(const std::string& directory) {
  std::string path = NormalizePath(directory);
  ReplaceAll("gs:/", kGcsPrefix, path);
  if (directory.starts_with(kS3Prefix)) {
    // A path without a bucket keeps its empty bucket, and is refused later.
    path.insert(3, directory.starts_with("s3:///") ? "//" : "/");
  }
  return path;
}

// Returns the spec of a URL. The path ends where a query or a fragment starts.
Result<OrderedJson> BucketKvstore(const std::string& url) {
  const bool is_gcs = url.starts_with(kGcsPrefix);
  std::string_view rest = std::string_view(url).substr(kGcsPrefix.size());
  rest = rest.substr(0, rest.find_first_of("?#"));
  const size_t slash = rest.find('/');
  const std::string_view bucket = rest.substr(0, slash);
  if (bucket.empty()) {
    return InvalidArgumentError(
        std::string(is_gcs ? "The GCS" : "The S3") +
        " path should contain the bucket name and the file path inside the "
        "bucket. Got: " +
        url);
  }
  const char* const backend =
      is_gcs ? std::getenv("TENSORSTORE_GCS_BACKEND") : "s3";
  OrderedJson kvstore = OrderedJson::object();
  kvstore["driver"] = backend == nullptr ? "gcs" : backend;
  kvstore["bucket"] = bucket;
  kvstore["path"] =
      slash == std::string_view::npos ? "" : rest.substr(slash + 1);
  return kvstore;
}

struct OcdbtParts {
  OrderedJson base;
  OrderedJson manifest;      // null: as `base`
  std::string node_prefix;   // empty: the default
  std::string value_prefix;  // empty: the default
};

// Gives the manifest its own spec, because it is replaced atomically. Data
// files need no rename.
void SplitFileBase(OcdbtParts& parts) {
  if (parts.base["driver"] != kFileDriver) return;
  std::string path = parts.base["path"].get<std::string>();
  std::replace(path.begin(), path.end(), '\\', '/');
  parts.base["path"] = std::move(path);
  parts.manifest = parts.base;
  parts.base["file_io_locking"]["mode"] = "non_atomic";
}

// Routes nodes and manifest to the temporary directory with a stack of two
// stores. The second store takes all keys with one prefix.
Status RouteToTemporary(const KvstoreTspecOptions& options, OcdbtParts& parts) {
  const auto& context = options.ocdbt_temporary_metadata_context;
  const auto& write = options.ocdbt_write_options;
  const auto is_mode = [&](OcdbtWriteMode mode) {
    return write.has_value() && write->mode == mode;
  };
  if (!context.has_value()) {
    if (!is_mode(OcdbtWriteMode::kCommitTemporary)) return Status();
    return InvalidArgumentError(
        "OCDBT commit mode requires temporary metadata context.");
  }
  if (is_mode(OcdbtWriteMode::kMerge)) {
    return InvalidArgumentError(
        "OCDBT merge mode does not support temporary metadata context.");
  }
  const std::string temporary =
      std::string(kDefaultDriver) + "://" + context->path + "/";
  const std::string node_prefix(kTemporaryNodePrefix);
  if (!is_mode(OcdbtWriteMode::kCommitTemporary)) {
    parts.manifest = temporary + node_prefix;
  }
  if (is_mode(OcdbtWriteMode::kWrite)) parts.node_prefix = node_prefix;
  std::string path = parts.base["path"].get<std::string>();
  if (!path.empty() && !path.ends_with('/')) parts.base["path"] = path + "/";
  OrderedJson lower = OrderedJson::object();
  lower["base"] = parts.base;
  OrderedJson upper = OrderedJson::object();
  upper["prefix"] = node_prefix;
  upper["base"] = temporary;
  OrderedJson stack = OrderedJson::object();
  stack["driver"] = "kvstack";
  stack["layers"] = OrderedJson::array({lower, upper});
  parts.base = std::move(stack);
  return Status();
}

Result<OcdbtParts> MakeParts(const std::string& directory,
                             const KvstoreTspecOptions& options) {
  OcdbtParts parts;
  if (IsBucketPath(directory)) {
    HF_ASSIGN_OR_RETURN(parts.base, BucketKvstore(directory));
  } else {
    parts.base["driver"] = kDefaultDriver;
    parts.base["path"] = directory + "/";
  }
  const auto& write = options.ocdbt_write_options;
  if (write && write->store_ocdbt_metadata_and_values_separately) {
    parts.node_prefix = kSplitNodePrefix;
    parts.value_prefix = kSplitValuePrefix;
  }
  SplitFileBase(parts);
  HF_RETURN_IF_ERROR(RouteToTemporary(options, parts));
  return parts;
}

Result<std::string> ProcessDirectory(const KvstoreTspecOptions& options) {
  if (options.ocdbt_process_spec) return options.ocdbt_process_spec->ToString();
  if (!options.process_id) return std::string();
  if (!IsProcessId(*options.process_id)) {
    return InvalidArgumentError(
        "process_id must conform to [A-Za-z0-9]+ pattern, got " +
        *options.process_id);
  }
  return OcdbtProcessSpec{*options.process_id, options.replica_separate_folder}
      .ToString();
}

Result<OrderedJson> OcdbtKvstore(std::string directory,
                                 const KvstoreTspecOptions& options) {
  if (!IsBucketPath(directory) && !directory.starts_with('/')) {
    return InvalidArgumentError("Checkpoint path should be absolute. Got " +
                                directory);
  }
  HF_ASSIGN_OR_RETURN(const std::string process, ProcessDirectory(options));
  if (!process.empty()) directory = JoinPaths(directory, process);
  HF_ASSIGN_OR_RETURN(const OcdbtParts parts, MakeParts(directory, options));
  OrderedJson kvstore = OrderedJson::object();
  kvstore["driver"] = "ocdbt";
  kvstore["base"] = parts.base;
  if (!parts.manifest.is_null()) kvstore["manifest"] = parts.manifest;
  if (!parts.node_prefix.empty()) {
    kvstore["btree_node_data_prefix"] = parts.node_prefix;
    kvstore["version_tree_node_data_prefix"] = parts.node_prefix;
  }
  if (!parts.value_prefix.empty()) {
    kvstore["value_data_prefix"] = parts.value_prefix;
  }
  if (options.ocdbt_write_options) {
    HF_RETURN_IF_ERROR(AddWriteOptions(
        options.ocdbt_write_options->target_data_file_size, kvstore));
  }
  if (options.name) kvstore["path"] = *options.name;
  kvstore["cache_pool"] = "cache_pool#ocdbt";
  if (!IsRemote(kvstore)) return kvstore;
  // Neighboring reads are joined, because on object stores, requests cost the
  // most.
  kvstore["experimental_read_coalescing_threshold_bytes"] = 1000000;
  kvstore["experimental_read_coalescing_merged_bytes"] = 500000000000;
  kvstore["experimental_read_coalescing_interval"] = "1ms";
  return kvstore;
}

}  // namespace

std::string NormalizePath(std::string_view path) {
  if (path.empty()) return ".";
  // POSIX gives exactly two leading slashes a special meaning.
  const bool is_absolute = path.starts_with('/');
  const bool has_two = path.starts_with("//") && !path.starts_with("///");
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    const std::string_view part = path.substr(at, end - at);
    at = end + 1;
    if (part.empty() || part == ".") continue;
    const bool goes_up = part == "..";
    const bool stays = !goes_up || (parts.empty() && !is_absolute) ||
                       (!parts.empty() && parts.back() == "..");
    if (stays) {
      parts.push_back(part);
    } else if (!parts.empty()) {
      parts.pop_back();
    }
  }
  std::string result = has_two ? "//" : is_absolute ? "/" : "";
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += '/';
    result += parts[i];
  }
  return result.empty() ? "." : result;
}

std::string JoinPaths(std::string_view first, std::string_view second) {
  if (second.starts_with('/') || first.empty()) return std::string(second);
  std::string joined(first);
  if (!joined.ends_with('/')) joined += '/';
  return joined += second;
}

bool IsRemote(const OrderedJson& tspec) {
  if (tspec.is_string()) {
    const std::string url = tspec.get<std::string>();
    return IsBucketPath(url);
  }
  if (!tspec.is_object()) return false;
  for (const char* const key : {"base", "kvstore"}) {
    if (tspec.contains(key)) return IsRemote(tspec[key]);
  }
  if (!tspec.contains("driver")) return false;
  const OrderedJson& driver = tspec["driver"];
  if (driver == "kvstack" && tspec.contains("layers")) {
    const OrderedJson& layers = tspec["layers"];
    return std::any_of(layers.begin(), layers.end(), IsRemote);
  }
  return driver == "gcs" || driver == "gcs_grpc" || driver == "s3";
}

int64_t DefaultDataFileBytes(const OrderedJson* kvstore_tspec) {
  if (kvstore_tspec == nullptr || !kvstore_tspec->is_object() ||
      !kvstore_tspec->contains("base")) {
    return kDataFileBytes;
  }
  const OrderedJson& base = (*kvstore_tspec)["base"];
  if (base.is_string()) {
    return IsBucketPath(base.get<std::string>()) ? kBucketDataFileBytes
                                                 : kDataFileBytes;
  }
  if (!base.is_object()) return kDataFileBytes;
  const OrderedJson driver = base.value("driver", OrderedJson());
  if (driver == "gcs" || driver == "gcs_grpc" || driver == "s3")
    return kBucketDataFileBytes;
  if (driver == "kvstack" && base.contains("layers")) {
    for (const OrderedJson& layer : base["layers"]) {
      if (layer.contains("prefix")) continue;
      if (DefaultDataFileBytes(&layer) == kBucketDataFileBytes) {
        return kBucketDataFileBytes;
      }
    }
  }
  const OrderedJson path = base.value("path", OrderedJson());
  if (path.is_string() && IsBucketPath(path.get<std::string>())) {
    return kBucketDataFileBytes;
  }
  return kDataFileBytes;
}

Status AddWriteOptions(std::optional<int64_t> target_data_file_size,
                       OrderedJson& kvstore_tspec) {
  const int64_t byte_count =
      target_data_file_size.value_or(DefaultDataFileBytes(&kvstore_tspec));
  if (byte_count < 0) {
    return InvalidArgumentError(
        "OCDBT target_data_file_size must be >= 0, where 0 means no limit; "
        "got " +
        std::to_string(byte_count));
  }
  kvstore_tspec["target_data_file_size"] = byte_count;
  OrderedJson config = OrderedJson::object();
  config["max_inline_value_bytes"] = 1024;
  config["max_decoded_node_bytes"] = 100000000;
  config["manifest_kind"] = "single";
  kvstore_tspec["config"] = std::move(config);
  kvstore_tspec["assume_config"] = true;
  return Status();
}

Result<OrderedJson> KvstoreTspec(const std::string& directory,
                                 const KvstoreTspecOptions& options) {
  const std::string normal = NormalizeDirectory(directory);
  if (options.use_ocdbt) return OcdbtKvstore(normal, options);
  const std::string path =
      options.name ? JoinPaths(normal, *options.name) : normal;
  if (IsBucketPath(normal)) {
    if (IsBucketPath(path)) return BucketKvstore(path);
    return InvalidArgumentError("Unsupported scheme for GCS: " + path);
  }
  OrderedJson kvstore = OrderedJson::object();
  kvstore["driver"] = kDefaultDriver;
  kvstore["path"] = path;
  return kvstore;
}

}  // namespace holdfast::spec

namespace holdfast {

using spec::OrderedJson;

Result<OcdbtProcessSpec> OcdbtProcessSpec::Make(std::string process_id,
                                                bool use_replica_suffix) {
  if (IsProcessId(process_id)) {
    return OcdbtProcessSpec{std::move(process_id), use_replica_suffix};
  }
  return InvalidArgumentError("Invalid OCDBT process id: " + process_id +
                              ". Must conform to [A-Za-z0-9]+ pattern.");
}

Result<OcdbtProcessSpec> OcdbtProcessSpec::Parse(std::string_view text) {
  std::string_view id = text;
  const bool has_prefix = id.starts_with(kProcessSubdirPrefix);
  if (has_prefix) id.remove_prefix(kProcessSubdirPrefix.size());
  const bool is_replica = id.starts_with(kReplicaSubdirSuffix);
  if (is_replica) id.remove_prefix(kReplicaSubdirSuffix.size());
  if (has_prefix && IsProcessId(id)) {
    return OcdbtProcessSpec{std::string(id), is_replica};
  }
  return InvalidArgumentError("Bad string '" + std::string(text) +
                              "' for Orbax/OCDBT process spec");
}

std::string OcdbtProcessSpec::ToString() const {
  std::string name(kProcessSubdirPrefix);
  if (use_replica_suffix) name += kReplicaSubdirSuffix;
  return name + process_id;
}

Result<std::string> BuildKvstoreTspec(const std::string& directory,
                                      const KvstoreTspecOptions& options) {
  HF_ASSIGN_OR_RETURN(const OrderedJson kvstore,
                      spec::KvstoreTspec(directory, options));
  return spec::Dump(kvstore);
}

Result<std::string> BuildKvstoreTspecForMerge(const std::string& directory,
                                              const std::string& subdir) {
  KvstoreTspecOptions options;
  options.process_id = subdir.substr(subdir.rfind('_') + 1);
  options.replica_separate_folder =
      subdir.find(kReplicaSubdirSuffix) != std::string::npos;
  return BuildKvstoreTspec(directory, options);
}

Result<std::string> AddOcdbtWriteOptions(
    const std::string& kvstore_tspec,
    std::optional<int64_t> target_data_file_size) {
  HF_ASSIGN_OR_RETURN(OrderedJson kvstore, spec::ParseObject(kvstore_tspec));
  HF_RETURN_IF_ERROR(spec::AddWriteOptions(target_data_file_size, kvstore));
  return spec::Dump(kvstore);
}

Result<bool> IsRemoteStorage(const std::string& tspec) {
  HF_ASSIGN_OR_RETURN(const OrderedJson value, spec::ParseDocument(tspec));
  return spec::IsRemote(value);
}

}  // namespace holdfast
