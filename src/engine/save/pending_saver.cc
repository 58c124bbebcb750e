#include "engine/save/pending_saver.h"

#include <algorithm>

#include "engine/check/digest_index.h"
#include "engine/commit/layout.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/save/adopt.h"
#include "engine/save/item_parts.h"
#include "engine/save/save_options.h"
#include "engine/save/unchanged.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "stores/place/directory_ops.h"
#include "stores/place/well_known_names.h"
#include "stores/storage/new_file.h"
#include "stores/storage/path_parts.h"

namespace holdfast {
namespace {

Result<ItemHandlers> ParseHandlers(const std::string& text) {
  Result<ItemHandlers> handlers =
      ItemHandlersOf(nlohmann::ordered_json::parse(text, nullptr, false));
  if (handlers.ok()) return handlers;
  return InvalidArgumentError(
      "item_handlers_json must be the text of null, a string, or an object of "
      "strings (got " +
      text.substr(0, 60) + ")");
}

std::string JoinName(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name)
                           : directory + "/" + std::string(name);
}

}  // namespace

PlanPart PlanPartOf(const ProcessGroup* group) {
  if (group == nullptr || group->size() == 1) return {};
  return {true, group->rank() == 0, group->rank(), group->size()};
}

Result<ParsedRootRecord> ParseRootRecord(const RootRecord& record) {
  ParsedRootRecord parsed;
  HF_ASSIGN_OR_RETURN(parsed.handlers,
                      ParseHandlers(record.item_handlers_json));
  HF_ASSIGN_OR_RETURN(
      nlohmann::ordered_json custom_metadata,
      ParseJsonOption(record.custom_metadata, "custom_metadata"));
  TakeOwnDocuments(custom_metadata);  // of another checkpoint
  HF_ASSIGN_OR_RETURN(const nlohmann::ordered_json documents,
                      ParseJsonOption(record.documents, "documents"));
  if (!documents.is_null()) custom_metadata.update(documents);
  if (!custom_metadata.is_null()) {
    parsed.custom_metadata = std::move(custom_metadata);
  }
  parsed.is_v1 = record.is_v1;
  return parsed;
}

PendingSaver::PendingSaver(std::unique_ptr<PendingCheckpoint> pending,
                           Place final_place, std::string save_id,
                           const PendingSaveOptions& options, GroupCall call,
                           std::shared_ptr<CallRecord> record)
    : pending_(std::move(pending)),
      final_place_(std::move(final_place)),
      directory_(PendingDirectory(final_place_, options.commit_mode)),
      save_id_(std::move(save_id)),
      options_(options),
      init_time_ns_(options.now_ns()),
      root_store_(directory_.OpenStore()),
      root_files_(*root_store_, directory_, options.sync,
                  /*may_replace=*/false),
      call_(std::move(call)),
      record_(std::move(record)),
      live_(CallRecord::OfThread(), directory_) {}

namespace {

Status CheckPath(const std::string& path) {
  if (!path.empty() && path.find('\0') == std::string::npos) return Status();
  return InvalidArgumentError("checkpoint path is empty or holds a NUL byte");
}

// The primary announces the save's id and path to the others.
struct SaveAnnouncement {
  std::string save_id;
  std::string final_path;
};

Result<SaveAnnouncement> Announce(ProcessGroup& group, const Meeting& meeting,
                                  const std::string& path) {
  SaveAnnouncement mine{WithSources({}).random_hex(), path};
  HF_ASSIGN_OR_RETURN(
      const std::string text,
      group.Broadcast(meeting, 0, mine.save_id + mine.final_path));
  if (text.size() < mine.save_id.size()) {
    return InternalError("save to " + path + ": rank 0 sent too little");
  }
  return SaveAnnouncement{text.substr(0, mine.save_id.size()),
                          text.substr(mine.save_id.size())};
}

// Checks that this process sees the directory that rank 0 has created.
Status CheckAnnouncement(const SaveAnnouncement& announced, const Place& place,
                         CommitMode mode) {
  if (announced.final_path != place.path()) {
    return FailedPreconditionError("save to " + place.path() +
                                   ": rank 0 saves to another path (" +
                                   announced.final_path + ")");
  }
  const Place directory = PendingDirectory(place, mode);
  HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(directory));
  if (kind == PathKind::kDirectory) return Status();
  return FailedPreconditionError(
      "save to " + place.path() + ": " + directory.path() +
      ", which rank 0 created, is missing here; all ranks must see one disk");
}

