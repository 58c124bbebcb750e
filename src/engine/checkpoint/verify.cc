// VerifyCheckpoint: reads every byte that a restore could depend on, and checks
// every checksum. It continues after damage, so that one report lists all of
// it.
#include <algorithm>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <string_view>

#include "engine/check/view_sources.h"
#include "engine/checkpoint/opened_checkpoint.h"
#include "engine/checkpoint/verify_share.h"
#include "engine/checkpoint/verify_unchecked.h"
#include "engine/commit/place_check.h"
#include "engine/format/array_metadatas.h"
#include "engine/format/checkpoint_metadata.h"
#include "engine/format/directory_names.h"
#include "engine/format/sharding_file.h"
#include "engine/restore/leaf_request.h"
#include "engine/restore/restore.h"
#include "formats/codec/codec.h"
#include "formats/codec/zstd_frame.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/host_memory.h"
#include "stores/place/directory_ops.h"
#include "stores/place/look.h"
#include "stores/place/place.h"

namespace holdfast {
namespace {

class Verifier {
 public:
  Verifier(const OpenOptions& options, const RunOptions& run, WorkShare share,
           std::set<std::string>* unchecked)
      : options_(options),
        run_(run),
        share_(std::move(share)),
        unchecked_(unchecked) {}

  Result<ShareReport> Execute(const Place& place) {
    const LookScope look(place);
    std::string id;
    Result<FoundCheckpoint> found =
        FindCheckpointAndId(look.place(), options_, id);
    if (IsDamagedStep(look.place().Absolute(), found.status()) &&
        !LacksItem(look.place(), found.status())) {
      (void)share_.Takes(place.path(), 0);
      HF_RETURN_IF_ERROR(Note("", "", found.status()));
      return ShareReport{std::move(report_), share_.digest()};
    }
    HF_ASSIGN_OR_RETURN(place_, std::move(found));
    (void)share_.Takes(place_.info.path, 0);
    const Status verified = VerifyAll();
    // A checkpoint that was replaced during the verification is not damaged.
    if (!verified.ok() || !report_.damages.empty()) {
      HF_RETURN_IF_ERROR(CheckSamePlace(place_.directory, id));
    }
    HF_RETURN_IF_ERROR(verified);
    SortFindings(report_);
    report_.stats.total_seconds = watch_.Lap();
    return ShareReport{std::move(report_), share_.digest()};
  }

 private:
  Status VerifyAll() {
    HF_RETURN_IF_ERROR(VerifyRootFiles());
    for (const ItemPlace& item : place_.emptied_items) {
      HF_RETURN_IF_ERROR(VerifyListedFiles(item.directory).status());
    }
    for (const ItemPlace& item : place_.items) {
      HF_RETURN_IF_ERROR(VerifyItem(item));
    }
    return Status();
  }

  // Returns whether the requested item is the only thing that was not found.
  bool LacksItem(const Place& place, const Status& status) const {
    if (options_.item.empty() || status.code() != StatusCode::kNotFound) {
      return false;
    }
    OpenOptions options = options_;
    options.item.clear();
    const auto found = FindCheckpoint(place, options);
    return found.ok() && found->damage.ok();
  }

  // Records a finding and returns ok for it; returns any other failure.
  Status Note(std::string leaf, std::string file, Status status,
              std::optional<uint64_t> offset = std::nullopt) {
    if (status.ok()) return status;
    std::lock_guard lock(mutex_);
    return AddFinding(
        {std::move(leaf), std::move(file), offset, std::move(status)}, report_);
  }

  std::string Relative(const Place& directory, std::string_view file) const {
    std::string text = directory.path() + "/" + std::string(file);
    const std::string root = place_.info.path + "/";
    return text.starts_with(root) ? text.substr(root.size()) : text;
  }

  // Verifies the files at the root, outside of any item. A checkpoint that is a
  // single item has no list of them.
  Status VerifyRootFiles() {
    const bool is_item =
        place_.items.size() == 1 && place_.items[0].name.empty();
    if (!is_item) {
      HF_ASSIGN_OR_RETURN(root_files_, VerifyListedFiles(place_.directory));
    }
    HF_RETURN_IF_ERROR(Note("", "", place_.damage));
    return VerifyIfThere(place_.directory, kCheckpointMetadataFile,
                         [](std::string_view text) {
                           return ParseCheckpointMetadata(text).status();
                         });
  }

