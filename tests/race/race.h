// Savers, pruners, cleaners and readers race for one root, and some of them
// die. A complete checkpoint must exist at every moment.
//
// A round ends after a number of saves, not after a time. Its seed determines
// everything except the order in which the system runs the parties.
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
  uint64_t died = 0;     // parties that died
  // Loads that failed, by error code.
  std::map<std::string, uint64_t> unread;
  uint64_t violations = 0;

  void Add(const RaceCounts& other);
  std::string ToString() const;
};

// Returns a tree whose arrays all contain `number`.
Tree TreeOfNumber(int64_t number);
// Returns the number that the tree's arrays contain, or -1 if values differ.
int64_t NumberOfTree(const Tree& tree);

// Runs a round of processes that race for one directory. Some are killed at
// their k-th call that touches files. Reports violations on stderr.
RaceCounts RaceOnDisk(uint64_t seed);
// Runs a round of threads that race for one bucket in memory. Each simulates a
// process. Some die at their k-th request.
RaceCounts RaceInBucket(uint64_t seed);

}  // namespace holdfast
