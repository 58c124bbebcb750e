// Preemption: a signal that says that the machine is about to be taken away.
//
//   holdfast::WatchForPreemption();   // SIGTERM no longer ends the process
//   options.reached_preemption = [](int64_t) {
//     return holdfast::PreemptionSignalled(); };
//
// The previous handler is called as well, unless it was the default, which
// would end the process.
// Thread-safety: any thread.
// Errors: InvalidArgument for a signal that cannot be caught.
#pragma once

#include <csignal>

#include "holdfast/export.h"
#include "holdfast/status.h"

namespace holdfast HOLDFAST_EXPORT {

// From now on the signal is recorded. A second call for the same signal does
// nothing.
Status WatchForPreemption(int signal_number = SIGTERM);
// True when a signal has arrived since then, or NotePreemption was called.
bool PreemptionSignalled();
// For sources other than signals, and for tests.
void NotePreemption();
void ForgetPreemption();

}  // namespace holdfast
