// AggregateHandler: stores a complete tree in one file, as old releases of
// Orbax stored small leaves. MsgpackHandler implements the only such format.
//
// New checkpoints have no such file. These handlers read and write the file of
// old checkpoints. Thread-safety: any thread. Ownership: trees own their
// values.
// Units: bytes.
// Errors: NotFound `Checkpoint does not exist at P.`; DataLoss with the byte
// offset; InvalidArgument naming the leaves that the format cannot hold; those
// of the file system.
#pragma once

#include <string>

#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

class AggregateHandler {
 public:
  virtual ~AggregateHandler() = default;

  // Replaces the file at `path` atomically.
  virtual Status Serialize(const std::string& path, const Tree& item) = 0;
  virtual Result<Tree> Deserialize(const std::string& path) = 0;
  virtual void Close() {}
};

// Flax's dialect of msgpack. Values that are stored elsewhere are
// Tree::Reference leaves.
class MsgpackHandler : public AggregateHandler {
 public:
  Status Serialize(const std::string& path, const Tree& item) override;
  Result<Tree> Deserialize(const std::string& path) override;
};

}  // namespace holdfast
