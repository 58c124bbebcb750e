#include "engine/save/item_parts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "engine/check/digest_index.h"
#include "engine/check/value_sums.h"
#include "engine/format/directory_names.h"
#include "engine/format/part_file.h"
#include "engine/format/tree_metadata.h"
#include "engine/restore/array_layout.h"
#include "engine/save/adopt.h"
#include "engine/save/also_sink.h"
#include "engine/save/chunk_cover.h"
#include "engine/save/item_writer.h"
#include "engine/save/plan_checksums.h"
#include "engine/save/value_sink.h"
#include "formats/zarr/format/metadata.h"
#include "ground/base/executor.h"
#include "ground/base/status_macros.h"
#include "ground/group/rank_list.h"
#include "stores/storage/read_if_there.h"

namespace holdfast {
namespace {

constexpr size_t kNamedMax = 8;  // leaves in one message
// The number of threads for small reads, which wait for the store rather than
// for a processor.
constexpr int kReaderCountMax = 16;

class PartMerger {
 public:
  PartMerger(const FinishItemOptions& options, FileWriter& files,
             const SavePlan* plan)
      : options_(options),
        files_(files),
        plan_(plan),
        store_(files.store()),
        readers_(std::min<int>(kReaderCountMax, options.ranks.size())),
        layouts_(MissingChunks::kRefuse) {}

  Status Merge() {
    HF_RETURN_IF_ERROR(ReadParts());
    HF_RETURN_IF_ERROR(CheckOneSave());
    if (!options_.has_own_trees) HF_RETURN_IF_ERROR(CheckPlans());
    if (options_.use_ocdbt) {
      HF_RETURN_IF_ERROR(MergeAllDatabases());
    } else {
      HF_RETURN_IF_ERROR(CheckFiles());
    }
    TakeDigests();
    HF_RETURN_IF_ERROR(AddFingerprints());
    for (const int64_t rank : options_.ranks) {
      HF_RETURN_IF_ERROR(store_.Delete(PartFileName(rank)));
    }
    return Status();
  }

 private:
  Status ReadParts() {
    std::vector<std::optional<PartFile>> found(options_.ranks.size());
    HF_RETURN_IF_ERROR(
        readers_.ParallelFor(found.size(), [&](size_t i, int) -> Status {
          HF_ASSIGN_OR_RETURN(found[i], ReadPart(options_.ranks[i]));
          return Status();
        }));
    std::vector<int64_t> missing;
    for (size_t i = 0; i < found.size(); ++i) {
      if (found[i]) {
        parts_.push_back(*std::move(found[i]));
      } else {
        missing.push_back(options_.ranks[i]);
      }
    }
    if (missing.empty()) return Status();
    return FailedPreconditionError(
        store_.Describe("") + ": " + RankList(missing) +
        " left no part of the checkpoint (want parts of " +
        std::to_string(options_.ranks.size()) + " ranks)");
  }

  // Reads the part of a rank. Returns nullopt if the file is missing.
  Result<std::optional<PartFile>> ReadPart(int64_t rank) {
    const std::string name = PartFileName(rank);
    HF_ASSIGN_OR_RETURN(std::optional<PartFile> part,
                        ReadIfThere(store_, name, ParsePartFile));
    if (!part || part->rank == rank) return part;
    return DataLossError(store_.Describe(name) + ": it is of rank " +
                         std::to_string(part->rank));
  }

  Status CheckOneSave() {
    std::vector<int64_t> foreign;
    for (const PartFile& part : parts_) {
      if (part.save_id != options_.save_id) foreign.push_back(part.rank);
      if (!part.is_primary) continue;
      if (primary_ != nullptr) {
        return FailedPreconditionError(
            store_.Describe("") + ": ranks " + std::to_string(primary_->rank) +
            " and " + std::to_string(part.rank) + " are both primary");
      }
      primary_ = &part;
    }
    if (!foreign.empty()) {
      return FailedPreconditionError(store_.Describe("") + ": the parts of " +
                                     RankList(foreign) +
                                     " are of another save");
    }
    if (primary_ == nullptr) {
      return FailedPreconditionError(store_.Describe("") +
                                     ": no rank is primary");
    }
    return CheckAllHaveFingerprints();
  }

