// Lays out the state of `holdfast top` as the lines of a screen of any size.
//
// Thread-safety: pure functions.
// Units: rows and columns; nanoseconds since 1970-01-01 UTC.
#pragma once

#include <cstdint>

#include "cli/top/screen.h"
#include "cli/top/state.h"

namespace holdfast::cli::top {

struct LayoutOptions {
  Size size;
  bool utf8 = true;
  int64_t now_ns = 0;
};

// Returns exactly size.rows lines of size.columns columns each.
Screen Lay(const State& state, const LayoutOptions& options);
// Returns how many rows of the tree, or steps, fit on a screen of this size.
size_t PageRows(const Size& size);

}  // namespace holdfast::cli::top
