#include "tools/rescue/database_repair.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "engine/format/directory_names.h"
#include "formats/ocdbt/database.h"
#include "formats/ocdbt/merge.h"
#include "ground/base/status_macros.h"
#include "tools/rescue/node_scan.h"

namespace holdfast {
namespace {

using ocdbt::BtreeNode;
using ocdbt::DataFile;
using ocdbt::LeafEntry;
using ocdbt::Reference;

// The quality of evidence for a key; a larger value is better.
enum class Rank : uint8_t { kFound, kProcess, kNewest };

// Values up to this size are compared if two references differ.
constexpr uint64_t kComparedBytesMax = uint64_t{1} << 20;
constexpr size_t kNotesMax = 100;
constexpr uint64_t kNodeCacheBytes = uint64_t{64} << 20;

// A claim of one piece of evidence about a key.
struct Claim {
  Rank rank = Rank::kFound;
  bool is_disputed = false;
  std::shared_ptr<const BtreeNode> node;  // holds the inline value
  size_t entry = 0;

  const LeafEntry& leaf() const { return node->leaves[entry]; }
  const DataFile& file() const { return node->files[leaf().file_index]; }
};

// Where a node should be, and what its parent says about it.
struct NodePlace {
  DataFile file;
  uint64_t offset = 0;
  uint64_t byte_count = 0;
  std::optional<uint8_t> height;
  std::string prefix;         // of all keys
  std::string inclusive_min;  // full keys
  std::optional<std::string> exclusive_max;

  auto Place() const { return std::tuple(file.path, offset); }
};

// A node that the scan found.
struct FoundNode {
  NodePlace place;
  std::shared_ptr<const BtreeNode> node;
  bool ends_file = false;
};

// Returns the directory of the database to which a file belongs: "" or
// "ocdbt.process_0/", for example.
std::string DatabaseDirectoryOf(std::string_view path) {
  const size_t slash = path.find('/');
  const std::string first(path.substr(0, slash));
  return slash != path.npos && ParseProcessDirectory(first) ? first + "/" : "";
}

class Collector {
 public:
  Collector(const DatabaseEvidence& evidence, const CancelToken* cancel)
      : evidence_(evidence),
        names_(evidence.array_names.begin(), evidence.array_names.end()),
        cancel_(cancel),
        nodes_(evidence.checked, kNodeCacheBytes, {}) {}

  Result<std::optional<RepairedDatabase>> Run() {
    HF_RETURN_IF_ERROR(ListFiles());
    if (ReadsAsItIs()) return std::optional<RepairedDatabase>();
    HF_RETURN_IF_ERROR(AddKnownRoot("", Rank::kNewest));
    for (const std::string& directory : directories_) {
      if (directory.empty()) continue;
      HF_RETURN_IF_ERROR(AddKnownRoot(directory, Rank::kProcess));
    }
    HF_RETURN_IF_ERROR(AddFoundNodes());
    return Build();
  }

 private:
  Status ListFiles() {
    directories_.insert("");
    return evidence_.files->List(
        "", [&](std::string_view key, const ObjectInfo& info) {
          const std::string directory = DatabaseDirectoryOf(key);
          directories_.insert(directory);
          if (key.substr(directory.size()).starts_with("d/")) {
            data_files_.emplace(key, info.byte_count);
          }
          entries_max_ += info.byte_count;
          return Status();
        });
  }

  Result<std::unique_ptr<ocdbt::Database>> OpenIn(
      const std::string& directory) {
    return ocdbt::Database::Open(evidence_.checked, directory, {});
  }

  // Returns true if every key of the newest generation can be listed.
  bool ReadsAsItIs() {
    const auto database = OpenIn("");
    if (!database.ok()) {
      Note(std::string(database.status().message()));
      return false;
    }
    const Status walked = (*database)->ForEach(
        "", "", "",
        [](std::string_view, const ocdbt::ValueRef&) { return Status(); },
        cancel_);
    if (!walked.ok()) Note(std::string(walked.message()));
    return walked.ok();
  }

  Status AddKnownRoot(const std::string& directory, Rank rank) {
    const auto database = OpenIn(directory);
    if (!database.ok() || !(*database)->version()) return Status();
    const ocdbt::VersionRecord& version = *(*database)->version();
    if (version.version.root.missing()) return Status();
    NodePlace root;
    root.file = version.root_file;
    root.offset = version.version.root.offset;
    root.byte_count = version.version.root.byte_count;
    root.height = version.version.root_height;
    return Visit(root, rank);
  }

  static Reference RangeOf(const NodePlace& place) {
    return {0, place.offset, place.byte_count};
  }

