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

// ScanSteps for a Place.
Result<std::vector<ScannedStep>> ScanStepsIn(const Place& root,
                                             const ScanOptions& options);

// Sets everything except step and name, and leaves out steps that no longer
// exist. 0 threads: chosen by the number of steps.
Status DescribeSteps(const Place& root, const CommittedBy& rule,
                     int thread_count, std::vector<ScannedStep>& steps);

// CheckPathFinalized for a Place.
Result<bool> CheckPlaceFinalized(const Place& place, const CommittedBy& rule);

// The step's record for policies.
StepRecord RecordOf(const ScannedStep& step);

inline constexpr int64_t kNsASecond = 1'000'000'000;

}  // namespace holdfast
