#include "holdfast/tools/view.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "engine/check/checked_files.h"
#include "engine/check/checked_store.h"
#include "engine/check/value_sums.h"
#include "engine/check/view_sources.h"
#include "engine/checkpoint/stored_extents.h"
#include "engine/references/referrers.h"
#include "engine/save/stored_chunks.h"
#include "foreign/open/source_place.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "stores/place/directory_ops.h"
#include "tools/convert/orbax_convert.h"
#include "tools/convert/recipe_source.h"
#include "tools/convert/target_format.h"
#include "tools/view/bucket_sources.h"
#include "tools/view/chunk_layout.h"
#include "tools/view/safetensors_view.h"
#include "tools/view/source_links.h"

namespace holdfast {
namespace {

class Viewer {
 public:
  Viewer(const Checkpoint& source, std::string directory, std::string format,
         const ViewOptions& options)
      : source_(source),
        directory_(std::move(directory)),
        format_(std::move(format)),
        options_(options),
        has_item_names_(source.info().items.size() > 1) {}

  Result<ViewResult> Execute(const Place& target) {
    Stopwatch watch;
    ReferredArrays referred;
    referred.chunks = [this](size_t leaf, DType dtype) {
      return ChunksOf(leaf, dtype);
    };
    referred.may_begin = [&] { return CheckCopies(target); };
    referred.place_files = [this](const std::string& name,
                                  const Place& directory) {
      return PlaceFiles(name, directory);
    };
    referred.may_commit = [this] { return CheckSourcesStayed(); };
    HF_ASSIGN_OR_RETURN(
        ConvertResult converted,
        ConvertToOrbax(source_, 0, target, ConvertOptionsOf(), &referred));
    result_.leaf_count = converted.leaf_count;
    result_.report = std::move(converted.report);
    for (const auto& [item, names] : sources_) {
      result_.source_file_count += names.rows()->size();
    }
    result_.total_seconds = watch.Lap();
    return std::move(result_);
  }

 private:
  ConvertOptions ConvertOptionsOf() const {
    ConvertOptions convert;
    convert.run = options_.run;
    convert.names = options_.names;
    convert.map = options_.map;
    convert.format = options_.format;
    convert.zarr_format = options_.zarr_format;
    convert.use_ocdbt = true;
    convert.compression = options_.compression;
    convert.overwrite = options_.overwrite;
    convert.write_digests = true;  // they include the view's record
    convert.sync = options_.sync;
    convert.now_ns = options_.now_ns;
    convert.random_hex = options_.random_hex;
    return convert;
  }

  std::string ItemOf(size_t leaf) const {
    return has_item_names_ ? source_.leaves()[leaf].key[0] : "";
  }

  using Chunks = std::shared_ptr<const StoredChunks>;

  Result<Chunks> ChunksOf(size_t leaf, DType dtype) {
    const LeafInfo& info = source_.leaves()[leaf];
    std::string why_not;
    Result<Chunks> chunks = Referred(leaf, dtype, why_not);
    if (!chunks.ok()) return chunks.status().WithContext("leaf " + info.name);
    if (*chunks != nullptr) {
      ++result_.referred_leaf_count;
      result_.referred_bytes += info.decoded_bytes;
      return chunks;
    }
    if (options_.must_refer) {
      return InvalidArgumentError("leaf " + info.name +
                                  " would have to be copied: " + why_not +
                                  "; copy=False (--no-copy) refuses that");
    }
    result_.copied.push_back({info.name, why_not, info.decoded_bytes});
    return chunks;
  }