  Status VerifyIfThere(const Place& directory, std::string_view file,
                       const std::function<Status(std::string_view)>& parse) {
    const Result<Bytes> text = directory.OpenStore()->Read(file);
    if (text.status().code() == StatusCode::kNotFound) return Status();
    return Note("", Relative(directory, file),
                text.ok() ? parse(text->view()) : text.status());
  }

  // Returns the directory's files with all lists that include them. For an item
  // of a checkpoint, returns only its own list, because the checkpoint's list
  // was checked before.
  Result<CheckedFiles> ListsOf(const Place& directory) const {
    return directory.path() == place_.info.path
               ? CheckedFiles::OfItem(directory)
               : CheckedFiles::OfDirectory(directory.OpenStore());
  }

  // Verifies the files that the lists name. Returns the lists, or nullopt if
  // they are damaged.
  Result<std::optional<CheckedFiles>> VerifyListedFiles(
      const Place& directory) {
    Result<CheckedFiles> files = ListsOf(directory);
    if (!files.ok()) {
      HF_RETURN_IF_ERROR(
          Note("", Relative(directory, kDigestFile), files.status()));
      return std::optional<CheckedFiles>();
    }
    for (const std::string& note : files->notes()) {
      HF_RETURN_IF_ERROR(
          Note("", Relative(directory, kDigestFile), DataLossError(note)));
    }
    Status status;
    files->ForEachListed("", [&](const FileDigest& row) {
      if (!status.ok() || !share_.Takes(row.path, row.byte_count)) return;
      const Result<FileDigest> sum = SumFile(files->store(), row.path);
      status = Note("", Relative(directory, row.path),
                    sum.ok() ? DigestIndex::CheckSum(row, *sum) : sum.status());
    });
    HF_RETURN_IF_ERROR(status);
    if (files->own() != nullptr) {
      HF_RETURN_IF_ERROR(VerifyNodes(directory, files->store(), *files->own()));
      HF_RETURN_IF_ERROR(VerifySources(directory, *files->own()));
    }
    return std::optional<CheckedFiles>(std::move(files).value());
  }

  // Checks that the nodes of databases are the saved ones. Nodes of another
  // save would have valid checksums of their own.
  Status VerifyNodes(const Place& directory, Store& store,
                     const DigestIndex& digests) {
    for (const ValueDigest& row : digests.values()) {
      if (row.kind == RowKind::kValue ||
          !share_.Takes(row.path, row.byte_count))
        continue;
      const Result<Bytes> node =
          store.Read(row.path, {row.offset, row.byte_count});
      HF_RETURN_IF_ERROR(Note("", Relative(directory, row.path),
                              node.ok()
                                  ? DigestIndex::CheckValue(row, node->view())
                                  : node.status(),
                              row.offset));
    }
    return Status();
  }

  // Verifies the sources of a view: the files outside it that it refers to.
  Status VerifySources(const Place& directory, const DigestIndex& digests) {
    for (const SourceFile& row : digests.sources()) {
      if (!share_.Takes(row.path, 0)) continue;
      HF_RETURN_IF_ERROR(Note("", Relative(directory, row.path),
                              CheckSource(directory, row, digests)));
    }
    return Status();
  }

  Status VerifyItem(const ItemPlace& place) {
    HF_ASSIGN_OR_RETURN(const std::optional<CheckedFiles> files,
                        VerifyListedFiles(place.directory));
    if (place.kind == ItemKind::kJson) {
      const DigestIndex* const own = files ? files->own() : nullptr;
      if (!IsListed(place, own, place.json_file)) NoteUnchecked(place, "");
      return VerifyJsonItem(place);
    }
    HF_RETURN_IF_ERROR(VerifySideFiles(place.directory));
    HF_RETURN_IF_ERROR(VerifyProcessDatabases(place.directory));
    // Damage to the listed files is in the report; the rest is still read.
    OpenOptions options = options_;
    options.verify = false;
    Result<std::unique_ptr<Item>> item = Item::Open(place, options);
    if (!item.ok()) {
      return Note("", Relative(place.directory, ""), item.status());
    }
    if ((*item)->database() != nullptr &&
        share_.Takes(place.directory.path(), 0)) {
      HF_RETURN_IF_ERROR(Note("", Relative(place.directory, kManifestFile),
                              (*item)->database()->CheckAll(&run_.cancel())));
    }
    // Small values are in files of the item. Either a list covers all of these
    // files, or none does.
    const DigestIndex* const own = files ? files->own() : nullptr;
    if (!IsListed(place, own, kTreeMetadataFile)) NoteSmallUnchecked(**item);
    return VerifyLeaves(**item, own);
  }

