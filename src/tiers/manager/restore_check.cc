// Checks whether a step that is being saved can be restored from its parts as
// they are on the hosts. This is done before an older step is removed to make
// room.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/format/own_names.h"
#include "ground/base/crc32c.h"
#include "ground/base/status_macros.h"
#include "ground/base/string_coding.h"
#include "stores/storage/nobodys_files.h"
#include "stores/storage/path_parts.h"
#include "stores/storage/store.h"
#include "tiers/manager/recovery_plan.h"
#include "tiers/manager/step_files.h"
#include "tiers/manager/tier_run.h"

namespace holdfast {
namespace {

// A rank's facts about its part, which it sends to the others.
struct SavedPart {
  std::string item;
  RankReport report;
  std::vector<TierFile> files;
  // The CRC-32Cs of the user's own files among `files`, by path.
  std::map<std::string, uint64_t> own_sums;
};

std::string EncodeSavedPart(const SavedPart& part) {
  std::string bytes;
  PutString(bytes, part.item);
  PutString(bytes, EncodeRankReport(part.report));
  PutString(bytes, EncodeFileList(part.files));
  PutVarint(bytes, part.own_sums.size());
  for (const auto& [path, sum] : part.own_sums) {
    PutString(bytes, path);
    PutVarint(bytes, sum);
  }
  return bytes;
}

Result<SavedPart> DecodeSavedPart(std::string_view bytes) {
  const auto refuse = [] {
    return DataLossError("a rank's report of its part of a step is malformed");
  };
  Cursor cursor(bytes);
  SavedPart part;
  std::string report;
  std::string files;
  uint64_t own_count = 0;
  if (!ReadString(cursor, part.item) || !ReadString(cursor, report) ||
      !ReadString(cursor, files) || !ReadVarint64(cursor, own_count) ||
      own_count > cursor.remaining()) {
    return refuse();
  }
  for (uint64_t i = 0; i < own_count; ++i) {
    std::string path;
    uint64_t sum = 0;
    if (!ReadString(cursor, path) || !ReadVarint64(cursor, sum)) {
      return refuse();
    }
    part.own_sums[path] = sum;
  }
  if (cursor.remaining() != 0) return refuse();
  HF_ASSIGN_OR_RETURN(part.report, DecodeRankReport(report));
  HF_ASSIGN_OR_RETURN(part.files, DecodeFileList(files));
  return part;
}

// Returns the report of a rank that has just written its complete part.
RankReport ReportOf(const GroupRecord& record, int64_t rank) {
  RankReport report;
  report.members.push_back({.rank = rank});
  report.shapes.push_back({record.group, record.data_bytes()});
  report.groups = record.groups;
  report.parity_count = record.parity_count;
  report.block_bytes = record.block_bytes;
  return report;
}

Status DiffersError(size_t rank, std::string_view what) {
  return InvalidArgumentError("rank " + std::to_string(rank) + " has another " +
                              std::string(what) + " than rank 0");
}

// Checks that the ranks' files do not clash: in a step, the files of all ranks
// share one namespace.
Status CheckNamesFit(const std::vector<SavedPart>& parts) {
  std::map<std::string, size_t, std::less<>> ranks;
  const auto clash = [](size_t a, size_t b, std::string_view path,
                        std::string_view why) {
    return InvalidArgumentError("ranks " + std::to_string(a) + " and " +
                                std::to_string(b) + " both have a file \"" +
                                std::string(path) + "\"" + std::string(why));
  };
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    for (const TierFile& file : parts[rank].files) {
      const auto [found, is_new] = ranks.emplace(file.path, rank);
      if (is_new) continue;
      const auto& theirs = parts[found->second].own_sums;
      const auto& mine = parts[rank].own_sums;
      const auto their_sum = theirs.find(file.path);
      const auto my_sum = mine.find(file.path);
      const bool is_same = their_sum != theirs.end() && my_sum != mine.end() &&
                           their_sum->second == my_sum->second;
      if (!is_same) {
        return clash(found->second, rank, file.path,
                     ", and they differ: give each rank names of its own");
      }
    }
  }
  for (const auto& [path, rank] : ranks) {
    for (std::string_view above = ParentKey(path); !above.empty();
         above = ParentKey(above)) {
      const auto found = ranks.find(above);
      if (found == ranks.end()) continue;
      return clash(found->second, rank, above,
                   ", which for one of them is a directory");
    }
  }
  return Status();
}

// Plans as a restore by the current ranks would.
Status CheckPlan(const std::vector<SavedPart>& parts,
                 std::vector<int64_t>& holders) {
  std::vector<RankReport> reports;
  for (size_t rank = 0; rank < parts.size(); ++rank) {
    const RankReport& report = parts[rank].report;
    const RankReport& first = parts[0].report;
    if (parts[rank].item != parts[0].item) return DiffersError(rank, "item");
    if (report.groups != first.groups ||
        report.parity_count != first.parity_count ||
        report.block_bytes != first.block_bytes) {
      return DiffersError(rank, "parity");
    }
    reports.push_back(report);
  }
  const RecoveryPlan plan = PlanRecovery(reports);
  if (!plan.why_not.empty()) return FailedPreconditionError(plan.why_not);
  holders = plan.holders();
  return Status();
}

Status CheckParts(TierRun& run, const TierStep& step,
                  const std::vector<std::string>& all) {
  std::vector<SavedPart> parts;
  std::vector<std::vector<TierFile>> files;
  for (const std::string& bytes : all) {
    HF_ASSIGN_OR_RETURN(SavedPart part, DecodeSavedPart(bytes));
    files.push_back(part.files);
    parts.push_back(std::move(part));
  }
  std::vector<int64_t> holders;
  HF_RETURN_IF_ERROR(CheckPlan(parts, holders));
  HF_RETURN_IF_ERROR(CheckNamesFit(parts));
  const auto shown = std::make_shared<StepFiles>(
      step, std::move(files), std::move(holders), *run.peers);
  const std::string& item = parts[0].item;
  HF_RETURN_IF_ERROR(StepFiles::Finish(shown, item, run.options.save));
  return OpenCheckpoint(StepFiles::PlaceOf(shown, item)).status();
}

}  // namespace