  // Returns the chunks of a leaf in the source's files. If the view cannot
  // refer to them, returns null and sets `why_not`.
  Result<Chunks> Referred(size_t leaf, DType dtype, std::string& why_not) {
    const LeafInfo& info = source_.leaves()[leaf];
    if (dtype != *info.dtype) {
      why_not = "cast to " + std::string(DTypeName(dtype));
      return Chunks();
    }
    HF_ASSIGN_OR_RETURN(const LeafExtents found, ExtentsOf(source_, leaf));
    why_not = found.why_not;
    if (why_not.empty() && found.extents.empty()) why_not = "stored in line";
    if (!why_not.empty()) return Chunks();
    const bool is_summed = IsSummed(dtype, found);
    ChunkLimits limits;
    limits.any_order = options_.zarr_format == 3;
    // Do not cut chunks that have checksums, because the parts would have none.
    limits.chunk_bytes =
        is_summed ? std::numeric_limits<uint64_t>::max() : options_.chunk_bytes;
    const ChunkLayout layout =
        LayOutChunks(dtype, info.shape, found.extents, limits);
    why_not = layout.why_not;
    if (!why_not.empty()) return Chunks();
    auto chunks = std::make_shared<StoredChunks>();
    chunks->metadata = MetadataOf(dtype, info.shape, layout);
    HF_RETURN_IF_ERROR(AddRanges(ItemOf(leaf), found, layout, *chunks));
    if (is_summed) TakeDigests(found, layout, *chunks);
    // Chunks that differ from the source's get new checksums. SumRanges
    // verifies the bytes by the old ones.
    if (chunks->digests.empty() && (options_.checksums || is_summed)) {
      HF_RETURN_IF_ERROR(SumRanges(*chunks));
    }
    made_[ItemOf(leaf)].push_back(chunks);
    return Chunks(std::move(chunks));
  }

  // Returns true if the source has a checksum for every extent of the leaf.
  bool IsSummed(DType dtype, const LeafExtents& found) const {
    return std::all_of(
        found.extents.begin(), found.extents.end(), [&](const Extent& extent) {
          const uint64_t byte_count =
              static_cast<uint64_t>(ElementCount(extent.box.shape)) *
              DTypeBytes(dtype);
          return DigestOf(source_, extent.file, extent.offset, byte_count) !=
                 nullptr;
        });
  }

  // Uses the source's own checksums if each covers exactly one chunk.
  void TakeDigests(const LeafExtents& found, const ChunkLayout& layout,
                   StoredChunks& chunks) const {
    std::vector<ValueDigest> digests;
    for (size_t i = 0; i < chunks.ranges.size(); ++i) {
      const ChunkLayout::Range& range = layout.ranges[i];
      const ValueDigest* digest =
          DigestOf(source_, found.extents[range.extent].file, range.offset,
                   chunks.ranges[i].byte_count);
      if (digest == nullptr) return;
      digests.push_back(*digest);
    }
    chunks.digests = std::move(digests);
  }

  zarr::ArrayMetadata MetadataOf(DType dtype, const Shape& shape,
                                 const ChunkLayout& layout) const {
    const bool is_v3 = options_.zarr_format == 3;
    zarr::ArrayMetadata metadata = zarr::RawMetadata(
        options_.zarr_format, shape, dtype, layout.chunk_shape);
    metadata.endian = layout.is_big_endian ? Endian::kBig : Endian::kLittle;
    if (zarr::IsIdentity(layout.order)) return metadata;
    if (is_v3) {
      metadata.transposes = {layout.order};
    } else {
      metadata.order = 'F';
    }
    return metadata;
  }

  Status AddRanges(const std::string& item, const LeafExtents& found,
                   const ChunkLayout& layout, StoredChunks& chunks) {
    SourceNames& names =
        sources_.try_emplace(item, directory_, options_.link).first->second;
    std::vector<uint32_t> numbers;
    for (const Extent& extent : found.extents) {
      HF_ASSIGN_OR_RETURN(const uint32_t number,
                          names.Add(Place(extent.file).Absolute().path()));
      numbers.push_back(number);
    }
    chunks.sources = names.rows();
    const uint64_t chunk_bytes =
        static_cast<uint64_t>(ElementCount(layout.chunk_shape)) *
        DTypeBytes(chunks.metadata.dtype);
    for (const ChunkLayout::Range& range : layout.ranges) {
      chunks.ranges.push_back(
          {numbers[range.extent], range.offset, chunk_bytes});
    }
    return Status();
  }

