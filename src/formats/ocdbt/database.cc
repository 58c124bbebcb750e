#include "formats/ocdbt/database.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast::ocdbt {
namespace {

constexpr std::string_view kNumberedManifestPrefix = "manifest.";
constexpr size_t kGenerationDigits = 16;

VersionRecord Record(const Version& version, const DataFileTable& files) {
  return {version, files[version.root.file_index]};
}

// Parses "manifest.%016x". Like TensorStore, accepts only numbers that start
// with a decimal digit, and ignores zero and uppercase digits. Returns 0 for
// other names.
uint64_t ParseNumberedManifest(std::string_view name) {
  if (!name.starts_with(kNumberedManifestPrefix)) return 0;
  name.remove_prefix(kNumberedManifestPrefix.size());
  if (name.size() != kGenerationDigits || name[0] > '9') return 0;
  uint64_t number = 0;
  for (const char c : name) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return 0;
    number =
        number << 4 | static_cast<uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return number;
}

std::string NumberedManifestName(uint64_t generation) {
  return std::string(kNumberedManifestPrefix) +
         HexNumber(generation, kGenerationDigits);
}

// Returns a string of everything that decides the result of a walk.
std::string RootIdentity(const VersionRecord& record) {
  const Version& version = record.version;
  std::string identity = record.root_file.path;
  for (const uint64_t number :
       {uint64_t{record.root_file.base_byte_count}, version.root.offset,
        version.root.byte_count, uint64_t{version.root_height}}) {
    identity += ' ' + std::to_string(number);
  }
  return identity + StatisticsText(version.statistics);
}

Status CheckVersionNode(const VersionTreeNode& node,
                        const VersionNodeReference& from, int arity_log2) {
  if (node.height != from.height) {
    return DataLossError("Expected height of " + std::to_string(from.height) +
                         " but received: " + std::to_string(node.height));
  }
  if (node.version_tree_arity_log2 != arity_log2) {
    return DataLossError(
        "Expected version_tree_arity_log2=" + std::to_string(arity_log2) +
        " but received: " + std::to_string(node.version_tree_arity_log2));
  }
  if (node.LastGeneration() == from.generation) return Status();
  return DataLossError(
      "Expected generation number " + std::to_string(from.generation) +
      " but received: " + std::to_string(node.LastGeneration()));
}

// The sizes of data files. Each size is requested only once.
class FileSizes {
 public:
  explicit FileSizes(Store& store) : store_(store) {}

  Status CheckValue(const ValueRef& value) {
    if (value.is_inline) return Status();
    HF_ASSIGN_OR_RETURN(const uint64_t size, Get(value.file));
    // Does not add the two numbers: they come from a file, and the sum may
    // overflow.
    if (value.offset <= size && value.byte_count <= size - value.offset) {
      return Status();
    }
    return RangeError(value.offset, value.byte_count, size)
        .WithContext(
            RangeText(store_, value.file, value.offset, value.byte_count));
  }

 private:
  Result<uint64_t> Get(std::string_view file) {
    if (file == last_file_) return last_size_;
    last_file_ = file;
    const auto found = sizes_.find(last_file_);
    if (found != sizes_.end()) return last_size_ = found->second;
    const Result<ObjectInfo> info = store_.Stat(file);
    if (!info.ok()) {
      return info.status().WithContext("Error reading data file " +
                                       store_.Describe(file));
    }
    last_size_ = info->byte_count;
    sizes_.emplace(last_file_, last_size_);
    return last_size_;
  }

  Store& store_;
  std::unordered_map<std::string, uint64_t> sizes_;
  std::string last_file_;
  uint64_t last_size_ = 0;
};

}  // namespace

Database::Database(Store* store, std::string directory,
                   const OpenOptions& options)
    : directory_(std::move(directory)),
      options_(options),
      source_(store, options.node_cache_bytes_max, options.limits) {}

Result<std::unique_ptr<Database>> Database::Open(Store* store,
                                                 std::string directory,
                                                 const OpenOptions& options) {
  if (!directory.empty() && directory.back() != '/') {
    return InvalidArgumentError("OCDBT directory \"" + directory +
                                "\" must be empty or end in '/'");
  }
  std::unique_ptr<Database> database(
      new Database(store, std::move(directory), options));
  HF_RETURN_IF_ERROR(database->ReadManifests());
  HF_RETURN_IF_ERROR(database->SelectVersion(options.generation));
  return database;
}

