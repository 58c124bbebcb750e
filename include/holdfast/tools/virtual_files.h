// VirtualFiles: presents a checkpoint as files in other formats, without
// writing them. The files have names and sizes, and their bytes are generated
// when they are read.
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
//                    `convert --to orbax --zarr-format 2 --ocdbt no
//                    --compression none` writes; plus .zgroup, .zmetadata, and
//                    .zattrs that name the axes for xarray
//   files/           the checkpoint's own files; in a local checkpoint, links
//                    out of it are listed only if they lead to files that a
//                    view refers to
// Every byte of a virtual file equals that of the conversion, and is checked as
// in ReadInto. Consecutive reads decode a chunk only once, unless it is larger
// than an eighth of kept_bytes_max. The directory at the end of an npz archive
// has a CRC of each array, so the first read of it reads all arrays.
//
// Thread-safety: any thread.
// Ownership: the files own what they opened.
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
  std::string name;  // Stat: the complete name; List: only its last part
  bool is_directory = false;
  uint64_t byte_count = 0;  // of a file
};

class VirtualFiles {
 public:
  static Result<std::unique_ptr<VirtualFiles>> Open(
      const std::string& path, const VirtualFilesOptions& options = {});
  virtual ~VirtualFiles() = default;

  // Returns the open checkpoint; for a root, that of the chosen step.
  virtual const Checkpoint& checkpoint() const = 0;
  // Describes a file or directory; "" is the top directory.
  virtual Result<VirtualEntry> Stat(std::string_view name) const = 0;
  // Returns the directory's entries, sorted by name. Fails for the directory of
  // a format that cannot hold the checkpoint.
  virtual Result<std::vector<VirtualEntry>> List(
      std::string_view directory) const = 0;
  // Fills `target` with the bytes from `offset` on.
  virtual Status ReadInto(std::string_view name, uint64_t offset,
                          std::span<char> target) const = 0;
  // Returns a string that is different if the file's bytes may be different. It
  // depends on the names, sizes and versions of the checkpoint's files when the
  // checkpoint was opened.
  virtual std::string Tag(std::string_view name) const = 0;
  // Returns true if the checkpoint's files are unchanged. If a check needs
  // requests to a server, makes none, and returns false only after IsChanged
  // has found a change.
  virtual bool IsCurrent() const = 0;
  // Returns true if one of the checkpoint's files was replaced or removed; all
  // reads then fail. Cheap, because it checks again only after a while (a
  // second, on servers).
  virtual bool IsChanged() const = 0;

 protected:
  VirtualFiles() = default;
  VirtualFiles(const VirtualFiles&) = delete;
  VirtualFiles& operator=(const VirtualFiles&) = delete;
};

// Returns the directories below "as": "safetensors", "npz", "zarr".
std::vector<std::string_view> VirtualFormats();

}  // namespace holdfast
