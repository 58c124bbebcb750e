#include "engine/restore/restore.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <tuple>

#include "engine/restore/chunk_source.h"
#include "engine/restore/counted_stores.h"
#include "engine/restore/extent_read.h"
#include "formats/zarr/read_chunk.h"
#include "ground/base/status_macros.h"
#include "ground/fingerprint/parts.h"
#include "ground/record/recorder.h"
#include "ground/tensor/copy.h"
#include "ground/tensor/grid.h"

namespace holdfast {
namespace {

// The size of a read that a cancel cannot interrupt.
constexpr size_t kReadPieceBytes = 64 << 20;

// The same for a server, where a read is cut into many concurrent requests.
constexpr size_t kRemotePieceBytes = 256 << 20;

// Up to this size, memory is allocated without looking up the size of a
// server's file.
constexpr size_t kUncheckedBytesMax = 16 << 20;

bool IsRemote(const Store& store) { return store.requests_in_flight() > 1; }

// Runs the reads of a plan.
class Restorer {
 public:
  Restorer(const RestorePlan& plan, const CountedStores& stores, Run& run,
           std::vector<AbsentChunk>* absent, EncodedSink* sink)
      : targets_(plan.targets),
        groups_(plan.groups),
        plan_(plan),
        stores_(stores),
        run_(run),
        absent_(absent),
        sink_(sink),
        kept_scratch_bytes_max_(KeptScratchBytesMax(run)),
        contexts_(run.executor().thread_count(), &run.cancel()),
        workers_(run.executor().thread_count()) {}

  // Returns the bytes that the readers of raw arrays have returned. No store
  // counts them.
  uint64_t reader_bytes() const { return reader_bytes_; }

  Status Execute(size_t read_index, int worker_index) {
    const PlannedRead& read = plan_.reads[read_index];
    Worker& worker = workers_[worker_index];
    if (worker.context == nullptr) {
      worker.context = &contexts_.Of(worker_index);
    }
    if (read.byte_count == 0) return ExecuteUnranged(read, worker);
    const PlannedChunk& first = plan_.chunks[read.first];
    if (read.last - read.first == 1) {
      const ChunkUses uses = UsesOf(first);
      if (ReadsInPlace(first, uses)) return ReadInPlace(first, uses);
    }
    return ExecuteRanged(read, worker);
  }

 private:
  // Memory that one thread reuses from chunk to chunk, so that its pages are
  // touched once, not once per chunk.
  struct Worker {
    CodecContext* context = nullptr;
    Buffer encoded;
    Buffer decoded;  // decoded elements to cast, or to copy to several targets
    ExtentScratch extent;
  };

  // Limits the scratch that idle threads keep to the budget.
  static size_t KeptScratchBytesMax(Run& run) {
    const size_t budget_bytes = run.budget().bytes_max();
    if (budget_bytes == 0) return kKeptScratchBytesMax;
    return std::min(kKeptScratchBytesMax,
                    budget_bytes / (2 * run.executor().thread_count()));
  }

  void Trim(Worker& worker) const {
    for (Buffer* buffer : {&worker.encoded, &worker.decoded,
                           &worker.extent.span, &worker.extent.swapped}) {
      if (buffer->size() > kept_scratch_bytes_max_) *buffer = Buffer();
    }
    worker.context->TrimScratch(kept_scratch_bytes_max_);
  }

  // Reserves memory from the budget. A thread that has to wait releases its
  // scratch memory first.
  ByteBudget::Lease Acquire(uint64_t byte_count, Worker& worker) {
    if (auto lease = run_.budget().TryAcquire(byte_count)) {
      return *std::move(lease);
    }
    worker.encoded = Buffer();
    worker.decoded = Buffer();
    worker.context->TrimScratch(0);
    return run_.budget().Acquire(byte_count);
  }

  const TargetGroup& GroupOf(const PlannedChunk& chunk) const {
    return groups_[chunk.group];
  }
  // Returns the chunk's first target. All of its targets have the same home and
  // array.
  const RestoreTarget& TargetOf(const PlannedChunk& chunk) const {
    return targets_[GroupOf(chunk).first];
  }
  static const ArrayLayout& LayoutOf(const RestoreTarget& target) {
    return *target.array.layout;
  }
  static DType StoredDType(const RestoreTarget& target) {
    return target.array.dtype();
  }
  // Returns whether the stored bytes are the chunk's elements in C order.
  static bool IsRaw(const PlannedChunk& chunk, const RestoreTarget& target) {
    return chunk.extent != nullptr ||
           (LayoutOf(target).format.is_raw &&
            chunk.location.byte_count == LayoutOf(target).chunk_bytes);
  }

