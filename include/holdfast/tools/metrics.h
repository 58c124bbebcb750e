// Metrics and traces: what this process has done with checkpoints so far, and
// how long each phase took.
//
//   std::cout << holdfast::MetricsText();           // OpenMetrics
//   holdfast::SetTraceFile("/tmp/trace-%p.json");   // for ui.perfetto.dev
//
// Counting is always on and costs less than a hundredth of a save or load.
// HOLDFAST_METRICS=FILE writes MetricsText to the file atomically at the end of
// each save, load, conversion and copy, including failed ones (the textfile
// collector of Prometheus's node_exporter reads such files).
// HOLDFAST_TRACE=FILE is like SetTraceFile. In both names, %p stands for the
// process id and %r for the rank.
// Thread-safety: any thread. Units: seconds, bytes.
// Errors: a file that cannot be written is reported once on standard error, and
// fails no call.
#pragma once

#include <map>
#include <string>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// OpenMetrics 1.0, with "# EOF" at the end: counters for calls, failures,
// stalls, requests and bytes, and for each phase a histogram of seconds.
std::string MetricsText();

// The same as a map: "saves", "loads", "conversions", "copies", "failures",
// "stalls"; "requests", "attempts", "retries", "throttled", "hedges",
// "hedge_bytes", "connections", "sent_bytes", "received_bytes"; and for each
// phase that has run "<phase>_count", "<phase>_seconds", "<phase>_bytes".
std::map<std::string, double> GetMetrics();

// From now on phases are written to this file, as a JSON trace in Chrome's
// format that is complete after each call; existing contents are replaced. ""
// stops tracing. Keeps at most the last 262,144 phases of a call.
void SetTraceFile(const std::string& path);
// Writes traces and metrics to their files. Every engine call does so when it
// ends, and the command before it exits.
void FlushTrace();

}  // namespace holdfast
