// Look: what one listing and one batch of small files showed of a directory in
// an object store. It makes opening a checkpoint cost a few round trips instead
// of one per question.
//
// A LookScope gives a place a Look. The Look answers the queries of
// directory_ops.h about that place and all places made from it, as well as
// reads of their stores.
//
// The first query lists everything below the place, flat, in at most
// kFlatPagesMax pages. Anything beyond those pages is listed directory by
// directory on demand, and kept.
//
// The first read of one of the small files that opening a checkpoint needs
// (well_known_names.h) fetches that file and all similar files below its
// directory in one batch, together with small data files. A file that the
// LookFor does not need is fetched on demand by a separate request.
//
// Where listing is impossible (a web server, or credentials that may read but
// not list), the known names are requested concurrently, and
// `_HOLDFAST_DIGESTS` and `_CHECKPOINT_METADATA` show which other files exist.
//
// A Look shows the directory as it was when the checkpoint was opened. Its
// places and stores keep the Look, and with it the versions of objects that it
// saw. Reading an object that has been replaced since then fails with DataLoss,
// so that two versions are never mixed. A write through one of these places or
// stores clears the Look.
//
// Thread-safety: a scope belongs to the thread that made it; any thread may use
// a Look.
// Ownership: shared by the places and stores that carry it.
// Units: bytes. A Look holds at most kFetchedBytesMax, most of it until the
// scope ends. Errors: those of the bucket.
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
  kLeaves,  // names, shapes, dtypes; no values or `_CHECKPOINT_METADATA`
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

  // These take full keys at or below the root. Nullopt means that the bucket
  // must be asked.
  Result<MaybeKind> Kind(const std::string& key);
  Result<MaybeNames> Names(const std::string& key);
  // Returns all objects whose keys begin with `prefix`, sorted.
  Result<MaybeObjects> Below(const std::string& prefix);

  enum class Presence : uint8_t { kUnknown, kAbsent, kPresent };
  struct Known {
    Presence presence = Presence::kUnknown;
    ObjectEntry object;  // when present
  };
  // Answers from what is already known, without a request.
  Known Find(const std::string& key);
  // Returns the content if this is one of the files that are fetched together.
  // The first call fetches the file and those around it.
  Result<MaybeBytes> Fetch(const std::string& key);

  // Clears the Look. Called when the directory is written to.
  void Forget();
  // Frees the contents that only the opening reads. Called after the opening.
  void Settle();

  // Returns a store of everything below the root that checks the recorded
  // versions. Never null.
  Store& store();

 private:
  enum class Mode : uint8_t { kNotYet, kListing, kProbing, kForgotten };
  struct Listed {  // a directory that was listed separately
    std::set<std::string> directories;
  };

  // All of these REQUIRE that mutex_ is held.
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
  // Makes no Look for file-system paths, for invalid URLs, and for a place that
  // already has one.
  explicit LookScope(const Place& place, LookFor what = LookFor::kValues);
  ~LookScope();
  LookScope(const LookScope&) = delete;
  LookScope& operator=(const LookScope&) = delete;

  // Returns the given place, with the Look.
  const Place& place() const { return place_; }

 private:
  Place place_;
  std::shared_ptr<Look> look_;
};

// Makes a store of the directory `key` that answers from the Look where
// possible.
std::shared_ptr<Store> MakeLookStore(std::shared_ptr<Look> look,
                                     const std::string& key);

}  // namespace holdfast