  // How a chunk's elements are used.
  struct ChunkUses {
    size_t count = 0;
    const RestoreTarget* target = nullptr;  // one of the targets
    const Box* chunk_box = nullptr;
    bool is_all = false;  // every element is wanted
    Box part;             // unless is_all: the box around all wanted parts
    // One target, in the stored dtype: the elements need no scratch memory.
    bool is_direct = false;

    const Box& hull() const { return is_all ? *chunk_box : part; }
  };

  ChunkUses UsesOf(const PlannedChunk& chunk) const {
    ChunkUses uses;
    uses.chunk_box = &chunk.box;
    const TargetGroup& group = GroupOf(chunk);
    if (TargetOf(chunk).array.raw != nullptr) {
      uses.count = 1;
      uses.target = &targets_[chunk.raw_target];
      uses.is_all = true;
    } else if (group.boxes == nullptr && TargetOf(chunk).origin.empty()) {
      uses.count = 1;
      uses.target = &TargetOf(chunk);
      uses.is_all = true;
    } else {
      ForEachUse(chunk, [&](const RestoreTarget& target, const Box& common) {
        uses.part = uses.count == 0 ? common : Hull(uses.part, common);
        uses.target = &target;
        ++uses.count;
      });
      uses.is_all = uses.part == chunk.box;
    }
    uses.is_direct =
        uses.count == 1 && uses.target->view.dtype == StoredDType(*uses.target);
    return uses;
  }

  void ForEachUse(const PlannedChunk& chunk,
                  const std::function<void(const RestoreTarget& target,
                                           const Box& common)>& fn) const {
    holdfast::ForEachUse(targets_, GroupOf(chunk), chunk.box, fn);
  }

  // Returns a target's memory for `part`, a box of the leaf.
  static ArrayView ViewOf(const RestoreTarget& target, const Box& part) {
    if (target.origin.empty()) return Subview(target.view, part);
    return Subview(target.view, Relative(part, target.origin));
  }

  // Returns true if the target's memory is exactly that of a complete decoded
  // chunk.
  static bool FillsTarget(const PlannedChunk& chunk, const ChunkUses& uses) {
    return uses.is_direct && uses.is_all &&
           (chunk.extent != nullptr ||
            chunk.box.shape == LayoutOf(*uses.target).grid.chunk_shape) &&
           IsContiguous(ViewOf(*uses.target, chunk.box));
  }

  // Returns true if the stored bytes are the wanted bytes, in the wanted order.
  static bool ReadsInPlace(const PlannedChunk& chunk, const ChunkUses& uses) {
    return IsRaw(chunk, *uses.target) && FillsTarget(chunk, uses);
  }

  Status ReadInPlace(const PlannedChunk& chunk, const ChunkUses& uses) {
    const ArrayView view = ViewOf(*uses.target, chunk.box);
    const size_t byte_count = chunk.location.byte_count;
    // A store that checks its bytes divides the read by itself.
    const bool is_checked =
        TargetOf(chunk).home->byte_check() == ByteCheck::kListed;
    const size_t piece_bytes_max = is_checked ? byte_count
                                   : IsRemote(*chunk.location.store)
                                       ? kRemotePieceBytes
                                       : kReadPieceBytes;
    for (size_t done = 0; done < byte_count;) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      const size_t piece_bytes = std::min(piece_bytes_max, byte_count - done);
      const Status read =
          ReadPiece(chunk.location, done, {view.data + done, piece_bytes});
      if (!read.ok()) return Failed(chunk, read);
      done += piece_bytes;
    }
    run_.AddDone(byte_count);
    return Status();
  }

  // Reads with a batch of one request, since batches can be cancelled.
  Status ReadPiece(const ObjectLocation& where, uint64_t at,
                   std::span<char> target) const {
    const RangeRead request{where.key, where.offset + at, target};
    const PhaseScope scope(Phase::kRead, where.key, target.size(),
                           request.offset);
    return where.store->ReadBatch({&request, 1}, &run_.cancel());
  }

  // Returns whether the sink may take the chunk.
  bool IsForSink(const PlannedChunk& chunk, const ChunkUses& uses) const {
    return sink_ != nullptr && chunk.extent == nullptr &&
           LayoutOf(*uses.target).format.is_blosc && FillsTarget(chunk, uses) &&
           sink_->Wants(uses.target->view);
  }

