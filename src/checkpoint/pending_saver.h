// PendingSaver: the PendingSave behind Begin, and what Save itself uses.
//
// Thread-safety, ownership, errors: as holdfast/pending_save.h.
#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/file_writer.h"
#include "checkpoint/format/checkpoint_metadata.h"
#include "checkpoint/run.h"
#include "checkpoint/save_plan.h"
#include "holdfast/pending_save.h"
#include "storage/file_store.h"

namespace holdfast {

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
  // REQUIRES: options.now_ns.
  static Result<std::unique_ptr<PendingSaver>> Begin(
      const std::string& path, const PendingSaveOptions& options);

  const std::string& directory() const override {
    return pending_->directory();
  }
  Result<SaveResult> SaveItem(const std::string& name, const Tree& tree,
                              const SaveOptions& options) override;
  Status WriteFile(std::string_view name, std::string_view content) override;
  Status Commit(const RootRecord& root) override;

  // SaveItem of a tree that is planned already. REQUIRES: options WithSources.
  Status SavePlanned(const std::string& name, const SavePlan& plan,
                     const SaveOptions& options,
                     const nlohmann::ordered_json& custom_metadata, Run& run,
                     Stopwatch& watch, Stats& stats);
  // Commit when nothing but this object has put files into directory().
  Status CommitOwnFiles(const ParsedRootRecord& root);

 private:
  // An item in a directory of its own.
  struct SavedItem {
    std::string name;
    DigestFile digests;  // empty when it has none
  };

  PendingSaver(std::unique_ptr<PendingCheckpoint> pending,
               const PendingSaveOptions& options);
  Status CheckOpen() const;
  Status WriteItemBelow(const std::string& name, const SavePlan& plan,
                        const SaveOptions& options,
                        const nlohmann::ordered_json& custom_metadata, Run& run,
                        Stopwatch& watch, Stats& stats);
  std::set<std::string> KnownFiles() const;
  bool IsDatabaseFile(const std::string& path) const;
  Status AdoptCallerFiles();
  Status AddFileDigest(const std::string& path);
  Status WriteRoot(const ParsedRootRecord& root);

  const std::unique_ptr<PendingCheckpoint> pending_;
  const PendingSaveOptions options_;
  const uint64_t init_time_ns_;
  FileStore root_store_;
  FileWriter root_files_;
  std::vector<SavedItem> items_;
  bool has_root_item_ = false;
  bool is_done_ = false;  // committed, or a call has failed
};

// Removes the files by which an earlier item in the directory would be found,
// or would speak of the new one's values. Its data stays, and so does what is
// adopted.
Status RemoveEarlierItem(bool adopt_existing, FileStore& store);

}  // namespace holdfast
