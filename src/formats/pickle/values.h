// The value of a program: inert nodes turned into a PickleValue.
//
// Shared nodes stay shared. Cycles and nesting deeper than kPickleDepthMax are
// refused. So are values that would be far larger than their source if shared
// parts were repeated each time.
// Thread-safety: one thread per call. Errors: as torch_file.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "formats/pickle/program.h"
#include "formats/pickle/tensor_parts.h"
#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

// Memory that holds the bytes of a storage: exactly StorageId::byte_count
// bytes.
struct StorageBytes {
  const char* data = nullptr;
  std::shared_ptr<const void> owner;
};

struct ValueOptions {
  // Returns the bytes of a storage; may be called again for the same key. If
  // null, there are no storages.
  std::function<Result<StorageBytes>(const StorageId&)> storage;
  uint64_t source_bytes = 0;  // the size of the value's source
};

Result<PickleValue> ValueOf(const Program& program, NodeIndex node,
                            const ValueOptions& options);

}  // namespace holdfast::pickle
