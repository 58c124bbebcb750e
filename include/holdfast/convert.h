// Convert: a checkpoint written again in another format, chunking, compression
// or sharding, without ever holding it in memory.
//
//   holdfast::ConvertOptions options;
//   options.format = holdfast::Format::kOrbaxV1;
//   auto converted = holdfast::Convert("/ckpt/7", "/new/7", options);
//
// Reads what Open reads; writes what Save writes. Chunks are read in the order
// in which they are written, as many at a time as the budget holds, each stored
// chunk once for all that need some of it: a chunk that is larger than the
// budget, or that is needed again later, is read and decoded again.
// Names, values, typed empties, metadata and the items of a composite stay;
// what nobody can read (see LeafInfo::problem) is an error that names the leaf.
//
// With a group every rank makes the same call and sees both paths; each reads
// and writes a share of the chunks.
// Thread-safety: as Save. Units: bytes, seconds.
// Errors: those of Open and Save; DataLoss when the new checkpoint does not
// hold what was read, naming the leaf; Unimplemented for an item that is
// neither a tree nor JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/options.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"

namespace holdfast {

struct ConvertOptions {
  // Threads, progress ("write", then "check") and cancel flag; its
  // in_flight_bytes_max bounds everything held at once: chunks that are read,
  // wait, and are written.
  RunOptions run;
  ProcessGroup* group = nullptr;  // borrowed; null: this process alone
  OpenOptions open;               // of the source
  // Only leaves with these names, or below them; empty: all.
  std::vector<std::string> names;

  // Absent: as the source has it; Orbax's, zarr 2 and OCDBT for a source that
  // is none of Orbax's.
  std::optional<Format> format;
  std::optional<int> zarr_format;
  std::optional<bool> use_ocdbt;
  // As SaveOptions has them.
  Compression compression = Compression::kZstd;
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
  bool overwrite = false;
  bool write_digests = true;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;

  // The sharding that each array is to have: its entry of `_sharding`, and the
  // chunks that a run with it would have written. Empty, or nullopt: as it was.
  // The same on every rank.
  std::function<Result<std::optional<Sharding>>(const LeafInfo&)> sharding;
  // Then: whether replicas write a slice each, as Orbax has it by default.
  bool use_replica_parallel = true;

  // Read the new checkpoint and compare it with checksums of what was read.
  bool check = true;
};

struct ConvertResult {
  uint64_t leaf_count = 0;
  // Sums over the ranks: decoded bytes of the tensors, bytes read from and
  // written to storage for them.
  uint64_t decoded_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t checked_bytes = 0;  // decoded; 0 without check
  double total_seconds = 0;
  // Of one rank, the largest: bytes that were held of chunks read and not yet
  // written.
  uint64_t waiting_bytes_peak = 0;
};

// `target` is the exact place, as of Save.
Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options = {});

}  // namespace holdfast
