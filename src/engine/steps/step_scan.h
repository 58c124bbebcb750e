// Reads what steps say about themselves, many at once.
//
// Thread-safety: pure functions of the file system. Units: nanoseconds.
// Errors: none for a step that cannot be read: it has the time of its
// directory, and no metrics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "holdfast/steps/steps.h"
#include "stores/place/place.h"

namespace holdfast {

// ScanSteps of a place.
Result<std::vector<ScannedStep>> ScanStepsIn(const Place& root,
                                             const ScanOptions& options);

// Fills in everything but step and name, and leaves out steps that are gone. 0
// threads: chosen by the number of steps.
Status DescribeSteps(const Place& root, const CommittedBy& rule,
                     int thread_count, std::vector<ScannedStep>& steps);

// CheckPathFinalized of a place.
Result<bool> CheckPlaceFinalized(const Place& place, const CommittedBy& rule);

// The record of it that policies see.
StepRecord RecordOf(const ScannedStep& step);

inline constexpr int64_t kNsASecond = 1'000'000'000;

}  // namespace holdfast
