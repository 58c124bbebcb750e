// TextTable: prints rows of cells as aligned columns, within the width of the
// terminal, if any.
//
// Thread-safety: one thread at a time.
// Units: columns of text, one per code point.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace holdfast::cli {

enum class Align : uint8_t { kLeft, kRight };

// How a column shrinks when a line is wider than the terminal.
enum class Fit : uint8_t {
  kWhole,
  kShorten,      // cells lose their middle
  kShortenName,  // for names of leaves: first the ends of keys, then the middle
  kDrop,         // the last such column is dropped first
};

struct TextColumn {
  std::string title;
  Align align = Align::kLeft;
  Fit fit = Fit::kWhole;
};

struct TableStyle {
  bool with_titles = true;
  size_t columns_max = 0;  // 0: as wide as necessary
  bool utf8 = true;        // the ellipsis is one code point
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);

  // REQUIRES: `cells` has one cell for each column.
  void AddRow(std::vector<std::string> cells);
  // Prints the table, with two spaces between columns and none at the end of a
  // line. If titles are printed, a line below the rows says which columns were
  // dropped.
  void Print(const TableStyle& style, std::ostream& out) const;

 private:
  // Returns the width of each column; 0 for a dropped column.
  std::vector<size_t> FitWidths(size_t columns_max) const;
  void PrintRow(const std::vector<std::string>& cells,
                const std::vector<size_t>& widths, bool utf8,
                std::ostream& out) const;
  void PrintDropped(const std::vector<size_t>& widths, std::ostream& out) const;

  std::vector<TextColumn> columns_;
  std::vector<size_t> widths_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace holdfast::cli
