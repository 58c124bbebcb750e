// Watches for preemption: a signal says that the machine is about to be taken
// away.
//
//   holdfast::WatchForPreemption();   // SIGTERM no longer ends the process
//   options.reached_preemption = [](int64_t) {
//     return holdfast::PreemptionSignalled(); };
//
// The previous signal handler is also called, unless it was the default
// handler, which would end the process.
// Thread-safety: any thread.
// Errors: InvalidArgument for a signal that cannot be caught.
#pragma once

#include <csignal>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// Begins to record the signal. A second call for the same signal does nothing.
Status WatchForPreemption(int signal_number = SIGTERM);
// Returns true if a watched signal has arrived, or NotePreemption was called.
bool PreemptionSignalled();
// Set and clear the result of PreemptionSignalled, for other sources than
// signals and for tests.
void NotePreemption();
void ForgetPreemption();

}  // namespace holdfast
