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
// Names, values, typed empties, metadata and the items of a composite stay,
// unless `map` says otherwise; what nobody can read (see LeafInfo::problem) is
// an error that names the leaf. Facts that the new format cannot hold (key
// paths, kinds, dtypes) go into a sidecar, so that converting back gives all of
// it.
//
// A conversion that was cut off leaves `<target>.holdfast-convert-tmp`; the
// same call goes on from there. Another call, another source, or damage there
// begins anew, and ConvertReport::resume_text says why. Not with a group. With
// a group every rank makes the same call and sees both paths; each reads and
// writes a share of the chunks. Orbax's formats only. Thread-safety: as Save.
// Units: bytes, seconds. Errors: those of Open and Save; DataLoss when the new
// checkpoint does not hold what was read, naming the leaf; Unimplemented for an
// item that is neither a tree nor JSON; InvalidArgument for rules that
// contradict each other or give two leaves one name, naming both.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/sharding.h"
#include "holdfast/status.h"
#include "holdfast/tools/recipe.h"

namespace holdfast HOLDFAST_EXPORT {

// Which leaves of the source the new checkpoint has, and under which names.
//
// Globs are matched with a leaf's name (keys joined with "."), and select what
// lies below a name too: `*` any characters, `?` one, `[a-z]`, `[!a]` one of a
// set, `\` the next character as it is.
struct LeafMap {
  // A regular expression in Python's syntax, which must match the whole of a
  // leaf's keys joined with "/", or else of its name; \1, \g<1> and \g<name> in
  // the replacement stand for groups. The first rule that matches decides, and
  // a leaf is renamed once. The new keys are the result split at "/"; at "."
  // where it was a name of several keys that matched.
  struct Rename {
    std::string pattern;
    std::string replacement;
    // Both are plain text.
    bool is_literal = false;
  };
  // An element's dtype; of arrays, PRNG keys excepted. The last that matches
  // counts.
  struct Cast {
    std::string glob;
    DType dtype = DType::kFloat32;
  };
  // The number of parts that each axis of an array is cut into, for arrays with
  // as many axes. The last one that matches counts. For megatron-zarr, dcp and
  // torch-dist; InvalidArgument with other formats (Orbax's:
  // ConvertOptions::sharding).
  struct Shards {
    std::string glob;
    Shape part_counts;
  };

  std::vector<std::string> select;  // empty: all
  std::vector<std::string> drop;    // wins over select
  std::vector<Rename> renames;      // old names count for all the others
  std::vector<Cast> casts;
  std::vector<Shards> shards;
  // Splits keys at their dots: "a.b" becomes b in a.
  bool nest = false;
  // A rule that matches no leaf is an error, and not a note of the report.
  bool is_strict = false;

  bool is_empty() const {
    return select.empty() && drop.empty() && renames.empty() && casts.empty() &&
           shards.empty() && !nest;
  }
};

// "PATTERN=REPLACEMENT"; "\=" is an equals sign in the pattern.
Result<LeafMap::Rename> ParseRename(std::string_view text);
// A table: one such rule a line, lines that begin with # and empty ones
// excepted; or a JSON object of old name to new name, both literal.
Result<std::vector<LeafMap::Rename>> ParseRenameTable(std::string_view text);
// "GLOB=DTYPE".
Result<LeafMap::Cast> ParseCast(std::string_view text);
// "GLOB=N,N,...".
Result<LeafMap::Shards> ParseShards(std::string_view text);

struct ConvertOptions {
  // Threads, progress ("write", then "check") and cancel flag; its
  // in_flight_bytes_max bounds everything held at once: chunks that are read,
  // wait, and are written.
  RunOptions run;
  ProcessGroup* group = nullptr;  // borrowed; null: only this process
  OpenOptions open;               // of the source
  // Only leaves with these names, or below them; empty: all.
  std::vector<std::string> names;
  LeafMap map;
  // The leaves are those that a recipe makes of the source's; `names` and `map`
  // are about these. Without a text of config.json the one beside the source's
  // files is read.
  std::optional<Recipe> recipe;
  RecipeOptions recipe_options;

