// PendingSave: a checkpoint that is written piece by piece and then becomes
// visible atomically. It is for callers that put several items, or their own
// files, into one checkpoint; Save does the same for a single tree.
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
// Thread-safety: one thread at a time.
// Ownership: owns the temporary directory. Units: bytes, nanoseconds.
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
  // As in SaveOptions. Every rank begins, saves the same items, and commits.
  // Only rank 0's calls of WriteFile, and its root record, have an effect.
  ProcessGroup* group = nullptr;
  bool overwrite = false;                      // as SaveOptions::overwrite
  bool sync = true;                            // as SaveOptions::sync
  bool write_digests = true;                   // as SaveOptions::write_digests
  std::function<uint64_t()> now_ns;            // as SaveOptions::now_ns
  CommitMode commit_mode = CommitMode::kAuto;  // as SaveOptions::commit_mode
  std::optional<uint32_t> directory_mode;      // as SaveOptions::directory_mode
  // An empty directory at the path is accepted even without `overwrite`.
  bool takes_empty_directory = false;
  // The id of the new checkpoint's content (CheckpointInfo::result_id), if the
  // old checkpoint has the same content: deltas that were made from the old one
  // then stay valid. If empty, the overwrite is refused when anything refers to
  // the old checkpoint.
  std::string result_id;
  // For checkpoints that refer to others. Called on rank 0 just before the
  // checkpoint exists, when everything is written and no step of the root can
  // be removed or replaced. A failure ends the save with that status.
  std::function<Status()> may_commit;
  // With `overwrite`: files in the old directory that are not part of the old
  // checkpoint are linked into the new directory, unless it has files of the
  // same names. If false, in an object store, and on a file system without hard
  // links, such files make the overwrite fail.
  bool keeps_other_files = false;
};

// The part of `_CHECKPOINT_METADATA` about the complete checkpoint.
struct RootRecord {
  // The JSON value of "item_handlers": a string for a bare item
  // (`"orbax.checkpoint...."`, quotes included), an object of name -> type
  // string for items, `null` otherwise.
  std::string item_handlers_json = "null";
  // A JSON object, or empty. Members that holdfast keeps for itself are left
  // out, as in SaveOptions.
  std::string custom_metadata;
  std::string documents;  // these members; for internal use
  // Also write the empty file `orbax.checkpoint`, as Orbax v1 does.
  bool is_v1 = false;
};

// Returns true if holdfast keeps the custom-metadata member of this name for
// itself.
bool IsOwnDocument(std::string_view name);

class PendingSave {
 public:
  static Result<std::unique_ptr<PendingSave>> Begin(
      const std::string& path, const PendingSaveOptions& options);
  virtual ~PendingSave() = default;

  // Returns the directory in which files are written until Commit; absolute.
  virtual const std::string& directory() const = 0;

  // Writes a pytree item into `directory()/name`, or into directory() itself
  // when `name` is empty. The fields of `options` about the complete checkpoint
  // (format, overwrite, custom_metadata, checkpointable_name, sync) are
  // ignored; zarr_format 0 means 2. Each name can be saved only once.
  virtual Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                                      const SaveOptions& options) = 0;
  // Writes one of the caller's own files. `name` is relative to directory();
  // missing directories are created.
  virtual Status WriteFile(std::string_view name, std::string_view content) = 0;
  // Adopts a pytree item that the functions below (SaveItem, or SaveItemPart
  // and FinishItem) have written into `directory()/name` (directory() itself
  // when `name` is empty) and synced. Commit then relies on the item's own
  // digests, and neither syncs nor reads its files again. An item without
  // digests is not adopted.
  virtual Status AdoptItem(const std::string& name) = 0;
  // Makes the checkpoint visible; it is durable when Commit returns. May be
  // called once. FailedPrecondition after a SaveItem or WriteFile that failed
  // halfway.
  virtual Status Commit(const RootRecord& root) = 0;
  // Returns SaveResult::notes, after Commit.
  virtual const std::vector<std::string>& notes() const = 0;
};

// Writes a pytree item into `directory`, without markers and without atomicity,
// as Orbax's handlers do by themselves. Creates the directory if it does not
// exist. Replaces an existing item, whose database keeps its data files; other
// files are left unchanged. `options` are those of PendingSave::SaveItem, and
// `sync`.
Result<SaveResult> SaveItem(const std::string& directory, const Tree& tree,
                            const SaveOptions& options);

// Identifies one of the processes that write an item together, if the caller
// has its own means of waiting for all processes:
//
//   SaveItemPart(directory, tree, options, part);  // on every process
//   ... all have returned ...
//   FinishItem(directory, finish);                 // on the primary
struct ProcessPart {
  int64_t rank = 0;  // of this process
  // True if this process writes the unsharded data and the files that describe
  // the item. Exactly one process of an item is primary.
  bool is_primary = true;
  // The id in the name of the process's database, `ocdbt.process_<id>`: letters
  // and digits, different for each process. If empty, the rank is used.
  std::string id;
  // The save's id: the same on all its processes, and used by no other save;
  // may be empty.
  std::string save_id;
};

// Writes this process's part of the item into `directory`, which must exist,
// and syncs it if `options.sync`. Also writes the file `_HOLDFAST_PART_<rank>`,
// from which FinishItem learns what the part holds. `options.group` is ignored;
// everything else is as in SaveItem.
Result<SaveResult> SaveItemPart(const std::string& directory, const Tree& tree,
                                const SaveOptions& options,
                                const ProcessPart& part);

struct FinishItemOptions {
  std::vector<int64_t> ranks;  // the ranks whose parts make up the item
  std::string save_id;         // as in the parts
  bool use_ocdbt = true;
  bool sync = true;
  bool write_digests = true;
  // Like SaveOptions::adopt_existing.
  bool adopt_existing = false;
  // Each process has its own item, on its own disk, with a part of each array:
  // do not require that every chunk exists.
  bool is_partial = false;
  // Each process saved a tree of only its own leaves, and the primary's tree
  // has all leaves: do not require equal trees. The caller must ensure that the
  // processes agree on the chunks of each array.
  bool has_own_trees = false;
  std::function<uint64_t()> now_ns;         // as SaveOptions
  std::function<std::string()> random_hex;  // as SaveOptions
};

// Combines the parts into one item, without reading values. Checks that the
// parts belong to the same save, follow the same plan, and together hold every
// chunk exactly once. Then merges their databases by reference, removes the
// `_HOLDFAST_PART_<rank>` files, and writes the digests.
//
// Errors: FailedPrecondition, naming the ranks whose part is missing or follows
// a different plan, or the array and chunk that no rank, or more than one rank,
// has written; DataLoss for a part that cannot be parsed.
Status FinishItem(const std::string& directory,
                  const FinishItemOptions& options);

}  // namespace holdfast