Status CheckOwnFiles(const std::map<std::string, std::string>& files,
                     const std::string& item) {
  for (const auto& [path, content] : files) {
    HF_RETURN_IF_ERROR(CheckKey(path).WithContext("files"));
    const bool is_items = path == item || path.starts_with(item + "/");
    if (!is_items && !IsOwnFilePath(path) && !IsNobodysPath(path)) continue;
    return InvalidArgumentError(
        "files: \"" + path + "\" is " +
        (is_items ? "in the directory of the tree"
                  : "a name that checkpoints or file systems use themselves") +
        "; want another name");
  }
  return Status();
}

Status CheckRestorable(TierRun& run, ProcessGroup& group, const TierMember& me,
                       const GroupRecord& record,
                       const std::map<std::string, std::string>& own_files) {
  SavedPart mine;
  mine.item = record.item;
  mine.report = ReportOf(record, me.rank);
  mine.files = record.members[record.IndexOf(me.rank)].files;
  for (const auto& [path, content] : own_files) {
    mine.own_sums[path] = Crc32c(content);
  }
  HF_ASSIGN_OR_RETURN(
      const std::vector<std::string> all,
      group.AllGather({"parts", run.options.run}, EncodeSavedPart(mine)));
  const Status checked =
      group.rank() == 0 ? CheckParts(run, me.step, all) : Status();
  return group.Agree({"plan", run.options.run}, checked)
      .WithContext("step " + std::to_string(me.step.step) +
                   " could not be restored, and is not kept");
}

}  // namespace holdfast
