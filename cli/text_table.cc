#include "cli/text_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cli/units.h"

namespace holdfast::cli {

TextTable::TextTable(std::vector<TextColumn> columns)
    : columns_(std::move(columns)) {
  for (const TextColumn& column : columns_) {
    widths_.push_back(TextWidth(column.title));
  }
}

void TextTable::AddRow(std::vector<std::string> cells) {
  assert(cells.size() == columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    widths_[i] = std::max(widths_[i], TextWidth(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

void TextTable::Print(bool with_titles, std::ostream& out) const {
  if (with_titles) {
    std::vector<std::string> titles;
    for (const TextColumn& column : columns_) titles.push_back(column.title);
    PrintRow(titles, out);
  }
  for (const std::vector<std::string>& row : rows_) PrintRow(row, out);
}

void TextTable::PrintRow(const std::vector<std::string>& cells,
                         std::ostream& out) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line += "  ";
    const std::string padding(widths_[i] - TextWidth(cells[i]), ' ');
    const bool right = columns_[i].align == Align::kRight;
    line += right ? padding + cells[i] : cells[i] + padding;
  }
  line.resize(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

}  // namespace holdfast::cli
