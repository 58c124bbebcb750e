#include "together/host_read.h"

#include <algorithm>
#include <cassert>

#include "base/coding.h"
#include "base/status_macros.h"
#include "checkpoint/restore/locate.h"
#include "codec/xxh64.h"

namespace holdfast {
namespace {

ArrayView ViewAt(const WantedBox& wanted, char* data) {
  return {wanted.dtype, data, wanted.box.shape,
          ContiguousStrides(wanted.box.shape, DTypeBytes(wanted.dtype))};
}

// Bytes that reading the chunk moves from the store.
uint64_t StoredBytes(const PlannedChunk& chunk, const ArrayLayout& layout) {
  if (chunk.is_missing) return 0;
  if (chunk.part_bytes > 0) return chunk.part_bytes;
  if (chunk.location.inline_value) return chunk.location.inline_value->size();
  const bool is_known = chunk.location.byte_count != kToEnd;
  return is_known ? chunk.location.byte_count : layout.chunk_bytes;
}

// Gives the pages of one array back when it is destroyed.
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

void AddChunk(const PlannedChunk& chunk, Xxh64& hash) {
  const ObjectLocation& location = chunk.location;
  AddText(location.key, hash);
  AddNumber(location.offset, hash);
  AddNumber(location.byte_count, hash);
  AddNumber(chunk.is_missing, hash);
  AddNumber(chunk.part_bytes, hash);
  if (location.inline_value) AddText(location.inline_value->view(), hash);
}

// The content of HostRead::Introduction.
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
      const bool is_stored =
          checkpoint_.StoredLeafAt(one.leaf).second->layout != nullptr;
      if (!is_stored || IsEmpty(one.box)) {
        return DataLossError(who + ": wants a box that needs no reading");
      }
    }
    wanted.push_back(*std::move(list));
  }
  slots_ = MakeSlots(wanted);
  return Status();
}

Status HostRead::Plan() {
  uint64_t total_bytes = 0;
  const uint64_t memory_bytes = PhysicalMemoryBytes();
  for (const Slot& slot : slots_) {
    const uint64_t byte_count = MemoryBytesOf(slot.wanted);
    total_bytes += std::min(byte_count, memory_bytes + 1);
    if (total_bytes <= memory_bytes) continue;
    return ResourceExhaustedError(
        "read: what the ranks of this host want takes more memory than it has "
        "(got " +
        std::to_string(memory_bytes) + " bytes); read fewer leaves at a time");
  }
  MakeTargets();
  HF_ASSIGN_OR_RETURN(std::vector<PlannedChunk> chunks,
                      LocateChunks(targets_, run_));
  plan_ = MakeRestorePlan(std::move(chunks));
  MakeUnits();
  readers_ = DivideUnits(units_, slots_, rank_count_);
  memory_ = PlanMemory(slots_, units_, readers_, rank_count_, PageBytes());
  MakeHash();
  return Status();
}

void HostRead::MakeTargets() {
  for (size_t i = 0; i < slots_.size(); ++i) {
    const WantedBox& wanted = slots_[i].wanted;
    if (slots_[i].travel == Slot::Travel::kReceived) continue;
    const auto [item, leaf] = checkpoint_.StoredLeafAt(wanted.leaf);
    const bool is_whole =
        wanted.box.shape == leaf->layout->format.metadata.shape;
    targets_.push_back({item, leaf, is_whole ? Shape() : wanted.box.origin,
                        ViewAt(wanted, nullptr)});
    target_slots_.push_back(static_cast<uint32_t>(i));
  }
}

void HostRead::MakeUnits() {
  const std::vector<TargetGroup> groups = GroupTargets(targets_);
  for (const PlannedRead& read : plan_.reads) {
    ReadUnit& unit = units_.emplace_back();
    uint64_t& wanted_bytes = wanted_bytes_.emplace_back(0);
    for (size_t i = read.first; i < read.last; ++i) {
      const PlannedChunk& chunk = plan_.chunks[i];
      const TargetGroup& group = groups[chunk.target];
      const StoredLeaf& leaf = *targets_[group.first].leaf;
      unit.byte_count += StoredBytes(chunk, *leaf.layout);
      ForEachUse(targets_, group, chunk.box,
                 [&](const RestoreTarget& target, const Box& common) {
                   unit.slots.push_back(target_slots_[&target - &targets_[0]]);
                   wanted_bytes += BytesOf(common, leaf);
                 });
    }
    unit.byte_count += wanted_bytes;
    std::sort(unit.slots.begin(), unit.slots.end());
    unit.slots.erase(std::unique(unit.slots.begin(), unit.slots.end()),
                     unit.slots.end());
  }
}

// Hashes everything that the ranks must see alike and cannot compare otherwise.
void HostRead::MakeHash() {
  Xxh64 hash;
  const CheckpointInfo& info = checkpoint_.info();
  AddNumber(info.step.value_or(-1), hash);
  AddNumber(info.init_timestamp_ns.value_or(-1), hash);
  AddText(info.checkpoint_metadata, hash);
  for (const PlannedChunk& chunk : plan_.chunks) AddChunk(chunk, hash);
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
  for (const SegmentSizes& sizes : memory_.segments) {
    segments_.emplace_back().byte_count = sizes.exclusive_bytes;
    segments_.emplace_back().byte_count = sizes.common_bytes;
  }
  for (size_t kind = 0; kind < kSegmentKindCount; ++kind) {
    Segment& segment = segments_[rank_ * kSegmentKindCount + kind];
    if (segment.byte_count == 0) continue;
    HF_ASSIGN_OR_RETURN(
        NewSegment made,
        SharedSegment::Create(segment.byte_count, run_.executor()));
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

// By slot: true when this rank fills it.
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
          " has opened another checkpoint, or the same one otherwise, than "
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
  // No rank looks at it before all have stopped writing.
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
  const std::vector<bool> fills = SlotsToFill();
  for (size_t i = 0; i < targets_.size(); ++i) {
    const uint32_t slot = target_slots_[i];
    if (fills[slot]) targets_[i].view.data = FillAddress(slot);
  }
  std::vector<PlannedChunk> chunks;
  uint64_t wanted_bytes = 0;
  for (size_t i = 0; i < units_.size(); ++i) {
    if (readers_[i] != rank_) continue;
    wanted_bytes += wanted_bytes_[i];
    const PlannedRead& read = plan_.reads[i];
    std::move(plan_.chunks.begin() + read.first,
              plan_.chunks.begin() + read.last, std::back_inserter(chunks));
  }
  RestoreOptions options;
  options.wanted_bytes = wanted_bytes;
  return Restore(targets_, std::move(chunks), options, run_, stats);
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