std::string Database::ManifestText() const {
  return store()->Describe(directory_ + std::string(kManifestName));
}

Result<Manifest> Database::ReadManifest(const std::string& name) {
  const std::string path = directory_ + name;
  Result<Bytes> object = store()->Read(path);
  if (!object.ok()) {
    return object.status().WithContext("Error reading OCDBT manifest " +
                                       store()->Describe(path));
  }
  Result<Manifest> manifest =
      DecodeManifest(*object, directory_, options_.limits);
  if (manifest.ok()) return manifest;
  return manifest.status().WithContext("Error decoding " +
                                       store()->Describe(path));
}

Result<uint64_t> Database::NewestManifestNumber() {
  uint64_t newest = 0;
  const std::string prefix = directory_ + std::string(kNumberedManifestPrefix);
  HF_RETURN_IF_ERROR(
      store()->List(prefix, [&](std::string_view key, const ObjectInfo&) {
        key.remove_prefix(directory_.size());
        newest = std::max(newest, ParseNumberedManifest(key));
        return Status();
      }));
  return newest;
}

Status Database::ReadManifests() {
  HF_ASSIGN_OR_RETURN(manifest_, ReadManifest(std::string(kManifestName)));
  if (manifest_.config.manifest_kind == ManifestKind::kSingle) return Status();
  HF_ASSIGN_OR_RETURN(const uint64_t number, NewestManifestNumber());
  if (number == 0) return Status();
  const std::string name = NumberedManifestName(number);
  HF_ASSIGN_OR_RETURN(Manifest newest, ReadManifest(name));
  const std::string context =
      "Error decoding " + store()->Describe(directory_ + name);
  if (newest.config.manifest_kind != ManifestKind::kSingle) {
    return DataLossError(
               "Expected single-file manifest kind, but received: numbered")
        .WithContext(context);
  }
  if (newest.versions.back().generation != number) {
    return DataLossError("Expected generation number " +
                         std::to_string(number) + ", but received: " +
                         std::to_string(newest.versions.back().generation))
        .WithContext(context);
  }
  HF_RETURN_IF_ERROR(
      CheckSameConfig(manifest_.config, newest.config).WithContext(context));
  newest.config = manifest_.config;
  manifest_ = std::move(newest);
  return Status();
}

Status Database::SelectVersion(std::optional<uint64_t> generation) {
  if (generation.has_value()) {
    HF_ASSIGN_OR_RETURN(version_, FindVersion(*generation));
  } else if (!manifest_.versions.empty()) {
    version_ = Record(manifest_.versions.back(), manifest_.files);
  }
  return Status();
}

Result<VersionTreeNode> Database::ReadVersionNode(
    const DataFileTable& files, const VersionNodeReference& from) {
  const DataFile& file = files[from.node.file_index];
  HF_ASSIGN_OR_RETURN(VersionTreeNode node,
                      source_.ReadVersionTreeNode(file, from.node));
  const Status status =
      CheckVersionNode(node, from, manifest_.config.version_tree_arity_log2);
  if (status.ok()) return node;
  return status.WithContext("Error reading " + RangeText(*store(), file.path,
                                                         from.node.offset,
                                                         from.node.byte_count));
}

Result<VersionRecord> Database::FindVersion(uint64_t generation) {
  const Status absent =
      NotFoundError("Generation " + std::to_string(generation) + " is not in " +
                    ManifestText());
  // Step by step, `node` becomes the node that must hold the generation.
  VersionTreeNode node;
  node.files = manifest_.files;
  node.versions = manifest_.versions;
  node.children = manifest_.version_nodes;
  while (true) {
    for (const Version& version : node.versions) {
      if (version.generation == generation) return Record(version, node.files);
    }
    const auto child = std::find_if(node.children.begin(), node.children.end(),
                                    [&](const VersionNodeReference& reference) {
                                      return reference.generation >= generation;
                                    });
    if (child == node.children.end()) return absent;
    HF_ASSIGN_OR_RETURN(node, ReadVersionNode(node.files, *child));
  }
}

