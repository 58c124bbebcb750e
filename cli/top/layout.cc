#include "cli/top/layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/leaf_text.h"
#include "cli/top/cells.h"
#include "cli/top/model.h"
#include "cli/units.h"

namespace holdfast::cli::top {
namespace {

constexpr Size kSizeMin{.rows = 8, .columns = 40};
constexpr size_t kFrameRows = 3;  // the title, the message, the keys
constexpr size_t kMetricsMax = 3;
constexpr int64_t kSecond = 1'000'000'000;

// --- Numbers as short strings ---

// Returns "1.2G", "512", "12K": powers of 1024, at most 5 columns.
std::string ShortBytes(uint64_t bytes) {
  const char* unit = "\0KMGTPE";
  auto number = static_cast<double>(bytes);
  for (; number >= 999.5; number /= 1024) ++unit;
  char text[16];
  const bool is_small = *unit != '\0' && number < 9.95;
  std::snprintf(text, sizeof text, is_small ? "%.1f%c" : "%.0f%c", number,
                *unit);
  return text;
}

// Returns "12s", "3m", "5h", "300d". Returns the month for older times, and for
// times in the future.
std::string AgeText(int64_t then_ns, int64_t now_ns) {
  const int64_t seconds = (now_ns - then_ns) / kSecond;
  constexpr int64_t kMinute = 60, kHour = 3600, kDay = 86'400;
  if (seconds < 0 || seconds >= 365 * kDay)
    return IsoTime(then_ns).substr(0, 7);
  if (seconds < 2 * kMinute) return std::to_string(seconds) + "s";
  if (seconds < 2 * kHour) return std::to_string(seconds / kMinute) + "m";
  if (seconds < 2 * kDay) return std::to_string(seconds / kHour) + "h";
  return std::to_string(seconds / kDay) + "d";
}

std::string ShortNumber(double number) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", number);
  return text;
}

// Returns a share as "1.2%". A share below 0.01% or from 1000% on is printed as
// a number.
std::string ShareText(double share) {
  if (share == 0) return "0";
  if (std::isinf(share)) return "from 0";
  if (share < 1e-4 || share >= 10) return ShortNumber(share);
  char text[32];
  std::snprintf(text, sizeof text, share < 0.1 ? "%.2g%%" : "%.0f%%",
                share * 100);
  return text;
}

double Share(double moved_squares, double before_squares) {
  return moved_squares == 0 ? 0 : std::sqrt(moved_squares / before_squares);
}

// --- Lines ---

class Layout {
 public:
  Layout(const State& state, const LayoutOptions& options)
      : state_(state), options_(options), size_(options.size) {}

  Screen Run() {
    if (size_.rows < kSizeMin.rows || size_.columns < kSizeMin.columns) {
      return TooSmall();
    }
    Screen screen = {Title()};
    const size_t rows = size_.rows - kFrameRows;
    const std::vector<Line> left = Left(rows);
    if (LeftColumns() == size_.columns) {
      screen.insert(screen.end(), left.begin(), left.end());
      screen.push_back(Message());
      screen.push_back(Keys());
      return screen;
    }
    const std::vector<Line> right = Right(rows);
    for (size_t i = 0; i < rows; ++i) {
      Line line = left.empty() ? Line() : left[i];
      if (!left.empty()) line.push_back({Utf8("\u2502", "|"), Style::kDim});
      line.insert(line.end(), right[i].begin(), right[i].end());
      screen.push_back(std::move(line));
    }
    screen.push_back(Message());
    screen.push_back(Keys());
    return screen;
  }

 private:
  const char* Utf8(const char* text, const char* ascii) const {
    return options_.utf8 ? text : ascii;
  }
  std::string Safe(std::string_view text) const {
    return SafeText(text, options_.utf8);
  }
  std::string Fit(std::string_view safe, size_t columns,
                  Align align = Align::kLeft) const {
    return Fitted(safe, columns, options_.utf8, align);
  }
  std::string FitRight(std::string_view safe, size_t columns) const {
    return Fit(safe, columns, Align::kRight);
  }
  Screen TooSmall() const {
    Screen screen(size_.rows, Line{{std::string(size_.columns, ' ')}});
    if (!screen.empty()) {
      screen[0] = {{Fit("want 40 columns, 8 rows", size_.columns)}};
    }
    return screen;
  }

