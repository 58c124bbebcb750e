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
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

struct PendingSaveOptions {
  // Like SaveOptions::group: every rank begins, saves the same items and
  // commits; only rank 0 writes files and chooses the root record.
  ProcessGroup* group = nullptr;
  bool overwrite = false;                      // as SaveOptions::overwrite
  bool sync = true;                            // as SaveOptions::sync
  bool write_digests = true;                   // as SaveOptions::write_digests
  std::function<uint64_t()> now_ns;            // as SaveOptions::now_ns
  CommitMode commit_mode = CommitMode::kAuto;  // as SaveOptions::commit_mode
  std::optional<uint32_t> directory_mode;      // as SaveOptions::directory_mode
  // An empty directory at the path is accepted, also without `overwrite`.
  bool takes_empty_directory = false;
  // Deltas that were made from this result stay good when the checkpoint
  // replaces it (CheckpointInfo::result_id); empty: whatever refers to what
  // would be replaced refuses the overwrite.
  std::string result_id;
  // Asked when all is written and steps of the root can neither go nor be
  // replaced, just before the checkpoint exists: a failure ends the save with
  // it. For what refers to others. Only rank 0 asks.
  std::function<Status()> may_commit;
  // With `overwrite`: files of others that lie in the old checkpoint's
  // directory lie in the new one, too, unless that has files of their names;
  // else they are a reason to refuse, as they are in an object store, and where
  // the file system has no hard links.
  bool keeps_other_files = false;
};

// The part of `_CHECKPOINT_METADATA` about the whole checkpoint.
struct RootRecord {
  // The JSON value of "item_handlers": a string for a bare item
  // (`"orbax.checkpoint...."`, quotes included), an object of name -> type
  // string for items, `null` otherwise.
  std::string item_handlers_json = "null";
  // A JSON object, or empty; members that holdfast keeps for itself are left
  // out, as in SaveOptions.
  std::string custom_metadata;
  std::string documents;  // for holdfast's own layers: such members
  // Also write the empty file `orbax.checkpoint`, as v1's functions do.
  bool is_v1 = false;
};

// Whether holdfast keeps the member of custom metadata of this name for itself.
bool IsOwnDocument(std::string_view name);

class PendingSave {
 public:
  static Result<std::unique_ptr<PendingSave>> Begin(
      const std::string& path, const PendingSaveOptions& options);
  virtual ~PendingSave() = default;

  // The files lie here until Commit; absolute.
  virtual const std::string& directory() const = 0;

  // Writes a pytree item into `directory()/name`, or into directory() itself
  // when `name` is empty. The fields of `options` about the whole checkpoint
  // (format, overwrite, custom_metadata, checkpointable_name, sync) are
  // ignored; zarr_format 0 means 2. A name can be saved once.
  virtual Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                                      const SaveOptions& options) = 0;
  // A file of the caller's; `name` relative to directory(), its directories are
  // made.
  virtual Status WriteFile(std::string_view name, std::string_view content) = 0;
  // Tells of a pytree item that SaveItem, or SaveItemPart and FinishItem, of
  // this header have written into `directory()/name` (directory() itself when
  // `name` is empty) and synced. Commit then relies on the item's own digests,
  // and neither syncs nor reads those files again. Nothing is taken that has no
  // digests.
  virtual Status AdoptItem(const std::string& name) = 0;
  // Once. The checkpoint exists, durably, when it returns. FailedPrecondition
  // after a SaveItem or WriteFile that failed half-way.
  virtual Status Commit(const RootRecord& root) = 0;
};

// A pytree item in `directory`, which is made when absent, without markers and
// without atomicity: what Orbax's handlers do by themselves. An existing item
// is replaced (the data files of its database stay), other files stay as they
// are. `options` as in PendingSave::SaveItem, and `sync` counts.
Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options);

// One of the processes that write an item together, for callers that have a way
// of their own to wait for each other:
//
//   SaveItemPart(directory, tree, options, part);  // on every process
//   ... all have returned ...
//   FinishItem(directory, finish);                 // on the primary
struct ProcessPart {
  int64_t rank = 0;  // of this process
  // Writes the data that is not sharded, and the files that describe the item.
  // One process of an item is primary.
  bool is_primary = true;
  // Its database is `ocdbt.process_<id>`: letters and digits, no other
  // process's; empty: the rank.
  std::string id;
  // The save's id: the same on all its processes, and in no other save; may be
  // empty.
  std::string save_id;
};

// Writes, and with `options.sync` syncs, this process's part of the item into
// `directory`, which exists, and leaves there the file `_HOLDFAST_PART_<rank>`,
// which tells FinishItem about it. As SaveItem for the rest, but for
// `options.group`, which is ignored.
Result<SaveResult> SaveItemPart(const std::string& directory, const Tree& tree,
                                const SaveOptions& options,
                                const ProcessPart& part);

struct FinishItemOptions {
  std::vector<int64_t> ranks;  // whose parts make the item
  std::string save_id;         // as the parts have it
  bool use_ocdbt = true;
  bool sync = true;
  bool write_digests = true;
  // As SaveOptions::adopt_existing.
  bool adopt_existing = false;
  // Each process has an item of its own on a disk of its own, which holds a
  // part of each array: do not look for the rest.
  bool is_partial = false;
  // Each process knew its own leaves only, and the primary's tree has them all:
  // do not ask that their trees are alike. That they agree on the chunks of
  // each array is the caller's to see to.
  bool has_own_trees = false;
  std::function<uint64_t()> now_ns;         // as SaveOptions
  std::function<std::string()> random_hex;  // as SaveOptions
};

// Makes one item of the parts: checks that they are of the same save, follow
// the same plan, and hold every chunk once; merges their databases by
// reference; removes the parts' files; writes the digests. Reads no value.
// Errors: FailedPrecondition naming the ranks whose part is missing, or follows
// another plan, and where; or the array and chunk that nobody, or two, have
// written. DataLoss for parts that cannot be understood.
Status FinishItem(const std::string& directory,
                  const FinishItemOptions& options);

}  // namespace HOLDFAST_EXPORT
