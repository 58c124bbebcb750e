// The value of a program: inert nodes turned into a PickleValue.
//
// Shared nodes stay shared. Refused: cycles, nesting deeper than
// kPickleDepthMax, and values that would be far larger than their source when
// shared parts are written out each time.
// Thread-safety: one thread a call. Errors: as torch_file.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "formats/pickle/program.h"
#include "formats/pickle/tensor_parts.h"
#include "holdfast/status.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::pickle {

// Memory that holds the bytes of a storage; byte_count of StorageId, exactly.
struct StorageBytes {
  const char* data = nullptr;
  std::shared_ptr<const void> owner;
};

struct ValueOptions {
  // The same key may be asked for again. Null: there are no storages.
  std::function<Result<StorageBytes>(const StorageId&)> storage;
  uint64_t source_bytes = 0;  // how large the value's source is
};

Result<PickleValue> ValueOf(const Program& program, NodeIndex node,
                            const ValueOptions& options);

}  // namespace holdfast::pickle
