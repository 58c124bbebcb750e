// Changes the state of `holdfast top` when a key is pressed or the worker
// answers.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "cli/top/screen.h"
#include "cli/top/state.h"

namespace holdfast::cli::top {

// Returns the state at the start. With `is_root`, `path` is known to have
// steps; otherwise the worker finds out.
State NewState(const std::string& path, bool is_root, bool follows);
// Returns the first requests to the worker.
std::vector<Ask> FirstAsks(const State& state);
// Both return requests for the worker. PageDown moves by `page_rows`.
std::vector<Ask> OnKey(State& state, Key key, size_t page_rows);
std::vector<Ask> OnAnswer(State& state, const Answer& answer);

// Returns the path of the step that the opened step is compared with: the
// marked step, else the committed step before the opened one, else "".
std::string ComparedWith(const State& state);
// Returns the save in progress that writes or commits to `path`, or null
// without such a save.
const LiveSave* LiveAt(const State& state, const std::string& path);

}  // namespace holdfast::cli::top
