// Look: what one listing and one batch of small files showed of a directory in
// an object store, so that opening a checkpoint costs a few round trips instead
// of one for each question.
//
// A LookScope gives a place a Look, which answers the queries of
// directory_ops.h about that place and about all places made from it, as well
// as reads of their stores. The first query lists everything below the place,
// flat, in at most kFlatPagesMax pages; anything beyond those is listed
// directory by directory on demand, and kept. The first read of one of the
// small files that opening a checkpoint needs (well_known_names.h) fetches all
// of them around it in one batch, together with small data files; a file that
// the LookFor does not need costs a separate request on demand. Where listing
// is impossible (a web server, or credentials that may read but not list), the
// known names are requested concurrently, and `_HOLDFAST_DIGESTS` and
// `_CHECKPOINT_METADATA` show which other files exist.
//
// Nothing gets stale: a Look is as old as the opening of a checkpoint. Its
// places and stores keep it, and with it the versions it saw; an object that
// was replaced since is DataLoss, never a mix of two. A write through one of
// them clears the Look.
//
// Thread-safety: a scope belongs to the thread that made it; any thread may use
// a Look.
// Ownership: shared by the places and stores that carry it.
// Units: bytes; holds at most kFetchedBytesMax, most of them until the scope
// ends. Errors: those of the bucket.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ground/base/bytes.h"
#include "stores/place/bucket_registry.h"
#include "stores/place/place.h"
#include "stores/storage/directory_ops.h"
#include "stores/storage/store.h"

namespace holdfast {

inline constexpr int kFlatPagesMax = 2;
inline constexpr uint64_t kFetchedBytesMax = 64 << 20;

// The parts of a checkpoint that the caller needs.
enum class LookFor : uint8_t {
  kValues,  // everything
  kLeaves,  // names, shapes and dtypes: no values, no `_CHECKPOINT_METADATA`
  kStep,    // whether it is complete; its times, items and metrics
};

class BucketStore;

class Look {
 public:
  Look(BucketPlace root, LookFor what);

  const BucketPlace& root() const { return root_; }
  bool Covers(const BucketPlace& place) const;

  using MaybeKind = std::optional<local::PathKind>;
  using MaybeNames = std::optional<std::vector<std::string>>;
  using MaybeObjects = std::optional<std::vector<ObjectEntry>>;
  using MaybeBytes = std::optional<Bytes>;

  // For full keys at or below the root. Nullopt means that the bucket must be
  // asked.
  Result<MaybeKind> Kind(const std::string& key);
  Result<MaybeNames> Names(const std::string& key);
  // All objects whose keys begin with `prefix`, sorted.
  Result<MaybeObjects> Below(const std::string& prefix);

  enum class Presence : uint8_t { kUnknown, kAbsent, kPresent };
  struct Known {
    Presence presence = Presence::kUnknown;
    ObjectEntry object;  // when present
  };
  // Answers from what is already known, without a request.
  Known Find(const std::string& key);
  // The content, if this is one of the files that are fetched together; the
  // first use fetches it and those around it.
  Result<MaybeBytes> Fetch(const std::string& key);

  // Called when the directory is written to: clears the Look.
  void Forget();
  // Called after the opening: frees the contents that only the opening reads.
  void Settle();

  // A store of everything below the root that checks the recorded versions.
  // Never null.
  Store& store();

 private:
  enum class Mode : uint8_t { kNotYet, kListing, kProbing, kForgotten };
  struct Listed {  // a directory listed by itself
    std::set<std::string> directories;
  };

  // All REQUIRE mutex_ held.
  Status Start();
  Status ListFlat();
  Status ListOne(const std::string& prefix);
  Status Probe(const std::string& prefix);
  Status ProbeNames(const std::vector<std::string>& prefixes);
  Status ProbeFile(const std::string& key);
  void AddFilesOfDigests(const std::string& prefix);
  std::vector<std::string> ItemNames(const std::string& prefix) const;
  void AddFile(ObjectEntry object);
  bool KnowsTree(const std::string& prefix) const;
  bool KnowsEntries(const std::string& prefix) const;
  bool HasBelow(const std::string& prefix) const;
  Known FindLocked(const std::string& key) const;
  Status FetchAround(const std::string& key);
  bool IsWanted(const std::string& key) const;
  std::vector<const ObjectEntry*> WorthFetching(const std::string& key) const;
  void Keep(const std::string& key, Bytes content);
  std::string ParentPrefix(const std::string& key) const;

  const BucketPlace root_;
  const LookFor what_;
  const std::shared_ptr<BucketStore> store_;

  std::mutex mutex_;
  Mode mode_ = Mode::kNotYet;
  std::map<std::string, ObjectEntry> files_;  // by key, markers ("a/") too
  bool knows_all_ = false;
  std::string known_until_;               // the flat listing reached this key
  std::map<std::string, Listed> listed_;  // by prefix
  std::set<std::string> probed_;          // prefixes
  std::set<std::string> absent_;          // keys that probing did not find
  std::map<std::string, Bytes> contents_;
  uint64_t content_bytes_ = 0;
};

class LookScope {
 public:
  // Makes no Look for paths, for URLs that lead nowhere, and for a place that
  // already has one.
  explicit LookScope(const Place& place, LookFor what = LookFor::kValues);
  ~LookScope();
  LookScope(const LookScope&) = delete;
  LookScope& operator=(const LookScope&) = delete;

  // The given place, with the Look.
  const Place& place() const { return place_; }

 private:
  Place place_;
  std::shared_ptr<Look> look_;
};

// A store of the directory `key` that is answered from the Look where possible.
std::shared_ptr<Store> MakeLookStore(std::shared_ptr<Look> look,
                                     const std::string& key);

}  // namespace holdfast