  Status CheckAllHaveFingerprints() {
    std::vector<int64_t> others;
    for (const PartFile& part : parts_) {
      const bool is_alike =
          part.fingerprints.has_value() == primary_->fingerprints.has_value();
      if (!is_alike) others.push_back(part.rank);
    }
    if (others.empty()) return Status();
    const bool has = primary_->fingerprints.has_value();
    return FailedPreconditionError(
        store_.Describe("") + ": " + RankList(others) + " saved " +
        (has ? "without" : "with") + " fingerprints, and rank " +
        std::to_string(primary_->rank) + (has ? " with" : " without"));
  }

  Status CheckPlans() {
    std::vector<int64_t> differing;
    const PartFile* first = nullptr;
    for (const PartFile& part : parts_) {
      if (part.plan == primary_->plan) continue;
      differing.push_back(part.rank);
      if (first == nullptr) first = &part;
    }
    if (differing.empty()) return Status();
    std::string message = store_.Describe("") + ": " + RankList(differing) +
                          " saved another tree than rank " +
                          std::to_string(primary_->rank);
    if (first->plan.leaf_count != primary_->plan.leaf_count) {
      message += " (rank " + std::to_string(first->rank) + ": " +
                 std::to_string(first->plan.leaf_count) + " leaves, rank " +
                 std::to_string(primary_->rank) + ": " +
                 std::to_string(primary_->plan.leaf_count) + ")";
    }
    return FailedPreconditionError(message + Suspects(first->plan));
  }

  // Returns a text that names the leaves that may differ, as far as the
  // primary's `_METADATA` shows them.
  std::string Suspects(const PlanChecksums& other) {
    const Result<Bytes> text = store_.Read(kTreeMetadataFile);
    if (!text.ok()) return "";
    const Result<TreeMetadata> metadata = ParseTreeMetadata(text->view());
    if (!metadata.ok()) return "";
    std::vector<std::string> names;
    for (const TreeMetadataEntry& entry : metadata->entries) {
      names.push_back(ParamName(entry.path));
    }
    std::string list;
    for (const std::string& name :
         SuspectLeaves(names, primary_->plan, other, kNamedMax)) {
      list += (list.empty() ? "" : ", ") + name;
    }
    if (list.empty()) return "";
    return "; they differ in the name, type, dtype, shape, chunks or sharding "
           "of one of: " +
           list;
  }

  Status MergeAllDatabases() {
    std::vector<const PartFile*> with_database;
    for (const PartFile& part : parts_) {
      if (!part.database.empty()) with_database.push_back(&part);
    }
    std::vector<ocdbt::MergeChild> children(with_database.size());
    HF_RETURN_IF_ERROR(
        readers_.ParallelFor(children.size(), [&](size_t i, int) -> Status {
          HF_ASSIGN_OR_RETURN(children[i], ReadDatabaseOf(*with_database[i]));
          return Status();
        }));
    if (plan_ != nullptr && plan_->also) {
      std::vector<const DigestFile*> rows;
      for (const PartFile& part : parts_) rows.push_back(&part.digests);
      HF_ASSIGN_OR_RETURN(children.emplace_back(),
                          ReferencesOfRows(*plan_, rows));
    }
    if (!options_.is_partial) HF_RETURN_IF_ERROR(CheckDatabases(children));
    if (options_.adopt_existing) HF_RETURN_IF_ERROR(AddAdopted(children));
    if (children.empty()) return Status();
    return MergeIntoRoot(&store_, sink_options_, std::move(children),
                         files_.digests());
  }

  // Reads the database of a part. A manifest that the part's process did not
  // write belongs to another save.
  Result<ocdbt::MergeChild> ReadDatabaseOf(const PartFile& part) {
    if (!IsDatabaseName(part.database)) {
      return DataLossError(store_.Describe(PartFileName(part.rank)) +
                           ": bad database \"" + part.database + "\"");
    }
    const std::string manifest = part.database + std::string(kManifestFile);
    HF_ASSIGN_OR_RETURN(const Bytes content, store_.Read(manifest));
    if (ManifestChecksum(content.view()) != part.manifest_checksum) {
      return DataLossError(store_.Describe(manifest) +
                           ": it is not the one that rank " +
                           std::to_string(part.rank) + " wrote");
    }
    return ReadDatabase(store_, part.database);
  }

  static bool IsDatabaseName(const std::string& prefix) {
    return prefix.ends_with('/') &&
           ParseProcessDirectory(prefix.substr(0, prefix.size() - 1));
  }

