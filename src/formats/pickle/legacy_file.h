// Files that torch.save wrote before torch 1.6: pickles, followed by storages.
//
// Thread-safety: pure functions. Units: bytes; offsets in the source.
// Errors: as torch_file.h.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "formats/pickle/program.h"
#include "formats/pickle/tensor_parts.h"
#include "formats/zip/byte_source.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

// The first bytes of such a file.
extern const std::string_view kLegacyMagic;

struct LegacyFile {
  std::unique_ptr<const std::string> head;  // memory that the program refers to
  Program program;
  std::map<std::string, ByteRange, std::less<>> storages;
};

Result<bool> IsLegacyFile(const ByteSource& source);
// Reads the pickles and the sizes of the storages. REQUIRES: IsLegacyFile.
Result<LegacyFile> OpenLegacyFile(const ByteSource& source);
// Returns the bytes that `id` refers to: a storage, or a part of one.
Result<ByteRange> FindLegacyStorage(const LegacyFile& file,
                                    const StorageId& id);

}  // namespace holdfast::pickle
