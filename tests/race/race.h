// Races of savers, pruners, cleaners and readers for one root, some of which
// die: one complete checkpoint must exist at every moment.
//
// A round is limited by the number of saves, not by time, and is determined by
// its seed except for the order in which the system runs the parties.
// Thread-safety: one thread calls. Units: none.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "holdfast/status.h"
#include "holdfast/tree.h"

namespace holdfast {

// The counts of one or more rounds.
struct RaceCounts {
  uint64_t rounds = 0;
  uint64_t saved = 0;    // acknowledged saves
  uint64_t refused = 0;  // saves that failed with an error
  uint64_t whole = 0;    // loads that returned one saver's values
  uint64_t died = 0;     // parties
  // Loads that failed, by error code.
  std::map<std::string, uint64_t> unread;
  uint64_t violations = 0;

  void Add(const RaceCounts& other);
  std::string ToString() const;
};

// A tree whose arrays all contain `number`.
Tree TreeOfNumber(int64_t number);
// The number that the complete tree contains; -1 if its values differ.
int64_t NumberOfTree(const Tree& tree);

// Processes race for one directory; they are killed at their k-th call that
// touches files. Reports violations on stderr.
RaceCounts RaceOnDisk(uint64_t seed);
// Threads, each simulating a process, race for one bucket in memory; they die
// at their k-th request.
RaceCounts RaceInBucket(uint64_t seed);

}  // namespace holdfast
