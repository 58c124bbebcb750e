// The exchange between hosts: boxes that several of them want are read by one,
// and sent to the others through the group, in pieces.
//
// Thread-safety: values and functions without state of their own; one thread a
// group. Units: bytes; hosts by their number.
// Errors: those of the group; DataLoss for an answer of another size.
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
  std::vector<uint32_t> hosts;  // that want it, ascending
  uint32_t reader = 0;          // one of them
};

// `wanted` by host, each box once. Those of equal hosts are neighbours.
std::vector<Trip> PlanTrips(const std::vector<std::vector<WantedBox>>& wanted);

// Sets Slot::travel of the slots of `host`, and adds its rank 0 to the slots
// that travel. REQUIRES: `host` wanted exactly these slots.
void MarkTravel(const std::vector<Trip>& trips, uint32_t host,
                std::vector<Slot>& slots);
// The marks, a byte a slot, as rank 0 of a host tells the others.
std::string EncodeTravel(const std::vector<Slot>& slots);
Status DecodeTravel(std::string_view bytes, std::vector<Slot>& slots);

// Gives the memory of a box that this host reads, or is to receive.
using TripMemoryFn = std::function<char*(const WantedBox& wanted)>;

// Moves all of them, in messages of at most `message_bytes_max`. Every rank of
// `leaders`, one a host, calls it.
Status MakeTrips(const std::vector<Trip>& trips, ProcessGroup& leaders,
                 const Meeting& meeting, uint64_t message_bytes_max,
                 const TripMemoryFn& memory);

}  // namespace holdfast