  // Adds the keys of the subtree at `place`, as far as its nodes can be read.
  Status Visit(const NodePlace& place, Rank rank) {
    if (cancel_ != nullptr) HF_RETURN_IF_ERROR(cancel_->Check());
    // A node may have many references. One visit for each prefix is enough.
    if (!visited_.emplace(place.file.path, place.offset, place.prefix, rank)
             .second) {
      return Status();
    }
    key_bytes_ += place.prefix.size();
    HF_RETURN_IF_ERROR(CheckBounds());
    const auto node = nodes_.ReadBtreeNode(place.file, RangeOf(place));
    if (!node.ok()) {
      if (node.status().code() == StatusCode::kResourceExhausted) {
        return node.status();
      }
      Note(std::string(node.status().message()));
      return Status();
    }
    const std::string prefix = place.prefix + std::string((*node)->key_prefix);
    if (!FitsParent(place, **node, prefix)) {
      Note("node at " + std::to_string(place.offset) + " of " +
           evidence_.files->Describe(place.file.path) +
           " is not the one that its parent refers to");
      return Status();
    }
    return (*node)->height == 0 ? AddLeaves(*node, prefix, rank)
                                : VisitChildren(place, **node, prefix, rank);
  }

  static bool FitsParent(const NodePlace& place, const BtreeNode& node,
                         const std::string& prefix) {
    if (place.height && *place.height != node.height) return false;
    const size_t count = node.entry_count();
    if (prefix + std::string(node.relative_key(0)) < place.inclusive_min) {
      return false;
    }
    return !place.exclusive_max ||
           prefix + std::string(node.relative_key(count - 1)) <
               *place.exclusive_max;
  }

  Status VisitChildren(const NodePlace& place, const BtreeNode& node,
                       const std::string& prefix, Rank rank) {
    for (size_t i = 0; i < node.children.size(); ++i) {
      const ocdbt::ChildEntry& entry = node.children[i];
      NodePlace child;
      child.file = node.files[entry.node.file_index];
      child.offset = entry.node.offset;
      child.byte_count = entry.node.byte_count;
      child.height = static_cast<uint8_t>(node.height - 1);
      child.inclusive_min = prefix + std::string(entry.key);
      child.prefix = child.inclusive_min.substr(
          0, place.prefix.size() + entry.subtree_prefix_byte_count);
      child.exclusive_max = i + 1 < node.children.size()
                                ? prefix + std::string(node.children[i + 1].key)
                                : place.exclusive_max;
      HF_RETURN_IF_ERROR(Visit(child, rank));
    }
    return Status();
  }

  Status AddLeaves(const std::shared_ptr<const BtreeNode>& node,
                   const std::string& prefix, Rank rank) {
    for (size_t i = 0; i < node->leaves.size(); ++i) {
      Claim claim;
      claim.rank = rank;
      claim.node = node;
      claim.entry = i;
      Add(prefix + std::string(node->leaves[i].key), std::move(claim));
      HF_RETURN_IF_ERROR(CheckBounds());
    }
    return Status();
  }

  // Limits the number of keys and nodes, because a small file may describe an
  // arbitrarily large tree.
  Status CheckBounds() const {
    const uint64_t key_bytes_max =
        ocdbt::kExpansionBytesFree + ocdbt::kExpansionRatioMax * entries_max_;
    if (claims_.size() <= entries_max_ && visited_.size() <= entries_max_ &&
        key_bytes_ <= key_bytes_max) {
      return Status();
    }
    return ResourceExhaustedError(
        "rescue: the nodes of the database describe more keys than the files "
        "have bytes");
  }

  void Note(std::string text) {
    if (notes_.size() < kNotesMax) notes_.push_back(std::move(text));
  }

  void Add(std::string key, Claim claim) {
    if (!claim.leaf().is_inline() &&
        !ocdbt::CheckDataFilePath(claim.file().path).ok()) {
      return;
    }
    const auto [found, is_new] = claims_.try_emplace(std::move(key), claim);
    if (is_new) {
      key_bytes_ += found->first.size();
      return;
    }
    Claim& old = found->second;
    if (claim.rank == old.rank && !SayTheSame(old, claim)) {
      old.is_disputed = true;
    } else if (claim.rank > old.rank) {
      old = std::move(claim);
    }
  }

  bool SayTheSame(const Claim& a, const Claim& b) {
    const LeafEntry& left = a.leaf();
    const LeafEntry& right = b.leaf();
    if (left.value_byte_count != right.value_byte_count) return false;
    if (!left.is_inline() && !right.is_inline() &&
        left.offset == right.offset && a.file().path == b.file().path) {
      return true;
    }
    if (left.value_byte_count > kComparedBytesMax) return false;
    const Result<Bytes> one = ValueOf(a);
    const Result<Bytes> other = ValueOf(b);
    return one.ok() && other.ok() && one->view() == other->view();
  }

  Result<Bytes> ValueOf(const Claim& claim) {
    const LeafEntry& leaf = claim.leaf();
    if (leaf.is_inline()) return Bytes(claim.node, leaf.inline_value());
    return ocdbt::ReadFileRange(*evidence_.files, claim.file().path,
                                leaf.offset, leaf.value_byte_count);
  }

