// Convert: rewrites a checkpoint in another format, chunking, compression or
// sharding, without holding all of it in memory.
//
//   holdfast::ConvertOptions options;
//   options.format = holdfast::Format::kOrbaxV1;
//   auto converted = holdfast::Convert("/ckpt/7", "/new/7", options);
//
// Convert reads any format that Open reads. Names, values, typed empties,
// metadata and the items of a composite are kept, unless `map` says otherwise.
// A leaf that cannot be read (see LeafInfo::problem) is an error that names it.
// Facts that the new format cannot hold (key paths, kinds, dtypes) are stored
// in a sidecar, so that converting back restores everything.
//
// Chunks are read in the order in which the new chunks are written, as many at
// a time as the memory limit allows. Each stored chunk is read once for all new
// chunks that need it; only a chunk that is larger than the limit, or is needed
// again much later, is read and decoded again.
//
// An interrupted conversion leaves `<target>.holdfast-convert-tmp`, and
// repeating the same call continues it. If the options or the source differ, or
// the leftover is damaged, the conversion starts over, and
// ConvertReport::resume_text says why. Conversions with a group are not
// continued.
//
// With a group, every rank makes the same call and must be able to access both
// paths; each rank reads and writes a share of the chunks. A group can only
// write Orbax's formats.
//
//
// Thread-safety: that of Save. Units: bytes, seconds.
// Errors: those of Open and Save; DataLoss naming the leaf when the new
// checkpoint does not hold what was read; Unimplemented for an item that is
// neither a tree nor JSON; InvalidArgument for rules that contradict each
// other, or that give two leaves the same name, naming both.
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

// Which leaves of the source the new checkpoint has, and how they are named and
// stored.
//
// Globs are matched with a leaf's name (keys joined with "."), and also select
// everything below a name. `*` matches any characters, `?` one character,
// `[a-z]` and `[!a]` one of a set; `\` takes the next character literally.
struct LeafMap {
  // `pattern` is a regular expression in Python's syntax, which must match all
  // of a leaf's keys joined with "/", or else its complete name. \1, \g<1> and
  // \g<name> in `replacement` are replaced by groups. The first rule that
  // matches decides, and a leaf is renamed only once. The result is split into
  // the new keys at "/", or at "." if the pattern matched a name of several
  // keys.
  struct Rename {
    std::string pattern;
    std::string replacement;
    // `pattern` and `replacement` are plain text.
    bool is_literal = false;
  };
  // Converts the elements of matching arrays, except PRNG keys. The last match
  // counts.
  struct Cast {
    std::string glob;
    DType dtype = DType::kFloat32;
  };
  // The number of parts that each axis of a matching array is cut into, for
  // arrays with that many axes. The last match counts. For megatron-zarr, dcp
  // and torch-dist; InvalidArgument with other formats (for Orbax's, see
  // ConvertOptions::sharding).
  struct Shards {
    std::string glob;
    Shape part_counts;
  };

  std::vector<std::string> select;  // empty: all
  std::vector<std::string> drop;    // wins over select
  std::vector<Rename> renames;      // the other rules match old names
  std::vector<Cast> casts;
  std::vector<Shards> shards;
  // Splits keys at their dots: key "a.b" becomes key b in a dict a.
  bool nest = false;
  // A rule that matches nothing is an error, instead of a note in the report.
  bool is_strict = false;

  bool is_empty() const {
    return select.empty() && drop.empty() && renames.empty() && casts.empty() &&
           shards.empty() && !nest;
  }
};

// Parses "PATTERN=REPLACEMENT"; "\=" is an equals sign in the pattern.
Result<LeafMap::Rename> ParseRename(std::string_view text);
// Parses a table of renames. It has one such rule per line, besides empty lines
// and lines that begin with #; or it is a JSON object that maps old names to
// new names, both literal.
Result<std::vector<LeafMap::Rename>> ParseRenameTable(std::string_view text);
// Parses "GLOB=DTYPE".
Result<LeafMap::Cast> ParseCast(std::string_view text);
// Parses "GLOB=N,N,...".
Result<LeafMap::Shards> ParseShards(std::string_view text);

struct ConvertOptions {
  // Threads, progress ("write", then "check") and cancel flag.
  // memory_bytes limits the chunks that are being read, wait, or are
  // being written, all together.
  RunOptions run;
  ProcessGroup* group = nullptr;  // borrowed; null: only this process
  OpenOptions open;               // for the source
  // Only leaves with these names, or below them; empty: all.
  std::vector<std::string> names;
  LeafMap map;
  // Converts the leaves that the recipe makes from the source's leaves; `names`
  // and `map` apply to the recipe's leaves. If RecipeOptions::config_json is
  // empty, the config.json next to the source's files is read.
  std::optional<Recipe> recipe;
  RecipeOptions recipe_options;

