#include "formats/ocdbt/append.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "formats/ocdbt/bulk_writer.h"
#include "formats/ocdbt/database.h"
#include "formats/ocdbt/format/limits.h"
#include "formats/ocdbt/node_source.h"
#include "ground/base/status_macros.h"

namespace holdfast::ocdbt {
namespace {

Result<BulkWriteSummary> CreateDatabase(Store* store,
                                        const std::string& directory,
                                        std::span<const AppendEntry> entries,
                                        const BulkWriteOptions& options) {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<BulkWriter> writer,
                      BulkWriter::Create(store, directory, options));
  size_t index = 0;
  for (const AppendEntry& entry : entries) {
    EncodedChunk borrowed;
    borrowed.pieces = entry.value.pieces;
    borrowed.byte_count = entry.value.byte_count;
    HF_RETURN_IF_ERROR(writer->Put(index++, entry.key, std::move(borrowed)));
  }
  return writer->Finish();
}

// Returns `options` with the settings of the database's configuration, which
// decide the form of nodes and values.
BulkWriteOptions ConfiguredBy(const Config& config, BulkWriteOptions options) {
  options.max_inline_value_bytes = config.max_inline_value_bytes;
  options.max_decoded_node_bytes = config.max_decoded_node_bytes;
  options.version_tree_arity_log2 = config.version_tree_arity_log2;
  options.compress_nodes = config.compression.zstd;
  return options;
}

// Returns the table with paths relative to `directory`: paths of a decoded
// table start with the database's directory, but written paths must not.
DataFileTable RelativeTo(const std::string& directory,
                         const DataFileTable& files) {
  DataFileTable result;
  for (const DataFile& file : files) {
    result.push_back({file.path.substr(directory.size()),
                      file.base_byte_count - directory.size()});
  }
  return result;
}

using IsRemoved = std::function<bool(std::string_view key)>;

// Merges two sorted lists. If a key is in both, the entry in `added` wins.
std::vector<LeafEntry> MergeSorted(const std::vector<LeafEntry>& old,
                                   const std::vector<LeafEntry>& added) {
  std::vector<LeafEntry> merged;
  merged.reserve(old.size() + added.size());
  // std::set_union takes equal elements from its first range.
  std::set_union(
      added.begin(), added.end(), old.begin(), old.end(),
      std::back_inserter(merged),
      [](const LeafEntry& a, const LeafEntry& b) { return a.key < b.key; });
  return merged;
}

Result<std::vector<LeafEntry>> PlaceValues(std::span<const AppendEntry> entries,
                                           uint64_t inline_bytes_max,
                                           DataFileAppender& appender,
                                           TextArena& arena) {
  std::vector<LeafEntry> placed;
  placed.reserve(entries.size());
  for (const AppendEntry& added : entries) {
    if (added.key.size() > kKeyBytesMax) {
      return InvalidArgumentError("Key of " + std::to_string(added.key.size()) +
                                  " bytes exceeds limit of 65535");
    }
    LeafEntry entry;
    entry.key = arena.Copy(added.key);
    const EncodedChunk& value = added.value;
    if (value.byte_count <= inline_bytes_max) {
      std::string text;
      for (const std::string_view piece : value.pieces) text += piece;
      entry.SetInline(arena.Copy(text));
    } else {
      const Reference place = appender.Place(value.byte_count);
      HF_RETURN_IF_ERROR(appender.Write(place, value.pieces));
      entry.SetIndirect(place);
    }
    placed.push_back(entry);
  }
  SortByKey(placed);
  HF_RETURN_IF_ERROR(CheckKeysDiffer(placed));
  return placed;
}

// Moves the versions of a full manifest into version tree nodes, so that the
// next generation starts a new list. At each height, a node either accepts the
// next child, or is complete and becomes a child of the next height.
class VersionArchiver {
 public:
  VersionArchiver(Database& database, DataFileAppender& appender,
                  const DataFileTable& appended, Manifest& manifest)
      : database_(database),
        appender_(appender),
        appended_(appended),
        manifest_(manifest) {}

  Status Archive(uint64_t next_generation) {
    // Every node that may be rewritten is checked before it is trusted.
    HF_RETURN_IF_ERROR(database_.Versions().status());
    VersionTreeNode leaf;
    leaf.files = manifest_.files;
    leaf.versions = std::move(manifest_.versions);
    manifest_.versions.clear();
    HF_ASSIGN_OR_RETURN(VersionNodeReference carried, Write(leaf));
    const int arity_log2 = manifest_.config.version_tree_arity_log2;
    for (const VersionNodeSlot& slot :
         VersionNodeSlots(next_generation, arity_log2)) {
      const auto at = FindHeight(slot.height);
      const bool exists = at != manifest_.version_nodes.end();
      const bool open = exists && at->generation >= slot.first_generation;
      VersionTreeNode node;
      node.height = static_cast<uint8_t>(slot.height);
      if (open) HF_RETURN_IF_ERROR(ReadChildren(*at, node));
      node.files.push_back(manifest_.files[carried.node.file_index]);
      carried.node.file_index = static_cast<uint32_t>(node.files.size() - 1);
      node.children.push_back(carried);
      HF_ASSIGN_OR_RETURN(const VersionNodeReference written, Write(node));
      if (!exists) {
        Insert(written);
        return Status();
      }
      // A complete node is replaced by the new node and moves up one height; an
      // open node was merely rewritten.
      carried = std::exchange(*at, written);
      if (open) return Status();
    }
    return Status();
  }

 private:
  std::vector<VersionNodeReference>::iterator FindHeight(int height) {
    return std::find_if(manifest_.version_nodes.begin(),
                        manifest_.version_nodes.end(),
                        [&](const VersionNodeReference& reference) {
                          return reference.height == height;
                        });
  }

