// Changes the state of `holdfast top` on keys and on the worker's answers.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "cli/top/screen.h"
#include "cli/top/state.h"

namespace holdfast::cli::top {

// With `is_root`, `path` is known to have steps; otherwise the worker finds
// out.
State NewState(const std::string& path, bool is_root, bool follows);
// The first requests to the worker.
std::vector<Ask> FirstAsks(const State& state);
// `page_rows` is how far PageDown moves. Returns requests for the worker.
std::vector<Ask> OnKey(State& state, Key key, size_t page_rows);
std::vector<Ask> OnAnswer(State& state, const Answer& answer);

// The step that the opened one is compared with: the marked one, else the
// committed step before it; "" if neither exists.
std::string ComparedWith(const State& state);
// The save in progress that writes to `path`, or commits there; null without
// one.
const LiveSave* LiveAt(const State& state, const std::string& path);

}  // namespace holdfast::cli::top
