// PendingSave: a checkpoint that is written piece by piece and then exists at
// once: what Save does for one tree, for callers that put several items, or
// files of their own, into one checkpoint.
//
//   auto pending = holdfast::PendingSave::Begin("/ckpt/7", {});
//   (*pending)->SaveItem("state", tree, options);
//   (*pending)->WriteFile("meta/metadata", json);
//   (*pending)->Commit(root);
//
// Everything goes below directory(), `<path>.orbax-checkpoint-tmp`; Commit
// writes `_CHECKPOINT_METADATA`, the digests and the marker, syncs whatever is
// not synced yet (files that the caller put there by itself included), and
// renames. Destruction without Commit removes the temporary directory.
//
// Thread-safety: one thread at a time. Ownership: owns the temporary directory.
// Units: bytes, nanoseconds.
// Errors: those of Save. After a failure nothing exists at the path that was
// not there before.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "holdfast/checkpoint.h"

namespace holdfast {

struct PendingSaveOptions {
  bool overwrite = false;            // as SaveOptions::overwrite
  bool sync = true;                  // as SaveOptions::sync
  bool write_digests = true;         // as SaveOptions::write_digests
  std::function<uint64_t()> now_ns;  // as SaveOptions::now_ns
};

// What `_CHECKPOINT_METADATA` says of the whole.
struct RootRecord {
  // The JSON value of "item_handlers": a string for a bare item
  // (`"orbax.checkpoint...."`, quotes included), an object of name -> type
  // string for items, `null` otherwise.
  std::string item_handlers_json = "null";
  std::string custom_metadata;  // a JSON object, or empty
  // Also write the empty file `orbax.checkpoint`, as v1's functions do.
  bool is_v1 = false;
};

class PendingSave {
 public:
  static Result<std::unique_ptr<PendingSave>> Begin(
      const std::string& path, const PendingSaveOptions& options);
  virtual ~PendingSave() = default;

  // Where the files go until Commit; absolute.
  virtual const std::string& directory() const = 0;

  // Writes a pytree item into `directory()/name`, or into directory() itself
  // when `name` is empty. Of `options` the fields about the whole checkpoint
  // (format, overwrite, custom_metadata, checkpointable_name, sync) are
  // ignored; zarr_format 0 means 2. A name can be saved once.
  virtual Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                                      const SaveOptions& options) = 0;
  // A file of the caller's; `name` relative to directory(), its directories are
  // made.
  virtual Status WriteFile(std::string_view name, std::string_view content) = 0;
  // Once. The checkpoint exists, durably, when it returns. FailedPrecondition
  // after a SaveItem or WriteFile that failed half-way.
  virtual Status Commit(const RootRecord& root) = 0;
};

// A pytree item in `directory`, which is made when absent, without markers and
// without atomicity: what Orbax's handlers do by themselves. An item that was
// there is replaced (the data files of its database stay), other files are left
// alone. `options` as in PendingSave::SaveItem, and `sync` counts.
Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options);

}  // namespace holdfast
