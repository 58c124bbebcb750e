#include "tools/view/safetensors_view.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/check/checked_files.h"
#include "engine/check/row_checker.h"
#include "engine/check/value_sums.h"
#include "engine/checkpoint/stored_extents.h"
#include "engine/format/digest_file.h"
#include "engine/format/directory_names.h"
#include "engine/restore/leaf_request.h"
#include "foreign/safetensors/safetensors.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "stores/place/directory_ops.h"
#include "stores/place/file_set.h"
#include "stores/storage/url_path.h"
#include "tools/convert/work_directory.h"
#include "tools/view/source_links.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

Status CheckKeepsLeaves(const ViewOptions& options) {
  const bool changes_leaves =
      !options.names.empty() || !options.map.is_empty() ||
      options.recipe.has_value() || options.recipe_options.reverse ||
      !options.recipe_options.sizes.empty();
  if (!changes_leaves) return Status();
  return InvalidArgumentError(
      "view as safetensors: names and shapes are in the files, which stay as "
      "they are; to select or map leaves (select, drop, rename, cast, nest, "
      "map), convert to safetensors");
}

// Refuses options about how bytes are stored, because the files stay as they
// are.
Status CheckKeepsFiles(const ViewOptions& options) {
  const ViewOptions defaults;
  std::string_view option;
  if (options.zarr_format != defaults.zarr_format) {
    option = "zarr_format (--zarr-format)";
  } else if (options.compression != defaults.compression) {
    option = "compression (--compression)";
  } else if (options.chunk_bytes != defaults.chunk_bytes) {
    option = "chunk_bytes (--chunk-bytes)";
  }
  if (option.empty()) return Status();
  return InvalidArgumentError("view as safetensors: " + std::string(option) +
                              ": the files stay as they are; leave it out, or "
                              "view as one of Orbax's formats");
}

Status NotBoth(const std::string& path, const std::string& why) {
  return InvalidArgumentError(
      "view of " + path + " as safetensors: " + why +
      "; convert it to safetensors, or save it so that it is both "
      "(also=\"safetensors\")");
}

// Returns the path with all links resolved.
std::string RealPath(const std::string& file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  return error ? file : real.string();
}

// Compares the Orbax checkpoint with its safetensors files (`face`), leaf by
// leaf.
class FaceComparison {
 public:
  FaceComparison(const Checkpoint& source, const Checkpoint& face)
      : source_(source), face_(face) {}

  // Returns why they differ, or an empty string if they are equal.
  Result<std::string> WhyNot() {
    std::unordered_map<std::string_view, size_t> face_leaves;
    for (size_t i = 0; i < face_.leaves().size(); ++i) {
      face_leaves.emplace(face_.leaves()[i].name, i);
    }
    for (size_t i = 0; i < source_.leaves().size(); ++i) {
      const LeafInfo& leaf = source_.leaves()[i];
      const auto found = face_leaves.find(leaf.name);
      if (found == face_leaves.end()) {
        return "its safetensors have no " + leaf.name;
      }
      HF_ASSIGN_OR_RETURN(const std::string why, WhyOther(i, found->second));
      if (!why.empty()) {
        return "its safetensors are not the same: leaf " + leaf.name + ": " +
               why;
      }
    }
    if (face_leaves.size() == source_.leaves().size()) return std::string();
    return "its safetensors have " + std::to_string(face_leaves.size()) +
           " tensors, the checkpoint " +
           std::to_string(source_.leaves().size()) + " leaves";
  }

 private:
  Result<std::string> WhyOther(size_t ours, size_t theirs) const {
    const LeafInfo& leaf = source_.leaves()[ours];
    const LeafInfo& tensor = face_.leaves()[theirs];
    HF_RETURN_IF_ERROR(leaf.problem);
    HF_RETURN_IF_ERROR(tensor.problem);
    if (leaf.kind != tensor.kind || leaf.dtype != tensor.dtype ||
        leaf.shape != tensor.shape) {
      return std::string("another kind, dtype or shape there");
    }
    if (leaf.kind == ValueKind::kArray) return WhyElsewhere(ours, theirs);
    HF_ASSIGN_OR_RETURN(const bool is_same, IsSameValue(ours, theirs));
    return std::string(is_same ? "" : "another value there");
  }

  Result<std::string> WhyElsewhere(size_t ours, size_t theirs) const {
    const LeafInfo& leaf = source_.leaves()[ours];
    if (ElementCount(leaf.shape) == 0) return std::string();
    HF_ASSIGN_OR_RETURN(const PlainRun run, StoredRun(source_, ours));
    if (!run.why_not.empty()) return run.why_not;
    HF_ASSIGN_OR_RETURN(const PlainRun tensor, StoredRun(face_, theirs));
    const bool is_same = tensor.why_not.empty() &&
                         run.offset == tensor.offset &&
                         RealPath(run.file) == RealPath(tensor.file);
    return std::string(is_same ? "" : "it lies elsewhere");
  }

