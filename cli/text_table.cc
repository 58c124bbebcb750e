#include "cli/text_table.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cli/units.h"

namespace holdfast::cli {
namespace {

// Below this width, names of layers look alike, so other columns are dropped
// before names get shorter.
constexpr size_t kShortenedColumns = 32;
constexpr size_t kShortestColumns = 16;

size_t LineColumns(const std::vector<size_t>& widths) {
  size_t line = 0;
  for (const size_t width : widths) {
    if (width > 0) line += width + (line > 0 ? 2 : 0);
  }
  return line;
}

bool IsShortened(Fit fit) {
  return fit == Fit::kShorten || fit == Fit::kShortenName;
}

std::string CellText(const std::string& cell, Fit fit, size_t width,
                     bool utf8) {
  if (fit == Fit::kShortenName) return ShortenedName(cell, width, utf8);
  if (fit == Fit::kShorten) return ShortenedText(cell, width, utf8);
  return cell;
}

}  // namespace

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

void TextTable::Print(const TableStyle& style, std::ostream& out) const {
  const std::vector<size_t> widths = FitWidths(style.columns_max);
  if (style.with_titles) {
    std::vector<std::string> titles;
    for (const TextColumn& column : columns_) titles.push_back(column.title);
    PrintRow(titles, widths, style.utf8, out);
  }
  for (const std::vector<std::string>& row : rows_) {
    PrintRow(row, widths, style.utf8, out);
  }
  if (style.with_titles) PrintDropped(widths, out);
}

std::vector<size_t> TextTable::FitWidths(size_t columns_max) const {
  if (columns_max == 0) return widths_;
  std::vector<size_t> widths = widths_;
  const auto shorten = [&](size_t width_max) {
    for (size_t i = 0; i < widths.size(); ++i) {
      if (!IsShortened(columns_[i].fit)) continue;
      widths[i] = std::min(widths[i], width_max);
    }
  };
  shorten(kShortenedColumns);
  size_t line = LineColumns(widths);
  for (size_t i = widths.size(); i-- > 0 && line > columns_max;) {
    if (columns_[i].fit != Fit::kDrop) continue;
    widths[i] = 0;
    line = LineColumns(widths);
  }
  if (line > columns_max) {
    shorten(kShortestColumns);
    line = LineColumns(widths);
  }
  // Give the remaining width to the shortened columns, in order.
  for (size_t i = 0; i < widths.size() && line < columns_max; ++i) {
    if (widths[i] == 0) continue;
    const size_t more = std::min(widths_[i] - widths[i], columns_max - line);
    widths[i] += more;
    line += more;
  }
  return widths;
}

void TextTable::PrintRow(const std::vector<std::string>& cells,
                         const std::vector<size_t>& widths, bool utf8,
                         std::ostream& out) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    if (!line.empty()) line += "  ";
    const std::string cell =
        CellText(cells[i], columns_[i].fit, widths[i], utf8);
    const std::string padding(widths[i] - TextWidth(cell), ' ');
    const bool right = columns_[i].align == Align::kRight;
    line += right ? padding + cell : cell + padding;
  }
  line.resize(line.find_last_not_of(' ') + 1);
  out << line << '\n';
}

void TextTable::PrintDropped(const std::vector<size_t>& widths,
                             std::ostream& out) const {
  std::string titles;
  for (size_t i = 0; i < widths.size(); ++i) {
    if (widths[i] > 0 || widths_[i] == 0) continue;
    titles += (titles.empty() ? "" : ", ") + columns_[i].title;
  }
  if (!titles.empty()) out << "(--wide shows " << titles << ")\n";
}

}  // namespace holdfast::cli
