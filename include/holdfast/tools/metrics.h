// Metrics and traces: what this process has done with checkpoints so far, and
// how long each phase took.
//
//   std::cout << holdfast::MetricsText();           // OpenMetrics
//   holdfast::SetTraceFile("/tmp/trace-%p.json");   // for ui.perfetto.dev
//
// Counting is always on; it takes less than 1 % of the time of a save or load.
// With HOLDFAST_METRICS=FILE in the environment, MetricsText is written to the
// file, atomically, at the end of each save, load, conversion and copy,
// including failed ones. (The textfile collector of Prometheus's node_exporter
// reads such files.) HOLDFAST_TRACE=FILE is like SetTraceFile. In both names,
// %p is replaced by the process id and %r by the rank.
// Thread-safety: any thread. Units: seconds, bytes.
// Errors: a file that cannot be written is reported once on standard error; no
// call fails because of it.
#pragma once

#include <map>
#include <string>

#include "holdfast/export.h"

namespace holdfast HOLDFAST_EXPORT {

// Returns the metrics as OpenMetrics 1.0, with "# EOF" at the end: counters for
// calls, failures, stalls, requests and bytes, and for each phase a histogram
// of seconds.
std::string MetricsText();

// Returns the metrics as a map: "saves", "loads", "conversions", "copies",
// "failures", "stalls"; "requests", "attempts", "retries", "throttled",
// "hedges", "hedge_bytes", "connections", "sent_bytes", "received_bytes"; and
// for each phase that has run "<phase>_count", "<phase>_seconds",
// "<phase>_bytes".
std::map<std::string, double> GetMetrics();

// Begins to write phases to this file, replacing its contents, as a JSON trace
// in Chrome's format that is complete after each call. "" stops tracing. Keeps
// at most the last 262,144 phases of a call.
void SetTraceFile(const std::string& path);
// Writes traces and metrics to their files. Every engine call does this when it
// ends, and the `holdfast` command before it exits.
void FlushTrace();

}  // namespace holdfast