  // Returns whether the sink has taken the chunk.
  bool HandOver(const PlannedChunk& chunk, const ChunkUses& uses,
                std::string_view encoded) {
    const auto bytes = BloscContainerIn(LayoutOf(*uses.target).format, encoded);
    if (!bytes.ok()) return false;  // decoding explains it
    StoredContainer container;
    container.bytes = *bytes;
    container.are_known =
        TargetOf(chunk).home->byte_check() == ByteCheck::kListed;
    container.box = chunk.box;
    container.elements = ViewOf(*uses.target, chunk.box).data;
    container.decoded_bytes = BytesOf(chunk.box, uses.target->array);
    if (!sink_->Take(container)) return false;
    run_.AddDone(container.decoded_bytes);
    return true;
  }

  Status Decode(const PlannedChunk& chunk, const ChunkUses& uses,
                std::string_view encoded, Worker& worker) {
    if (chunk.extent != nullptr) return CopyOut(chunk, uses, encoded);
    if (IsForSink(chunk, uses) && HandOver(chunk, uses, encoded)) {
      return Status();
    }
    return DecodeHere(chunk, uses, encoded, worker);
  }

  Status DecodeHere(const PlannedChunk& chunk, const ChunkUses& uses,
                    std::string_view encoded, Worker& worker) {
    const PhaseScope scope(Phase::kDecode, TargetOf(chunk).array.name,
                           encoded.size());
    worker.context->set_bytes_are_known(TargetOf(chunk).home->byte_check() ==
                                        ByteCheck::kListed);
    const Status decoded = uses.is_direct
                               ? DecodeDirect(chunk, uses, encoded, worker)
                               : DecodeToScratch(chunk, uses, encoded, worker);
    return decoded.ok() ? decoded : FailedToDecode(chunk, decoded);
  }

  Status DecodeDirect(const PlannedChunk& chunk, const ChunkUses& uses,
                      std::string_view encoded, Worker& worker) {
    const RestoreTarget& target = *uses.target;
    HF_RETURN_IF_ERROR(LayoutOf(target).format.codec->Decode(
        encoded, Relative(uses.hull(), chunk.box.origin).origin,
        ViewOf(target, uses.hull()), *worker.context));
    run_.AddDone(BytesOf(uses.hull(), target.array));
    return Status();
  }

  // Copies elements of a raw array, which exactly one target needs.
  Status CopyOut(const PlannedChunk& chunk, const ChunkUses& uses,
                 std::string_view elements) {
    const DType dtype = StoredDType(*uses.target);
    const Shape& shape = chunk.box.shape;
    const PhaseScope scope(Phase::kPlace, uses.target->array.name,
                           elements.size());
    ConvertStrided({dtype, elements.data(), shape,
                    ContiguousStrides(shape, DTypeBytes(dtype))},
                   ViewOf(*uses.target, chunk.box));
    run_.AddDone(elements.size());
    return Status();
  }

  // Decodes the wanted part once, and distributes it.
  Status DecodeToScratch(const PlannedChunk& chunk, const ChunkUses& uses,
                         std::string_view encoded, Worker& worker) {
    const ArrayLayout& layout = LayoutOf(*uses.target);
    const DType dtype = layout.format.metadata.dtype;
    if (layout.format.is_raw && encoded.size() == layout.chunk_bytes) {
      const Shape& shape = layout.grid.chunk_shape;
      HandOut(chunk, {chunk.box.origin, shape},
              {dtype, encoded.data(), shape,
               ContiguousStrides(shape, DTypeBytes(dtype))});
      return Status();
    }
    HF_ASSIGN_OR_RETURN(const ArrayView scratch,
                        ScratchFor(chunk, uses.hull(), worker));
    HF_RETURN_IF_ERROR(layout.format.codec->Decode(
        encoded, Relative(uses.hull(), chunk.box.origin).origin, scratch,
        *worker.context));
    HandOut(chunk, uses.hull(), scratch);
    return Status();
  }

  Result<ArrayView> ScratchFor(const PlannedChunk& chunk, const Box& wanted,
                               Worker& worker) const {
    const RestoreTarget& target = TargetOf(chunk);
    const size_t byte_count = BytesOf(wanted, target.array);
    if (worker.decoded.size() < byte_count) {
      // The old buffer is freed first, so that both are never held at the same
      // time.
      worker.decoded = Buffer();
      worker.decoded = Buffer::TryAllocate(byte_count);
      if (worker.decoded.data() == nullptr) {
        return ResourceExhaustedError("no memory for a chunk of " +
                                      std::to_string(byte_count) + " bytes");
      }
    }
    const DType dtype = StoredDType(target);
    return ArrayView{dtype, worker.decoded.data(), wanted.shape,
                     ContiguousStrides(wanted.shape, DTypeBytes(dtype))};
  }