// Writes the file that marks the directory, while it has its final name, as not
// a checkpoint yet.
Status WriteBegun(const Place& directory, const PendingSaveOptions& options) {
  CheckpointMetadata metadata;
  metadata.init_timestamp_nsecs = options.now_ns();
  return directory.OpenStore()->Write(kCheckpointMetadataFile,
                                      SerializeCheckpointMetadata(metadata),
                                      {.sync = options.sync, .atomic = true});
}

}  // namespace

Result<std::unique_ptr<PendingSaver>> PendingSaver::Begin(
    const Place& place, const PendingSaveOptions& options, const Status& mine) {
  PendingSaveOptions own = options;
  if (!own.now_ns) own.now_ns = WithSources({}).now_ns;
  if (own.group != nullptr && own.group->size() == 1) own.group = nullptr;
  const auto record = BeginCallRecord(CallKind::kSave, place.path());
  const OnCall on(record.get());
  if (CallRecord* whole = CallRecord::OfThread(); whole && own.group) {
    whole->SetRank(own.group->rank(), own.group->size());
  }
  GroupCall call(own.group);
  auto begun = BeginInCall(place, own, mine, call, record);
  if (begun.ok()) return begun;
  call.End(begun.status());
  if (record != nullptr) record->End(begun.status());
  return begun;
}

Result<std::unique_ptr<PendingSaver>> PendingSaver::BeginInCall(
    const Place& place, const PendingSaveOptions& own, const Status& mine,
    GroupCall& call, const std::shared_ptr<CallRecord>& record) {
  ProcessGroup* const group = own.group;
  Status status = mine.ok() ? CheckPath(place.path()) : mine;
  const Place final_place = status.ok() ? place.Absolute() : place;
  std::unique_ptr<PendingCheckpoint> pending;
  if (status.ok() && (group == nullptr || group->rank() == 0)) {
    auto begun = PendingCheckpoint::Begin(
        final_place, {own.overwrite, own.commit_mode, own.directory_mode,
                      own.takes_empty_directory, own.result_id, own.may_commit,
                      own.keeps_other_files});
    status = begun.status();
    if (begun.ok()) pending = std::move(begun).value();
    if (status.ok() && pending->remote() != nullptr) {
      status = pending->remote()->WriteBegun(own.now_ns());
    } else if (status.ok() && pending->is_committed_by_marker()) {
      status = WriteBegun(final_place, own);
    }
  }
  std::string save_id;
  if (group != nullptr) {
    const Meeting meeting{"begin", final_place.path()};
    HF_RETURN_IF_ERROR(group->Agree(meeting, status));
    HF_ASSIGN_OR_RETURN(SaveAnnouncement announced,
                        Announce(*group, meeting, final_place.path()));
    HF_RETURN_IF_ERROR(group->Agree(
        meeting, CheckAnnouncement(announced, final_place, own.commit_mode)));
    save_id = std::move(announced.save_id);
  }
  HF_RETURN_IF_ERROR(status);
  return std::unique_ptr<PendingSaver>(
      new PendingSaver(std::move(pending), final_place, std::move(save_id), own,
                       std::move(call), record));
}

Status PendingSaver::Agree(std::string_view phase, const Status& mine) const {
  return is_shared() ? options_.group->Agree({phase, final_place_.path()}, mine)
                     : mine;
}

void PendingSaver::EndCall(const Status& failure) {
  live_.Stop();
  call_.End(failure);
  if (record_ != nullptr) record_->End(failure);
}

template <typename T>
T PendingSaver::CallUnlessFailed(T result) {
  if constexpr (std::is_same_v<T, Status>) {
    if (!result.ok()) EndCall(result);
  } else {
    if (!result.ok()) EndCall(result.status());
  }
  return result;
}

Status PendingSaver::CheckOpen() const {
  if (!is_done_) return Status();
  return FailedPreconditionError("save to " + final_place_.path() +
                                 ": it is committed, or has failed");
}

Result<SavePlan> PendingSaver::Plan(const Tree& tree,
                                    const SaveOptions& options) const {
  return CatchBadAlloc([&] {
    return MakeSavePlan(tree, ItemOptions(directory_, options),
                        PlanPartOf(options_.group));
  });
}

Result<SaveResult> PendingSaver::SaveItem(const std::string& name,
                                          const Tree& tree,
                                          const SaveOptions& options) {
  const Stopwatch begun;
  HF_RETURN_IF_ERROR(CheckOpen());
  const OnCall on(record_.get());
  return SavePlanned(name, Plan(tree, options), begun);
}

Result<SaveResult> PendingSaver::SavePlanned(const std::string& name,
                                             const Result<SavePlan>& plan,
                                             const Stopwatch& begun) {
  HF_RETURN_IF_ERROR(CheckOpen());
  const OnCall on(record_.get());
  return CallUnlessFailed(CatchBadAlloc([&]() -> Result<SaveResult> {
    Status mine = name.empty() ? Status() : CheckKey(name);
    mine = mine.ok() ? plan.status() : mine.WithContext("item name");
    HF_RETURN_IF_ERROR(Agree("plan", mine));
    SaveCall call(*plan, begun);
    HF_RETURN_IF_ERROR(Write(name, call));
    return call.Result();
  }));
}

Status PendingSaver::Explained(const Status& failure) const {
  if (!is_primary() || pending_->remote() == nullptr) return failure;
  return pending_->remote()->Explain(failure);
}

Status PendingSaver::Write(const std::string& name, SaveCall& call) {
  const auto write = [&]() -> Status {
    if (!is_shared()) HF_RETURN_IF_ERROR(CheckLeasesAbove(directory(), 0));
    const bool is_taken = name.empty()
                              ? has_root_item_
                              : std::any_of(items_.begin(), items_.end(),
                                            [&](const SavedItem& item) {
                                              return item.name == name;
                                            });
    if (is_taken) {
      return InvalidArgumentError("item \"" + name + "\" is saved twice");
    }
    // Half an item must not be published.
    is_done_ = true;
    HF_RETURN_IF_ERROR(name.empty() ? WriteItemOfAll(root_files_, call)
                                    : WriteItemBelow(name, call));
    has_root_item_ |= name.empty();
    is_done_ = false;
    return Status();
  };
  return CallUnlessFailed(Explained(write()));
}

// Writes an item. With several ranks, every rank first writes its part; then
// rank 0 assembles the item.
Status PendingSaver::WriteItemOfAll(FileWriter& files, SaveCall& call) {
  const auto write = [&](const ProcessPart* part, FileWriter& own) -> Status {
    HF_RETURN_IF_ERROR(CheckFreeSpace(call.plan, directory_));
    return WriteItem(part, own, call);
  };
  if (!is_shared()) return write(nullptr, files);
  const ProcessGroup& group = *options_.group;
  const ProcessPart part{group.rank(), is_primary(), "", save_id_};
  FileWriter part_files(files.store(), files.sync(), files.guarded_path());
  HF_RETURN_IF_ERROR(Agree("write", write(&part, part_files)));
  Status merged;
  if (is_primary()) {
    merged = FinishItemParts(
        FinishOptionsOf(*call.plan.options, save_id_, group.size()), files,
        &call.plan);
  }
  return Agree("merge", merged);
}

Status PendingSaver::WriteItemBelow(const std::string& name, SaveCall& call) {
  const SaveOptions& options = *call.plan.options;
  const Place place = directory_ / name;
  const std::shared_ptr<Store> store = place.OpenStore();
  FileWriter files(*store, place, options_.sync, options.adopt_existing);
  HF_RETURN_IF_ERROR(WriteItemOfAll(files, call));
  if (!is_primary()) return Status();
  HF_RETURN_IF_ERROR(CloseItem(place, FinishOptionsOf(options, "", 1), files));
  SavedItem item{name, {}, files.digest_text(), options_.sync};
  if (options.write_digests) item.digests = std::move(files.digests());
  items_.push_back(std::move(item));
  return Status();
}

Status PendingSaver::WriteFile(std::string_view name,
                               std::string_view content) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (!is_primary()) return Status();  // rank 0 writes it
  return CallUnlessFailed(CatchBadAlloc([&]() -> Status {
    const Status written = WriteRootFile(name, content);
    if (!written.ok()) is_done_ = true;
    return Explained(written);
  }));
}

// Writes a file. If the caller writes it again, the last content counts.
Status PendingSaver::WriteRootFile(std::string_view name,
                                   std::string_view content) {
  const size_t replaced_count =
      std::erase_if(root_files_.digests().files,
                    [&](const FileDigest& row) { return row.path == name; });
  // If the writer may only create files, the old one is deleted first.
  if (replaced_count > 0 && root_files_.must_create()) {
    HF_RETURN_IF_ERROR(root_store_->Delete(name));
  }
  return root_files_.Write(name, content);
}

Status PendingSaver::Commit(const RootRecord& root) {
  HF_RETURN_IF_ERROR(CheckOpen());
  const OnCall on(record_.get());
  live_.Stop();
  const Status committed = CatchBadAlloc([&]() -> Status {
    const Result<ParsedRootRecord> parsed =
        is_primary() ? ParseRootRecord(root)
                     : Result<ParsedRootRecord>(ParsedRootRecord());
    HF_RETURN_IF_ERROR(Agree("ready", parsed.status()));
    is_done_ = true;
    const auto commit = [&]() -> Status {
      HF_RETURN_IF_ERROR(Explained(AdoptCallerFiles()));
      return Explained(Publish(*parsed));
    };
    return Agree("commit", is_primary() ? commit() : Status());
  });
  call_.End(committed);
  if (record_ != nullptr) record_->End(committed);
  return committed;
}

Status PendingSaver::CommitOwnFiles(const ParsedRootRecord& root,
                                    const Status& mine) {
  is_done_ = true;
  live_.Stop();
  // A rank that refuses or is unable to commit reports it before the checkpoint
  // exists.
  Status committed = Agree("ready", mine);
  if (committed.ok()) {
    committed =
        Agree("commit", is_primary() ? Explained(Publish(root)) : Status());
  }
  call_.End(committed);
  return committed;
}

Status PendingSaver::BoundAccess(const std::vector<std::string>& sources) {
  return is_primary() ? pending_->BoundAccess(sources) : Status();
}

std::optional<FloatArrays> PendingSaver::TotalFloats() const {
  std::vector<std::optional<FloatArrays>> parts;
  if (has_root_item_) parts.push_back(root_files_.digests().floats);
  for (const SavedItem& item : items_) parts.push_back(item.digests.floats);
  FloatArrays total;
  for (const std::optional<FloatArrays>& part : parts) {
    if (!part) return std::nullopt;
    total += *part;
  }
  return total;
}

Status PendingSaver::Publish(const ParsedRootRecord& root) {
  const std::optional<FloatArrays> floats = TotalFloats();
  root_files_.digests().floats = floats;
  HF_RETURN_IF_ERROR(MakeVisible(root));
  std::string note = NoteIfUnchanged(final_place_, floats);
  if (!note.empty()) notes_.push_back(std::move(note));
  return Status();
}

// Writes the last files and commits. With a rename, the checkpoint appears with
// all its files, so one sync of the names suffices. With a marker, everything
// else must be durable before the files that declare the checkpoint complete.
Status PendingSaver::MakeVisible(const ParsedRootRecord& root) {
  const PhaseScope scope(Phase::kCommit, final_place_.path());
  if (CallRecord* call = CallRecord::OfThread()) call->StartPhase("commit", 0);
  if (root.is_v1) HF_RETURN_IF_ERROR(root_files_.Write(kV1MarkerFile, ""));
  const std::string metadata = RootMetadataText(root);
  const std::string marker =
      CommitMarkerText(final_place_.path(), options_.write_digests);
  ListDigestFiles();
  root_files_.List(kCheckpointMetadataFile, metadata);
  root_files_.List(kCommitMarkerFile, marker);
  if (options_.write_digests) HF_RETURN_IF_ERROR(root_files_.WriteDigests());
  if (pending_->remote() != nullptr) {
    HF_RETURN_IF_ERROR(root_files_.SyncNames());
    if (options_.may_commit) HF_RETURN_IF_ERROR(options_.may_commit());
    HF_RETURN_IF_ERROR(
        pending_->remote()->Finish(SizesOfFiles(), metadata, marker));
    return pending_->Commit();
  }
  if (pending_->is_committed_by_marker()) {
    HF_RETURN_IF_ERROR(SetModesBelow());
    HF_RETURN_IF_ERROR(root_files_.SyncNames());
  }
  HF_RETURN_IF_ERROR(WriteMetadata(metadata));
  HF_RETURN_IF_ERROR(root_files_.WriteUnlisted(kCommitMarkerFile, marker));
  // In marker mode, this is repeated because of these two files.
  HF_RETURN_IF_ERROR(SetModesBelow());
  if (options_.directory_mode) {
    HF_RETURN_IF_ERROR(SetPermissions(directory_, *options_.directory_mode));
  }
  HF_RETURN_IF_ERROR(root_files_.SyncNames());
  return pending_->Commit();
}

// Lists the items' own lists, so that another save's list cannot be
// substituted.
void PendingSaver::ListDigestFiles() {
  for (const SavedItem& item : items_) {
    if (item.digest_text.empty()) continue;
    root_files_.List(JoinName(item.name, kDigestFile), item.digest_text);
  }
}

WrittenSizes PendingSaver::SizesOfFiles() const {
  WrittenSizes sizes;
  const auto add = [&](const std::string& name, const DigestFile& digests) {
    for (const FileDigest& row : digests.files) {
      sizes[JoinName(name, row.path)] = {row.byte_count, true};
    }
    for (const ValueDigest& row : digests.values) {
      WrittenSize& size =
          sizes.try_emplace(JoinName(name, row.path), WrittenSize{0, false})
              .first->second;
      // A data file holds many values, and perhaps padding: only a lower bound
      // of its size is known.
      size.byte_count = std::max(size.byte_count, row.offset + row.byte_count);
    }
    for (const SourceFile& row : digests.sources) {
      sizes[JoinName(name, row.path)] = {row.byte_count, true};
    }
  };
  add("", root_files_.digests());
  for (const SavedItem& item : items_) add(item.name, item.digests);
  // These two files are written later.
  sizes.erase(std::string(kCheckpointMetadataFile));
  sizes.erase(std::string(kCommitMarkerFile));
  return sizes;
}

// Writes `_CHECKPOINT_METADATA`. The final path may already be visible; readers
// then find either the old text or the new one.
Status PendingSaver::WriteMetadata(const std::string& text) {
  if (!pending_->is_committed_by_marker()) {
    return root_files_.WriteUnlisted(kCheckpointMetadataFile, text);
  }
  return root_store_->Write(kCheckpointMetadataFile, text,
                            {.sync = options_.sync, .atomic = true});
}

// Sets the permissions of everything that exists, except the checkpoint's own
// directory if the caller chooses its permissions.
Status PendingSaver::SetModesBelow() {
  HF_RETURN_IF_ERROR(pending_->SetAccess(options_.sync));
  if (!options_.directory_mode) return Status();
  HF_ASSIGN_OR_RETURN(const DirectoryTree tree, ListTree(directory_));
  for (const std::string& path : tree.directories) {
    HF_RETURN_IF_ERROR(
        SetPermissions(directory_ / path, *options_.directory_mode));
  }
  return Status();
}

// Returns the files that the digests list, and the files that Commit writes
// itself.
std::set<std::string> PendingSaver::KnownFiles() const {
  std::set<std::string> known = {
      std::string(kCheckpointMetadataFile), std::string(kDigestFile),
      std::string(kCommitMarkerFile), std::string(kSaveLease)};
  AddListedPaths(root_files_.digests(), "", known);
  for (const SavedItem& item : items_) {
    AddListedPaths(item.digests, item.name + "/", known);
    if (!item.digests.files.empty()) {
      known.insert(JoinName(item.name, kDigestFile));
    }
  }
  return known;
}

// Returns whether a file belongs to a database of this save. Such files need
// not be listed, since nodes contain their own checksums.
bool PendingSaver::IsInDatabase(const std::string& path) const {
  if (has_root_item_ && IsDatabaseFile(path)) return true;
  return std::any_of(items_.begin(), items_.end(), [&](const SavedItem& item) {
    const std::string prefix = item.name + "/";
    return !item.digests.files.empty() && path.starts_with(prefix) &&
           IsDatabaseFile(std::string_view(path).substr(prefix.size()));
  });
}

// Adopts an item that the engine has written, but not through this object.
Status PendingSaver::AdoptItem(const std::string& name) {
  HF_RETURN_IF_ERROR(CheckOpen());
  if (!is_primary()) return Status();
  return CallUnlessFailed(CatchBadAlloc([&]() -> Status {
    const Result<Bytes> text = root_store_->Read(JoinName(name, kDigestFile));
    if (text.status().code() == StatusCode::kNotFound) return Status();
    HF_RETURN_IF_ERROR(text.status());
    HF_ASSIGN_OR_RETURN(DigestFile digests, ParseDigestFile(text->view()));
    if (!name.empty()) {
      items_.push_back({name, std::move(digests), text->ToString(), true});
      return Status();
    }
    // The item's rows become the root's, whose file replaces the item's.
    std::vector<FileDigest>& files = root_files_.digests().files;
    files.insert(files.end(), digests.files.begin(), digests.files.end());
    root_files_.digests().values = std::move(digests.values);
    root_files_.digests().floats = digests.floats;
    has_root_item_ = true;
    is_root_item_synced_ = true;
    // If files can only be created, the old one must be deleted first.
    if (options_.write_digests && !root_files_.must_create()) return Status();
    return root_store_->Delete(kDigestFile);
  }));
}

bool PendingSaver::IsInSyncedItem(const std::string& directory) const {
  if (is_root_item_synced_) return true;
  return std::any_of(items_.begin(), items_.end(), [&](const SavedItem& item) {
    return item.is_synced &&
           (directory == item.name || directory.starts_with(item.name + "/"));
  });
}

// Adopts files that were put into directory() without this object.
Status PendingSaver::AdoptCallerFiles() {
  const std::set<std::string> known = KnownFiles();
  const AdoptRules rules{
      .is_known =
          [&](const std::string& path) {
            return known.contains(path) || IsInDatabase(path);
          },
      .is_synced =
          [&](const std::string& path) { return IsInSyncedItem(path); },
  };
  return AdoptFiles(directory_, options_.write_digests, rules, root_files_);
}

std::string PendingSaver::RootMetadataText(const ParsedRootRecord& root) {
  CheckpointMetadata metadata;
  metadata.item_handlers = root.handlers;
  metadata.init_timestamp_nsecs = init_time_ns_;
  metadata.commit_timestamp_nsecs = options_.now_ns();
  metadata.custom_metadata = root.custom_metadata;
  return SerializeCheckpointMetadata(metadata);
}

Result<std::unique_ptr<PendingSave>> PendingSave::Begin(
    const std::string& path, const PendingSaveOptions& options) {
  HF_ASSIGN_OR_RETURN(auto saver, PendingSaver::Begin(Place(path), options));
  return std::unique_ptr<PendingSave>(std::move(saver));
}

}  // namespace holdfast
