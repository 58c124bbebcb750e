// VirtualFiles: presents a checkpoint as files in other formats that are never
// written: their names, sizes, and bytes that are generated when they are read.
//
//   auto files = holdfast::VirtualFiles::Open("/ckpt/7");
//   auto file = (*files)->Stat("as/safetensors/model.safetensors");
//   std::string head(8, '\0');
//   auto read = (*files)->ReadInto(file->name, 0, head);
//
// Works for any format that Open accepts:
//   as/safetensors/  what `convert --to safetensors` writes: model.safetensors,
//                    or shards and their index
//   as/npz/          arrays.npz, what `convert --to npz` writes
//   as/zarr/         a zarr 2 group, uncompressed: each array is what
//                    `convert --to orbax --zarr 2 --ocdbt no --compression
//                    none` writes; plus .zgroup, .zmetadata, and .zattrs that
//                    name the axes for xarray
//   files/           the checkpoint's own files; in a local checkpoint, links
//                    out of it are listed only if they lead to files that a
//                    view refers to
// Every byte of a virtual file equals that of the conversion, and is checked as
// ReadInto checks. Consecutive reads decode a chunk only once, unless it is
// larger than an eighth of kept_bytes_max. An npz archive has a CRC of each
// array in its directory, at the end: the first read of any of this metadata
// reads all arrays once.
//
// Thread-safety: any thread. Ownership: the files own what they opened.
// Units: bytes. Names are relative, with parts separated by "/".
// Errors: those of Open and ReadInto; NotFound (no such file); InvalidArgument
// (a format that cannot hold a leaf, naming it; a directory where a file is
// expected); OutOfRange (past the end); DataLoss if the checkpoint was replaced
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
  // Threads and memory limit of one read.
  RunOptions run;
  // Decoded blocks of all files that are kept for later reads.
  uint64_t kept_bytes_max = uint64_t{256} << 20;
};

struct VirtualEntry {
  std::string name;  // from Stat the complete name, from List its last part
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
  // "" is the top directory.
  virtual Result<VirtualEntry> Stat(std::string_view name) const = 0;
  // Sorted by name. Fails for the directory of a format that cannot hold the
  // checkpoint.
  virtual Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const = 0;
  // Fills `target` with the bytes from `offset` on.
  virtual Status ReadInto(std::string_view name, uint64_t offset,
                          std::span<char> target) const = 0;
  // A string that changes when the bytes of the file may have changed: made
  // from the names, sizes and versions of the checkpoint's files when it was
  // opened.
  virtual std::string Tag(std::string_view name) const = 0;
  // Whether these files are unchanged. If checking means requests to a server,
  // it only returns false once IsChanged.
  virtual bool IsCurrent() const = 0;
  // Whether one of these files was replaced or removed; all reads then fail.
  // Cheap: checks again only after a while (a second, on servers).
  virtual bool IsChanged() const = 0;

 protected:
  VirtualFiles() = default;
  VirtualFiles(const VirtualFiles&) = delete;
  VirtualFiles& operator=(const VirtualFiles&) = delete;
};

// "safetensors", "npz", "zarr": the directories of "as".
std::vector<std::string_view> VirtualFormats();

}  // namespace HOLDFAST_EXPORT
