// Reads the metadata of many steps concurrently.
//
// Thread-safety: pure functions of the file system. Units: nanoseconds.
// Errors: none for a step that cannot be read: it gets the time of its
// directory, and no metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/steps/steps.h"
#include "stores/place/place.h"

namespace holdfast {

// Like ScanSteps, for a Place.
Result<std::vector<ScannedStep>> ScanStepsIn(const Place& root,
                                             const ScanOptions& options);

// Sets everything except step and name, and leaves out steps that no longer
// exist. A `thread_count` of 0 means that the number of steps decides.
Status DescribeSteps(const Place& root, const CommittedBy& rule,
                     int thread_count, std::vector<ScannedStep>& steps);

// Like CheckPathFinalized, for a Place.
Result<bool> CheckPlaceFinalized(const Place& place, const CommittedBy& rule);

// Returns the step's record for policies.
StepRecord RecordOf(const ScannedStep& step);

inline constexpr int64_t kNsASecond = 1'000'000'000;

}  // namespace holdfast
