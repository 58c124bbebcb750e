// Files of torch.save before torch 1.6: pickles and storages one after another.
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

// How such a file begins.
extern const std::string_view kLegacyMagic;

struct LegacyFile {
  std::unique_ptr<const std::string> head;  // to which the program refers
  Program program;
  std::map<std::string, ByteRange, std::less<>> storages;
};

Result<bool> IsLegacyFile(const ByteSource& source);
// Reads its pickles, and how long its storages are. REQUIRES: IsLegacyFile.
Result<LegacyFile> OpenLegacyFile(const ByteSource& source);
// The bytes that the id stands for: a storage, or a part of one.
Result<ByteRange> FindLegacyStorage(const LegacyFile& file,
                                    const StorageId& id);

}  // namespace holdfast::pickle