  Status AddFoundNodes() {
    std::vector<FoundNode> found;
    std::set<std::tuple<std::string, uint64_t>> children;
    std::set<std::tuple<std::string, uint64_t>> roots;
    for (const auto& [path, byte_count] : data_files_) {
      HF_ASSIGN_OR_RETURN(
          const std::vector<ScannedNode> nodes,
          ScanForNodes(*evidence_.files, path, byte_count, cancel_));
      for (const ScannedNode& scanned : nodes) {
        NodePlace place;
        place.file = {path, DatabaseDirectoryOf(path).size()};
        place.offset = scanned.offset;
        place.byte_count = scanned.byte_count;
        if (scanned.kind == ocdbt::ObjectKind::kVersionTreeNode) {
          NoteVersions(place, roots);
          continue;
        }
        const auto node = nodes_.ReadBtreeNode(place.file, RangeOf(place));
        if (!node.ok()) continue;
        for (const ocdbt::ChildEntry& child : (*node)->children) {
          children.emplace((*node)->files[child.node.file_index].path,
                           child.node.offset);
        }
        found.push_back(
            {place, *node, place.offset + place.byte_count == byte_count});
      }
    }
    for (const FoundNode& node : found) {
      if (children.contains(node.place.Place())) continue;
      if (roots.contains(node.place.Place()) || IsRoot(node)) {
        HF_RETURN_IF_ERROR(Visit(node.place, Rank::kFound));
      } else {
        Note(
            "node at " + std::to_string(node.place.offset) + " of " +
            evidence_.files->Describe(node.place.file.path) +
            " belongs to a tree whose root is lost: its keys lack their start");
      }
    }
    return Status();
  }

  // Records the roots that old generations name.
  void NoteVersions(const NodePlace& place,
                    std::set<std::tuple<std::string, uint64_t>>& roots) {
    const auto node = nodes_.ReadVersionTreeNode(place.file, RangeOf(place));
    if (!node.ok()) return;
    for (const ocdbt::Version& version : node->versions) {
      if (version.root.missing()) continue;
      roots.emplace(node->files[version.root.file_index].path,
                    version.root.offset);
    }
  }

  bool IsRoot(const FoundNode& found) const {
    const BtreeNode& node = *found.node;
    if (names_.empty() || node.height > 0) return found.ends_file;
    return std::ranges::all_of(node.leaves, [&](const LeafEntry& leaf) {
      return NamesAnArray(std::string(node.key_prefix) + std::string(leaf.key));
    });
  }

  // Returns true if the key belongs to a known array, as "a.b/.zarray" and
  // "a.b/c/0/1" belong to "a.b".
  bool NamesAnArray(std::string_view key) const {
    if (names_.contains("")) return true;
    for (size_t slash = key.find('/'); slash != key.npos;
         slash = key.find('/', slash + 1)) {
      if (names_.contains(std::string(key.substr(0, slash)))) return true;
    }
    return false;
  }

  Result<std::optional<RepairedDatabase>> Build() {
    RepairedDatabase made;
    made.notes = std::move(notes_);
    ocdbt::EntryList list;
    std::map<std::pair<std::string, size_t>, uint32_t> numbers;
    for (auto& [key, claim] : claims_) {
      if (claim.is_disputed) {
        if (made.notes.size() >= kNotesMax) continue;
        made.notes.push_back("key \"" + key +
                             "\" has two values, and which of them is newer "
                             "cannot be told");
        continue;
      }
      LeafEntry entry = claim.leaf();
      entry.key = key;
      if (!entry.is_inline()) {
        const DataFile& file = claim.file();
        const auto [number, is_new] = numbers.try_emplace(
            {file.path, file.base_byte_count}, list.files.size());
        if (is_new) list.files.push_back(file);
        entry.file_index = number->second;
      }
      list.entries.push_back(entry);
    }
    made.key_count = list.entries.size();
    if (list.entries.empty()) return std::optional(std::move(made));
    made.files = std::make_unique<MemoryStore>("rescue");
    ocdbt::BulkWriteOptions options;
    options.max_inline_value_bytes = ocdbt::kInlineValueBytesMax;
    options.sync = false;
    std::vector<ocdbt::MergeChild> children;
    children.push_back({"", std::move(list)});
    HF_RETURN_IF_ERROR(
        ocdbt::MergeEntries(made.files.get(), "", std::move(children), options)
            .status());
    return std::optional(std::move(made));
  }

  const DatabaseEvidence& evidence_;
  const std::unordered_set<std::string> names_;
  const CancelToken* const cancel_;
  ocdbt::NodeSource nodes_;
  std::set<std::string> directories_;
  std::map<std::string, uint64_t> data_files_;  // with their sizes
  uint64_t entries_max_ = 0;                    // a key has at least one byte
  uint64_t key_bytes_ = 0;  // of keys and prefixes in memory
  std::set<std::tuple<std::string, uint64_t, std::string, Rank>> visited_;
  std::map<std::string, Claim> claims_;  // by key
  std::vector<std::string> notes_;
};

}  // namespace

Result<std::optional<RepairedDatabase>> RepairDatabase(
    const DatabaseEvidence& evidence, const CancelToken* cancel) {
  return Collector(evidence, cancel).Run();
}

}  // namespace holdfast
