// TextTable: rows of cells printed as aligned columns.
//
// Thread-safety: one thread at a time.
// Units: columns of text, one a code point.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast::cli {

enum class Align : uint8_t { kLeft, kRight };

struct TextColumn {
  std::string title;
  Align align = Align::kLeft;
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);

  // REQUIRES: as many cells as columns.
  void AddRow(std::vector<std::string> cells);
  // Two spaces between columns, none at the end of a line.
  void Print(bool with_titles, std::ostream& out) const;

 private:
  void PrintRow(const std::vector<std::string>& cells, std::ostream& out) const;

  std::vector<TextColumn> columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace holdfast::cli
