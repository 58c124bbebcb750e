#include "holdfast/tools/rescue.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "engine/commit/layout.h"
#include "engine/commit/unfinished.h"
#include "engine/format/directory_names.h"
#include "engine/format/own_documents.h"
#include "engine/restore/item.h"
#include "engine/restore/leaf_request.h"
#include "foreign/chain/delta_info.h"
#include "foreign/open/open.h"
#include "foreign/open/source_place.h"
#include "foreign/sidecar/joined_leaves.h"
#include "ground/base/clock.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "ground/run/run.h"
#include "holdfast/tools/convert.h"
#include "stores/place/directory_ops.h"
#include "tools/convert/target_format.h"
#include "tools/rescue/judge.h"
#include "tools/rescue/repairs.h"

namespace holdfast {
namespace {

using Opened = std::shared_ptr<const Checkpoint>;

// Returns true if the fill's leaf fits the lost leaf: equal shape and dtype, as
// far as these are known.
bool Fits(const LeafInfo& fill, const LeafInfo* lost) {
  if (lost == nullptr) return true;
  if (HasElements(lost->kind) != HasElements(fill.kind)) return false;
  return !lost->dtype ||
         (lost->dtype == fill.dtype && lost->shape == fill.shape);
}

class Rescuer {
 public:
  Rescuer(const std::string& source, const std::string& target,
          const RescueOptions& options)
      : source_path_(source),
        target_path_(target),
        options_(options),
        run_(options.run) {}

  Result<RescueResult> Execute() {
    HF_RETURN_IF_ERROR(OpenSource());
    HF_RETURN_IF_ERROR(JudgeSource());
    HF_RETURN_IF_ERROR(Choose());
    if (!options_.fill.empty()) HF_RETURN_IF_ERROR(Fill());
    HF_RETURN_IF_ERROR(Write());
    return Finish();
  }

 private:
  // 1. Open what can be opened.

  Status OpenSource() {
    const Place target = Place(target_path_).Absolute();
    HF_ASSIGN_OR_RETURN(const PathKind there, GetPathKind(target));
    if (there != PathKind::kMissing) return DestinationExistsError(target);
    HF_ASSIGN_OR_RETURN(place_, SourcePlace(source_path_));
    HF_ASSIGN_OR_RETURN(const PathKind kind, GetPathKind(place_));
    if (kind == PathKind::kMissing) {
      return NotFoundError("Checkpoint at " + place_.path() + " not found.");
    }
    if (OpenChain()) return Status();
    HF_ASSIGN_OR_RETURN(files_, RepairedFiles::Of(place_));
    HF_RETURN_IF_ERROR(CheckIsNoRoot());
    HF_RETURN_IF_ERROR(RepairOrbax(files_, &run_.cancel(), repairs_));
    HF_RETURN_IF_ERROR(RepairWeights(files_, repairs_));
    HF_RETURN_IF_ERROR(RepairZips(files_, &run_.cancel(), repairs_));
    open_.missing_chunks = repairs_.refuses_missing
                               ? MissingChunks::kRefuse
                               : MissingChunks::kAsRecorded;
    HF_RETURN_IF_ERROR(OpenRepaired());
    return CheckIsNoDelta();
  }

  // Opens a delta or view directly, because the files elsewhere that it needs
  // can be found only from its own place. Returns false for any other source.
  bool OpenChain() {
    auto opened = OpenPlace(place_, open_);
    if (!opened.ok()) return false;
    const CheckpointInfo& info = (*opened)->info();
    if (info.bases.empty() && info.sources.empty()) return false;
    checkpoint_ = std::move(opened).value();
    is_chain_ = true;
    return true;
  }

  // Refuses a root of steps. A damaged item's directories may look like steps
  // ("ocdbt.process_0"), but do not make it a root.
  Status CheckIsNoRoot() {
    const bool is_item =
        std::ranges::any_of(files_->files(), [](const auto& file) {
          return file.first.starts_with("d/") ||
                 file.first.starts_with("ocdbt.process_");
        });
    if (is_item) return Status();
    const Result<bool> is_root = IsManagerRoot(place_);
    if (!is_root.ok() && !IsDamage(is_root.status())) return is_root.status();
    if (!is_root.ok() || !*is_root) return Status();
    return InvalidArgumentError("rescue " + place_.path() +
                                ": it is a directory of steps; give the path "
                                "of one of them");
  }

  Place SeenPlace() const {
    return files_->is_edited() ? RepairedFiles::PlaceOf(files_) : place_;
  }

  Status OpenRepaired() {
    open_.stored_sizes = false;
    auto opened = OpenPlace(SeenPlace(), open_);
    first_failure_ = opened.status();
    if (!opened.ok() && HideLostItems()) {
      // Repair again, because the checkpoint's metadata list the items now
      // hidden.
      HF_RETURN_IF_ERROR(RepairOrbax(files_, &run_.cancel(), repairs_));
      opened = OpenPlace(SeenPlace(), open_);
    }
    if (!opened.ok() && open_.use_sidecar) {
      open_.use_sidecar = false;
      opened = OpenPlace(SeenPlace(), open_);
      if (opened.ok()) NoteUnseen("the tree that holdfast keeps beside it");
    }
    if (!opened.ok() && HideHeads()) {
      opened = OpenPlace(SeenPlace(), open_);
      if (opened.ok()) NoteUnseen("the file that says what it is");
    }
    if (!opened.ok()) return NothingError(first_failure_);
    checkpoint_ = std::move(opened).value();
    if (checkpoint_->info().format != "safetensors" ||
        !files_->Has(std::string(kDigestFile))) {
      return Status();
    }
    return NothingError(DataLossError(
        "the database of its arrays is lost; its .safetensors files can be "
        "rescued by themselves, without the checksums of the checkpoint"));
  }

  void NoteUnseen(const std::string& what) {
    repairs_.names_are_known = false;
    repairs_.notes.push_back(what +
                             " is damaged or gone: tensors have the names and "
                             "dtypes that their files give them");
  }

  // Hides files that are not needed to read the contents: an index of shards,
  // and the documents that give Megatron's arrays their structure. Returns true
  // if there were any.
  bool HideHeads() {
    bool has_hidden = false;
    for (const std::string& path : files_->Below("")) {
      const bool is_head = path == "metadata.json" || path == "common.pt" ||
                           path.ends_with(".index.json");
      if (is_head) has_hidden |= files_->Hide(path);
    }
    return has_hidden;
  }

  // Hides the items of a composite that cannot be opened. Returns true if there
  // were any.
  bool HideLostItems() {
    const auto found = FindCheckpoint(RepairedFiles::PlaceOf(files_), open_);
    if (!found.ok() || found->items.size() < 2) return false;
    bool has_hidden = false;
    for (const ItemPlace& item : found->items) {
      const Status opened = Item::Open(item, open_).status();
      if (opened.ok() || !IsDamage(opened)) continue;
      files_->HideBelow(item.name + "/");
      repairs_.lost.push_back({item.name, item.name + "/", std::nullopt,
                               std::string(opened.message()), false});
      has_hidden = true;
    }
    return has_hidden;
  }

  // Refuses a delta without its `_METADATA` or its base: its encoded
  // differences would be taken for arrays.
  Status CheckIsNoDelta() const {
    const bool has_tree = checkpoint_->info().has_tree_metadata;
    if (has_tree && open_.use_sidecar) return Status();
    for (const LeafInfo& leaf : checkpoint_->leaves()) {
      if (!leaf.name.ends_with(kDeltaMarkArray)) continue;
      if (has_tree) return NoBaseError();
      return NothingError(
          DataLossError("it is a delta, whose _METADATA, which says what its "
                        "arrays are differences to, is gone"));
    }
    return Status();
  }

  // Returns the error for a delta whose base cannot be read. A base that was
  // moved is not damage, so the error advises to put it back.
  Status NoBaseError() const {
    const Status error = NothingError(first_failure_);
    if (first_failure_.code() != StatusCode::kNotFound) return error;
    return NotFoundError(std::string(error.message()) +
                         "; put the base back, and rescue the delta then");
  }

  Status NothingError(const Status& why) const {
    const std::string text =
        "rescue " + place_.path() +
        ": nothing can be recovered: " + Plain(std::string(why.message()));
    return IsDamage(why) ? DataLossError(text)
                         : why.WithContext("rescue " + place_.path());
  }

  std::string Plain(std::string text) const {
    return files_ == nullptr ? text : files_->WithSourcePath(std::move(text));
  }

  // Returns a file's path relative to the checkpoint or its parent, or the full
  // path if it is elsewhere.
  std::string Relative(const std::string& file) const {
    const std::string path = Plain(file);
    for (const std::string& above : {place_.path(), place_.parent().path()}) {
      if (path.starts_with(above + "/")) return path.substr(above.size() + 1);
    }
    return path;
  }

  // 2. Judge which leaves are intact.

  Status JudgeSource() {
    std::vector<size_t> all(checkpoint_->leaves().size());
    for (size_t i = 0; i < all.size(); ++i) all[i] = i;
    const auto foreign = is_chain_ ? Result(ForeignFormat::kNone)
                                   : FindForeignFormat(SeenPlace());
    HF_RETURN_IF_ERROR(foreign.status());
    const bool is_orbax = !is_chain_ && *foreign == ForeignFormat::kNone;
    auto verdicts = is_orbax ? JudgeOrbax(*checkpoint_, SeenPlace(), open_,
                                          options_.run, result_.notes)
                             : JudgeByReading(*checkpoint_, all, options_.run);
    HF_RETURN_IF_ERROR(verdicts.status());
    verdicts_ = std::move(verdicts).value();
    if (is_orbax) return Status();
    const bool has_checksums = *foreign == ForeignFormat::kNpz ||
                               *foreign == ForeignFormat::kTorchFile ||
                               is_chain_;
    if (has_checksums) return Status();
    for (size_t i = 0; i < all.size(); ++i) {
      verdicts_[i].is_checked = !HasElements(checkpoint_->leaves()[i].kind);
    }
    result_.notes.push_back(
        checkpoint_->info().format +
        " has no checksums: a changed byte inside a tensor cannot be seen");
    return Status();
  }

  // 3. Choose where each leaf comes from, or say why it is lost.

  Status Choose() {
    parts_.push_back(checkpoint_);
    const std::vector<LeafInfo>& leaves = checkpoint_->leaves();
    std::set<std::string> names;
    bool has_value = false;
    Status first;
    for (size_t i = 0; i < leaves.size(); ++i) {
      names.insert(leaves[i].name);
      if (verdicts_[i].status.ok()) {
        chosen_.push_back({leaves[i], 0, i});
        if (!verdicts_[i].is_checked) {
          result_.unchecked.push_back(leaves[i].name);
        }
        has_value |= HasElements(leaves[i].kind) || HasText(leaves[i].kind);
        continue;
      }
      if (first.ok()) first = verdicts_[i].status;
      lost_leaf_[result_.lost.size()] = i;
      result_.lost.push_back(
          {leaves[i].name, Relative(verdicts_[i].file), verdicts_[i].offset,
           std::string(verdicts_[i].status.message()), false});
    }
    AddKnownLosses(names);
    if (has_value) return Status();
    return NothingError(first.ok() ? DataLossError("no leaf holds a value")
                                   : first);
  }

  void AddKnownLosses(std::set<std::string>& names) {
    for (LostLeaf& lost : repairs_.lost) {
      if (!lost.leaf.empty() && !names.insert(lost.leaf).second) continue;
      result_.lost.push_back(std::move(lost));
    }
    for (const std::string& name : repairs_.expected_names) {
      if (!names.insert(name).second) continue;
      result_.lost.push_back({name, "", std::nullopt,
                              "its metadata are gone, so that nothing says "
                              "what its bytes are",
                              false});
    }
  }

  // 4. Fill in the lost leaves from another step.

  Status Fill() {
    HF_ASSIGN_OR_RETURN(Opened fill, Open(options_.fill));
    std::map<std::string, size_t> numbers;
    for (size_t i = 0; i < fill->leaves().size(); ++i) {
      numbers.emplace(fill->leaves()[i].name, i);
    }
    if (!repairs_.names_are_known) AddUnknownLosses(*fill, numbers);
    std::vector<std::pair<size_t, size_t>> wanted;  // lost, in the fill
    std::vector<size_t> leaves;
    for (size_t i = 0; i < result_.lost.size(); ++i) {
      const auto found = numbers.find(result_.lost[i].leaf);
      if (found == numbers.end()) continue;
      const auto known = lost_leaf_.find(i);
      const LeafInfo* lost = known == lost_leaf_.end()
                                 ? nullptr
                                 : &checkpoint_->leaves()[known->second];
      // The kind of an npz member whose own header is damaged is unknown.
      const bool is_told =
          lost != nullptr &&
          (lost->problem.ok() || checkpoint_->info().format != "npz");
      if (!is_told) lost = nullptr;
      if (!Fits(fill->leaves()[found->second], lost)) {
        result_.lost[i].reason +=
            "; in " + options_.fill + " it has another shape, dtype or kind";
        continue;
      }
      wanted.emplace_back(i, found->second);
      leaves.push_back(found->second);
    }
    HF_ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts,
                        JudgeByReading(*fill, leaves, options_.run));
    for (const auto& [lost, leaf] : wanted) {
      if (!verdicts[leaf].status.ok()) {
        result_.lost[lost].reason +=
            "; in " + options_.fill + ": " +
            std::string(verdicts[leaf].status.message());
        continue;
      }
      result_.lost[lost].is_filled = true;
      ++result_.filled_count;
      chosen_.push_back({fill->leaves()[leaf], parts_.size(), leaf});
    }
    parts_.push_back(std::move(fill));
    return Status();
  }

  // Adds as lost all leaves that only the fill has. The source's leaves are
  // named after their arrays, so they also get the fill's keys.
  void AddUnknownLosses(const Checkpoint& fill,
                        const std::map<std::string, size_t>& numbers) {
    std::set<std::string> known;
    for (const LostLeaf& lost : result_.lost) known.insert(lost.leaf);
    for (JoinedLeaf& leaf : chosen_) {
      known.insert(leaf.info.name);
      const auto found = numbers.find(leaf.info.name);
      if (found == numbers.end()) continue;
      const LeafInfo& there = fill.leaves()[found->second];
      leaf.info.key = there.key;
      leaf.info.key_kinds = there.key_kinds;
    }
    for (const auto& [name, leaf] : numbers) {
      if (known.contains(name)) continue;
      result_.lost.push_back(
          {name, "", std::nullopt,
           "nothing is left of it, but " + options_.fill + " has it", false});
    }
  }

  // 5. Write the new step.

  Status Write() {
    if (options_.run.cancel != nullptr) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
    }
    Result<ConvertResult> written = ConvertChosen();
    // Try again without the recorded handlers: everything that could be opened
    // is a tree.
    if (written.status().code() == StatusCode::kUnimplemented) {
      keeps_handlers_ = false;
      written = ConvertChosen();
    }
    if (!written.ok() && IsDamage(written.status()) &&
        written.status().code() != StatusCode::kAlreadyExists) {
      HF_RETURN_IF_ERROR(DropUnreadable(written.status()));
      written = ConvertChosen();
    }
    HF_RETURN_IF_ERROR(written.status());
    result_.leaf_count = written->leaf_count;
    result_.decoded_bytes = written->decoded_bytes;
    return Status();
  }

  Result<ConvertResult> ConvertChosen() {
    HF_ASSIGN_OR_RETURN(CheckpointInfo info, TargetInfo());
    const JoinedLeaves rescued(std::move(info), parts_, chosen_);
    ConvertOptions convert;
    convert.run = options_.run;
    convert.format = checkpoint_->info().format == "orbax-v1" ? Format::kOrbaxV1
                                                              : Format::kOrbax;
    convert.compression = options_.compression;
    convert.sync = options_.sync;
    convert.now_ns = options_.now_ns;
    convert.random_hex = options_.random_hex;
    convert.copies_of = {place_.path()};
    if (!options_.fill.empty()) convert.copies_of.push_back(options_.fill);
    convert.part_bytes = 0;  // so a failed rescue leaves no files
    return ConvertFrom(rescued, target_path_, convert);
  }

  // Drops leaves that could be read when they were judged, but that can no
  // longer be read.
  Status DropUnreadable(const Status& why) {
    std::vector<size_t> leaves;
    for (const JoinedLeaf& leaf : chosen_) {
      if (leaf.part == 0) leaves.push_back(leaf.leaf);
    }
    HF_ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts,
                        JudgeByReading(*checkpoint_, leaves, options_.run));
    const size_t dropped = std::erase_if(chosen_, [&](const JoinedLeaf& leaf) {
      if (leaf.part != 0 || verdicts[leaf.leaf].status.ok()) return false;
      result_.lost.push_back({leaf.info.name, "", std::nullopt,
                              std::string(verdicts[leaf.leaf].status.message()),
                              false});
      std::erase(result_.unchecked, leaf.info.name);
      return true;
    });
    return dropped == 0 || chosen_.empty() ? NothingError(why) : Status();
  }

  Result<CheckpointInfo> TargetInfo() const {
    CheckpointInfo info = checkpoint_->info();
    const bool is_orbax = info.format.starts_with("orbax");
    if (!is_orbax || !keeps_handlers_) info.checkpoint_metadata.clear();
    info.result_id.clear();
    info.bases.clear();
    if (!result_.lost.empty()) info.value_metadata_tree.clear();
    if (info.custom_metadata.empty()) {
      info.custom_metadata = repairs_.custom_metadata;
    }
    const bool is_whole = result_.lost.empty() && repairs_.names_are_known &&
                          repairs_.checksums_are_known &&
                          result_.unchecked.empty();
    if (is_whole) return info;
    nlohmann::ordered_json metadata = nlohmann::ordered_json::object();
    if (!info.custom_metadata.empty()) {
      HF_ASSIGN_OR_RETURN(metadata, ParseJsonText(info.custom_metadata));
      if (!metadata.is_object()) metadata = nlohmann::ordered_json::object();
    }
    metadata[std::string(kRescueKey)] = Mark();
    info.custom_metadata = PythonJsonText(metadata);
    return info;
  }

  nlohmann::ordered_json Mark() const {
    nlohmann::ordered_json lost = nlohmann::ordered_json::array();
    nlohmann::ordered_json filled = nlohmann::ordered_json::array();
    for (const LostLeaf& leaf : result_.lost) {
      (leaf.is_filled ? filled : lost)
          .push_back(leaf.leaf.empty() ? leaf.file : leaf.leaf);
    }
    nlohmann::ordered_json mark;
    mark["source"] = place_.path();
    mark["lost"] = std::move(lost);
    if (!result_.unchecked.empty()) mark["unchecked"] = result_.unchecked;
    if (!options_.fill.empty()) {
      mark["fill"] = options_.fill;
      mark["filled"] = std::move(filled);
    }
    return mark;
  }

  Result<RescueResult> Finish() {
    result_.format = checkpoint_->info().format;
    result_.names_are_known = repairs_.names_are_known;
    result_.checksums_are_known = repairs_.checksums_are_known;
    std::set<std::string> known;
    repairs_.notes.insert(repairs_.notes.end(), result_.notes.begin(),
                          result_.notes.end());
    result_.notes.clear();
    for (std::string& note : repairs_.notes) {
      note = Plain(std::move(note));
      if (known.insert(note).second) result_.notes.push_back(std::move(note));
    }
    for (LostLeaf& lost : result_.lost) {
      lost.reason = Plain(std::move(lost.reason));
    }
    std::ranges::stable_sort(result_.lost, {}, &LostLeaf::leaf);
    std::ranges::sort(result_.unchecked);
    result_.total_seconds = watch_.Lap();
    return std::move(result_);
  }

  const std::string& source_path_;
  const std::string& target_path_;
  const RescueOptions& options_;
  Run run_;
  Stopwatch watch_;
  OpenOptions open_;
  Place place_;
  FilesPtr files_;  // null if the source is a chain of steps, or a view
  bool is_chain_ = false;
  bool keeps_handlers_ = true;
  Repairs repairs_;
  Status first_failure_;  // of opening the source
  Opened checkpoint_;
  std::vector<Verdict> verdicts_;  // of its leaves
  std::vector<Opened> parts_;      // the checkpoint, and the fill
  std::vector<JoinedLeaf> chosen_;
  std::map<size_t, size_t> lost_leaf_;  // leaf by index in result_.lost
  RescueResult result_;
};

}  // namespace

Result<RescueResult> Rescue(const std::string& source,
                            const std::string& target,
                            const RescueOptions& options) {
  return CatchBadAlloc([&]() -> Result<RescueResult> {
    HF_RETURN_IF_ERROR(CheckDirectoryName(target, Format::kOrbax));
    return Rescuer(source, target, options).Execute();
  });
}

}  // namespace holdfast
