// VirtualFiles: a checkpoint as files of other formats, which nobody has
// written: their names, sizes and bytes, made when they are read.
//
//   auto files = holdfast::VirtualFiles::Open("/ckpt/7");
//   auto file = (*files)->Stat("as/safetensors/model.safetensors");
//   std::string head(8, '\0');
//   auto read = (*files)->ReadInto(file->name, 0, head);
//
// For any format that Open takes:
//   as/safetensors/  what `convert --to safetensors` writes: model.safetensors,
//                    or shards and their index
//   as/npz/          arrays.npz, what `convert --to npz` writes
//   as/zarr/         a zarr 2 group, uncompressed: each array is what
//                    `convert --to orbax --zarr 2 --ocdbt no --compression
//                    none` writes of it; beside them .zgroup and .zmetadata,
//                    and .zattrs that name the axes for xarray
//   files/           the checkpoint's own files; of a local one's links that
//                    lead elsewhere those to files that a view refers to
// Every byte of a virtual file is equal to that of the conversion, and checked
// as ReadInto checks. A chunk is decoded once for reads that follow each other,
// unless it is larger than an eighth of kept_bytes_max. An npz archive has a
// CRC of each array in its directory, at the end: the first read of a text of
// it reads all arrays once.
//
// Thread-safety: any thread. Ownership: the files own what they opened.
// Units: bytes. Names are relative, parts separated by "/".
// Errors: those of Open and ReadInto; NotFound (no such file); InvalidArgument
// (a format that cannot hold a leaf, naming it; a directory where a file is
// meant); OutOfRange (past the end); DataLoss when the checkpoint was replaced
// or damaged since it was opened: open it again.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"
#include "holdfast/options.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

struct VirtualFilesOptions {
  OpenOptions open;
  // Threads and budget of one read.
  RunOptions run;
  // Decoded blocks that are kept for reads that come soon, of all files.
  uint64_t kept_bytes_max = uint64_t{256} << 20;
};

struct VirtualEntry {
  std::string name;  // of Stat the whole one, of List the last part
  bool is_directory = false;
  uint64_t byte_count = 0;  // of a file
};

class VirtualFiles {
 public:
  static Result<std::unique_ptr<VirtualFiles>> Open(
      const std::string& path, const VirtualFilesOptions& options = {});
  virtual ~VirtualFiles() = default;

  // The opened checkpoint, after the step was chosen.
  virtual const Checkpoint& checkpoint() const = 0;
  // "" is the directory of all.
  virtual Result<VirtualEntry> Stat(std::string_view name) const = 0;
  // By name. The directory of a format that cannot hold the checkpoint fails.
  virtual Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const = 0;
  // Fills `target` with the bytes from `offset` on.
  virtual Status ReadInto(std::string_view name, uint64_t offset,
                          std::span<char> target) const = 0;
  // A text that differs when the bytes of the file may: made of the names,
  // sizes and versions of the checkpoint's files when it was opened.
  virtual std::string Tag(std::string_view name) const = 0;
  // Whether those are still so. Where asking means requests to a server: false
  // once IsChanged.
  virtual bool IsCurrent() const = 0;
  // Whether one of those files has become another, or has gone: then all reads
  // fail. Cheap: looks again only after a while (a second, on servers).
  virtual bool IsChanged() const = 0;

 protected:
  VirtualFiles() = default;
  VirtualFiles(const VirtualFiles&) = delete;
  VirtualFiles& operator=(const VirtualFiles&) = delete;
};

// "safetensors", "npz", "zarr": the directories of "as".
std::vector<std::string_view> VirtualFormats();

}  // namespace HOLDFAST_EXPORT