  bool HasSteps() const { return state_.is_root; }
  size_t LeftColumns() const {
    if (!HasSteps()) return 0;
    // If there is no room for two panes, only the pane with the focus is shown.
    if (size_.columns < 64) {
      return state_.pane == Pane::kSteps ? size_.columns : 0;
    }
    return size_.columns >= 110 ? 36 : 24;
  }
  size_t RightColumns() const {
    const size_t left = LeftColumns();
    return left == 0 ? size_.columns : size_.columns - left - 1;
  }

  Line Title() const {
    std::string text = " holdfast top " + state_.path;
    std::string what;
    if (state_.opened != nullptr) {
      const CheckpointInfo& info = state_.opened->checkpoint->info();
      const ModuleNode& root = state_.opened->tree.nodes[0];
      if (info.step) what = "step " + std::to_string(*info.step) + "  ";
      what += info.format + "  " + Counted(root.leaf_count, "leaf", "leaves") +
              "  " + HumanCount(root.parameter_count) + " params  " +
              HumanBytes(root.decoded_bytes) + " ";
    }
    what = Safe(what);
    const size_t room =
        size_.columns - std::min(size_.columns / 2 + 8, CellCount(what));
    return {
        {Fit(Safe(text), room) + Fit(what, size_.columns - room), Style::kBar}};
  }

  Line Message() const {
    std::string text = state_.message.empty() ? state_.warning : state_.message;
    Style style = state_.message_is_bad ? Style::kBad : Style::kPlain;
    if (state_.is_typing) {
      text = "/" + state_.search + "_";
      style = Style::kBold;
    }
    std::string right;
    if (const ProgressAnswer& at = state_.progress; !at.phase.empty()) {
      right = at.phase;
      if (at.total > 0) {
        right += " " + std::to_string(at.done * 100 / at.total) + "%";
      }
      right += " ";
    }
    const size_t room = std::min(size_.columns / 2, CellCount(Safe(right)));
    return {{Fit(" " + Safe(text), size_.columns - room), style},
            {Fit(Safe(right), room), Style::kDim}};
  }

  Line Keys() const {
    std::string keys =
        " Enter open  / search  n next  d diff  v verify  ? help"
        "  q quit";
    if (HasSteps()) keys = " Tab pane " + keys;
    return {{Beginning(keys, size_.columns), Style::kBar}};
  }

  // --- The steps ---

  struct Metric {
    std::string name;
    std::vector<double> values;  // one per step; NaN if missing
  };

  std::vector<Metric> Metrics() const {
    std::map<std::string, std::vector<double>> found;
    for (size_t i = 0; i < state_.steps.size(); ++i) {
      const auto parsed =
          nlohmann::json::parse(state_.steps[i].metrics, nullptr, false);
      if (!parsed.is_object()) continue;
      for (const auto& [name, value] : parsed.items()) {
        if (!value.is_number()) continue;
        auto& values = found[name];
        values.resize(state_.steps.size(), std::nan(""));
        values[i] = value.get<double>();
      }
    }
    std::vector<Metric> metrics;
    for (auto& [name, values] : found) {
      if (metrics.size() == kMetricsMax) break;
      metrics.push_back({name, std::move(values)});
    }
    return metrics;
  }

  const char* Level(double share) const {
    constexpr std::array<const char*, 8> kBlocks = {
        "\u2581", "\u2582", "\u2583", "\u2584",
        "\u2585", "\u2586", "\u2587", "\u2588"};
    constexpr std::array<const char*, 8> kAscii = {"_", ".", "-", "~",
                                                   "=", "+", "*", "#"};
    const auto level =
        static_cast<size_t>(std::clamp(share, 0.0, 1.0) * 7 + 0.5);
    return options_.utf8 ? kBlocks[level] : kAscii[level];
  }

  // Draws the newest values, as many as fit.
  std::string Sparkline(const std::vector<double>& values,
                        size_t columns) const {
    const size_t first = values.size() - std::min(values.size(), columns);
    double low = INFINITY, high = -INFINITY;
    for (size_t i = first; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) continue;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
    std::string line;
    for (size_t i = first; i < values.size(); ++i) {
      if (!std::isfinite(values[i])) {
        line += ' ';
      } else {
        line += Level(high > low ? (values[i] - low) / (high - low) : 0.5);
      }
    }
    return line;
  }