  // Copies or casts `source`, the elements at `box` of the leaf, to all targets
  // that overlap it.
  void HandOut(const PlannedChunk& chunk, const Box& box,
               const ConstArrayView& source) {
    // A chunk at the array's edge is stored with its full shape, so `box` may
    // extend past the array.
    const auto inside = Intersect(box, chunk.box);
    if (!inside) return;
    const PhaseScope scope(Phase::kPlace, TargetOf(chunk).array.name,
                           BytesOf(*inside, TargetOf(chunk).array));
    const auto copy = [&](const RestoreTarget& target, const Box& common) {
      ConvertStrided(Subview(source, Relative(common, box.origin)),
                     ViewOf(target, common));
      run_.AddDone(BytesOf(common, target.array));
    };
    holdfast::ForEachUse(targets_, GroupOf(chunk), *inside, copy);
  }

  // Reads and decodes piece by piece a chunk that is too large to hold in
  // memory. Returns false if it must be held after all.
  Result<bool> Stream(const PlannedChunk& chunk, const ChunkUses& uses,
                      uint64_t stored_bytes, Worker& worker) {
    const RestoreTarget& target = TargetOf(chunk);
    const zarr::ChunkFormat& format = LayoutOf(target).format;
    const bool has_parts =
        format.shard != nullptr && format.shard->entry_count() > 1;
    if (!has_parts && !format.codec->is_streamable()) return false;
    const ByteBudget::Lease lease =
        Acquire(2 * run_.budget().piece_bytes(), worker);
    ChunkSource source(chunk.location, stored_bytes, run_.cancel());
    if (has_parts) {
      HF_RETURN_IF_ERROR(ReadBoxes(chunk, uses, worker));
      return true;
    }
    DecodedTarget decoded;
    const bool fills_target = FillsTarget(chunk, uses);
    if (fills_target) {
      decoded.whole = ViewOf(*uses.target, chunk.box).data;
    } else {
      decoded.part = Relative(uses.hull(), chunk.box.origin);
      decoded.take = [&](const Box& part, const ConstArrayView& elements) {
        HandOut(chunk, Absolute(part, chunk.box.origin), elements);
        return Status();
      };
    }
    Result<bool> done =
        DecodeInPieces(source, *format.codec, run_.budget().piece_bytes(),
                       decoded, *worker.context);
    Trim(worker);
    if (!source.read_status().ok()) {
      return Failed(chunk, source.read_status());
    }
    if (!done.ok()) return FailedToDecode(chunk, done.status());
    if (*done && fills_target) run_.AddDone(BytesOf(chunk.box, target.array));
    return done;
  }

  void Fill(const PlannedChunk& chunk) {
    NoteAbsent(chunk);
    const RestoreTarget& first = TargetOf(chunk);
    const std::string& fill = LayoutOf(first).format.metadata.fill_element;
    ForEachUse(chunk, [&](const RestoreTarget& target, const Box& common) {
      // Fits the largest dtype, complex128.
      char element[16];
      ConvertStrided({StoredDType(first), fill.data(), {}, {}},
                     {target.view.dtype, element, {}, {}});
      FillStrided(ViewOf(target, common), element);
    });
  }

  // Returns the bytes of scratch memory that decoding the chunk needs.
  uint64_t ScratchBytes(const PlannedChunk& chunk,
                        const ChunkUses& uses) const {
    if (chunk.extent != nullptr) return 0;
    const RestoreTarget& target = TargetOf(chunk);
    const ArrayLayout& layout = LayoutOf(target);
    if (layout.format.is_raw) return 0;
    const bool is_packed = uses.is_direct
                               ? FillsTarget(chunk, uses)
                               : uses.hull().shape == layout.grid.chunk_shape;
    // If the target's layout differs from the chunk's, the chunk is decoded to
    // scratch first.
    const uint64_t aside_bytes = is_packed ? 0 : AsideBytes(layout);
    return aside_bytes +
           (uses.is_direct ? 0 : BytesOf(uses.hull(), target.array));
  }

  static uint64_t AsideBytes(const ArrayLayout& layout) {
    return layout.format.shard != nullptr ? layout.format.shard->inner_bytes()
                                          : layout.chunk_bytes;
  }

  Status ExecuteUnranged(const PlannedRead& read, Worker& worker) {
    for (size_t i = read.first; i < read.last; ++i) {
      const PlannedChunk& chunk = plan_.chunks[i];
      if (chunk.is_missing) {
        Fill(chunk);
      } else if (chunk.location.inline_value) {
        HF_RETURN_IF_ERROR(DecodeInline(chunk, worker));
      } else if (chunk.part_bytes > 0) {
        HF_RETURN_IF_ERROR(TargetOf(chunk).array.raw != nullptr
                               ? ReadRaw(chunk, worker)
                               : ReadPart(chunk, worker));
      } else {
        HF_RETURN_IF_ERROR(ReadWholeObject(chunk, worker));
      }
    }
    return Status();
  }

