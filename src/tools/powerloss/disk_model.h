// A model of a POSIX file system under power loss: what a disk holds for sure,
// and what may or may not have reached it.
//
// It promises no more than POSIX does. Written bytes are safe when their file
// was synced. A name is safe when its directory was synced; a rename between
// directories when both were. Everything else may be lost, each change by
// itself, in any order, whatever was made safe later.
// Changes speak of nodes (inodes), so that a rename does not confuse them.
// Thread-safety: values. Ownership: contents are shared and never changed.
// Units: bytes. Errors: none: a change that does not fit is left out.
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
// Paths relative to the root -> content; null: a directory. Without the root.
// A symbolic link's content is kLinkMark and where it leads to.
inline constexpr std::string_view kLinkMark = "\1symbolic link to ";
using Files = std::map<std::string, FileBytes>;

// The fingerprint of all that lies below `prefix` ("": everything): equal files
// give equal ones.
using Fingerprint = std::pair<uint64_t, uint64_t>;
Fingerprint FingerprintOf(const Files& files, const std::string& prefix);

struct DiskChange {
  enum class Kind : uint8_t {
    kCreate,         // the file `node` as `name` in `parent`, holding `data`
    kMakeDirectory,  // the directory `node` as `name` in `parent`
    kWrite,          // `data` at `offset` of `node`
    kResize,         // `node` to `offset` bytes
    kMove,           // `node` from `parent`/`name` to `to_parent`/`to_name`
    kExchange,       // the same, and `other` the other way
    kLink,           // `node`, also as `to_name` in `to_parent`
    kRemove,         // `node`'s `name` in `parent`
    kSync,           // all that was done to `node`; kNoNode: to every node
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

// The whole state of a disk.
class DiskState {
 public:
  DiskState() { directories_[kRootNode]; }

  void Apply(const DiskChange& change);
  // Nodes that no name leads to are not among them.
  Files List() const;
  // A path of each node that has one; "." is the root's.
  std::map<NodeId, std::string> Paths() const;

 private:
  using Visit = std::function<void(const std::string& path, NodeId node)>;
  void VisitBelow(NodeId directory, const std::string& prefix,
                  const Visit& visit) const;
  void Put(NodeId directory, const std::string& name, NodeId node);
  // Whether `name` was `node` there.
  bool Take(NodeId directory, const std::string& name, NodeId node);
  void Write(const DiskChange& change);
  void Exchange(const DiskChange& change);

  std::map<NodeId, FileBytes> files_;
  std::map<NodeId, std::map<std::string, NodeId>> directories_;
};

// The safe state, and the changes that are not safe, in their order.
class DiskModel {
 public:
  explicit DiskModel(DiskState start) : safe_(std::move(start)) {}

  void Step(const DiskChange& change);
  const DiskState& safe() const { return safe_; }
  size_t pending_count() const { return pending_.size(); }
  const DiskChange& pending(size_t index) const {
    return pending_[index].change;
  }
  // The nodes whose sync would make a pending change safe.
  std::vector<NodeId> MissingSyncs(size_t index) const {
    return NodesToSync(pending_[index]);
  }
  // The state that a power loss leaves when `survivor` gives what is left of
  // each pending change, by its index; null: nothing.
  using Survivor = std::function<const DiskChange*(size_t, const DiskChange&)>;
  DiskState After(const Survivor& survivor) const;

 private:
  struct Pending {
    DiskChange change;
    // For a change of names: which of its directories were synced since.
    bool parent_is_synced = false;
    bool to_parent_is_synced = false;
  };
  static std::vector<NodeId> NodesToSync(const Pending& pending);

  DiskState safe_;
  std::vector<Pending> pending_;
};

}  // namespace holdfast