  Line MetricLine(const Metric& metric, size_t columns) const {
    std::string last = "-";
    for (const double value : metric.values) {
      if (!std::isnan(value)) last = ShortNumber(value);
    }
    const size_t name_columns = std::min<size_t>(columns / 3, 12);
    const size_t spark_columns = columns - name_columns - 11;
    return {{" " + Fit(Safe(metric.name), name_columns) + " "},
            {Fit(Sparkline(metric.values, spark_columns), spark_columns),
             Style::kGood},
            {FitRight(last, 8) + " "}};
  }

  // Returns the progress of the save's phase, over all ranks ("45%"), or the
  // phase if its size is unknown.
  static std::string LiveText(const LiveSave* save) {
    if (save == nullptr || save->ranks.empty()) return "open";
    uint64_t done = 0, total = 0;
    for (const LiveRank& rank : save->ranks) {
      done += rank.done_bytes;
      total += rank.total_bytes;
    }
    if (total == 0) return save->ranks[0].phase;
    const double share = static_cast<double>(done) / static_cast<double>(total);
    return std::to_string(static_cast<int>(100 * share)) + "%";
  }

  Line StepLine(size_t number, size_t columns) const {
    const StepInfo& step = state_.steps[number];
    const bool is_live = !step.committed;
    std::string age = "-";
    if (is_live) {
      age = LiveText(LiveAt(state_, step.path));
    } else if (step.commit_timestamp_ns) {
      age = AgeText(*step.commit_timestamp_ns, options_.now_ns);
    }
    const char* mark = step.path == state_.marked ? "*" : " ";
    if (!step.damage.empty()) mark = "!";
    const size_t name_columns = columns - 16;
    const std::string text = mark + FitRight(Safe(step.name), name_columns) +
                             " " + FitRight(ShortBytes(step.bytes), 5) + " " +
                             FitRight(age, 7) + " ";
    Style style = is_live ? Style::kLive : Style::kPlain;
    if (!step.damage.empty()) style = Style::kBad;
    if (number == state_.step) {
      style = state_.pane == Pane::kSteps ? Style::kSelected : Style::kBold;
    }
    return {{Fit(text, columns), style}};
  }

  std::vector<Line> Left(size_t rows) const {
    const size_t columns = LeftColumns();
    if (columns == 0) return {};
    std::vector<Line> lines = {
        {{Fit(" " + FitRight("STEP", columns - 16) + "  SIZE     AGE ",
              columns),
          Style::kDim}}};
    const std::vector<Metric> metrics = Metrics();
    const size_t step_rows = rows - 1 - std::min(rows / 2, metrics.size());
    const size_t first =
        FirstShown(state_.step, state_.steps.size(), step_rows);
    for (size_t i = first; i < state_.steps.size() && i < first + step_rows;
         ++i) {
      lines.push_back(StepLine(i, columns));
    }
    while (lines.size() < step_rows + 1) lines.push_back(Blank(columns));
    for (const Metric& metric : metrics) {
      if (lines.size() < rows) lines.push_back(MetricLine(metric, columns));
    }
    return lines;
  }

  static Line Blank(size_t columns) {
    return {{std::string(columns, ' '), Style::kPlain}};
  }

  // Returns the first row to show. The cursor is in the middle if there are
  // enough rows above and below it.
  static size_t FirstShown(size_t at, size_t count, size_t rows) {
    if (count <= rows) return 0;
    return std::min(at - std::min(at, rows / 2), count - rows);
  }

  // --- The tree ---

  std::vector<Line> Right(size_t rows) const {
    std::vector<Line> lines;
    if (state_.page == Page::kHelp) {
      lines = HelpLines();
    } else if (state_.page == Page::kTensor) {
      lines = TensorLines(rows);
    } else if (state_.page == Page::kText) {
      lines = TextLines(state_.lines, state_.scroll);
    } else {
      lines = TreeLines(rows);
    }
    lines.resize(rows, Blank(RightColumns()));
    return lines;
  }

  // A column to the right of the names.
  struct Column {
    const char* title;
    size_t columns;
  };
  bool HasTypes() const { return RightColumns() >= 75; }

  std::string Cells(const std::array<std::string, 5>& cells) const {
    std::string text;
    if (HasTypes()) text += " " + Fit(cells[0], 18);
    text += " " + FitRight(cells[1], 6) + " " + FitRight(cells[2], 5) + " " +
            FitRight(cells[3], 8) + " " + FitRight(cells[4], 7) + " ";
    return text;
  }

