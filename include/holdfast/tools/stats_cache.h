// StatsCache: keeps statistics of tensors in one file that the user names, so
// that the tensors need not be read again.
//
//   holdfast::StatsCache cache("/home/me/stats");
//   holdfast::StatsOptions options;
//   options.cache = &cache;
//   options.identity = holdfast::StatsCache::IdentityOf(**checkpoint);
//   holdfast::ComputeStats(**checkpoint, options);   // also ComputeDrift
//   cache.Write();
//
// An entry is identified by the names, sizes and times (in object stores:
// versions) of all files of its checkpoint, and by the tensor's name. So a
// checkpoint is measured again if any of its files has changed. Checkpoints on
// a web server are never kept, because their files cannot be identified this
// way. A damaged cache file is ignored with a warning, and Write replaces it.
// The cache holds at most kStatsCacheBytesMax, for the most recently used
// checkpoints.
//
// Thread-safety: any thread. Units: bytes.
// Errors: Write returns those of the file system, and FailedPrecondition if the
// existing file is not a cache. Such a file is ignored with a warning, and
// never overwritten.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tools/drift.h"
#include "holdfast/tools/stats.h"

namespace holdfast HOLDFAST_EXPORT {

inline constexpr uint64_t kStatsCacheBytesMax = uint64_t{64} << 20;

class StatsCache {
 public:
  explicit StatsCache(std::string file);
  ~StatsCache();
  StatsCache(const StatsCache&) = delete;
  StatsCache& operator=(const StatsCache&) = delete;

  // Returns why the file was ignored; empty if it was not.
  const std::string& warning() const;
  // Atomically replaces the file with the current contents; does nothing if it
  // already holds them.
  Status Write();

  // Returns the checkpoint's identity, for StatsOptions and DriftOptions; empty
  // if it cannot be identified. Looks up every file, but does not read
  // contents.
  static std::string IdentityOf(const Checkpoint& checkpoint);

  // Finds the statistics of a leaf by its name and shape, including the
  // histogram if requested.
  bool Find(const std::string& identity, bool with_histogram,
            LeafStats& leaf) const;
  void Put(const std::string& identity, const LeafStats& leaf);
  bool FindDrift(const std::string& before, const std::string& now,
                 const std::string& name, LeafDrift& leaf) const;
  void PutDrift(const std::string& before, const std::string& now,
                const std::string& name, const LeafDrift& leaf);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast
