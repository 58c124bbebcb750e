#include "engine/save/also_sink.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "engine/restore/array_index.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

uint64_t ChunkBytes(const PlannedArray& array) {
  return array.layout->array->chunk_bytes;
}

std::string ChunkKeyOf(const PlannedArray& array, uint64_t chunk) {
  const ArrayLayout& layout = *array.layout->array;
  return zarr::ChunkKey(ArrayPrefix(array.name), layout.format.metadata,
                        layout.grid.ChunkIndex(static_cast<int64_t>(chunk)));
}

std::shared_ptr<const std::vector<SourceFile>> OwnFiles(const AlsoFiles& also) {
  auto rows = std::make_shared<std::vector<SourceFile>>();
  for (const AlsoFiles::File& file : also.files) {
    rows->push_back({.path = file.path, .byte_count = file.byte_count});
  }
  return rows;
}

class AlsoSink final : public ValueSink {
 public:
  AlsoSink(const SavePlan& plan, bool sync, FloatSums& floats,
           std::unique_ptr<ValueSink> database)
      : plan_(plan),
        also_(*plan.also),
        sync_(sync),
        floats_(floats),
        database_(std::move(database)) {}

  Status Open(Store* store) {
    uint64_t number = 0;
    for (const PlannedArray& array : plan_.arrays) {
      numbers_.push_back(number);
      number += array.has_metadata;
    }
    for (const AlsoFiles::File& file : also_.files) {
      HF_ASSIGN_OR_RETURN(files_.emplace_back(),
                          plan_.part.is_partial
                              ? store->CreateShared(file.path, file.byte_count)
                              : store->Create(file.path));
    }
    return plan_.part.is_primary ? WritePieces() : Status();
  }

  Status Put(uint64_t index, std::string key, EncodedChunk value,
             ValueKnownBy known_by,
             std::shared_ptr<const void> keepalive) override {
    const size_t array = ArrayOfValue(plan_, index);
    if (index < plan_.arrays[array].first_chunk_value()) {
      return database_->Put(numbers_[array], std::move(key), std::move(value),
                            known_by, std::move(keepalive));
    }
    const uint64_t chunk = plan_.arrays[array].ChunkOf(index);
    const AlsoFiles::Place place = PlaceOf(array, chunk);
    HF_RETURN_IF_ERROR(files_[place.file]->WriteAt(place.offset, value.pieces));
    ValueSums sums(ValueKnownBy::kBlocks);
    for (const std::string_view piece : value.pieces) sums.Add(piece);
    return Note(index, value.byte_count, std::move(key), sums);
  }

  Status PutStream(uint64_t index, std::string key, ValueKnownBy /*known_by*/,
                   const StreamFn& produce) override {
    const size_t array = ArrayOfValue(plan_, index);
    const uint64_t chunk = plan_.arrays[array].ChunkOf(index);
    const AlsoFiles::Place place = PlaceOf(array, chunk);
    uint64_t done = 0;
    ValueSums sums(ValueKnownBy::kBlocks);
    HF_RETURN_IF_ERROR(produce([&](std::span<const std::string_view> pieces) {
      const uint64_t offset = place.offset + done;
      done += TotalBytes(pieces);
      for (const std::string_view piece : pieces) sums.Add(piece);
      return files_[place.file]->WriteAt(offset, pieces);
    }));
    return Note(index, done, std::move(key), sums);
  }

  void Abort(const Status& status) override { database_->Abort(status); }

  Status Finish(DigestFile& digests) override {
    // The files must be complete before the database refers to them.
    for (const auto& file : files_) HF_RETURN_IF_ERROR(file->Finish(sync_));
    std::sort(written_.begin(), written_.end(),
              [](const Written& a, const Written& b) { return a.key < b.key; });
    StoredChunks stored;
    stored.sources = OwnFiles(also_);
    ReferredArray all{{}, &stored};
    for (Written& chunk : written_) {
      all.keys.push_back(std::move(chunk.key));
      stored.ranges.push_back(chunk.range);
      stored.digests.push_back(std::move(chunk.digest));
    }
    written_.clear();
    HF_RETURN_IF_ERROR(database_->Refer(all));
    HF_RETURN_IF_ERROR(database_->Finish(digests));
    std::move(piece_rows_.begin(), piece_rows_.end(),
              std::back_inserter(digests.values));
    return Status();
  }

 private:
  struct Written {
    std::string key;
    StoredChunks::Range range;
    ValueDigest digest;
  };

  // Writes the pieces. A header may be written before its tensors, because
  // nothing is visible yet.
  Status WritePieces() {
    for (const AlsoFiles::Piece& piece : also_.pieces) {
      const std::string_view bytes = piece.bytes;
      HF_RETURN_IF_ERROR(
          files_[piece.place.file]->WriteAt(piece.place.offset, {&bytes, 1}));
      ValueDigest row =
          SumValue(also_.files[piece.place.file].path, piece.place.offset,
                   bytes, ValueKnownBy::kBlocks);
      row.kind = RowKind::kOther;
      row.block_crcs.clear();
      piece_rows_.push_back(std::move(row));
    }
    return Status();
  }

  // Returns the place of a chunk. Chunks are consecutive runs of the array.
  AlsoFiles::Place PlaceOf(size_t array, uint64_t chunk) const {
    AlsoFiles::Place place = also_.arrays[array];
    place.offset += chunk * ChunkBytes(plan_.arrays[array]);
    return place;
  }

  Status Note(uint64_t index, uint64_t byte_count, std::string key,
              ValueSums& sums) {
    const size_t array = ArrayOfValue(plan_, index);
    const PlannedArray& planned = plan_.arrays[array];
    if (byte_count != ChunkBytes(planned)) {
      return InternalError("array " + planned.name + ": a chunk of " +
                           std::to_string(byte_count) + " bytes, want " +
                           std::to_string(ChunkBytes(planned)));
    }
    const AlsoFiles::Place place = PlaceOf(array, planned.ChunkOf(index));
    Written written{
        std::move(key), {place.file, place.offset, byte_count}, sums.Finish()};
    if (floats_.Wants(index)) floats_.Add(written.key, written.digest);
    std::lock_guard lock(mutex_);
    written_.push_back(std::move(written));
    return Status();
  }

  const SavePlan& plan_;
  const AlsoFiles& also_;
  const bool sync_;
  FloatSums& floats_;
  const std::unique_ptr<ValueSink> database_;
  std::vector<uint64_t> numbers_;  // indices of metadata in the database
  std::vector<std::unique_ptr<ObjectWriter>> files_;  // as also_.files
  std::vector<ValueDigest> piece_rows_;
  std::mutex mutex_;
  std::vector<Written> written_;
};

}  // namespace

uint64_t DatabaseValueCount(const SavePlan& plan) {
  return static_cast<uint64_t>(
      std::count_if(plan.arrays.begin(), plan.arrays.end(),
                    [](const PlannedArray& a) { return a.has_metadata; }));
}

Result<std::unique_ptr<ValueSink>> MakeAlsoSink(
    Store* store, const SavePlan& plan, bool sync, FloatSums& floats,
    std::unique_ptr<ValueSink> database) {
  auto sink =
      std::make_unique<AlsoSink>(plan, sync, floats, std::move(database));
  HF_RETURN_IF_ERROR(sink->Open(store));
  return std::unique_ptr<ValueSink>(std::move(sink));
}

Result<ocdbt::MergeChild> ReferencesOfRows(
    const SavePlan& plan, const std::vector<const DigestFile*>& parts) {
  const AlsoFiles& also = *plan.also;
  std::map<std::string_view, uint32_t> numbers;
  ocdbt::MergeChild child;
  for (const AlsoFiles::File& file : also.files) {
    numbers.emplace(file.path, static_cast<uint32_t>(numbers.size()));
    child.entries.files.push_back({file.path, 0});
  }
  // Keyed by (file, offset) of each array with elements.
  std::map<std::pair<uint32_t, uint64_t>, size_t> arrays;
  for (size_t i = 0; i < plan.arrays.size(); ++i) {
    // An array without elements begins where the next array does.
    if (plan.arrays[i].layout->chunk_count == 0) continue;
    arrays.emplace(std::pair(also.arrays[i].file, also.arrays[i].offset), i);
  }
  const auto arena = std::make_shared<ocdbt::TextArena>();
  child.entries.owners.push_back(arena);
  for (const DigestFile* part : parts) {
    for (const ValueDigest& row : part->values) {
      const auto file = numbers.find(row.path);
      if (row.kind != RowKind::kValue || file == numbers.end()) continue;
      // The row can only be a chunk of the last array that begins at or before
      // it.
      auto array = arrays.upper_bound({file->second, row.offset});
      bool fits = array != arrays.begin();
      uint64_t chunk = 0;
      if (fits) {
        --array;
        const PlannedArray& planned = plan.arrays[array->second];
        const uint64_t distance = row.offset - array->first.second;
        chunk = distance / ChunkBytes(planned);
        fits = array->first.first == file->second &&
               distance % ChunkBytes(planned) == 0 &&
               row.byte_count == ChunkBytes(planned) &&
               chunk < planned.layout->chunk_count;
      }
      if (!fits) {
        return DataLossError(row.path + ": a part has written " +
                             std::to_string(row.byte_count) +
                             " bytes at offset " + std::to_string(row.offset) +
                             ", where the plan has no chunk");
      }
      ocdbt::LeafEntry& entry = child.entries.entries.emplace_back();
      entry.key = arena->Copy(ChunkKeyOf(plan.arrays[array->second], chunk));
      entry.SetIndirect({file->second, row.offset, row.byte_count});
    }
  }
  ocdbt::SortByKey(child.entries.entries);
  return child;
}

}  // namespace holdfast
