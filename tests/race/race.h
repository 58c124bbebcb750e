// Races of savers, pruners, cleaners and readers for one root, some of which
// die: always one whole checkpoint is there.
//
// A round is bounded by the number of saves, not by time, and follows from its
// seed, but for the order in which the system lets the parties run.
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
  uint64_t saved = 0;    // saves that were acknowledged
  uint64_t refused = 0;  // and those that failed, in words
  uint64_t whole = 0;    // loads that gave what one saver wrote
  uint64_t died = 0;     // parties
  // Loads that gave an error, by its code.
  std::map<std::string, uint64_t> unread;
  uint64_t violations = 0;

  void Add(const RaceCounts& other);
  std::string ToString() const;
};

// Arrays that all say `number`.
Tree TreeOfNumber(int64_t number);
// The number that all of a tree says; -1 when it does not agree with itself.
int64_t NumberOfTree(const Tree& tree);

// Processes race for one directory; they are killed at their k-th call that
// touches files. Tells violations on stderr.
RaceCounts RaceOnDisk(uint64_t seed);
// Threads, each of which stands for a process, race for one bucket in memory;
// they die at their k-th request.
RaceCounts RaceInBucket(uint64_t seed);

}  // namespace holdfast