  // The new format. Absent: the format that the target's name implies
  // (".safetensors", ".npz"), or else the source's; if holdfast cannot write
  // the source's format, Orbax's with zarr 2 and OCDBT. InvalidArgument if the
  // target's name implies another format than this one, or a format that cannot
  // be written (".pt").
  std::optional<Format> format;
  // Orbax's formats use the next four options, and megatron-zarr only
  // chunk_bytes. With other formats, a value other than the default is
  // InvalidArgument.
  std::optional<int> zarr_format;
  std::optional<bool> use_ocdbt;
  // As in SaveOptions.
  Compression compression = Compression::kZstd;
  uint64_t chunk_bytes = uint64_t{8} << 20;
  // Like SaveOptions::also; only for Orbax's formats. The checkpoint is then
  // written without parts (part_bytes), and with the default `compression` it
  // is not compressed.
  std::shared_ptr<const AlsoFormat> also;
  bool overwrite = false;
  // Local paths whose contents the target copies, in addition to the source.
  // The target does not grant permissions that one of these paths, or the
  // source, does not grant.
  std::vector<std::string> copies_of;
  bool write_digests = true;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;

  // Returns the sharding that an array should have. It determines the array's
  // entry in `_sharding`, and the chunks: those that a run with this sharding
  // would write. If empty, or if it returns nullopt, the sharding is not
  // changed. Must be the same on every rank.
  std::function<Result<std::optional<Sharding>>(const LeafInfo&)> sharding;
  // With `sharding`: each replica writes a slice, as Orbax does by default.
  bool use_replica_parallel = true;

  // Read the new checkpoint and compare it with checksums of the source's data.
  bool check = true;

  // Limit of one data file; 0: the format's own. For safetensors, dcp and
  // torch-dist, and Orbax's formats with `also`; InvalidArgument with others.
  uint64_t shard_bytes_max = 0;
  // Start over instead of continuing an earlier conversion.
  bool restart = false;
  // Finished work is kept in units of this size, so that a later run can
  // continue. When a single process writes one of Orbax's formats, each unit is
  // a separate part; there are at most 256 parts. 0: Orbax's formats are
  // written as one part, which cannot be continued; other formats keep their
  // work from time to time.
  uint64_t part_bytes = uint64_t{1} << 30;
};

// The result for each leaf, in the order of the source.
struct ConvertReport {
  struct Entry {
    std::string leaf;      // its name in the source
    std::string new_name;  // empty if it was left out
    // Empty, or a combination of "renamed", "cast to X", "left out", "stored as
    // X", joined with "; ", each with the reason unless a rule of the caller
    // asked for it.
    std::string what;
  };
  std::vector<Entry> entries;      // only leaves with something to report
  std::vector<std::string> notes;  // rules that matched nothing, and the like
  // Empty if there was no earlier run to continue; otherwise what happened to
  // its work, and why.
  std::string resume_text;
  bool is_resumed = false;
  uint64_t kept_bytes = 0;  // decoded bytes of pieces kept from an earlier run
};
// Return the report as several lines, or as one JSON object.
std::string ConvertReportText(const ConvertReport& report);
std::string ConvertReportJson(const ConvertReport& report);

struct ConvertResult {
  uint64_t leaf_count = 0;
  // Sums over the ranks: decoded bytes of the tensors, and bytes read from and
  // written to storage for them.
  uint64_t decoded_bytes = 0;
  uint64_t read_bytes = 0;
  uint64_t written_bytes = 0;
  uint64_t checked_bytes = 0;  // decoded; 0 without `check`
  double total_seconds = 0;
  // Peak of the bytes of chunks that were read but not yet written; with a
  // group, the largest peak of any rank.
  uint64_t waiting_bytes_peak = 0;
  Format format = Format::kOrbax;  // of the new checkpoint
  ConvertReport report;
};

// Converts `source` to `target`, which is the exact path, as in Save.
Result<ConvertResult> Convert(const std::string& source,
                              const std::string& target,
                              const ConvertOptions& options = {});

// The same for a checkpoint that is already open, or is not stored anywhere.
// Does not continue an earlier conversion, because it cannot know whether the
// source has changed. With a group, each rank passes its own checkpoint.
Result<ConvertResult> ConvertFrom(const Checkpoint& source,
                                  const std::string& target,
                                  const ConvertOptions& options = {});

}  // namespace holdfast
