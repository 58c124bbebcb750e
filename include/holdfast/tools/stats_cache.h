// StatsCache: what was once measured of tensors, in one file that the user
// names, so that nobody reads them again for it.
//
//   holdfast::StatsCache cache("/home/me/stats");
//   holdfast::StatsOptions options;
//   options.cache = &cache;
//   options.identity = holdfast::StatsCache::IdentityOf(**checkpoint);
//   holdfast::ComputeStats(**checkpoint, options);   // also ComputeDrift
//   cache.Write();
//
// An entry belongs to a checkpoint by the names, sizes and times (in object
// stores: versions) of all of its files, and to a tensor by its name: a
// checkpoint that has changed, in any file, is measured again. One whose files
// cannot be told apart this way (of a web server) is never kept. A file that is
// damaged, or is not a cache, is left out with a warning, and replaced by
// Write. It holds kStatsCacheBytesMax at most: the checkpoints that were asked
// for last. Thread-safety: any thread. Units: bytes. Errors: of Write those of
// the file system; FailedPrecondition where an existing file of that name is
// not a cache: it is never written over.
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

  // Why the file was left out; empty when it was not.
  const std::string& warning() const;
  // Replaces the file, in one step, by what is known now; does nothing when
  // that is what it holds.
  Status Write();

  // Says which checkpoint this is: for StatsOptions and DriftOptions. Empty for
  // one that cannot be told from others. Looks at every file, and reads none.
  static std::string IdentityOf(const Checkpoint& checkpoint);

  // Finds the statistics of a leaf by its name and shape, with the histogram if
  // it is wanted.
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
