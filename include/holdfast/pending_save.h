// PendingSave: a checkpoint that is written piece by piece and then becomes
// visible atomically. It does what Save does for one tree, for callers that put
// several items, or their own files, into one checkpoint.
//
//   auto pending = holdfast::PendingSave::Begin("/ckpt/7", {});
//   (*pending)->SaveItem("state", tree, options);
//   (*pending)->WriteFile("meta/metadata", json);
//   (*pending)->Commit(root);
//
// All files are written below directory(), `<path>.orbax-checkpoint-tmp`.
// Commit writes `_CHECKPOINT_METADATA`, the digests and the marker, syncs
// everything not yet synced (including files that the caller wrote there
// directly), and renames. Destruction without Commit removes the temporary
// directory.
//
// Thread-safety: one thread at a time. Ownership: owns the temporary directory.
// Units: bytes, nanoseconds.
// Errors: those of Save. After a failure nothing exists at the path that did
// not exist before.
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
  // An empty directory at the path is accepted even without `overwrite`.
  bool takes_empty_directory = false;
  // Deltas that were made from this result stay valid when the checkpoint
  // replaces it (CheckpointInfo::result_id). If empty, the overwrite is refused
  // when anything refers to the checkpoint to be replaced.
  std::string result_id;
  // Called on rank 0 when everything is written and steps of the root can be
  // neither removed nor replaced, just before the checkpoint exists; a failure
  // ends the save with that status. For checkpoints that refer to others.
  std::function<Status()> may_commit;
  // With `overwrite`: files in the old checkpoint's directory that are not part
  // of it are also linked into the new one, unless the new one has files of the
  // same names. Otherwise such files are a reason to refuse; so they are in an
  // object store, and where the file system has no hard links.
  bool keeps_other_files = false;
};

// The part of `_CHECKPOINT_METADATA` about the complete checkpoint.
struct RootRecord {
  // The JSON value of "item_handlers": a string for a bare item
  // (`"orbax.checkpoint...."`, quotes included), an object of name -> type
  // string for items, `null` otherwise.
  std::string item_handlers_json = "null";
  // A JSON object, or empty; members that holdfast keeps for itself are left
  // out, as in SaveOptions.
  std::string custom_metadata;
  std::string documents;  // these members, for holdfast's own layers
  // Also write the empty file `orbax.checkpoint`, as v1's functions do.
  bool is_v1 = false;
};

// Whether holdfast keeps the custom-metadata member of this name for itself.
bool IsOwnDocument(std::string_view name);

class PendingSave {
 public:
  static Result<std::unique_ptr<PendingSave>> Begin(
      const std::string& path, const PendingSaveOptions& options);
  virtual ~PendingSave() = default;

  // Where the files are written until Commit; absolute.
  virtual const std::string& directory() const = 0;

  // Writes a pytree item into `directory()/name`, or into directory() itself
  // when `name` is empty. The fields of `options` about the complete checkpoint
  // (format, overwrite, custom_metadata, checkpointable_name, sync) are
  // ignored; zarr_format 0 means 2. Each name can be saved only once.
  virtual Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                                      const SaveOptions& options) = 0;
  // Writes a file of the caller; `name` is relative to directory(), and missing
  // directories are created.
  virtual Status WriteFile(std::string_view name, std::string_view content) = 0;
  // Adopts a pytree item that SaveItem, or SaveItemPart and FinishItem, of this
  // header have written into `directory()/name` (directory() itself when `name`
  // is empty) and synced. Commit then relies on the item's own digests, and
  // neither syncs nor reads its files again. An item without digests is not
  // adopted.
  virtual Status AdoptItem(const std::string& name) = 0;
  // May be called once. The checkpoint exists, durably, when it returns.
  // FailedPrecondition after a SaveItem or WriteFile that failed half-way.
  virtual Status Commit(const RootRecord& root) = 0;
};

// Writes a pytree item into `directory`, which is created if it does not exist,
// without markers and without atomicity, as Orbax's handlers do by themselves.
// An existing item is replaced (the data files of its database stay); other
// files are left unchanged. `options` as in PendingSave::SaveItem, but `sync`
// is used.
Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options);

// One of the processes that write an item together, for callers that have their
// own means of waiting for each other:
//
//   SaveItemPart(directory, tree, options, part);  // on every process
//   ... all have returned ...
//   FinishItem(directory, finish);                 // on the primary
struct ProcessPart {
  int64_t rank = 0;  // of this process
  // Whether this process writes the unsharded data and the files that describe
  // the item. Exactly one process of an item is primary.
  bool is_primary = true;
  // Names its database `ocdbt.process_<id>`: letters and digits, different for
  // each process. If empty, the rank is used.
  std::string id;
  // The save's id: the same on all its processes, and used by no other save;
  // may be empty.
  std::string save_id;
};

// Writes this process's part of the item into `directory`, which must exist,
// and syncs it if `options.sync`. Leaves the file `_HOLDFAST_PART_<rank>`
// there, which describes the part to FinishItem. Otherwise as SaveItem, except
// that `options.group` is ignored.
Result<SaveResult> SaveItemPart(const std::string& directory, const Tree& tree,
                                const SaveOptions& options,
                                const ProcessPart& part);

struct FinishItemOptions {
  std::vector<int64_t> ranks;  // the ranks whose parts make up the item
  std::string save_id;         // as in the parts
  bool use_ocdbt = true;
  bool sync = true;
  bool write_digests = true;
  // As SaveOptions::adopt_existing.
  bool adopt_existing = false;
  // Each process has its own item on its own disk, which holds a part of each
  // array: do not look for the rest.
  bool is_partial = false;
  // Each process knew only its own leaves, and the primary's tree has them all:
  // do not require their trees to be equal. The caller must ensure that the
  // processes agree on the chunks of each array.
  bool has_own_trees = false;
  std::function<uint64_t()> now_ns;         // as SaveOptions
  std::function<std::string()> random_hex;  // as SaveOptions
};

// Combines the parts into one item: checks that they belong to the same save,
// follow the same plan, and hold every chunk exactly once; merges their
// databases by reference; removes the parts' files; writes the digests. Reads
// no values. Errors: FailedPrecondition naming the ranks whose part is missing,
// or follows a different plan, and where; or the array and chunk that no rank,
// or more than one, has written. DataLoss for parts that cannot be parsed.
Status FinishItem(const std::string& directory,
                  const FinishItemOptions& options);

}  // namespace HOLDFAST_EXPORT
