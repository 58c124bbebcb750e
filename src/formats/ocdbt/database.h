// Database: reads an OCDBT database, the container of Orbax checkpoints.
//
// Thread-safety: any thread may call const and non-const methods after Open.
// Ownership: the store is borrowed and must outlive the database; value
// references keep alive what they point at. Units: bytes; nanoseconds since
// 1970-01-01 UTC.
// Errors: NotFound for an absent manifest, generation, key or data file;
// OutOfRange for a range that a data file does not have; DataLoss,
// InvalidArgument or FailedPrecondition (see the format's documentation) for
// damage.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/ocdbt/format/manifest.h"
#include "formats/ocdbt/node_source.h"
#include "formats/ocdbt/tree_walk.h"
#include "ground/base/cancel.h"
#include "holdfast/status.h"
#include "stores/storage/store.h"

namespace holdfast::ocdbt {

inline constexpr std::string_view kManifestName = "manifest.ocdbt";

struct OpenOptions {
  std::optional<uint64_t> generation;  // default: the newest
  uint64_t node_cache_bytes_max = 100000000;
  // A walk that meets more keys than this, or more than the root's statistics
  // state, fails with DataLoss.
  uint64_t keys_max = uint64_t{1} << 27;
  DecodeLimits limits;
};

// One generation, and the file that holds its root (if it has one).
struct VersionRecord {
  Version version;  // version.root.file_index has no meaning here
  DataFile root_file;
};

class Database {
 public:
  // `directory` is "" or ends in '/'.
  static Result<std::unique_ptr<Database>> Open(
      Store* store, std::string directory, const OpenOptions& options = {});

  // The current manifest: the newest numbered manifest if the kind is
  // kNumbered. Its paths start with the directory.
  const Manifest& manifest() const { return manifest_; }
  Store* store() const { return source_.store(); }
  const std::string& directory() const { return directory_; }
  // The generation that Find and ForEach read; absent in a numbered database
  // that was never written.
  const std::optional<VersionRecord>& version() const { return version_; }

  // Returns all generations, oldest first, read through the version tree.
  Result<std::vector<VersionRecord>> Versions();

  Result<ValueRef> Find(std::string_view key);

  // Calls fn for the keys that start with `prefix`, are >= inclusive_min and,
  // unless exclusive_max is empty, < exclusive_max, in increasing byte order.
  // `fn` gets the full key, borrowed for the call. A walk over all keys
  // verifies the statistics of every node.
  Status ForEach(std::string_view prefix, std::string_view inclusive_min,
                 std::string_view exclusive_max, const KeyFn& fn,
                 const CancelToken* cancel = nullptr);

  // Reads every node of every generation and verifies its structure, its
  // statistics and that each value is inside its file. Reads no values.
  Status CheckAll(const CancelToken* cancel = nullptr);

 private:
  Database(Store* store, std::string directory, const OpenOptions& options);

  std::string ManifestText() const;
  Result<Manifest> ReadManifest(const std::string& name);
  Result<uint64_t> NewestManifestNumber();
  Status ReadManifests();
  Status SelectVersion(std::optional<uint64_t> generation);
  Result<VersionRecord> FindVersion(uint64_t generation);
  Result<VersionTreeNode> ReadVersionNode(const DataFileTable& files,
                                          const VersionNodeReference& from);
  Status AppendVersions(const DataFileTable& files,
                        const VersionNodeReference& from,
                        std::vector<VersionRecord>& versions);
  static Subtree RootOf(const VersionRecord& record);
  // Returns the leaf that covers the key, or null if no leaf does.
  Result<std::shared_ptr<const TreeLeaf>> LeafOf(std::string_view key);

  const std::string directory_;
  const OpenOptions options_;
  NodeSource source_;
  Manifest manifest_;
  std::optional<VersionRecord> version_;

  // The leaf in which the last Find ended. Keys that are looked up in order,
  // such as those of a complete checkpoint, then need no descent.
  std::mutex last_leaf_mutex_;
  std::shared_ptr<const TreeLeaf> last_leaf_;
};

}  // namespace holdfast::ocdbt