Status Database::AppendVersions(const DataFileTable& files,
                                const VersionNodeReference& from,
                                std::vector<VersionRecord>& versions) {
  HF_ASSIGN_OR_RETURN(const VersionTreeNode node, ReadVersionNode(files, from));
  const size_t start = versions.size();
  for (const Version& version : node.versions) {
    versions.push_back(Record(version, node.files));
  }
  for (const VersionNodeReference& child : node.children) {
    HF_RETURN_IF_ERROR(AppendVersions(node.files, child, versions));
  }
  const uint64_t count = versions.size() - start;
  const uint64_t first_ns = versions[start].version.commit_time_ns;
  if (count == from.generation_count && first_ns == from.commit_time_ns) {
    return Status();
  }
  return DataLossError(
      "Version tree node has num_generations=" + std::to_string(count) +
      " and commit_time=" + CommitTimeText(first_ns) + ", but " +
      std::to_string(from.generation_count) + " and " +
      CommitTimeText(from.commit_time_ns) + " are stated for it: " +
      RangeText(*store(), files[from.node.file_index].path, from.node.offset,
                from.node.byte_count));
}

Result<std::vector<VersionRecord>> Database::Versions() {
  std::vector<VersionRecord> versions;
  for (const VersionNodeReference& node : manifest_.version_nodes) {
    HF_RETURN_IF_ERROR(AppendVersions(manifest_.files, node, versions));
  }
  for (const Version& version : manifest_.versions) {
    versions.push_back(Record(version, manifest_.files));
  }
  return versions;
}

Subtree Database::RootOf(const VersionRecord& record) {
  Subtree root;
  root.file = record.root_file;
  root.node = record.version.root;
  root.height = record.version.root_height;
  root.statistics = record.version.statistics;
  return root;
}

Result<std::shared_ptr<const TreeLeaf>> Database::LeafOf(std::string_view key) {
  {
    // Consecutive lookups are mostly for keys in the same leaf.
    std::lock_guard lock(last_leaf_mutex_);
    if (last_leaf_ != nullptr && last_leaf_->Covers(key)) return last_leaf_;
  }
  if (!version_.has_value() || version_->version.root.missing()) {
    return std::shared_ptr<const TreeLeaf>();
  }
  HF_ASSIGN_OR_RETURN(std::shared_ptr<const TreeLeaf> leaf,
                      FindLeaf(source_, RootOf(*version_), key));
  if (leaf != nullptr) {
    std::lock_guard lock(last_leaf_mutex_);
    last_leaf_ = leaf;
  }
  return leaf;
}

Result<ValueRef> Database::Find(std::string_view key) {
  HF_ASSIGN_OR_RETURN(const auto leaf, LeafOf(key));
  if (leaf != nullptr) {
    HF_ASSIGN_OR_RETURN(std::optional<ValueRef> value, FindInLeaf(*leaf, key));
    if (value.has_value()) return *std::move(value);
  }
  return NotFoundError("Key \"" + std::string(key) + "\" is not in " +
                       ManifestText());
}

Status Database::ForEach(std::string_view prefix,
                         std::string_view inclusive_min,
                         std::string_view exclusive_max, const KeyFn& fn,
                         const CancelToken* cancel) {
  if (!version_.has_value() || version_->version.root.missing()) {
    return Status();
  }
  KeyRange range = KeyRange::WithPrefix(prefix);
  range.Narrow(inclusive_min, exclusive_max);
  return WalkTree(source_, RootOf(*version_), range,
                  {.keys_max = options_.keys_max, .cancel = cancel}, fn);
}

Status Database::CheckAll(const CancelToken* cancel) {
  FileSizes sizes(*store());
  const KeyFn check_value = [&](std::string_view key, const ValueRef& value) {
    Status status = sizes.CheckValue(value);
    if (status.ok()) return status;
    return status.WithContext("Value of key \"" + std::string(key) + '"');
  };
  HF_ASSIGN_OR_RETURN(const std::vector<VersionRecord> versions, Versions());
  std::set<std::string> seen;  // generations may share a root
  for (const VersionRecord& record : versions) {
    if (record.version.root.missing()) continue;
    // The same root with the same statistics gives the same result.
    if (!seen.insert(RootIdentity(record)).second) continue;
    HF_RETURN_IF_ERROR(WalkTree(
        source_, RootOf(record), KeyRange(),
        {.keys_max = options_.keys_max, .cancel = cancel}, check_value));
  }
  return Status();
}

}  // namespace holdfast::ocdbt
