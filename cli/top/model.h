// How the state of `holdfast top` changes: by keys and by the worker's answers.
//
// Thread-safety: pure functions of their arguments.
#pragma once

#include <string>
#include <vector>

#include "cli/top/screen.h"
#include "cli/top/state.h"

namespace holdfast::cli::top {

// `is_root`: `path` is known to have steps; otherwise the worker finds out.
State NewState(const std::string& path, bool is_root, bool follows);
// The first questions to the worker.
std::vector<Ask> FirstAsks(const State& state);
// `page_rows`: how far PageDown goes. Returns what the worker is to do.
std::vector<Ask> OnKey(State& state, Key key, size_t page_rows);
std::vector<Ask> OnAnswer(State& state, const Answer& answer);

// The step that the opened one is compared with: the marked one, else the
// committed one before it; "" without one.
std::string ComparedWith(const State& state);
// The save under way that writes to `path`, or commits there; null: none.
const LiveSave* LiveAt(const State& state, const std::string& path);

}  // namespace holdfast::cli::top