  Status DecodeInline(const PlannedChunk& chunk, Worker& worker) {
    const ChunkUses uses = UsesOf(chunk);
    const uint64_t scratch_bytes = ScratchBytes(chunk, uses);
    ByteBudget::Lease lease;
    if (scratch_bytes > 0) lease = Acquire(scratch_bytes, worker);
    const Status decoded =
        Decode(chunk, uses, chunk.location.inline_value->view(), worker);
    if (scratch_bytes > 0) Trim(worker);
    return decoded;
  }

  // Handles a failed read. If the chunk is absent and may be, its targets get
  // the fill value.
  Status FillIfAbsent(const PlannedChunk& chunk, const Status& read) {
    const RestoreTarget& target = TargetOf(chunk);
    const bool is_absent = read.code() == StatusCode::kNotFound;
    if (is_absent && !target.home->refuses_missing_chunks()) {
      Fill(chunk);
      return Status();
    }
    return Failed(chunk, read);
  }

  // Reads a part of a raw array that is not a plain range of a file.
  Status ReadRaw(const PlannedChunk& chunk, Worker& worker) {
    const RestoreTarget& target = targets_[chunk.raw_target];
    if (chunk.extent == nullptr) {
      const Status read = ReadByReader(chunk, target, worker);
      return read.WithContext("leaf " + std::string(target.array.name));
    }
    const PhaseScope scope(Phase::kRead, chunk.location.key, chunk.part_bytes,
                           chunk.location.offset);
    const ExtentRead read{chunk.extent, target.array.dtype(), chunk.box,
                          ViewOf(target, chunk.box)};
    const uint64_t part_bytes = RawPartBytes(run_);
    ByteBudget::Lease lease;
    if (!holdfast::ReadsInPlace(read)) {
      lease = Acquire(chunk.extent->is_big_endian ? 2 * part_bytes : part_bytes,
                      worker);
    }
    const Result<uint64_t> done = ReadExtentBox(
        *chunk.location.store, read, part_bytes, worker.extent, run_.cancel());
    if (!done.ok()) return Failed(chunk, done.status());
    run_.AddDone(chunk.part_bytes);
    return Status();
  }

  // Reads piece after piece in C order, as a stream provides them.
  Status ReadByReader(const PlannedChunk& chunk, const RestoreTarget& target,
                      Worker& worker) {
    const DType dtype = target.array.dtype();
    const uint64_t part_bytes = RawPartBytes(run_);
    const bool changes = target.view.dtype != dtype || dtype == DType::kBool;
    ByteBudget::Lease lease;
    if (changes) lease = Acquire(part_bytes, worker);
    for (const Box& box : RowPieces(chunk.box, DTypeBytes(dtype), part_bytes)) {
      HF_RETURN_IF_ERROR(run_.cancel().Check());
      const uint64_t byte_count = BytesOf(box, target.array);
      const ArrayView view = ViewOf(target, box);
      if (changes) {
        HF_ASSIGN_OR_RETURN(const ArrayView piece,
                            ScratchFor(chunk, box, worker));
        HF_RETURN_IF_ERROR(target.array.raw->reader->Read(box.origin, piece));
        ClearUnusedBits(dtype, piece.data, byte_count);
        ConvertStrided(piece, view);
      } else {
        HF_RETURN_IF_ERROR(target.array.raw->reader->Read(box.origin, view));
      }
      run_.AddDone(byte_count);
      reader_bytes_ += byte_count;
    }
    return Status();
  }

  // Reads only the bytes of the wanted part.
  Status ReadPart(const PlannedChunk& chunk, Worker& worker) {
    const ChunkUses uses = UsesOf(chunk);
    const uint64_t scratch_bytes = uses.is_direct ? 0 : chunk.part_bytes;
    const bool in_pieces = run_.budget().WantsPieces(scratch_bytes);
    const ByteBudget::Lease lease = Acquire(
        in_pieces ? 2 * run_.budget().piece_bytes() : scratch_bytes, worker);
    const Status read = ReadBoxes(chunk, uses, worker);
    Trim(worker);
    return read;
  }

