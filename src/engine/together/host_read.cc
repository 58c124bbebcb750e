#include "engine/together/host_read.h"

#include <algorithm>
#include <cassert>

#include "engine/commit/layout.h"
#include "engine/restore/locate.h"
#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/xxh64.h"

namespace holdfast {
namespace {

// One rank reads consecutive small chunks up to this total size, so that it can
// join them into one read.
constexpr uint64_t kJoinedBytesMax = uint64_t{1} << 20;
ArrayView ViewAt(const WantedBox& wanted, char* data) {
  return {wanted.dtype, data, wanted.box.shape,
          ContiguousStrides(wanted.box.shape, DTypeBytes(wanted.dtype))};
}

// Returns a grid of the parts of a leaf that ranks read. A part is one stored
// object or range, so that nothing is read twice.
ChunkGrid GridOf(const LeafInfo& leaf) {
  const Shape& stored =
      leaf.shard_shape.empty() ? leaf.chunk_shape : leaf.shard_shape;
  ChunkGrid grid{leaf.shape, stored.empty() ? leaf.shape : stored};
  for (int64_t& extent : grid.chunk_shape) {
    extent = std::max<int64_t>(extent, 1);
  }
  return grid;
}

// Returns the pages of one array to the system when destroyed.
class SlotMemory {
 public:
  SlotMemory(std::shared_ptr<const Mapping> mapping, size_t offset,
             size_t byte_count)
      : mapping_(std::move(mapping)),
        offset_(offset),
        byte_count_(byte_count) {}
  ~SlotMemory() {
    if (mapping_.use_count() > 1) mapping_->Discard(offset_, byte_count_);
  }
  SlotMemory(const SlotMemory&) = delete;
  SlotMemory& operator=(const SlotMemory&) = delete;

