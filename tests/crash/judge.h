// JudgeRoot and StateJudge check that the steps below a root are what a
// scenario allows at a given moment: each step is complete, in its old or new
// state, and nothing else is listed.
//
// Thread-safety: one thread. Ownership: borrows the scenario.
// Errors: strings that say what is wrong.
#pragma once

#include <map>
#include <string>

#include "crash/scenarios.h"
#include "tools/powerloss/disk_mirror.h"

namespace holdfast {

enum class Moment : uint8_t {
  kBefore,     // nothing has begun
  kUnderway,   // each step is in its state before or after the call
  kCompleted,  // the call has returned
  kResumed,    // a call after a crash or a failure has returned
};

// Loads all steps on the disk and returns what is wrong, or "". If a step is
// missing, tries the scenario's recovery first.
std::string JudgeRoot(const Scenario& scenario, const std::string& root,
                      Moment moment);

// Judges states of the disk model in the same way. Loads steps with equal files
// only once.
class StateJudge {
 public:
  explicit StateJudge(const Scenario& scenario) : scenario_(scenario) {}

  std::string Check(const Files& files, Moment moment);
  uint64_t load_count() const { return contents_.size(); }

 private:
  std::string CheckNewest(const std::string& found, const Files& files);
  std::string ContentOf(const std::string& step, const Files& files);

  const Scenario& scenario_;
  DiskMirror mirror_;
  std::map<std::pair<uint64_t, uint64_t>, std::string> contents_;
  std::map<std::string, std::string> newest_;
};

}  // namespace holdfast
