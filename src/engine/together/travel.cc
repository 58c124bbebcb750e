#include "engine/together/travel.h"

#include <algorithm>
#include <cstring>

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

void MarkSlot(Slot& slot, Slot::Travel travel) {
  slot.travel = travel;
  const bool is_new = travel != Slot::Travel::kNone && slot.ranks.front() != 0;
  if (is_new) slot.ranks.insert(slot.ranks.begin(), 0);
}

Status MoveBox(const Trip& trip, ProcessGroup& members, int64_t root,
               const Meeting& meeting, uint64_t message_bytes_max,
               char* memory) {
  const uint64_t byte_count = MemoryBytesOf(trip.wanted);
  for (uint64_t done = 0; done < byte_count;) {
    const uint64_t piece_bytes = std::min(message_bytes_max, byte_count - done);
    const bool is_sender = members.rank() == root;
    HF_ASSIGN_OR_RETURN(
        const std::string piece,
        members.Broadcast(meeting, root,
                          is_sender ? std::string(memory + done, piece_bytes)
                                    : std::string()));
    if (piece.size() != piece_bytes) {
      return DataLossError("a piece from another host has another size (got " +
                           std::to_string(piece.size()) + " bytes, want " +
                           std::to_string(piece_bytes) + ")");
    }
    if (!is_sender) std::memcpy(memory + done, piece.data(), piece_bytes);
    done += piece_bytes;
  }
  return Status();
}

}  // namespace

std::vector<Trip> PlanTrips(const std::vector<std::vector<WantedBox>>& wanted) {
  std::vector<Trip> trips;
  std::vector<uint64_t> loads(wanted.size(), 0);
  for (Slot& slot : MakeSlots(wanted)) {
    if (slot.ranks.size() == 1) continue;
    const uint32_t reader = *std::min_element(
        slot.ranks.begin(), slot.ranks.end(),
        [&](uint32_t a, uint32_t b) { return loads[a] < loads[b]; });
    loads[reader] += MemoryBytesOf(slot.wanted);
    trips.push_back({std::move(slot.wanted), std::move(slot.ranks), reader});
  }
  // Trips between the same hosts are adjacent, so that each set of hosts makes
  // its group only once. All hosts use one order, so they cannot wait for each
  // other in a cycle.
  std::stable_sort(
      trips.begin(), trips.end(),
      [](const Trip& a, const Trip& b) { return a.hosts < b.hosts; });
  return trips;
}

void MarkTravel(const std::vector<Trip>& trips, uint32_t host,
                std::vector<Slot>& slots) {
  for (const Trip& trip : trips) {
    if (!std::binary_search(trip.hosts.begin(), trip.hosts.end(), host)) {
      continue;
    }
    MarkSlot(
        slots[FindSlot(slots, trip.wanted)],
        trip.reader == host ? Slot::Travel::kSent : Slot::Travel::kReceived);
  }
}

std::string EncodeTravel(const std::vector<Slot>& slots) {
  std::string bytes;
  bytes.reserve(slots.size());
  for (const Slot& slot : slots) bytes += static_cast<char>(slot.travel);
  return bytes;
}

Status DecodeTravel(std::string_view bytes, std::vector<Slot>& slots) {
  const bool is_valid =
      bytes.size() == slots.size() &&
      std::all_of(bytes.begin(), bytes.end(), [](char c) {
        return c >= 0 && c <= static_cast<char>(Slot::Travel::kReceived);
      });
  if (!is_valid) {
    return DataLossError("the marks of what travels between hosts are damaged");
  }
  for (size_t i = 0; i < slots.size(); ++i) {
    MarkSlot(slots[i], static_cast<Slot::Travel>(bytes[i]));
  }
  return Status();
}

Status MakeTrips(const std::vector<Trip>& trips, ProcessGroup& leaders,
                 const Meeting& meeting, uint64_t message_bytes_max,
                 const TripMemoryFn& memory) {
  const auto me = static_cast<uint32_t>(leaders.rank());
  std::unique_ptr<ProcessGroup> members;  // of the current trip
  size_t group_count = 0;
  for (size_t i = 0; i < trips.size(); ++i) {
    const Trip& trip = trips[i];
    const auto& hosts = trip.hosts;
    const bool is_new_group = i == 0 || trips[i - 1].hosts != hosts;
    if (is_new_group) ++group_count;
    if (!std::binary_search(hosts.begin(), hosts.end(), me)) continue;
    if (is_new_group) {
      members = leaders.Subgroup({hosts.begin(), hosts.end()},
                                 "boxes " + std::to_string(group_count));
    }
    const int64_t root =
        std::lower_bound(hosts.begin(), hosts.end(), trip.reader) -
        hosts.begin();
    HF_RETURN_IF_ERROR(MoveBox(trip, *members, root, meeting, message_bytes_max,
                               memory(trip.wanted)));
  }
  return Status();
}

}  // namespace holdfast