  // Returns whether the item's list, or the checkpoint's, covers all bytes of
  // the file.
  bool IsListed(const ItemPlace& item, const DigestIndex* own,
                std::string_view file) const {
    if (own != nullptr && own->HasFile(file)) return true;
    return root_files_ && !item.name.empty() &&
           root_files_->Lists(item.name + "/" + std::string(file));
  }

  void NoteSmallUnchecked(const Item& item) {
    for (const StoredLeaf& leaf : item.leaves()) {
      const bool has_value =
          HasElements(leaf.info.kind) || HasText(leaf.info.kind);
      if (leaf.layout == nullptr && has_value) {
        NoteUnchecked(item.place(), leaf.info.name);
      }
    }
  }

  // Adds the leaf to `unchecked_`, under its name in the checkpoint. That name
  // includes the item's if there are several items.
  void NoteUnchecked(const ItemPlace& item, std::string_view leaf) {
    if (unchecked_ == nullptr) return;
    const bool is_named = place_.items.size() > 1;
    std::string name = is_named || leaf.empty() ? item.name : "";
    if (!name.empty() && !leaf.empty()) name += '.';
    const std::lock_guard lock(mutex_);
    unchecked_->insert(name.append(leaf));
  }

  Status VerifyJsonItem(const ItemPlace& place) {
    const std::shared_ptr<Store> store = place.directory.OpenStore();
    const Result<Bytes> text = store->Read(place.json_file);
    Status status = text.status();
    if (text.ok() && !nlohmann::json::accept(text->view())) {
      status = DataLossError("not a JSON document");
    }
    ++report_.leaf_count;
    return Note(place.name, Relative(place.directory, place.json_file), status);
  }

  // Verifies files on which no value depends, but on which a restore by Orbax
  // does.
  Status VerifySideFiles(const Place& directory) {
    HF_RETURN_IF_ERROR(
        VerifyIfThere(directory, kShardingFile, [](std::string_view text) {
          return ParseShardingFile(text).status();
        }));
    const std::shared_ptr<Store> store = directory.OpenStore();
    const std::string prefix = std::string(kArrayMetadatasDirectory) + "/";
    const auto check = [&](std::string_view key, const ObjectInfo&) {
      const Result<Bytes> text = store->Read(key);
      return Note("", Relative(directory, key),
                  text.ok() ? ParseArrayMetadatas(text->view()).status()
                            : text.status());
    };
    const Status listed = store->List(prefix, check);
    // A web server cannot list.
    const bool can_list = listed.code() != StatusCode::kUnimplemented;
    return can_list ? Note("", Relative(directory, prefix), listed) : Status();
  }

  // Verifies the processes' own databases, to which the merged one refers.
  Status VerifyProcessDatabases(const Place& directory) {
    const Result<std::vector<std::string>> names = ListDirectory(directory);
    // A web server cannot list; opening the path reports if nothing exists
    // there.
    if (names.status().code() == StatusCode::kUnimplemented ||
        names.status().code() == StatusCode::kNotFound) {
      return Status();
    }
    if (!names.ok()) return Note("", Relative(directory, ""), names.status());
    const std::shared_ptr<Store> store = directory.OpenStore();
    for (const std::string& name : *names) {
      if (!ParseProcessDirectory(name) || !share_.Takes(name, 0)) continue;
      Status status;
      auto database = ocdbt::Database::Open(store.get(), name + "/", {});
      if (database.ok()) {
        status = (*database)->CheckAll(&run_.cancel());
      } else {
        status = database.status();
      }
      HF_RETURN_IF_ERROR(Note("", Relative(directory, name), status));
    }
    return Status();
  }

