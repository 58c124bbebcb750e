// PendingSaver: implements the PendingSave that Begin returns; Save uses it
// too.
//
// Thread-safety, ownership, errors: as holdfast/pending_save.h.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "engine/commit/commit.h"
#include "engine/commit/file_writer.h"
#include "engine/commit/live_file.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/save/item_writer.h"
#include "ground/record/call_record.h"
#include "ground/run/run.h"
#include "holdfast/pending_save.h"
#include "holdfast/process_group.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"

namespace holdfast {

// Returns the part that this process of `group` plans. A null group means that
// it is the only process.
PlanPart PlanPartOf(const ProcessGroup* group);

// A parsed RootRecord.
struct ParsedRootRecord {
  ItemHandlers handlers;
  nlohmann::ordered_json custom_metadata = nlohmann::ordered_json::object();
  bool is_v1 = false;
};
// Parses the record. Returns InvalidArgument for texts that do not have the
// documented form.
Result<ParsedRootRecord> ParseRootRecord(const RootRecord& record);

class PendingSaver final : public PendingSave {
 public:
  // `mine` is an earlier failure of this process, which is reported to the
  // others of the group.
  static Result<std::unique_ptr<PendingSaver>> Begin(
      const Place& place, const PendingSaveOptions& options,
      const Status& mine = {});

  // Limits the permissions to those of `sources`, the checkpoints that are
  // being copied, completely or in part. Call it before anything is written.
  Status BoundAccess(const std::vector<std::string>& sources);
  // Plans the part of an item that this process writes, as SaveItem needs it.
  Result<SavePlan> Plan(const Tree& tree, const SaveOptions& options) const;
  const std::string& directory() const override { return directory_.path(); }
  const Place& place() const { return directory_; }  // of directory()
  Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                              const SaveOptions& options) override;
  Status WriteFile(std::string_view name, std::string_view content) override;
  Status AdoptItem(const std::string& name) override;
  Status Commit(const RootRecord& root) override;
  const std::vector<std::string>& notes() const override { return notes_; }

  // Like SaveItem, for a tree that Plan has planned or failed to plan. Reports
  // a failure to the others of the group.
  Result<SaveResult> SavePlanned(const std::string& name,
                                 const Result<SavePlan>& plan,
                                 const Stopwatch& begun);
  // Like SavePlanned, after all ranks have agreed on their plans.
  Status Write(const std::string& name, SaveCall& call);
  // Like Commit, for the case that only this object has put files into
  // directory(). If `mine` is a failure on any rank, nothing is committed.
  Status CommitOwnFiles(const ParsedRootRecord& root, const Status& mine);

 private:
  // An item in its own directory.
  struct SavedItem {
    std::string name;
    DigestFile digests;       // empty when it has none
    std::string digest_text;  // of its file
    bool is_synced = false;
  };

  PendingSaver(std::unique_ptr<PendingCheckpoint> pending, Place final_place,
               std::string save_id, const PendingSaveOptions& options,
               GroupCall call, std::shared_ptr<CallRecord> record);
  // REQUIRES: the arguments are as PendingSaver::Begin prepares them.
  static Result<std::unique_ptr<PendingSaver>> BeginInCall(
      const Place& place, const PendingSaveOptions& options, const Status& mine,
      GroupCall& call, const std::shared_ptr<CallRecord>& record);
  Status CheckOpen() const;
  // Returns the result of an operation of this object; if it is a failure, ends
  // the group's call and reports the failure to the others.
  template <typename T>
  T CallUnlessFailed(T result);
  void EndCall(const Status& failure);
  // Returns the failure, or its cause if that is known, such as another save's
  // takeover.
  Status Explained(const Status& failure) const;
  Status WriteItemBelow(const std::string& name, SaveCall& call);
  // Writes the item of all ranks to the store of `files`, without closing it.
  Status WriteItemOfAll(FileWriter& files, SaveCall& call);
  Status WriteRootFile(std::string_view name, std::string_view content);
  void ListDigestFiles();
  // Returns the sizes of all files that the digests list.
  WrittenSizes SizesOfFiles() const;
  bool is_shared() const { return options_.group != nullptr; }
  bool is_primary() const { return pending_ != nullptr; }
  // Returns the combined status of all ranks; `mine` is the status of this
  // rank. Without a group, returns `mine`.
  Status Agree(std::string_view phase, const Status& mine) const;
  std::set<std::string> KnownFiles() const;
  bool IsInDatabase(const std::string& path) const;
  bool IsInSyncedItem(const std::string& directory) const;
  Status AdoptCallerFiles();
  std::string RootMetadataText(const ParsedRootRecord& root);
  Status WriteMetadata(const std::string& text);
  Status SetModesBelow();
  // Returns the sum over all items; nullopt if an item does not know its own.
  std::optional<FloatArrays> TotalFloats() const;
  Status Publish(const ParsedRootRecord& root);
  Status MakeVisible(const ParsedRootRecord& root);

  const std::unique_ptr<PendingCheckpoint> pending_;  // null if rank 0 has it
  const Place final_place_;
  const Place directory_;
  const std::string save_id_;
  const PendingSaveOptions options_;  // group: null if there is only one rank
  const uint64_t init_time_ns_;
  const std::shared_ptr<Store> root_store_;
  FileWriter root_files_;
  std::vector<SavedItem> items_;
  std::vector<std::string> notes_;
  bool has_root_item_ = false;
  bool is_root_item_synced_ = false;
  bool is_done_ = false;  // committed, or a call has failed
  GroupCall call_;        // until is_done_
  // Null when this is part of a call that has its own record.
  const std::shared_ptr<CallRecord> record_;
  LivePublication live_;  // ends before the directory is removed
};

}  // namespace holdfast
