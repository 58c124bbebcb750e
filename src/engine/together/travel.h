// The exchange between hosts: if several hosts want the same box, one of them
// reads it and sends it to the others through the group, in pieces.
//
// Thread-safety: values and stateless functions; one thread per group. Units:
// bytes; hosts by index.
// Errors: those of the group; DataLoss for an answer of the wrong size.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/together/host_plan.h"
#include "holdfast/process_group.h"

namespace holdfast {

struct Trip {
  WantedBox wanted;
  std::vector<uint32_t> hosts;  // hosts that want it, ascending
  uint32_t reader = 0;          // one of them
};

// Returns a trip for each box that several hosts want. `wanted` is by host,
// with each box once. Trips between the same hosts are adjacent.
std::vector<Trip> PlanTrips(const std::vector<std::vector<WantedBox>>& wanted);

// Sets Slot::travel in the slots of `host`, and adds the host's rank 0 to the
// ranks of the slots that travel. REQUIRES: `host` wanted exactly these slots.
void MarkTravel(const std::vector<Trip>& trips, uint32_t host,
                std::vector<Slot>& slots);
// Encodes Slot::travel, one byte per slot, for rank 0 of a host to send to the
// host's other ranks.
std::string EncodeTravel(const std::vector<Slot>& slots);
Status DecodeTravel(std::string_view bytes, std::vector<Slot>& slots);

// Returns the memory of a box that this host reads or will receive.
using TripMemoryFn = std::function<char*(const WantedBox& wanted)>;

// Makes all trips, in messages of at most `message_bytes_max`. Every rank of
// `leaders`, one per host, must call it.
Status MakeTrips(const std::vector<Trip>& trips, ProcessGroup& leaders,
                 const Meeting& meeting, uint64_t message_bytes_max,
                 const TripMemoryFn& memory);

}  // namespace holdfast