 private:
  const std::shared_ptr<const Mapping> mapping_;
  const size_t offset_;
  const size_t byte_count_;
};

void AddNumber(uint64_t number, Xxh64& hash) {
  std::string bytes;
  PutU64Little(bytes, number);
  hash.Update(bytes);
}

void AddText(std::string_view text, Xxh64& hash) {
  AddNumber(text.size(), hash);
  hash.Update(text);
}

void AddLeaf(const LeafInfo& leaf, Xxh64& hash) {
  AddText(leaf.name, hash);
  AddNumber(static_cast<uint64_t>(leaf.dtype.value_or(DType::kUint8)), hash);
  AddText(ShapeToString(leaf.shape), hash);
  AddText(ShapeToString(leaf.chunk_shape), hash);
  AddText(leaf.array_metadata, hash);
}

// The contents of HostRead::Introduction.
struct Introduced {
  uint64_t hash = 0;
  std::vector<SegmentName> names;  // by kind
};

Result<Introduced> DecodeIntroduction(std::string_view bytes,
                                      std::string_view who) {
  Introduced introduced;
  const size_t name_bytes = SegmentName().Encode().size();
  Cursor cursor(bytes);
  bool is_whole = cursor.ReadU64Little(introduced.hash);
  while (is_whole && cursor.remaining() > 0) {
    std::string_view name;
    is_whole = cursor.ReadBytes(name_bytes, name);
    if (!is_whole) break;
    HF_ASSIGN_OR_RETURN(introduced.names.emplace_back(),
                        SegmentName::Decode(name));
  }
  if (is_whole && introduced.names.size() == 2) return introduced;
  return DataLossError(std::string(who) + ": its introduction has " +
                       std::to_string(bytes.size()) + " bytes");
}

}  // namespace

Status HostRead::SetWanted(std::vector<std::string> lists,
                           const std::vector<WantedBox>& mine) {
  lists[rank_] = EncodeWanted(mine);
  std::vector<std::vector<WantedBox>> wanted;
  for (size_t rank = 0; rank < lists.size(); ++rank) {
    const std::string who = "rank " + std::to_string(rank) + " of the host";
    Result<std::vector<WantedBox>> list = DecodeWanted(lists[rank]);
    if (!list.ok()) return list.status().WithContext(who);
    for (const WantedBox& one : *list) {
      const Status checked = checkpoint_.CheckRequest(
          {one.leaf, one.box.origin, ViewAt(one, nullptr)});
      if (!checked.ok()) return checked.WithContext(who);
      if (IsEmpty(one.box)) {
        return DataLossError(who + ": wants a box that needs no reading");
      }
    }
    wanted.push_back(*std::move(list));
  }
  slots_ = MakeSlots(wanted);
  return Status();
}

Status HostRead::Plan() {
  MemoryNeed need;  // of all ranks of the host
  for (const Slot& slot : slots_) {
    HF_RETURN_IF_ERROR(need.Add(MemoryBytesOf(slot.wanted)));
  }
  for (size_t first = 0; first < slots_.size();) {
    size_t last = first + 1;
    while (last < slots_.size() &&
           slots_[last].wanted.leaf == slots_[first].wanted.leaf) {
      ++last;
    }
    HF_RETURN_IF_ERROR(AddPieces(first, last));
    first = last;
  }
  for (ReadUnit& unit : units_) {
    std::sort(unit.slots.begin(), unit.slots.end());
    unit.slots.erase(std::unique(unit.slots.begin(), unit.slots.end()),
                     unit.slots.end());
  }
  readers_ = DivideUnits(units_, slots_, rank_count_);
  memory_ = PlanMemory(slots_, units_, readers_, rank_count_, PageBytes());
  MakeHash();
  return Status();
}

// Adds a piece for each chunk that the slots [first_slot, last_slot) touch.
// These slots want parts of one leaf.
Status HostRead::AddPieces(size_t first_slot, size_t last_slot) {
  const LeafInfo& leaf = checkpoint_.leaves()[slots_[first_slot].wanted.leaf];
  const ChunkGrid grid = GridOf(leaf);
  std::vector<Box> boxes;
  std::vector<uint32_t> box_slots;
  for (size_t i = first_slot; i < last_slot; ++i) {
    if (slots_[i].travel == Slot::Travel::kReceived) continue;
    boxes.push_back(slots_[i].wanted.box);
    box_slots.push_back(static_cast<uint32_t>(i));
  }
  if (boxes.empty()) return Status();
  const size_t element_bytes = DTypeBytes(leaf.dtype.value_or(DType::kUint8));
  const BoxIndex index(std::move(boxes));
  HF_ASSIGN_OR_RETURN(
      const std::vector<int64_t> numbers,
      WantedChunks(leaf.name, grid, index, CancelToken(options_.cancel)));
  for (const int64_t number : numbers) {
    Piece piece{grid.ChunkBox(grid.ChunkIndex(number)), 0, {}};
    uint64_t wanted_count = 0;
    index.ForEachOverlap(piece.box, [&](size_t i, const Box& common) {
      piece.slots.push_back(box_slots[i]);
      wanted_count += ElementCount(common.shape);
    });
    std::sort(piece.slots.begin(), piece.slots.end());
    // Only the wanted part of uncompressed elements is read.
    const bool is_raw = leaf.codecs == "none";
    const uint64_t read_count = is_raw ? 0 : ElementCount(piece.box.shape);
    AddPiece(std::move(piece), (read_count + wanted_count) * element_bytes);
  }
  return Status();
}

// Adds the piece to the last unit if that stays small, otherwise to a new one.
// The slots of a unit are sorted once, when all units are made.
void HostRead::AddPiece(Piece piece, uint64_t byte_count) {
  const bool joins = !units_.empty() &&
                     units_.back().byte_count + byte_count <= kJoinedBytesMax;
  ReadUnit& unit = joins ? units_.back() : units_.emplace_back();
  piece.unit = units_.size() - 1;
  unit.byte_count += byte_count;
  unit.slots.insert(unit.slots.end(), piece.slots.begin(), piece.slots.end());
  pieces_.push_back(std::move(piece));
}

// Hashes everything that must be equal on all ranks and that the exchanged
// messages do not show.
void HostRead::MakeHash() {
  Xxh64 hash;
  const CheckpointInfo& info = checkpoint_.info();
  AddNumber(info.step.value_or(-1), hash);
  AddNumber(info.init_timestamp_ns.value_or(-1), hash);
  AddText(info.checkpoint_metadata, hash);
  // All ranks of a host see one file system.
  AddText(PlaceId(Place(info.path)), hash);
  for (const Slot& slot : slots_) {
    AddLeaf(checkpoint_.leaves()[slot.wanted.leaf], hash);
  }
  for (const uint32_t reader : readers_) AddNumber(reader, hash);
  for (size_t i = 0; i < slots_.size(); ++i) {
    AddNumber(static_cast<uint64_t>(slots_[i].travel), hash);
    AddNumber(static_cast<uint64_t>(memory_.places[i].kind), hash);
    AddNumber(memory_.places[i].home, hash);
    AddNumber(memory_.places[i].offset, hash);
  }
  hash_ = hash.Digest();
}

HostRead::Segment& HostRead::SegmentOf(const SlotPlace& place) {
  return const_cast<Segment&>(std::as_const(*this).SegmentOf(place));
}

const HostRead::Segment& HostRead::SegmentOf(const SlotPlace& place) const {
  const SegmentKind kind =
      place.kind == SlotPlace::Kind::kCommon ? kCommon : kExclusive;
  return segments_[place.home * kSegmentKindCount + kind];
}

Status HostRead::Allocate() {
  Executor executor(options_.threads);
  for (const SegmentSizes& sizes : memory_.segments) {
    segments_.emplace_back().byte_count = sizes.exclusive_bytes;
    segments_.emplace_back().byte_count = sizes.common_bytes;
  }
  for (size_t kind = 0; kind < kSegmentKindCount; ++kind) {
    Segment& segment = segments_[rank_ * kSegmentKindCount + kind];
    if (segment.byte_count == 0) continue;
    HF_ASSIGN_OR_RETURN(NewSegment made,
                        SharedSegment::Create(segment.byte_count, executor));
    segment.file = std::move(made.segment);
    segment.shared = std::move(made.mapping);
  }
  private_arrays_.resize(slots_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool is_mine = memory_.places[i].kind == SlotPlace::Kind::kPrivate &&
                         slots_[i].ranks[0] == rank_;
    if (!is_mine) continue;
    const WantedBox& wanted = slots_[i].wanted;
    HF_ASSIGN_OR_RETURN(private_arrays_[i],
                        Array::Allocate(wanted.dtype, wanted.box.shape));
  }
  return Status();
}

std::string HostRead::Introduction() const {
  std::string bytes;
  PutU64Little(bytes, hash_);
  for (size_t kind = 0; kind < kSegmentKindCount; ++kind) {
    const auto& file = segments_[rank_ * kSegmentKindCount + kind].file;
    bytes += (file ? file->name() : SegmentName()).Encode();
  }
  return bytes;
}

// Returns, by slot, whether this rank writes elements to it.
std::vector<bool> HostRead::SlotsToFill() const {
  std::vector<bool> fills(slots_.size(), false);
  for (size_t i = 0; i < units_.size(); ++i) {
    if (readers_[i] != rank_) continue;
    for (const uint32_t slot : units_[i].slots) fills[slot] = true;
  }
  for (size_t i = 0; i < slots_.size(); ++i) {
    const bool travels = slots_[i].travel != Slot::Travel::kNone;
    if (rank_ == 0 && travels) fills[i] = true;
  }
  return fills;
}

std::vector<HostRead::SegmentNeed> HostRead::SegmentNeeds() const {
  const std::vector<bool> fills = SlotsToFill();
  std::vector<SegmentNeed> needs(segments_.size());
  for (size_t i = 0; i < slots_.size(); ++i) {
    const SlotPlace& place = memory_.places[i];
    if (place.kind == SlotPlace::Kind::kPrivate) continue;
    SegmentNeed& need = needs[&SegmentOf(place) - &segments_[0]];
    const std::vector<uint32_t>& ranks = slots_[i].ranks;
    need.is_filled = need.is_filled || fills[i];
    need.is_kept =
        need.is_kept || std::binary_search(ranks.begin(), ranks.end(), rank_);
  }
  return needs;
}

Status HostRead::MapOthers(const std::vector<std::string>& introductions) {
  const std::vector<SegmentNeed> needs = SegmentNeeds();
  for (uint32_t rank = 0; rank < rank_count_; ++rank) {
    const std::string who = "rank " + std::to_string(rank) + " of the host";
    HF_ASSIGN_OR_RETURN(const Introduced introduced,
                        DecodeIntroduction(introductions[rank], who));
    if (introduced.hash != hash_) {
      return FailedPreconditionError(
          who +
          " has opened another checkpoint, or opened it differently, than "
          "rank " +
          std::to_string(rank_) + ": " + checkpoint_.info().path);
    }
    for (size_t kind = 0; kind < kSegmentKindCount; ++kind) {
      const size_t number = rank * kSegmentKindCount + kind;
      const Status mapped =
          MapSegment(introduced.names[kind], needs[number],
                     static_cast<SegmentKind>(kind), segments_[number]);
      if (!mapped.ok()) return mapped.WithContext(who);
    }
  }
  return Status();
}

Status HostRead::MapSegment(const SegmentName& name, const SegmentNeed& need,
                            SegmentKind kind, Segment& segment) {
  if (!need.is_filled && !need.is_kept) return Status();
  if (!segment.file) {
    HF_ASSIGN_OR_RETURN(segment.file,
                        SharedSegment::Open(name, segment.byte_count));
  }
  if (need.is_filled && segment.shared == nullptr) {
    HF_ASSIGN_OR_RETURN(segment.shared,
                        segment.file->Map(SharedSegment::Sharing::kShared));
  }
  if (!need.is_kept) return Status();
  if (kind == kExclusive) {
    segment.own = segment.shared;
    return Status();
  }
  // The mapping is not read before all ranks have stopped writing.
  HF_ASSIGN_OR_RETURN(segment.own,
                      segment.file->Map(SharedSegment::Sharing::kOwn));
  return Status();
}

char* HostRead::FillAddress(size_t slot) {
  const SlotPlace& place = memory_.places[slot];
  if (place.kind == SlotPlace::Kind::kPrivate) {
    return private_arrays_[slot].mutable_view().data;
  }
  return SegmentOf(place).shared->data() + place.offset;
}

Status HostRead::ReadMine(Stats& stats) {
  // A rank that has nothing to read can be cancelled too.
  HF_RETURN_IF_ERROR(CancelToken(options_.cancel).Check());
  std::vector<ReadRequest> requests;
  for (const Piece& piece : pieces_) {
    if (readers_[piece.unit] != rank_) continue;
    for (const uint32_t slot : piece.slots) {
      const WantedBox& wanted = slots_[slot].wanted;
      const Box common = *Intersect(piece.box, wanted.box);
      const ArrayView target = ViewAt(wanted, FillAddress(slot));
      requests.push_back(
          {wanted.leaf, common.origin,
           Subview(target, Relative(common, wanted.box.origin))});
    }
  }
  HF_ASSIGN_OR_RETURN(const Stats read,
                      checkpoint_.ReadInto(requests, options_));
  const double plan_seconds = stats.plan_seconds + read.plan_seconds;
  stats = read;
  stats.plan_seconds = plan_seconds;
  return Status();
}

char* HostRead::MemoryOf(const WantedBox& wanted) {
  assert(rank_ == 0);
  return FillAddress(FindSlot(slots_, wanted));
}

void HostRead::LetGo() {
  for (Segment& segment : segments_) segment.shared = nullptr;
}

Array HostRead::ArrayOf(const WantedBox& wanted) const {
  const size_t slot = FindSlot(slots_, wanted);
  const SlotPlace& place = memory_.places[slot];
  if (place.kind == SlotPlace::Kind::kPrivate) return private_arrays_[slot];
  const std::shared_ptr<const Mapping>& mapping = SegmentOf(place).own;
  const uint64_t byte_count = MemoryBytesOf(wanted);
  std::shared_ptr<const void> owner = mapping;
  if (place.kind == SlotPlace::Kind::kExclusive &&
      byte_count >= kPageSlotBytesMin) {
    owner = std::make_shared<SlotMemory>(mapping, place.offset, byte_count);
  }
  return Array::Borrow(ViewAt(wanted, mapping->data() + place.offset),
                       std::move(owner));
}

}  // namespace holdfast
