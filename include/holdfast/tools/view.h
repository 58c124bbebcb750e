// View: a checkpoint of any format as one of Orbax's, without copying it.
//
//   auto view = holdfast::View("/models/llama", "/ckpt/llama");
//
// The new checkpoint is a database of references: its chunks are ranges of the
// source's files, which lie in it as links (or copies, as the caller chooses).
// Stock Orbax and TensorStore restore from it; of a source in safetensors the
// directory is a safetensors model as well. No byte of a tensor is read or
// written, however large the source is. Only an array that cannot be a
// reference (compressed, cast, or with elements that lie apart) is copied, in
// bounded memory, and the result says which and why.
//
// The other way, `format` safetensors: a model whose files are those of an
// Orbax checkpoint that was saved so that it is both (SaveOptions::also), or
// that is a view of safetensors.
//
// The source must stay as it is. A view records the size and the time of the
// last change of each file, and every open compares them: DataLoss names a file
// that has changed or is gone. With `checksums` each chunk's is recorded, too,
// and checked whenever it is read, as in any checkpoint of holdfast; those of a
// source that has them all are taken over without being asked for.
//
// Object stores have no links. There `link` must be kCopy, and both be in one
// bucket: the server copies the files, while none of their bytes come here. A
// source that changes meanwhile is DataLoss.
// Thread-safety: as Save. Units: bytes, seconds.
// Errors: those of Open and Save; Unimplemented where the file system cannot
// link as asked, and for a source and a target that are not in one file system
// or one bucket; InvalidArgument with `must_refer` for a leaf that would have
// to be copied, in an object store for files that would be copied without kCopy
// (it says how many, and their bytes), and for a target that is the source or
// holds it.
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

// How the source's files come into the view's directory.
enum class LinkKind : uint8_t {
  kSymbolic,  // relative to the view, as long as both lie in one file system
  kHard,
  kReflink,  // copies that share their blocks, where the file system has them
  kCopy,
};
// "symlink", "hard", "reflink", "copy".
std::string_view LinkKindName(LinkKind kind);
std::optional<LinkKind> LinkKindFromName(std::string_view name);

struct ViewOptions {
  RunOptions run;  // of what is copied, and of checksums
  OpenOptions open;
  std::vector<std::string> names;  // as ConvertOptions
  LeafMap map;
  std::optional<Recipe> recipe;
  RecipeOptions recipe_options;
  // kOrbax, kOrbaxV1, or kSafetensors, which takes `link`, `checksums`,
  // `overwrite` and `sync` only: anything that leaves or files would change for
  // is InvalidArgument.
  Format format = Format::kOrbax;
  // 3 stores any order of axes; 2 only C and Fortran order.
  int zarr_format = 3;
  LinkKind link = LinkKind::kSymbolic;
  // Record the checksums of all that is referred to: read it, where the source
  // has none.
  bool checksums = false;
  // Refuse what would have to be copied.
  bool must_refer = false;
  // The codec of copied arrays, as in ConvertOptions.
  Compression compression = Compression::kZstd;
  // Larger tensors are referred to in chunks of at most this many bytes, where
  // their rows can be divided so. Bytes in the file do not change.
  uint64_t chunk_bytes_target = uint64_t{8} << 20;
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
  ConvertReport report;  // of the map
};

// `target` is the exact place, as of Save.
Result<ViewResult> View(const std::string& source, const std::string& target,
                        const ViewOptions& options = {});

// Convert for a view (CheckpointInfo::sources) or a delta
// (CheckpointInfo::bases): a checkpoint with bytes of its own, at `target`, or
// when that is empty in the view's place, which it takes when it is whole and
// has been compared (`overwrite` is implied). The files it refers to stay as
// they are, and deltas that were made from it find their base. Errors: those of
// Convert; InvalidArgument for a checkpoint that is neither.
Result<ConvertResult> Materialize(const std::string& view,
                                  const std::string& target = "",
                                  const ConvertOptions& options = {});

}  // namespace HOLDFAST_EXPORT