  // Computes the checksums of all ranges. Verifies the bytes by the source's
  // checksums, if it has any.
  Status SumRanges(StoredChunks& chunks) {
    Run run(options_.run);
    std::vector<Store*> stores;
    for (const StoredChunks::Range& range : chunks.ranges) {
      HF_ASSIGN_OR_RETURN(Store * store,
                          CheckedStoreOf((*chunks.sources)[range.file]));
      stores.push_back(store);
    }
    std::vector<ValueDigest> digests(chunks.ranges.size());
    HF_RETURN_IF_ERROR(run.executor().ParallelFor(
        chunks.ranges.size(),
        [&](size_t i, int) -> Status {
          const StoredChunks::Range& range = chunks.ranges[i];
          const Place file((*chunks.sources)[range.file].from);
          ValueSums sums(ValueKnownBy::kBlocks);
          constexpr uint64_t kStepBytes = 1 << 20;
          for (uint64_t done = 0; done < range.byte_count;) {
            const uint64_t count =
                std::min(kStepBytes, range.byte_count - done);
            HF_ASSIGN_OR_RETURN(
                const Bytes step,
                stores[i]->Read(file.name(), {range.offset + done, count}));
            sums.Add(step.view());
            done += count;
          }
          digests[i] = sums.Finish();
          return Status();
        },
        &run.cancel()));
    chunks.digests = std::move(digests);
    return Status();
  }

  // Returns the store of the file's directory, which checks bytes that have
  // checksums.
  Result<Store*> CheckedStoreOf(const SourceFile& file) {
    const Place directory = Place(file.from).parent();
    std::shared_ptr<Store>& store = stores_[directory.path()];
    if (store != nullptr) return store.get();
    std::shared_ptr<Store> opened = directory.OpenStore();
    HF_ASSIGN_OR_RETURN(auto list, CheckedFiles::ListFor(opened, directory));
    if (list != nullptr) {
      opened = std::make_shared<CheckedStore>(opened, std::move(list));
    }
    store = std::move(opened);
    return store.get();
  }

  // Refuses to copy within a bucket unless copies were requested, because they
  // cost money and time.
  Status CheckCopies(const Place& target) const {
    if (!target.is_remote() || options_.link == LinkKind::kCopy) {
      return Status();
    }
    uint64_t file_count = 0, byte_count = 0;
    for (const auto& [item, names] : sources_) {
      file_count += names.rows()->size();
      for (const SourceFile& row : *names.rows()) byte_count += row.byte_count;
    }
    if (file_count == 0) return Status();
    return InvalidArgumentError(
        "view of " + directory_ + " at " + target.path() +
        ": object stores have no links, and the server would copy " +
        std::to_string(file_count) + " objects of " +
        std::to_string(byte_count) +
        " bytes there; ask for that by --link copy (LinkKind::kCopy)");
  }

  Status PlaceFiles(const std::string& name, const Place& directory) {
    const std::string item = has_item_names_ ? name : "";
    const auto found = sources_.find(item);
    if (found == sources_.end()) return Status();
    DropPartialDigests(item);
    const SourceNames& names = found->second;
    const bool is_model = format_ == "safetensors";
    if (directory.is_remote()) {
      const CancelToken cancel(options_.run.cancel);
      HF_RETURN_IF_ERROR(
          CopySources(directory, *names.rows(), names.versions(), &cancel));
      return is_model
                 ? CopyCompanionObjects(Place(directory_), directory, &cancel)
                 : Status();
    }
    HF_RETURN_IF_ERROR(PlaceSources(directory.path(), *names.rows(),
                                    options_.link, options_.sync));
    // The commit makes the companions durable, like all files that were put
    // into the directory.
    return is_model ? CopyCompanions(directory_, directory, /*sync=*/false)
                    : Status();
  }

  // Fails if the targets of links were removed or replaced in the meantime.
  Status CheckSourcesStayed() const {
    if (options_.link != LinkKind::kSymbolic) return Status();
    for (const auto& [item, names] : sources_) {
      for (const SourceFile& row : *names.rows()) {
        if (Place(row.from).is_remote()) continue;
        const auto now = DescribeSource(row.path, Place(row.from));
        const bool has_stayed =
            now.ok() && now->byte_count == row.byte_count &&
            (row.modified_ns == 0 || now->modified_ns == row.modified_ns);
        if (has_stayed) continue;
        return FailedPreconditionError("view of " + directory_ + ": " +
                                       row.from +
                                       " has changed while it was viewed");
      }
    }
    return Status();
  }