  Status VerifyLeaves(const Item& item, const DigestIndex* index) {
    std::vector<const StoredLeaf*> arrays;
    for (const StoredLeaf& leaf : item.leaves()) {
      ++report_.leaf_count;
      if (leaf.is_external) {
        NoteExternal(item, leaf);
      } else if (!leaf.problem.ok()) {
        HF_RETURN_IF_ERROR(Note(leaf.info.name,
                                Relative(item.place().directory, ""),
                                leaf.problem));
      } else if (leaf.layout != nullptr) {
        arrays.push_back(&leaf);
      }
    }
    HF_ASSIGN_OR_RETURN(const std::vector<ChunkRun> runs,
                        MakeChunkRuns(arrays, item));
    uint64_t total_bytes = 0;
    for (const ChunkRun& run : runs) total_bytes += run.byte_count;
    run_.StartPhase("verify", total_bytes);
    std::vector<Buffer> decoded(run_.executor().thread_count());
    HF_RETURN_IF_ERROR(run_.executor().ParallelFor(
        runs.size(),
        [&](size_t i, int worker) {
          return VerifyRun(item, runs[i], index, decoded[worker],
                           contexts_.Of(worker));
        },
        &run_.cancel()));
    return Status();
  }

  // Notes that a TypeHandler stored the leaf. Its files are checked if they are
  // listed, but only the handler knows which files they are.
  void NoteExternal(const Item& item, const StoredLeaf& leaf) {
    const std::string& item_name = item.place().name;
    report_.notes.push_back(
        "leaf " + (item_name.empty() ? "" : item_name + ".") + leaf.info.name +
        ": a TypeHandler for typestr \"" + leaf.info.value_type +
        "\" stored it; only the digests of its files can be checked");
  }

  // Chunks [first, last) of one array, in C order: one task for a worker.
  struct ChunkRun {
    const StoredLeaf* leaf = nullptr;
    int64_t first = 0;
    int64_t last = 0;
    uint64_t byte_count = 0;  // decoded, at most
  };

  // Returns the runs of this process. Large arrays are divided among all
  // workers.
  Result<std::vector<ChunkRun>> MakeChunkRuns(
      const std::vector<const StoredLeaf*>& arrays, const Item& item) {
    std::vector<ChunkRun> runs;
    for (const StoredLeaf* leaf : arrays) {
      const int64_t chunk_count = leaf->layout->grid.ChunkCount();
      if (chunk_count > kWalkedChunksMax) {
        HF_RETURN_IF_ERROR(AddStoredChunks(item, *leaf, runs));
      } else {
        AddRuns(*leaf, 0, chunk_count, runs);
      }
    }
    return runs;
  }

  void AddRuns(const StoredLeaf& leaf, int64_t first, int64_t end,
               std::vector<ChunkRun>& runs) {
    for (; first < end; first += kRunChunkCount) {
      const int64_t last = std::min(end, first + kRunChunkCount);
      const uint64_t byte_count = leaf.layout->chunk_bytes * (last - first);
      if (!share_.Takes(leaf.info.name, byte_count)) continue;
      runs.push_back({&leaf, first, last, byte_count});
    }
  }

  // Adds runs for the chunks that are stored. Metadata may claim a grid of any
  // size, so the stored keys are listed instead of walking the grid.
  Status AddStoredChunks(const Item& item, const StoredLeaf& leaf,
                         std::vector<ChunkRun>& runs) {
    const ArrayLayout& layout = *leaf.layout;
    const Shape counts = layout.grid.ChunkCounts();
    std::vector<int64_t> numbers;
    const Status listed = item.array_store().List(
        leaf.prefix, [&](std::string_view key, const ObjectInfo&) {
          const auto index = zarr::ParseChunkKey(
              layout.format.metadata, key.substr(leaf.prefix.size()));
          if (!index) return Status();
          int64_t number = 0;
          for (size_t d = 0; d < counts.size(); ++d) {
            number = number * counts[d] + (*index)[d];
          }
          numbers.push_back(number);
          return Status();
        });
    const std::string where = Relative(item.place().directory, leaf.prefix);
    if (listed.code() == StatusCode::kUnimplemented) {
      return CheckChunkCount(leaf.info.name, leaf.layout->grid.ChunkCount());
    }
    HF_RETURN_IF_ERROR(Note(leaf.info.name, where, listed));
    std::sort(numbers.begin(), numbers.end());
    for (size_t i = 0; i < numbers.size();) {
      size_t end = i + 1;
      while (end < numbers.size() &&
             numbers[end] - numbers[i] == static_cast<int64_t>(end - i)) {
        ++end;
      }
      AddRuns(leaf, numbers[i], numbers[i] + static_cast<int64_t>(end - i),
              runs);
      i = end;
    }
    const int64_t absent =
        layout.grid.ChunkCount() - static_cast<int64_t>(numbers.size());
    if (absent == 0 || !item.refuses_missing_chunks()) return Status();
    return Note(leaf.info.name, where,
                DataLossError(std::to_string(absent) + " of " +
                              std::to_string(layout.grid.ChunkCount()) +
                              " chunks are not there"));
  }

