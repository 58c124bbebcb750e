// Metrics and traces: what this process has done for checkpoints so far, and
// how long each phase of it took.
//
//   std::cout << holdfast::MetricsText();           // OpenMetrics
//   holdfast::SetTraceFile("/tmp/trace-%p.json");   // for ui.perfetto.dev
//
// Counting is always on and costs less than a hundredth of a save or a load.
// HOLDFAST_METRICS=FILE writes MetricsText to the file, in one step, at the end
// of each save, load, conversion and copy, also when it fails (the textfile
// collector of Prometheus's node_exporter reads such files).
// HOLDFAST_TRACE=FILE is as SetTraceFile. In both names %p stands for the
// process and %r for its rank. Thread-safety: any thread. Units: seconds,
// bytes. Errors: a file that cannot be written is told of once on standard
// error, and fails no call.
#pragma once

#include <map>
#include <string>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// OpenMetrics 1.0, with "# EOF" at the end: counters of calls, failures,
// stalls, requests and bytes, and of each phase the seconds as a histogram.
std::string MetricsText();

// The same as numbers: "saves", "loads", "conversions", "copies", "failures",
// "stalls"; "requests", "attempts", "retries", "throttled", "hedges",
// "hedge_bytes", "connections", "sent_bytes", "received_bytes"; and of each
// phase that there was "<phase>_count", "<phase>_seconds", "<phase>_bytes".
std::map<std::string, double> GetMetrics();

// From here on phases go to this file, as a JSON trace of Chrome's format,
// whole after each call; what was there is replaced. "": no more. At most
// 262,144 phases a call, the last ones.
void SetTraceFile(const std::string& path);
// Flushes traces and metrics to their files. Every engine call flushes when it
// ends, and the command before it exits.
void FlushTrace();

}  // namespace holdfast