  // Reads the wanted part of the chunk: in one go, or piece by piece if it must
  // be distributed and is larger than a piece.
  Status ReadBoxes(const PlannedChunk& chunk, const ChunkUses& uses,
                   Worker& worker) {
    if (uses.is_direct) {
      HF_RETURN_IF_ERROR(ReadBox(chunk, uses.hull(),
                                 ViewOf(*uses.target, uses.hull()), worker));
      run_.AddDone(BytesOf(uses.hull(), uses.target->array));
      return Status();
    }
    const Box& hull = uses.hull();
    const uint64_t hull_bytes = BytesOf(hull, uses.target->array);
    const bool in_pieces = run_.budget().WantsPieces(hull_bytes);
    const size_t box_bytes =
        in_pieces ? run_.budget().piece_bytes() : hull_bytes;
    for (const Box& box :
         RowPieces(hull, DTypeBytes(StoredDType(*uses.target)), box_bytes)) {
      HF_ASSIGN_OR_RETURN(const ArrayView view, ScratchFor(chunk, box, worker));
      HF_RETURN_IF_ERROR(ReadBox(chunk, box, view, worker));
      HandOut(chunk, box, view);
    }
    return Status();
  }

  Status ReadBox(const PlannedChunk& chunk, const Box& box,
                 const ArrayView& view, Worker& worker) {
    const RestoreTarget& target = TargetOf(chunk);
    const zarr::ChunkFormat& format = LayoutOf(target).format;
    const PhaseScope scope(Phase::kRead, target.array.name,
                           BytesOf(box, target.array));
    const Status read = zarr::ReadChunkBox(
        stores_.Of(target.home->array_store()),
        ChunkKeyOf(target.array, chunk.box), format,
        Relative(box, ChunkOriginOf(target.array, chunk.box)), view,
        *worker.context, &run_.cancel());
    if (read.code() == StatusCode::kNotFound &&
        !target.home->refuses_missing_chunks()) {
      FillStrided(view, format.metadata.fill_element.data());
      NoteAbsent(chunk);
      return Status();
    }
    return read.ok() ? read : Failed(chunk, read);
  }

  Status Failed(const PlannedChunk& chunk, const Status& failure) const {
    return ChunkFailure(chunk, TargetOf(chunk), failure, /*adds_place=*/false);
  }
  Status FailedToDecode(const PlannedChunk& chunk,
                        const Status& failure) const {
    return ChunkFailure(chunk, TargetOf(chunk), failure, /*adds_place=*/true);
  }

  void NoteAbsent(const PlannedChunk& chunk) {
    if (absent_ == nullptr) return;
    const std::string key = ChunkKeyOf(TargetOf(chunk).array, chunk.box);
    const std::lock_guard lock(absent_mutex_);
    ForEachUse(chunk, [&](const RestoreTarget& target, const Box&) {
      absent_->push_back({static_cast<size_t>(&target - &targets_[0]), key});
    });
  }

  // Reads a chunk that has its own file, whose size is not known before it is
  // opened.
  Status ReadWholeObject(const PlannedChunk& chunk, Worker& worker) {
    const ChunkUses uses = UsesOf(chunk);
    const uint64_t held_bytes =
        LayoutOf(TargetOf(chunk)).chunk_bytes + ScratchBytes(chunk, uses);
    if (run_.budget().WantsPieces(held_bytes)) {
      // If this fails, the read below fails in the same way and explains it.
      const Result<ObjectInfo> info =
          chunk.location.store->Stat(chunk.location.key);
      if (info.ok()) {
        HF_ASSIGN_OR_RETURN(const bool is_done,
                            Stream(chunk, uses, info->byte_count, worker));
        if (is_done) return Status();
      }
    }
    const ByteBudget::Lease lease = Acquire(held_bytes, worker);
    const Result<Bytes> encoded = [&] {
      const PhaseScope scope(Phase::kRead, chunk.location.key,
                             LayoutOf(TargetOf(chunk)).chunk_bytes);
      return chunk.location.store->Read(chunk.location.key);
    }();
    if (!encoded.ok()) return FillIfAbsent(chunk, encoded.status());
    const Status decoded = Decode(chunk, uses, encoded->view(), worker);
    Trim(worker);
    return decoded;
  }

  // Checks that the data file is large enough for the read, before memory is
  // allocated for it.
  static Status CheckFileHolds(const PlannedRead& read,
                               const ObjectLocation& where) {
    HF_ASSIGN_OR_RETURN(const ObjectInfo info, where.store->Stat(where.key));
    if (info.byte_count >= read.byte_count) return Status();
    return OutOfRangeError(where.store->Describe(where.key) + " at " +
                           std::to_string(where.offset) +
                           ": the value is larger than its file (got " +
                           std::to_string(info.byte_count) + " bytes, want " +
                           std::to_string(read.byte_count) + ")");
  }

  // The same, unless getting the file's size would cost as much as the read.
  static Status CheckLargeRead(const PlannedRead& read,
                               const ObjectLocation& where) {
    const bool is_small =
        IsRemote(*where.store) && read.byte_count <= kUncheckedBytesMax;
    return is_small ? Status() : CheckFileHolds(read, where);
  }