  Status VerifyRun(const Item& item, const ChunkRun& run,
                   const DigestIndex* digests, Buffer& decoded,
                   CodecContext& context) {
    const ArrayLayout& layout = *run.leaf->layout;
    for (int64_t number = run.first; number < run.last; ++number) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      const ByteBudget::Lease lease = run_.budget().Acquire(layout.chunk_bytes);
      HF_RETURN_IF_ERROR(VerifyChunk(item, *run.leaf,
                                     layout.grid.ChunkIndex(number), digests,
                                     decoded, context));
    }
    return Status();
  }

  struct ReadValue {
    Bytes bytes;
    std::string file;
    uint64_t offset = 0;
    bool is_inline = false;
  };

  static Result<ReadValue> ReadStoredValue(Store& store,
                                           const std::string& key) {
    ReadValue value;
    HF_ASSIGN_OR_RETURN(const ObjectLocation location, store.Locate(key));
    value.is_inline = location.inline_value.has_value();
    if (value.is_inline) {
      value.bytes = *location.inline_value;
      return value;
    }
    value.file = location.key;
    value.offset = location.offset;
    HF_ASSIGN_OR_RETURN(
        value.bytes, location.store->Read(
                         location.key, {location.offset, location.byte_count}));
    return value;
  }

  Status VerifyChunk(const Item& item, const StoredLeaf& leaf,
                     const Shape& index, const DigestIndex* digests,
                     Buffer& decoded, CodecContext& context) {
    const ArrayLayout& layout = *leaf.layout;
    const Place& directory = item.place().directory;
    const Box box = layout.grid.ChunkBox(index);
    const std::string key =
        zarr::ChunkKey(leaf.prefix, layout.format.metadata, index);
    const Result<ReadValue> value = ReadStoredValue(item.array_store(), key);
    if (!value.ok()) {
      const bool is_absent = value.status().code() == StatusCode::kNotFound;
      if (is_absent && !item.refuses_missing_chunks()) return Status();
      return Note(leaf.info.name, Relative(directory, key), value.status());
    }
    const ValueDigest* row =
        digests == nullptr || value->is_inline
            ? nullptr
            : digests->FindValue(value->file, value->offset);
    Status status = row != nullptr
                        ? DigestIndex::CheckValue(*row, value->bytes.view())
                        : Status();
    if (status.ok()) {
      status = DecodeWhole(layout, box, value->bytes.view(), decoded, context);
    }
    const bool is_checksummed = row != nullptr || value->is_inline ||
                                HasOwnChecksum(layout, value->bytes.view());
    if (!is_checksummed && !IsListed(item.place(), digests, value->file)) {
      NoteUnchecked(item.place(), leaf.info.name);
    }
    CountChunk(layout, box, is_checksummed, value->bytes.size());
    const std::string file =
        value->is_inline ? "manifest.ocdbt: " + key : value->file;
    return Note(leaf.info.name, Relative(directory, file), status,
                value->offset);
  }

  // Returns whether decoding the chunk has compared it with a checksum inside
  // the chunk.
  static bool HasOwnChecksum(const ArrayLayout& layout,
                             std::string_view encoded) {
    if (layout.known_by == ValueKnownBy::kCrc32cEnd) return true;
    if (layout.known_by != ValueKnownBy::kZstdEnd) return false;
    const Result<ZstdFrameInfo> frame = InspectZstdHeader(
        encoded.substr(0, std::min(encoded.size(), kZstdHeaderBytesMax)));
    return frame.ok() && frame->has_checksum;
  }

