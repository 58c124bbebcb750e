#!/usr/bin/env python3
"""Writes src/ground/tree/python_printable.cc: the code points that repr() escapes.

Run from the repository root. The table follows the Unicode version of the
Python that runs this script.
"""

import sys
import unicodedata

HEADER = """\
// Written by tools/make_python_printable.py (Unicode {version}); do not edit.
#include "ground/tree/python_printable.h"

#include <algorithm>
#include <iterator>

namespace holdfast {{
namespace {{

// First and last code point of each range that str.isprintable() refuses.
constexpr char32_t kUnprintable[][2] = {{
    // clang-format off
"""

FOOTER = """\
    // clang-format on
};

}  // namespace

bool IsPythonPrintable(char32_t code_point) {
  const auto* range = std::lower_bound(
      std::begin(kUnprintable), std::end(kUnprintable), code_point,
      [](const char32_t(&r)[2], char32_t c) { return r[1] < c; });
  return range == std::end(kUnprintable) || code_point < (*range)[0];
}

}  // namespace holdfast
"""


def unprintable_ranges():
    ranges = []
    for code_point in range(sys.maxunicode + 1):
        if chr(code_point).isprintable():
            continue
        if ranges and ranges[-1][1] == code_point - 1:
            ranges[-1][1] = code_point
        else:
            ranges.append([code_point, code_point])
    return ranges


def main():
    cells = [f"{{{a:#x}, {b:#x}}}," for a, b in unprintable_ranges()]
    lines, line = [], "   "
    for cell in cells:
        if len(line) + 1 + len(cell) > 80:
            lines.append(line)
            line = "   "
        line += " " + cell
    lines.append(line)
    with open("src/ground/tree/python_printable.cc", "w", encoding="ascii") as out:
        out.write(HEADER.format(version=unicodedata.unidata_version))
        out.write("\n".join(lines) + "\n")
        out.write(FOOTER)


if __name__ == "__main__":
    main()