  // Drops the item's checksums if some of its arrays have none. A source file
  // with checksums for some of its chunks would count as completely covered,
  // and its time would not be compared.
  void DropPartialDigests(const std::string& item) {
    const auto& arrays = made_[item];
    const bool has_all =
        std::all_of(arrays.begin(), arrays.end(),
                    [](const auto& array) { return !array->digests.empty(); });
    if (has_all) return;
    for (const auto& array : arrays) array->digests.clear();
  }

  const Checkpoint& source_;
  const std::string directory_;  // of the source
  const std::string format_;     // of the source
  const ViewOptions& options_;
  const bool has_item_names_;
  std::map<std::string, SourceNames> sources_;  // by item
  // By item; shared with the save, which has not begun.
  std::map<std::string, std::vector<std::shared_ptr<StoredChunks>>> made_;
  std::map<std::string, std::shared_ptr<Store>> stores_;  // by directory
  ViewResult result_;
};

// Returns the directory of a file, or the given directory itself.
Result<std::string> DirectoryOf(const std::string& path) {
  HF_ASSIGN_OR_RETURN(const bool is_directory, LeadsToDirectory(Place(path)));
  const Place place = Place(path).Absolute();
  return is_directory ? place.path() : place.parent().path();
}

Status CheckOptions(const std::string& source, const Place& target,
                    const ViewOptions& options) {
  if (!IsOrbaxFormat(options.format) &&
      options.format != Format::kSafetensors) {
    return InvalidArgumentError("view as " +
                                std::string(FormatName(options.format)) +
                                ": want orbax, orbax-v1 or safetensors");
  }
  HF_RETURN_IF_ERROR(CheckDirectoryName(target.path(), options.format));
  if (options.format == Format::kSafetensors && target.is_remote()) {
    HF_RETURN_IF_ERROR(target.InBucket().status());
    return UnimplementedError(
        "view of " + source + " as safetensors at " + target.path() +
        ": object stores have no links; convert it to safetensors, or copy its "
        "files (holdfast cp)");
  }
  HF_ASSIGN_OR_RETURN(const Place place, SourcePlace(source));
  return CheckSameBucket(place, target.Absolute());
}

// Refuses a target if overwriting it would remove the view's source, or files
// that the source refers to.
Status CheckTargetIsApart(const CheckpointInfo& info, const Place& target) {
  const Place source(info.path);
  const auto real = [](const Place& place) {
    std::error_code error;
    const std::string path = place.Absolute().path();
    return place.is_remote()
               ? path
               : std::filesystem::weakly_canonical(path, error).string();
  };
  bool is_replaced = (real(source) + "/").starts_with(real(target) + "/");
  if (!is_replaced) {
    HF_ASSIGN_OR_RETURN(is_replaced, IsMadeFrom(info.path, info.bases, target));
  }
  if (!is_replaced) return Status();
  return InvalidArgumentError(
      "view of " + source.path() + " at " + target.path() +
      ": the target holds the source, which the view would replace; make it "
      "elsewhere");
}

}  // namespace

Result<ViewResult> View(const std::string& source, const std::string& target,
                        const ViewOptions& options) {
  return CatchBadAlloc([&]() -> Result<ViewResult> {
    const Place target_place(target);
    HF_RETURN_IF_ERROR(CheckOptions(source, target_place, options));
    OpenOptions open = options.open;
    open.stored_sizes = false;
    HF_ASSIGN_OR_RETURN(std::unique_ptr<Checkpoint> opened, Open(source, open));
    HF_RETURN_IF_ERROR(CheckTargetIsApart(opened->info(), target_place));
    const std::string format = opened->info().format;
    HF_ASSIGN_OR_RETURN(const std::string directory,
                        DirectoryOf(opened->info().path));
    if (options.format == Format::kSafetensors) {
      return ViewAsSafetensors(*opened, directory, target_place, options);
    }
    HF_ASSIGN_OR_RETURN(opened, ThroughRecipe(std::move(opened), options.recipe,
                                              options.recipe_options));
    return Viewer(*opened, directory, format, options).Execute(target_place);
  });
}

}  // namespace holdfast