  Status ReadToScratch(const PlannedRead& read, const ObjectLocation& where,
                       Buffer& scratch) const {
    if (scratch.size() < read.byte_count) {
      HF_RETURN_IF_ERROR(CheckLargeRead(read, where));
      scratch.Reserve(read.byte_count);
    }
    return ReadPiece(where, read.offset - where.offset,
                     {scratch.data(), read.byte_count});
  }

  // Reads each chunk of a joined read by itself, after the joined read has
  // failed. The error then names the damaged chunk. Damage between the chunks,
  // in bytes that no target needs, causes no failure.
  Status ExecuteAlone(const PlannedRead& read,
                      const std::vector<ChunkUses>& uses, const Status& failure,
                      Worker& worker) {
    if (uses.size() == 1) return Failed(plan_.chunks[read.first], failure);
    for (size_t i = read.first; i < read.last; ++i) {
      const PlannedChunk& chunk = plan_.chunks[i];
      const ObjectLocation& where = chunk.location;
      const Status alone = ReadToScratch(
          {i, i + 1, where.offset, where.byte_count}, where, worker.encoded);
      if (!alone.ok()) return Failed(chunk, alone);
      HF_RETURN_IF_ERROR(Decode(chunk, uses[i - read.first],
                                {worker.encoded.data(), where.byte_count},
                                worker));
    }
    Trim(worker);
    return Status();
  }

  // Reads a chunk to where the sink wants it. If the sink does not take it, its
  // bytes make room for its elements.
  Status ReadForSink(const PlannedRead& read, const ChunkUses& uses,
                     Worker& worker) {
    const PlannedChunk& chunk = plan_.chunks[read.first];
    const std::span<char> bytes(ViewOf(*uses.target, chunk.box).data,
                                read.byte_count);
    Status status = CheckLargeRead(read, chunk.location);
    if (status.ok()) status = ReadPiece(chunk.location, 0, bytes);
    if (!status.ok()) return Failed(chunk, status);
    if (HandOver(chunk, uses, {bytes.data(), bytes.size()})) return Status();
    worker.encoded.Reserve(bytes.size());
    std::memcpy(worker.encoded.data(), bytes.data(), bytes.size());
    const Status decoded =
        DecodeHere(chunk, uses, {worker.encoded.data(), bytes.size()}, worker);
    Trim(worker);
    return decoded;
  }

  Status ExecuteRanged(const PlannedRead& read, Worker& worker) {
    const PlannedChunk& first = plan_.chunks[read.first];
    std::vector<ChunkUses> uses;
    uses.reserve(read.last - read.first);
    uint64_t scratch_bytes = 0;  // one buffer for all chunks
    for (size_t i = read.first; i < read.last; ++i) {
      const PlannedChunk& chunk = plan_.chunks[i];
      uses.push_back(UsesOf(chunk));
      scratch_bytes = std::max(scratch_bytes, ScratchBytes(chunk, uses.back()));
    }
    if (uses.size() == 1 && first.extent == nullptr &&
        run_.budget().WantsPieces(read.byte_count + scratch_bytes)) {
      const Status held = CheckFileHolds(read, first.location);
      if (!held.ok()) return Failed(first, held);
      HF_ASSIGN_OR_RETURN(const bool is_done,
                          Stream(first, uses.front(), read.byte_count, worker));
      if (is_done) return Status();
    }
    const ByteBudget::Lease lease =
        Acquire(read.byte_count + scratch_bytes, worker);
    if (uses.size() == 1 && IsForSink(first, uses.front()) &&
        read.byte_count <= BytesOf(first.box, uses.front().target->array)) {
      return ReadForSink(read, uses.front(), worker);
    }
    const Status status = ReadToScratch(read, first.location, worker.encoded);
    if (!status.ok()) return ExecuteAlone(read, uses, status, worker);
    for (size_t i = read.first; i < read.last; ++i) {
      const ObjectLocation& location = plan_.chunks[i].location;
      const std::string_view encoded(
          worker.encoded.data() + (location.offset - read.offset),
          location.byte_count);
      HF_RETURN_IF_ERROR(
          Decode(plan_.chunks[i], uses[i - read.first], encoded, worker));
    }
    Trim(worker);
    return Status();
  }

