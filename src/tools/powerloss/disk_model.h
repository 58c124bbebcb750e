// A model of a POSIX file system under power loss. It knows which changes are
// surely on the disk, and which may not have reached it.
//
// It promises no more than POSIX does. Written bytes are safe once their file
// was synced. A name is safe once its directory was synced, and a rename
// between directories once both were synced. Any other change may be lost,
// independently of all others, even if later changes were made safe.
// Changes refer to nodes (inodes), so that a rename does not confuse them.
// Thread-safety: values. Ownership: contents are shared and never changed.
// Units: bytes. Errors: none: a change that does not apply is ignored.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

using NodeId = uint64_t;
inline constexpr NodeId kRootNode = 0;
inline constexpr NodeId kNoNode = ~NodeId{0};

using FileBytes = std::shared_ptr<const std::string>;
// Maps paths relative to the root to contents; null means a directory. The root
// itself is not included. A symbolic link's content is kLinkMark and its
// target.
inline constexpr std::string_view kLinkMark = "\1symbolic link to ";
using Files = std::map<std::string, FileBytes>;

// The fingerprint of everything below `prefix` ("" means all): equal files have
// equal fingerprints.
using Fingerprint = std::pair<uint64_t, uint64_t>;
Fingerprint FingerprintOf(const Files& files, const std::string& prefix);

struct DiskChange {
  enum class Kind : uint8_t {
    kCreate,         // makes the file `node` as `name` in `parent`, with `data`
    kMakeDirectory,  // makes the directory `node` as `name` in `parent`
    kWrite,          // `data` at `offset` of `node`
    kResize,         // `node` to `offset` bytes
    kMove,           // `node` from `parent`/`name` to `to_parent`/`to_name`
    kExchange,       // the same, and `other` takes its place
    kLink,           // `node` is also `to_name` in `to_parent`
    kRemove,         // `name` of `node` in `parent`
    kSync,           // all changes of `node`; kNoNode means of every node
  };
  Kind kind = Kind::kSync;
  NodeId node = kNoNode;
  NodeId parent = kNoNode;
  std::string name = {};
  NodeId to_parent = kNoNode;
  std::string to_name = {};
  NodeId other = kNoNode;
  uint64_t offset = 0;
  std::string data = {};

  bool is_data() const { return kind == Kind::kWrite || kind == Kind::kResize; }
};

// The complete state of a disk.
class DiskState {
 public:
  DiskState() { directories_[kRootNode]; }

  void Apply(const DiskChange& change);
  // Nodes without a name are not included.
  Files List() const;
  // Returns one path of each node that has a name. The root's is ".".
  std::map<NodeId, std::string> Paths() const;

 private:
  using Visit = std::function<void(const std::string& path, NodeId node)>;
  void VisitBelow(NodeId directory, const std::string& prefix,
                  const Visit& visit) const;
  void Put(NodeId directory, const std::string& name, NodeId node);
  // Removes `name` from the directory if it names `node`. Returns whether it
  // did.
  bool Take(NodeId directory, const std::string& name, NodeId node);
  void Write(const DiskChange& change);
  void Exchange(const DiskChange& change);

  std::map<NodeId, FileBytes> files_;
  std::map<NodeId, std::map<std::string, NodeId>> directories_;
};

// The safe state, and the changes that are not safe yet, in the order in which
// they were made.
class DiskModel {
 public:
  explicit DiskModel(DiskState start) : safe_(std::move(start)) {}

  void Step(const DiskChange& change);
  const DiskState& safe() const { return safe_; }
  size_t pending_count() const { return pending_.size(); }
  const DiskChange& pending(size_t index) const {
    return pending_[index].change;
  }
  // Returns the nodes whose sync would make a pending change safe.
  std::vector<NodeId> MissingSyncs(size_t index) const {
    return NodesToSync(pending_[index]);
  }
  // Returns the state after a power loss. `survivor` is called with the index
  // of each pending change and the change, and returns what is left of the
  // change; null means nothing.
  using Survivor = std::function<const DiskChange*(size_t, const DiskChange&)>;
  DiskState After(const Survivor& survivor) const;

 private:
  struct Pending {
    DiskChange change;
    // For a change of names: which of its directories have been synced since.
    bool parent_is_synced = false;
    bool to_parent_is_synced = false;
  };
  static std::vector<NodeId> NodesToSync(const Pending& pending);

  DiskState safe_;
  std::vector<Pending> pending_;
};

}  // namespace holdfast
