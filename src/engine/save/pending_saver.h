// PendingSaver: the PendingSave behind Begin, and what Save itself uses.
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

// The part that one process of `group` plans; null: it is the only one.
PlanPart PlanPartOf(const ProcessGroup* group);

// A RootRecord that has been understood.
struct ParsedRootRecord {
  ItemHandlers handlers;
  nlohmann::ordered_json custom_metadata = nlohmann::ordered_json::object();
  bool is_v1 = false;
};
// InvalidArgument for texts that are not what the record says.
Result<ParsedRootRecord> ParseRootRecord(const RootRecord& record);

class PendingSaver final : public PendingSave {
 public:
  // `mine`: a failure that this process has had already, and that the others of
  // the group must hear of.
  static Result<std::unique_ptr<PendingSaver>> Begin(
      const Place& place, const PendingSaveOptions& options,
      const Status& mine = {});

  // For a copy of, or of parts of, what is at `sources`: it will give nobody
  // more permissions than these do. Before anything is written.
  Status BoundAccess(const std::vector<std::string>& sources);
  // The part of an item that this process writes, planned as SaveItem wants it.
  Result<SavePlan> Plan(const Tree& tree, const SaveOptions& options) const;
  const std::string& directory() const override {
    return directory_.path();
  }
  const Place& place() const { return directory_; }  // of directory()
  Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                              const SaveOptions& options) override;
  Status WriteFile(std::string_view name, std::string_view content) override;
  Status AdoptItem(const std::string& name) override;
  Status Commit(const RootRecord& root) override;

  // SaveItem of a tree that Plan has planned, or could not: the others of the
  // group hear of it here.
  Result<SaveResult> SavePlanned(const std::string& name,
                                 const Result<SavePlan>& plan,
                                 const Stopwatch& begun);
  // As SavePlanned, when all ranks have agreed on their plans.
  Status Write(const std::string& name, SaveCall& call);
  // Commit when nothing but this object has put files into directory(). With
  // `mine` a failure, on any rank, nothing is committed.
  Status CommitOwnFiles(const ParsedRootRecord& root, const Status& mine);

 private:
  // An item in a directory of its own.
  struct SavedItem {
    std::string name;
    DigestFile digests;       // empty when it has none
    std::string digest_text;  // of its file
    bool is_synced = false;
  };

  PendingSaver(std::unique_ptr<PendingCheckpoint> pending,
               Place final_place, std::string save_id,
               const PendingSaveOptions& options, GroupCall call,
               std::shared_ptr<CallRecord> record);
  // REQUIRES: what PendingSaver::Begin makes of its arguments.
  static Result<std::unique_ptr<PendingSaver>> BeginInCall(
      const Place& place, const PendingSaveOptions& options,
      const Status& mine, GroupCall& call,
      const std::shared_ptr<CallRecord>& record);
  Status CheckOpen() const;
  // Passes on the status of an operation of this object: when that has failed,
  // the call of the group is over, and the others hear of it.
  template <typename T>
  T CallUnlessFailed(T result);
  void EndCall(const Status& failure);
  // A failure in the words of who has caused it.
  Status Explained(const Status& failure) const;
  Status WriteItemBelow(const std::string& name, SaveCall& call);
  // The item of all ranks in `files`' store, not closed.
  Status WriteItemOfAll(FileWriter& files, SaveCall& call);
  Status WriteRootFile(std::string_view name, std::string_view content);
  void ListDigestFiles();
  // All that the digests know of.
  WrittenSizes SizesOfFiles() const;
  bool is_shared() const { return options_.group != nullptr; }
  bool is_primary() const { return pending_ != nullptr; }
  // All ranks' status, this one's being `mine`; just `mine` without a group.
  Status Agree(std::string_view phase, const Status& mine) const;
  std::set<std::string> KnownFiles() const;
  bool IsInDatabase(const std::string& path) const;
  bool IsInSyncedItem(const std::string& directory) const;
  Status AdoptCallerFiles();
  std::string RootMetadataText(const ParsedRootRecord& root);
  Status WriteMetadata(const std::string& text);
  Status SetModesBelow();
  Status Publish(const ParsedRootRecord& root);

  const std::unique_ptr<PendingCheckpoint> pending_;  // null: rank 0 has it
  const Place final_place_;
  const Place directory_;
  const std::string save_id_;
  const PendingSaveOptions options_;  // group: null when there is but one rank
  const uint64_t init_time_ns_;
  const std::shared_ptr<Store> root_store_;
  FileWriter root_files_;
  std::vector<SavedItem> items_;
  bool has_root_item_ = false;
  bool is_root_item_synced_ = false;
  bool is_done_ = false;  // committed, or a call has failed
  GroupCall call_;        // until then
  // Null when this is a part of a call that has one.
  const std::shared_ptr<CallRecord> record_;
  LivePublication live_;  // ends before the directory is removed
};

}  // namespace holdfast