  std::vector<Line> TreeLines(size_t rows) const {
    const size_t columns = RightColumns();
    const std::string titles =
        Cells({"TYPE", "PARAMS", "BYTES", "NORM", "DRIFT"});
    std::vector<Line> lines = {
        {{Fit(" NAME", columns - titles.size()) + titles, Style::kDim}}};
    if (const std::vector<std::string> texts = LiveTexts(); !texts.empty()) {
      return TextLines(texts, 0);
    }
    if (state_.opened == nullptr) {
      if (!state_.message_is_bad) {
        lines.push_back({{Fit(" opening", columns), Style::kDim}});
      }
      return lines;
    }
    const size_t shown = rows - 1;
    const size_t first = FirstShown(state_.cursor, state_.rows.size(), shown);
    for (size_t i = first; i < state_.rows.size() && i < first + shown; ++i) {
      lines.push_back(TreeLine(i, columns));
    }
    return lines;
  }

  // Returns the texts about the selected step if it is not committed.
  std::vector<std::string> LiveTexts() const {
    if (state_.step >= state_.steps.size()) return {};
    const StepInfo& step = state_.steps[state_.step];
    if (step.committed) return {};
    std::vector<std::string> texts = {step.name, step.why_not, ""};
    const LiveSave* save = LiveAt(state_, step.path);
    if (save == nullptr) return texts;
    for (const LiveRank& rank : save->ranks) {
      std::string text = "rank " + std::to_string(rank.rank) + " of " +
                         std::to_string(rank.rank_count) + "  " + rank.host +
                         "  " + rank.phase + " " +
                         HumanSeconds(rank.phase_seconds);
      if (rank.total_bytes > 0) {
        text += "  " + HumanBytes(rank.done_bytes) + " of " +
                HumanBytes(rank.total_bytes);
      }
      if (rank.expected_seconds) {
        text += "  " + HumanSeconds(*rank.expected_seconds) + " to go";
      }
      texts.push_back(text);
      if (!rank.lag.empty()) texts.push_back("  lags: " + rank.lag);
    }
    return texts;
  }

  std::string NormText(size_t node) const {
    const NodeNumbers& numbers = state_.numbers[node];
    const size_t wanted = state_.opened->measurable_counts[node];
    if (wanted == 0) return "";
    if (numbers.measured_count < wanted) return Utf8("\u2026", "...");
    return ShortNumber(std::sqrt(numbers.squares));
  }

  Line TreeLine(size_t row, size_t columns) const {
    const auto& [node, depth] = state_.rows[row];
    const ModuleNode& at = state_.opened->tree.nodes[node];
    const NodeNumbers& numbers = state_.numbers[node];
    const char* sign = " ";
    if (!at.leaf) {
      const bool is_open =
          state_.expanded.contains(state_.opened->tree.NameOf(node));
      sign = is_open ? Utf8("\u25be", "-") : Utf8("\u25b8", "+");
    }
    std::string type;
    if (at.leaf) type = TypeText(state_.opened->checkpoint->leaves()[*at.leaf]);
    std::string drift;
    if (numbers.drift_count > 0) {
      drift = ShareText(Share(numbers.moved_squares, numbers.before_squares));
    }
    const bool is_bad = numbers.is_damaged || numbers.non_finite_count > 0;
    const std::string cells =
        Cells({Safe(type),
               at.parameter_count > 0 ? HumanCount(at.parameter_count) : "",
               ShortBytes(at.decoded_bytes), NormText(node), drift});
    const std::string name = std::string(is_bad ? "!" : " ") +
                             std::string(2 * std::min<size_t>(depth, 20), ' ') +
                             sign + " " + Safe(at.key);
    Style style = is_bad ? Style::kBad : Style::kPlain;
    if (row == state_.cursor) {
      style = state_.pane == Pane::kTree ? Style::kSelected : Style::kBold;
    }
    return {{Fit(name, columns - CellCount(cells)) + cells, style}};
  }

  // --- Other pages ---

  std::vector<Line> TextLines(const std::vector<std::string>& texts,
                              size_t first) const {
    std::vector<Line> lines;
    for (size_t i = first; i < texts.size(); ++i) {
      lines.push_back({{Beginning(" " + Safe(texts[i]), RightColumns())}});
    }
    return lines;
  }

