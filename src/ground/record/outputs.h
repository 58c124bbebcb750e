// The output files that the environment requests: the trace and the metrics.
//
// Thread-safety: any thread. Errors: reported once on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/record/recorder.h"

namespace holdfast {

// Reads HOLDFAST_TRACE and HOLDFAST_METRICS, once per process. Called at the
// beginning of every call, and of work outside any call.
void PrepareOutputs();
// Writes the requested files. Called at the end of every call.
void WriteOutputs();
// Sets the rank that replaces %r.
void SetOutputRank(int64_t rank);

// Returns one event as a line of Chrome's trace JSON.
std::string TraceLine(const PhaseEvent& event, int64_t pid,
                      int64_t steady_to_system_ns);

}  // namespace holdfast