  // Absent: the format that the target's name says (".safetensors", ".npz"),
  // else the source's. A source in a foreign format that nothing writes becomes
  // Orbax's with zarr 2 and OCDBT. InvalidArgument for a target whose name says
  // another format, or one that nothing writes (".pt").
  std::optional<Format> format;
  // Orbax's formats take these, megatron-zarr the bytes of chunks; what is not
  // the default is InvalidArgument with others.
  std::optional<int> zarr_format;
  std::optional<bool> use_ocdbt;
  // As SaveOptions has them.
  Compression compression = Compression::kZstd;
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
  // As SaveOptions::also: for Orbax's formats, in one go, where zstd, the
  // default, counts as no compression.
  std::shared_ptr<const AlsoFormat> also;
  bool overwrite = false;
  // Paths on this machine that the target is a copy of, beside the source: it
  // gives nobody more permissions than all of these do.
  std::vector<std::string> copies_of;
  bool write_digests = true;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;

  // The sharding that each array is to have: its entry of `_sharding`, and the
  // chunks that a run with it would have written. Empty, or nullopt: as it was.
  // The same on every rank.
  std::function<Result<std::optional<Sharding>>(const LeafInfo&)> sharding;
  // With it: replicas write a slice each, as Orbax does by default.
  bool use_replica_parallel = true;

  // Read the new checkpoint and compare it with checksums of what was read.
  bool check = true;

  // Bound of one data file; 0: the format's own. For safetensors, dcp and
  // torch-dist, and Orbax's formats with `also`; InvalidArgument with others.
  uint64_t shard_bytes_max = 0;
  // Do not go on with what an earlier conversion left; begin anew.
  bool restart = false;
  // Finished work is kept for a later run in units of this size. When one
  // process writes one of Orbax's formats each unit is a part of its own, at
  // most 256 of them. 0: Orbax's formats are written in one go, others keep
  // their work now and then.
  uint64_t part_bytes = uint64_t{1} << 30;
};

// The new places of the leaves, in the order of the source.
struct ConvertReport {
  struct Entry {
    std::string leaf;      // its name in the source
    std::string new_name;  // empty: it was left out
    // Empty unless: "renamed", "cast to X", "left out", "stored as X",
    // joined with "; ", each with why unless a rule of the caller's asked for
    // it.
    std::string what;
  };
  std::vector<Entry> entries;      // only those of which there is something
  std::vector<std::string> notes;  // rules that matched nothing, and the like
  // "" when there was nothing to continue; else what was done with the earlier
  // run's work, and why.
  std::string resume_text;
  bool is_resumed = false;
  uint64_t kept_bytes = 0;  // decoded, of pieces that an earlier run left
};
// Several lines, or one JSON object.
std::string ConvertReportText(const ConvertReport& report);
std::string ConvertReportJson(const ConvertReport& report);

struct ConvertResult {
  uint64_t leaf_count = 0;
  // Sums over the ranks: decoded bytes of the tensors, bytes read from and
  // written to storage for them.
  uint64_t decoded_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t checked_bytes = 0;  // decoded; 0 without check
  double total_seconds = 0;
  // Bytes of chunks that were read and not yet written: the largest number of
  // any rank.
  uint64_t waiting_bytes_peak = 0;
  Format format = Format::kOrbax;  // of the new checkpoint
  ConvertReport report;
};

// `target` is the exact place, as of Save.
Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options = {});

// The same for a checkpoint that is open already, or that lies nowhere. Nothing
// tells whether it has changed, so no earlier conversion is continued. With a
// group each rank has a checkpoint of its own.
Result<ConvertResult> ConvertFrom(const Checkpoint& source,
                                  const std::string& target,
                                  const ConvertOptions& options = {});

}  // namespace HOLDFAST_EXPORT