  const std::vector<RestoreTarget>& targets_;
  const std::vector<TargetGroup>& groups_;
  const RestorePlan& plan_;
  const CountedStores& stores_;
  Run& run_;
  std::vector<AbsentChunk>* const absent_;  // null: not requested
  EncodedSink* const sink_;                 // null: all chunks are decoded here
  std::mutex absent_mutex_;
  const size_t kept_scratch_bytes_max_;
  std::atomic<uint64_t> reader_bytes_ = 0;
  WorkerContexts contexts_;
  std::vector<Worker> workers_;
};

Status CheckStillThere(const std::vector<RestoreTarget>& targets) {
  const ArrayHome* last = nullptr;
  for (const RestoreTarget& target : targets) {
    if (target.home == last) continue;
    HF_RETURN_IF_ERROR(target.home->CheckStillThere());
    last = target.home;
  }
  return Status();
}

// Returns whether the targets contain each element of the array once, in the
// array's own dtype.
bool HaveAllElements(const RestoreTarget* first, const RestoreTarget* last) {
  // Comparing all pairs would be too slow beyond this.
  constexpr int64_t kBoxesMax = 256;
  if (last - first > kBoxesMax) return false;
  int64_t count = 0;
  for (const RestoreTarget* target = first; target != last; ++target) {
    if (target->view.dtype != target->array.dtype()) return false;
    count += ElementCount(target->view.shape);
    for (const RestoreTarget* other = first; other != target; ++other) {
      if (Intersect(BoxOfTarget(*other), BoxOfTarget(*target))) return false;
    }
  }
  return count == ElementCount(first->array.shape());
}

// Compares the targets' memory with the saved fingerprints. This is the last
// check of the memory before the caller gets it.
Status CheckFingerprints(const RestorePlan& plan, Run& run, Stats& stats,
                         const EncodedSink* sink) {
  std::vector<FingerprintPart> parts;
  std::vector<const ReadableArray*> arrays;  // as parts
  for (const TargetGroup& group : plan.groups) {
    const RestoreTarget* const first = plan.targets.data() + group.first;
    const RestoreTarget* const last = plan.targets.data() + group.last;
    if (first->array.fingerprint.empty() || !HaveAllElements(first, last)) {
      continue;
    }
    // The memory may hold encoded chunks.
    if (sink != nullptr && sink->Wants(first->view)) continue;
    for (const RestoreTarget* target = first; target != last; ++target) {
      parts.push_back({target->view, target->origin, target->array.shape()});
      arrays.push_back(&first->array);
    }
  }
  HF_ASSIGN_OR_RETURN(const std::vector<FingerprintSum> sums,
                      SumsOf(parts, run.executor(), run.cancel()));
  for (size_t i = 0; i < sums.size();) {
    const ReadableArray& array = *arrays[i];
    FingerprintSum sum;
    for (; i < sums.size() && arrays[i] == &array; ++i) sum += sums[i];
    HF_RETURN_IF_ERROR(CheckFingerprint(array.name, array.dtype(),
                                        array.shape(), sum, array.fingerprint));
    ++stats.fingerprint_count;
  }
  return Status();
}

}  // namespace

Status Restore(RestorePlan plan, Run& run, Stats& stats,
               std::vector<AbsentChunk>* absent, EncodedSink* sink) {
  Stopwatch watch;
  CountedStores stores;
  for (const RestoreTarget& target : plan.targets) {
    stores.Add(&target.home->array_store());
  }
  uint64_t inline_bytes = 0;
  for (PlannedChunk& chunk : plan.chunks) {
    ObjectLocation& location = chunk.location;
    if (location.inline_value) inline_bytes += location.inline_value->size();
    if (location.store) location.store = stores.Add(location.store);
  }
  stats.plan_seconds += watch.Lap();
  stats.chunk_count += plan.chunks.size();
  stats.decoded_bytes += WantedBytes(plan.targets);
  Restorer restorer(plan, stores, run, absent, sink);
  const Status restored = run.executor().ParallelFor(
      plan.reads.size(),
      [&](size_t read, int worker) {
        const OnCall on(run.call());
        return restorer.Execute(read, worker);
      },
      &run.cancel());
  // A replaced checkpoint also explains a failure.
  HF_RETURN_IF_ERROR(CheckStillThere(plan.targets));
  HF_RETURN_IF_ERROR(restored);
  HF_RETURN_IF_ERROR(CheckFingerprints(plan, run, stats, sink));
  stats.transfer_seconds += watch.Lap();
  stats.stored_bytes +=
      inline_bytes + stores.read_bytes() + restorer.reader_bytes();
  stats.memory_bytes_peak = run.budget().peak_bytes();
  if (absent != nullptr) {
    std::sort(absent->begin(), absent->end(),
              [](const AbsentChunk& a, const AbsentChunk& b) {
                return std::tie(a.target, a.key) < std::tie(b.target, b.key);
              });
  }
  return Status();
}

}  // namespace holdfast