  static Result<PlainRun> StoredRun(const Checkpoint& checkpoint, size_t leaf) {
    HF_ASSIGN_OR_RETURN(LeafExtents found, ExtentsOf(checkpoint, leaf));
    if (!found.why_not.empty()) {
      return PlainRun{std::move(found.why_not), "", 0};
    }
    const LeafInfo& info = checkpoint.leaves()[leaf];
    return RunOf(*info.dtype, info.shape, found.extents);
  }

  Result<bool> IsSameValue(size_t ours, size_t theirs) const {
    const ValueKind kind = source_.leaves()[ours].kind;
    if (HasElements(kind)) {
      HF_ASSIGN_OR_RETURN(const Array mine, source_.Read(ours));
      HF_ASSIGN_OR_RETURN(const Array other, face_.Read(theirs));
      return std::string_view(mine.view().data, mine.byte_count()) ==
             std::string_view(other.view().data, other.byte_count());
    }
    if (IsEmptyKind(kind) || kind == ValueKind::kPlaceholder) return true;
    HF_ASSIGN_OR_RETURN(const std::string mine, source_.ReadText(ours));
    HF_ASSIGN_OR_RETURN(const std::string other, face_.ReadText(theirs));
    return mine == other;
  }

  const Checkpoint& source_;
  const Checkpoint& face_;
};

Result<std::shared_ptr<const std::vector<SourceFile>>> SafetensorsIn(
    const std::string& directory, LinkKind link) {
  HF_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListDirectory(Place(directory)));
  SourceNames sources(directory, link);
  for (const std::string& name : names) {
    if (!name.ends_with(kSafetensorsSuffix)) continue;
    HF_RETURN_IF_ERROR(sources.Add(directory + "/" + name).status());
  }
  return sources.rows();
}

// Makes the checksums of a view's files. They come from the source's list. For
// files without any, they are computed from the present contents if requested.
class ViewSums {
 public:
  // `list` is the list of the files' directory. It may be null.
  ViewSums(const Place& directory, const Checkpoint& face,
           std::shared_ptr<const DigestIndex> list, bool sums_now)
      : directory_(directory),
        face_(face),
        list_(std::move(list)),
        sums_now_(sums_now) {}

  Result<DigestFile> Of(const std::vector<SourceFile>& files) const {
    DigestFile record;
    record.sources = files;
    for (const SourceFile& file : files) {
      HF_RETURN_IF_ERROR(AddFile(file, record));
    }
    return record;
  }

 private:
  // Adds rows that cover all of the file, or no rows. Partial rows would be
  // wrong: readers do not compare the time of a file that has rows.
  Status AddFile(const SourceFile& file, DigestFile& record) const {
    HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store,
                        MakeFileSet({{file.path, directory_ / file.path}}));
    std::vector<ValueDigest> rows = Listed(file.path);
    if (rows.empty() && !sums_now_) return Status();
    if (rows.empty()) {
      HF_ASSIGN_OR_RETURN(rows, SumTensors(*store, file.path));
    }
    uint64_t end = 0;
    for (ValueDigest& row : rows) {
      HF_RETURN_IF_ERROR(AddBetween(*store, file, end, row.offset, record));
      end = EndOf(row);
      record.values.push_back(std::move(row));
    }
    return AddBetween(*store, file, end, file.byte_count, record);
  }

  std::vector<ValueDigest> Listed(const std::string& name) const {
    if (list_ == nullptr) return {};
    const std::span<const ValueDigest> listed = list_->RowsOf(name);
    std::vector<ValueDigest> rows(listed.begin(), listed.end());
    const bool has_our_blocks = list_->block_bytes() == kDigestBlockBytes;
    for (ValueDigest& row : rows) {
      if (!has_our_blocks) row.block_crcs.clear();
    }
    return rows;
  }

  Result<std::vector<ValueDigest>> SumTensors(Store& store,
                                              const std::string& name) const {
    std::vector<ValueDigest> rows;
    for (size_t i = 0; i < face_.leaves().size(); ++i) {
      const LeafInfo& leaf = face_.leaves()[i];
      if (leaf.kind != ValueKind::kArray || leaf.stored_bytes == 0) continue;
      HF_ASSIGN_OR_RETURN(const LeafExtents found, ExtentsOf(face_, i));
      const bool is_in_file = found.extents.size() == 1 &&
                              FileNameOf(found.extents[0].file) == name;
      if (!is_in_file) continue;
      HF_ASSIGN_OR_RETURN(
          ValueDigest row,
          Sum(store, name, found.extents[0].offset, leaf.stored_bytes));
      rows.push_back(std::move(row));
    }
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.offset < b.offset; });
    return rows;
  }

  // Adds a row for the bytes [begin, end): the header, or packed tensors, which
  // have no row of their own.
  static Status AddBetween(Store& store, const SourceFile& file, uint64_t begin,
                           uint64_t end, DigestFile& record) {
    if (begin >= end) return Status();
    HF_ASSIGN_OR_RETURN(ValueDigest row,
                        Sum(store, file.path, begin, end - begin));
    row.kind = RowKind::kOther;
    row.block_crcs.clear();
    record.values.push_back(std::move(row));
    return Status();
  }

  static Result<ValueDigest> Sum(Store& store, const std::string& name,
                                 uint64_t offset, uint64_t byte_count) {
    constexpr uint64_t kStepBytes = 1 << 20;
    ValueSums sums(ValueKnownBy::kBlocks);
    for (uint64_t done = 0; done < byte_count;) {
      const uint64_t count = std::min(kStepBytes, byte_count - done);
      HF_ASSIGN_OR_RETURN(const Bytes step,
                          store.Read(name, {offset + done, count}));
      sums.Add(step.view());
      done += count;
    }
    ValueDigest row = sums.Finish();
    row.path = name;
    row.offset = offset;
    return row;
  }

  const Place directory_;
  const Checkpoint& face_;
  const std::shared_ptr<const DigestIndex> list_;
  const bool sums_now_;
};