  std::vector<Line> HelpLines() const {
    return TextLines(
        {"arrows, h j k l   move; left closes a module, right opens it",
         "PageUp, PageDown  a screen; Home, End, g, G: the ends",
         "Tab               the other pane",
         "Enter             open a module; of a tensor its values", "",
         "/                 search names while you type; Enter ends that",
         "n                 the next tensor that matches",
         "d                 what is different from the step before",
         "m                 in the steps: compare with this one instead",
         "v                 verify every byte of the step",
         "r                 look again",
         "Escape            back; stop what is being done",
         "q                 quit", "",
         "NORM is the l2 norm, DRIFT how far the tensor is from that",
         "of the step before, relative to it. ! marks a NaN, an",
         "infinity or damage."},
        0);
  }

  std::vector<std::string> TensorTexts(size_t histogram_rows) const {
    const LeafInfo& leaf = state_.opened->checkpoint->leaves()[state_.leaf];
    std::vector<std::string> texts = {leaf.name, SummaryText(leaf)};
    if (!leaf.codecs.empty()) {
      texts[1] += "  " + leaf.codecs + "  " +
                  Counted(leaf.chunk_count, "chunk", "chunks") + " of " +
                  ShapeText(leaf.chunk_shape);
    }
    if (!leaf.problem.ok()) texts.emplace_back(leaf.problem.message());
    const auto& drift = state_.drifts[state_.leaf];
    if (const auto& numbers = state_.tensors[state_.leaf]) {
      AddNumbers(*numbers, texts);
      if (drift) {
        texts.push_back("drift " +
                        ShareText(Share(drift->moved * drift->moved,
                                        drift->norm * drift->norm)) +
                        "  moved " + ShortNumber(drift->moved));
      }
      AddHistogram(*numbers, histogram_rows, texts);
    }
    texts.push_back("");
    for (const std::string_view line : Split(state_.values, '\n')) {
      texts.emplace_back(line);
    }
    return texts;
  }

  static void AddNumbers(const TensorNumbers& numbers,
                         std::vector<std::string>& texts) {
    if (!numbers.problem.empty()) return texts.push_back(numbers.problem);
    texts.push_back("min " + ShortNumber(numbers.min) + "  max " +
                    ShortNumber(numbers.max) + "  mean " +
                    ShortNumber(numbers.mean) + "  std " +
                    ShortNumber(numbers.std) + "  norm " +
                    ShortNumber(numbers.l2_norm));
    texts.push_back("zeros " + std::to_string(numbers.zero_count) + "  NaN " +
                    std::to_string(numbers.nan_count) + "  infinities " +
                    std::to_string(numbers.infinity_count));
  }

  // Returns the label at an end of the axis: "-2^3", "0", "2^-4".
  static std::string BinText(int bin, int exponent_min) {
    if (bin == 0) return "0";
    return (bin < 0 ? "-2^" : "2^") +
           std::to_string(std::abs(bin) - 1 + exponent_min);
  }

  void AddHistogram(const TensorNumbers& numbers, size_t rows,
                    std::vector<std::string>& texts) const {
    if (numbers.bins.empty()) return;
    const uint64_t most =
        *std::max_element(numbers.bins.begin(), numbers.bins.end());
    const size_t count = std::min(numbers.bins.size(), RightColumns() - 2);
    for (size_t row = rows; row-- > 0;) {
      std::string line;
      for (size_t i = 0; i < count; ++i) {
        const double height = static_cast<double>(rows) *
                              std::log1p(static_cast<double>(numbers.bins[i])) /
                              std::log1p(static_cast<double>(most));
        const double part = height - static_cast<double>(row);
        line += part <= 0 ? " " : Level((8 * part - 1) / 7);
      }
      texts.push_back(line);
    }
    constexpr int kExponentMin = -40;  // as in MagnitudeHistogram
    const int last =
        numbers.first_bin + static_cast<int>(numbers.bins.size()) - 1;
    texts.push_back("by sign and power of two, from " +
                    BinText(numbers.first_bin, kExponentMin) + " to " +
                    BinText(last, kExponentMin) + "; logarithmic");
  }

  std::vector<Line> TensorLines(size_t rows) const {
    if (state_.opened == nullptr) return {};
    return TextLines(TensorTexts(std::clamp<size_t>(rows / 4, 3, 12)),
                     state_.scroll);
  }

  const State& state_;
  const LayoutOptions& options_;
  const Size size_;
};

}  // namespace

Screen Lay(const State& state, const LayoutOptions& options) {
  return Layout(state, options).Run();
}

size_t PageRows(const Size& size) {
  return size.rows > kFrameRows + 2 ? size.rows - kFrameRows - 2 : 1;
}

}  // namespace holdfast::cli::top