  void Insert(const VersionNodeReference& written) {
    const auto at = std::find_if(manifest_.version_nodes.begin(),
                                 manifest_.version_nodes.end(),
                                 [&](const VersionNodeReference& reference) {
                                   return reference.height < written.height;
                                 });
    manifest_.version_nodes.insert(at, written);
  }

  Status ReadChildren(const VersionNodeReference& from, VersionTreeNode& node) {
    DataFile file = manifest_.files[from.node.file_index];
    file.path.insert(0, database_.directory());
    file.base_byte_count += database_.directory().size();
    NodeSource source(database_.store(), 0, {});
    HF_ASSIGN_OR_RETURN(node, source.ReadVersionTreeNode(file, from.node));
    node.files = RelativeTo(database_.directory(), node.files);
    return Status();
  }

  Result<VersionNodeReference> Write(VersionTreeNode& node) {
    node.version_tree_arity_log2 = manifest_.config.version_tree_arity_log2;
    HF_ASSIGN_OR_RETURN(const Bytes object,
                        SealEnvelope(ObjectKind::kVersionTreeNode,
                                     EncodeVersionTreeNodeBody(node).view(),
                                     manifest_.config.compression));
    VersionNodeReference written;
    written.generation = node.LastGeneration();
    written.height = node.height;
    written.generation_count = node.versions.size();
    written.commit_time_ns = node.height == 0
                                 ? node.versions.front().commit_time_ns
                                 : node.children.front().commit_time_ns;
    for (const VersionNodeReference& child : node.children) {
      written.generation_count += child.generation_count;
    }
    written.node = appender_.Place(object.size());
    const std::string_view piece = object.view();
    HF_RETURN_IF_ERROR(appender_.Write(written.node, {&piece, 1}));
    manifest_.files.push_back(appended_[written.node.file_index]);
    written.node.file_index = static_cast<uint32_t>(manifest_.files.size() - 1);
    return written;
  }

  Database& database_;
  DataFileAppender& appender_;
  const DataFileTable& appended_;
  Manifest& manifest_;
};

Result<BulkWriteSummary> AppendTo(Database& database,
                                  std::span<const AppendEntry> entries,
                                  const BulkWriteOptions& options,
                                  const IsRemoved& is_removed,
                                  const CancelToken* cancel) {
  if (database.manifest().config.manifest_kind != ManifestKind::kSingle) {
    return UnimplementedError(
        "Appending to an OCDBT database with numbered manifests is not part "
        "of this release yet: " +
        database.store()->Describe(database.directory() +
                                   std::string(kManifestName)));
  }
  HF_ASSIGN_OR_RETURN(EntryList list, ReadAllEntries(database, cancel));
  if (is_removed) {
    std::erase_if(list.entries, [&](const LeafEntry& entry) {
      return is_removed(entry.key);
    });
  }
  Manifest manifest = database.manifest();
  manifest.files = RelativeTo(database.directory(), manifest.files);

  const auto arena = std::make_shared<TextArena>();
  list.owners.push_back(arena);
  DataFileAppender appender(database.store(),
                            MakeDataFileOptions(options, database.directory()),
                            &list.files);
  HF_ASSIGN_OR_RETURN(
      const std::vector<LeafEntry> added,
      PlaceValues(entries, options.max_inline_value_bytes, appender, *arena));
  list.entries = MergeSorted(list.entries, added);
  HF_ASSIGN_OR_RETURN(const BuiltTree tree, WriteTree(options, appender, list));

  // Commit times must increase even if the clock went back.
  const Version newest = manifest.versions.back();
  const uint64_t generation = newest.generation + 1;
  const uint64_t list_span = uint64_t{1} << options.version_tree_arity_log2;
  // The manifest's own list is full, so its versions move into the version
  // tree.
  if ((generation - 1) % list_span == 0) {
    HF_RETURN_IF_ERROR(VersionArchiver(database, appender, list.files, manifest)
                           .Archive(generation));
  }
  AddVersion(generation,
             std::max(CommitTimeNs(options), newest.commit_time_ns + 1), tree,
             list.files, manifest);
  // Values and nodes are in their files before the manifest refers to them.
  HF_ASSIGN_OR_RETURN(std::vector<WrittenFile> files, appender.Finish());
  HF_ASSIGN_OR_RETURN(const uint64_t manifest_byte_count,
                      PublishManifest(database.store(), database.directory(),
                                      options, manifest, false));
  return Summarize(tree, std::move(files), manifest_byte_count, list);
}

}  // namespace

AppendEntry BorrowEntry(std::string_view key, std::string_view value) {
  AppendEntry entry{key, {}};
  if (!value.empty()) entry.value.pieces.push_back(value);
  entry.value.byte_count = value.size();
  return entry;
}

Result<BulkWriteSummary> AppendEntries(Store* store,
                                       const std::string& directory,
                                       std::span<const AppendEntry> entries,
                                       const BulkWriteOptions& options,
                                       const IsRemoved& is_removed,
                                       const CancelToken* cancel) {
  HF_RETURN_IF_ERROR(CheckBulkWriteOptions(options, directory));
  const Result<std::unique_ptr<Database>> database =
      Database::Open(store, directory);
  // There is no database yet, so the first append creates it.
  if (!database.ok() && database.status().code() == StatusCode::kNotFound) {
    return CreateDatabase(store, directory, entries, options);
  }
  HF_RETURN_IF_ERROR(database.status());
  return AppendTo(**database, entries,
                  ConfiguredBy((*database)->manifest().config, options),
                  is_removed, cancel);
}

}  // namespace holdfast::ocdbt