// Returns the directory of the leaves' files, which may be an item's directory.
std::string ItemDirectoryOf(const CheckpointInfo& info,
                            const std::string& directory) {
  if (info.items.size() != 1) return directory;
  const std::string& item = info.items.begin()->second;
  return item.empty() ? directory : directory + "/" + item;
}

ViewResult CountsOf(const Checkpoint& source,
                    const std::vector<SourceFile>& files) {
  ViewResult result;
  result.leaf_count = source.leaves().size();
  for (const LeafInfo& leaf : source.leaves()) {
    if (leaf.kind != ValueKind::kArray) continue;
    ++result.referred_leaf_count;
    result.referred_bytes += leaf.decoded_bytes;
  }
  result.source_file_count = files.size();
  return result;
}

}  // namespace

Result<ViewResult> ViewAsSafetensors(const Checkpoint& source,
                                     const std::string& source_directory,
                                     const Place& target,
                                     const ViewOptions& options) {
  Stopwatch watch;
  HF_RETURN_IF_ERROR(CheckKeepsLeaves(options));
  HF_RETURN_IF_ERROR(CheckKeepsFiles(options));
  const std::string directory =
      ItemDirectoryOf(source.info(), source_directory);
  HF_ASSIGN_OR_RETURN(const auto files, SafetensorsIn(directory, options.link));
  if (files->empty()) {
    return NotBoth(directory, "its arrays do not lie in files of safetensors");
  }
  const std::shared_ptr<Store> store = Place(directory).OpenStore();
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<const DigestIndex> list,
                      CheckedFiles::ListFor(store, Place(directory)));
  HF_ASSIGN_OR_RETURN(
      const auto face,
      OpenSafetensors(Place(directory), options.open.use_sidecar));
  HF_ASSIGN_OR_RETURN(const std::string why_not,
                      FaceComparison(source, *face).WhyNot());
  if (!why_not.empty()) return NotBoth(directory, why_not);

  const Place place = target.Absolute();
  HF_ASSIGN_OR_RETURN(const auto work,
                      WorkDirectory::Begin(place, {},
                                           {.overwrite = options.overwrite,
                                            .restart = true,
                                            .sync = options.sync,
                                            .copies_of = {directory}}));
  const std::string& data = work->data_path();
  ViewResult result = CountsOf(source, *files);
  Run run(options.run);
  run.StartPhase("write", result.referred_bytes);
  HF_RETURN_IF_ERROR(run.cancel().Check());
  HF_RETURN_IF_ERROR(
      PlaceSources(data, *files, options.link, options.sync, place.path()));
  HF_RETURN_IF_ERROR(CopyCompanions(directory, Place(data), options.sync));
  HF_ASSIGN_OR_RETURN(
      const DigestFile record,
      ViewSums(Place(directory), *face, list, options.checksums).Of(*files));
  HF_RETURN_IF_ERROR(Place(data).OpenStore()->Write(
      kDigestFile, SerializeDigestFile(record), {.sync = options.sync}));
  run.AddDone(result.referred_bytes);
  HF_RETURN_IF_ERROR(run.cancel().Check());
  if (options.sync) HF_RETURN_IF_ERROR(SyncDirectory(Place(data)));
  HF_RETURN_IF_ERROR(work->Publish(""));
  result.total_seconds = watch.Lap();
  return result;
}

}  // namespace holdfast