  // Checks that the stored bytes can decode to the claimed size, before memory
  // is allocated for it. A shard may leave out chunks that equal the fill
  // value, so only the memory that the process may use limits it.
  static Status CheckClaimedSize(const ArrayLayout& layout,
                                 uint64_t stored_bytes, uint64_t byte_count) {
    if (byte_count > HostMemoryBytes()) {
      return ResourceExhaustedError("no memory for a chunk of " +
                                    std::to_string(byte_count) + " bytes");
    }
    if (layout.format.shard != nullptr) return Status();
    return zarr::CheckExpansion(stored_bytes, byte_count, layout.codec_count);
  }

  static Status DecodeWhole(const ArrayLayout& layout, const Box& box,
                            std::string_view encoded, Buffer& decoded,
                            CodecContext& context) {
    const DType dtype = layout.format.metadata.dtype;
    const size_t byte_count = ElementCount(box.shape) * DTypeBytes(dtype);
    if (decoded.size() < byte_count) {
      HF_RETURN_IF_ERROR(CheckClaimedSize(layout, encoded.size(), byte_count));
      decoded = Buffer::TryAllocate(byte_count);
      if (decoded.data() == nullptr && byte_count > 0) {
        return ResourceExhaustedError("no memory for a chunk of " +
                                      std::to_string(byte_count) + " bytes");
      }
    }
    const ArrayView view{dtype, decoded.data(), box.shape,
                         ContiguousStrides(box.shape, DTypeBytes(dtype))};
    return layout.format.codec->Decode(encoded, Shape(box.shape.size(), 0),
                                       view, context);
  }

  void CountChunk(const ArrayLayout& layout, const Box& box,
                  bool is_checksummed, uint64_t stored_bytes) {
    const uint64_t decoded_bytes =
        ElementCount(box.shape) * DTypeBytes(layout.format.metadata.dtype);
    {
      std::lock_guard lock(mutex_);
      ++report_.chunk_count;
      if (is_checksummed) ++report_.checksummed_chunk_count;
      report_.stats.stored_bytes += stored_bytes;
      report_.stats.decoded_bytes += decoded_bytes;
    }
    run_.AddDone(decoded_bytes);
  }

  static constexpr int64_t kRunChunkCount = 16;
  // For a larger grid, the stored chunks are listed first.
  static constexpr int64_t kWalkedChunksMax = int64_t{1} << 16;

  const OpenOptions options_;
  Run run_;
  WorkerContexts contexts_{run_.executor().thread_count(), &run_.cancel()};
  Stopwatch watch_;
  FoundCheckpoint place_;
  std::optional<CheckedFiles> root_files_;  // for a checkpoint of items
  WorkShare share_;
  std::set<std::string>* const unchecked_;  // may be null
  std::mutex mutex_;
  VerifyReport report_;
};

// Adds one note for all chunks without a checksum, since this is a property of
// the format, not damage.
void NoteUncheckedChunks(VerifyReport& report) {
  const uint64_t count = report.chunk_count - report.checksummed_chunk_count;
  if (count == 0) return;
  report.notes.push_back(
      std::to_string(count) + " of " + std::to_string(report.chunk_count) +
      " chunks have no checksum, neither of their own nor in "
      "_HOLDFAST_DIGESTS: a change in their bytes cannot be seen");
}

}  // namespace

Result<VerifyReport> VerifyCheckpoint(const Place& place,
                                      const OpenOptions& options,
                                      const RunOptions& run,
                                      ProcessGroup* group) {
  return VerifyNotingUnchecked(place, options, run, group, nullptr);
}

Result<VerifyReport> VerifyNotingUnchecked(const Place& place,
                                           const OpenOptions& options,
                                           const RunOptions& run,
                                           ProcessGroup* group,
                                           std::set<std::string>* unchecked) {
  Result<VerifyReport> report =
      VerifyInShares(place.path(), group, [&](WorkShare share) {
        return Verifier(options, run, std::move(share), unchecked)
            .Execute(place);
      });
  if (report.ok()) NoteUncheckedChunks(*report);
  return report;
}

}  // namespace holdfast
