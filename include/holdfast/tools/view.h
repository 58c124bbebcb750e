// View: presents a checkpoint of any format as an Orbax checkpoint, without
// copying it.
//
//   auto view = holdfast::View("/models/llama", "/ckpt/llama");
//
// The new checkpoint is a database of references: its chunks are ranges of the
// source's files, which are linked (or, with LinkKind::kCopy, copied) into the
// view's directory. Stock Orbax and TensorStore can restore from it. If the
// source is in safetensors, the directory is also a safetensors model.
//
// However large the source is, View does not read or write the tensors. The
// exception is an array that cannot be a reference (compressed, cast, or with
// elements that are not contiguous). Such an array is copied, in bounded
// memory, and the result lists it with the reason.
//
// In the other direction, `format` safetensors makes a safetensors model of an
// Orbax checkpoint that already has its arrays in safetensors files. The
// checkpoint must have been saved with SaveOptions::also or be a view of
// safetensors.
//
// The source must not change. A view records the size and modification time of
// each file, and every open compares them: DataLoss names a file that has
// changed or is missing. With `checksums`, the view also records each chunk's
// checksum, which is checked whenever the chunk is read, as in any holdfast
// checkpoint. If the source has checksums for everything, the view always
// records them.
//
// Object stores have no links. There `link` must be kCopy, and source and view
// must be in the same bucket: the server copies the files, and their bytes are
// not downloaded. DataLoss if the source changes in the meantime.
//
// Thread-safety: that of Save. Units: bytes, seconds.
// Errors: those of Open and Save; Unimplemented if the file system cannot link
// as requested, or source and target are not in the same file system or bucket;
// InvalidArgument for a target that is the source or contains it, with
// `must_refer` for a leaf that would have to be copied, and in an object store
// without kCopy, saying how many files and bytes would be copied.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"
#include "holdfast/tools/convert.h"

namespace holdfast HOLDFAST_EXPORT {

// How the source's files are placed into the view's directory.
enum class LinkKind : uint8_t {
  kSymbolic,  // relative to the view, if both are in one file system
  kHard,
  kReflink,  // copies that share blocks, if the file system supports that
  kCopy,
};
// Returns the kind's name: "symlink", "hard", "reflink", "copy".
std::string_view LinkKindName(LinkKind kind);
std::optional<LinkKind> LinkKindFromName(std::string_view name);

struct ViewOptions {
  RunOptions run;  // for copied data and for checksums
  OpenOptions open;
  std::vector<std::string> names;  // as ConvertOptions::names
  LeafMap map;
  std::optional<Recipe> recipe;
  RecipeOptions recipe_options;
  // kOrbax, kOrbaxV1, or kSafetensors. The last accepts only `link`,
  // `checksums`, `overwrite` and `sync`; options that would change leaves or
  // files are InvalidArgument.
  Format format = Format::kOrbax;
  // 3 supports any order of axes; 2 only C and Fortran order.
  int zarr_format = 3;
  LinkKind link = LinkKind::kSymbolic;
  // Record checksums of all data that the view refers to. This reads the data
  // if the source has no checksums.
  bool checksums = false;
  // Refuse leaves that would have to be copied.
  bool must_refer = false;
  // The codec for copied arrays, as in ConvertOptions.
  Compression compression = Compression::kZstd;
  // A larger tensor has chunks of at most this many bytes, if its rows can be
  // divided that way. Bytes in the files do not change.
  uint64_t chunk_bytes = uint64_t{8} << 20;
  bool overwrite = false;
  bool sync = true;
  std::function<uint64_t()> now_ns;
  std::function<std::string()> random_hex;
};

struct ViewResult {
  struct Copied {
    std::string leaf;  // its name in the source
    std::string why;
    uint64_t byte_count = 0;  // decoded
  };
  uint64_t leaf_count = 0;
  uint64_t referred_leaf_count = 0;
  uint64_t referred_bytes = 0;
  uint64_t source_file_count = 0;
  std::vector<Copied> copied;  // arrays only
  double total_seconds = 0;
  ConvertReport report;  // for the map
};

// Makes a view of `source` at `target`, which is the exact path, as in Save.
Result<ViewResult> View(const std::string& source, const std::string& target,
                        const ViewOptions& options = {});

// Converts a view (CheckpointInfo::sources) or a delta (CheckpointInfo::bases)
// into a checkpoint at `target` that has all its bytes itself. If `target` is
// empty, the new checkpoint replaces the view or delta, after it is complete
// and has been compared (`overwrite` is implied); deltas that were made from it
// still find their base. The files that the view or delta refers to do not
// change. Errors: those of Convert; InvalidArgument for a checkpoint that is
// neither a view nor a delta.
Result<ConvertResult> Materialize(const std::string& view,
                                  const std::string& target = "",
                                  const ConvertOptions& options = {});

}  // namespace holdfast
