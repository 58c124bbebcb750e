// The files that the environment asks for: the trace and the metrics.
//
// Thread-safety: any thread. Errors: said once on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/record/recorder.h"

namespace holdfast {

// Reads HOLDFAST_TRACE and HOLDFAST_METRICS, once a process. At the beginning
// of every call, and of work that is in none.
void PrepareOutputs();
// Both, as far as they are asked for. At the end of every call.
void WriteOutputs();
// The rank that %r stands for.
void SetOutputRank(int64_t rank);

// One event as a line of Chrome's JSON.
std::string TraceLine(const PhaseEvent& event, int64_t pid,
                      int64_t steady_to_system_ns);

}  // namespace holdfast