  Status AddAdopted(std::vector<ocdbt::MergeChild>& children) {
    HF_ASSIGN_OR_RETURN(std::vector<std::string> found,
                        FindProcessDatabases(store_));
    for (const PartFile& part : parts_) std::erase(found, part.database);
    return AddAdoptedDatabases(
        store_, found, options_.write_digests ? &files_.digests() : nullptr,
        children);
  }

  Status CheckDatabases(const std::vector<ocdbt::MergeChild>& children) {
    std::vector<CoveredArray> arrays;
    std::vector<std::string_view> keys;
    for (const ocdbt::MergeChild& child : children) {
      for (const ocdbt::LeafEntry& entry : child.entries.entries) {
        keys.push_back(entry.key);
        if (!zarr::IsMetadataKey(entry.key)) continue;
        HF_ASSIGN_OR_RETURN(const Bytes text, ValueOf(child, entry));
        HF_RETURN_IF_ERROR(AddArray(entry.key, text.view(), arrays));
      }
    }
    return Located(CheckChunkCover(arrays, keys));
  }

  Status CheckFiles() {
    if (options_.is_partial) return Status();
    std::vector<CoveredArray> arrays;
    std::vector<std::string_view> keys;
    for (const PartFile& part : parts_) {
      for (const ValueDigest& row : part.digests.values) {
        if (!row.is_node()) keys.push_back(row.path);
      }
      for (const FileDigest& row : part.digests.files) {
        if (!zarr::IsMetadataKey(row.path)) continue;
        HF_ASSIGN_OR_RETURN(const Bytes text, store_.Read(row.path));
        HF_RETURN_IF_ERROR(AddArray(row.path, text.view(), arrays));
      }
    }
    return Located(CheckChunkCover(arrays, keys));
  }

  Status Located(const Status& status) {
    return status.ok() ? status : status.WithContext(store_.Describe(""));
  }

  // Reads the value of an entry. Values are usually inline; if not, this is one
  // small read per array.
  Result<Bytes> ValueOf(const ocdbt::MergeChild& child,
                        const ocdbt::LeafEntry& entry) {
    if (entry.is_inline()) return Bytes(std::string(entry.inline_value()));
    return store_.Read(
        child.subdirectory + child.entries.files[entry.file_index].path,
        {entry.offset, entry.value_byte_count});
  }

  Status AddArray(std::string_view key, std::string_view text,
                  std::vector<CoveredArray>& arrays) {
    Result<std::shared_ptr<const ArrayLayout>> layout = layouts_.Get(text);
    if (!layout.ok()) return layout.status().WithContext(key);
    arrays.push_back({std::string(key.substr(0, key.rfind('/') + 1)), *layout});
    return Status();
  }

  void TakeDigests() {
    DigestFile& all = files_.digests();
    all.floats = FloatArrays();
    for (PartFile& part : parts_) {
      // Sums are known only if all parts know theirs.
      if (!part.digests.floats) all.floats.reset();
      if (all.floats) *all.floats += *part.digests.floats;
      all.files.insert(all.files.end(), part.digests.files.begin(),
                       part.digests.files.end());
      all.values.insert(all.values.end(), part.digests.values.begin(),
                        part.digests.values.end());
    }
  }

  // Adds up the fingerprints. A tensor's fingerprint is the sum of its parts'
  // fingerprints.
  Status AddFingerprints() {
    if (!primary_->fingerprints) return Status();
    std::map<std::string, FingerprintSum> sums;
    for (const PartFile& part : parts_) {
      for (const auto& [name, text] : *part.fingerprints) {
        sums[name] += *ParseFingerprintHex(text);
      }
    }
    FingerprintTexts tensors;
    for (const auto& [name, sum] : sums) tensors[name] = FingerprintHex(sum);
    return WriteFingerprints(tensors, files_);
  }

  const FinishItemOptions& options_;
  FileWriter& files_;
  const SavePlan* const plan_;
  Store& store_;
  Executor readers_;
  ArrayLayoutCache layouts_;
  ValueSinkOptions sink_options_{.sync = files_.sync(),
                                 .write_digests = options_.write_digests,
                                 .commit_time_ns = options_.now_ns(),
                                 .random_hex = options_.random_hex};
  std::vector<PartFile> parts_;
  const PartFile* primary_ = nullptr;
};

}  // namespace

Status FinishItemParts(const FinishItemOptions& options, FileWriter& files,
                       const SavePlan* plan) {
  return PartMerger(options, files, plan).Merge();
}

}  // namespace holdfast
