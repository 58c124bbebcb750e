// The state of `holdfast top`, its requests to its worker, and the worker's
// answers.
//
// Thread-safety: values; what they share is immutable.
// Units: bytes, elements, nanoseconds since 1970-01-01 UTC.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/tools/module_tree.h"
#include "holdfast/tools/watch.h"

namespace holdfast::cli::top {

struct Opened {
  std::shared_ptr<const Checkpoint> checkpoint;
  ModuleTree tree;
  std::vector<size_t> node_of_leaf;
  // For each node, the number of its leaves that have numeric elements.
  std::vector<size_t> measurable_counts;
};
std::shared_ptr<const Opened> MakeOpened(std::shared_ptr<const Checkpoint> it);

// The statistics of a tensor.
struct TensorNumbers {
  size_t leaf = 0;
  double min = 0, max = 0, mean = 0, std = 0, l2_norm = 0;
  uint64_t zero_count = 0, nan_count = 0, infinity_count = 0;
  // The bins of a MagnitudeHistogram, without empty bins at the ends.
  int first_bin = 0;  // 0: the zeros
  std::vector<uint64_t> bins;
  std::string problem;
};

struct TensorDrift {
  size_t leaf = 0;
  double moved = 0, norm = 0;  // as LeafDrift
};

// --- Requests to the worker ---

enum class AskKind : uint8_t {
  kList,    // the steps of `path`
  kFirst,   // opens `path`, unless it turns out to be a root
  kOpen,    // opens `path`; then measures it, and its drift since `other`
  kValues,  // values of `leaf` of the open checkpoint
  kDiff,    // compares the open checkpoint with `other`
  kVerify,  // `path`
  kCancel,  // the current job; measuring then continues
};
struct Ask {
  AskKind kind = AskKind::kList;
  std::string path;
  std::string other;  // "" if absent
  size_t leaf = 0;
};

// --- Answers from the worker ---

struct StepsAnswer {
  Status status;
  std::vector<StepInfo> steps;
  std::vector<LiveSave> live;
};
// The answer to AskKind::kFirst if the path is a root of steps.
struct RootAnswer {
  std::string path;
};
struct OpenedAnswer {
  std::string path;
  Status status;
  std::shared_ptr<const Opened> opened;
};
struct NumbersAnswer {
  std::string path;
  std::vector<TensorNumbers> tensors;
};
struct DriftAnswer {
  std::string path;
  std::string since;
  std::vector<TensorDrift> tensors;
};
struct ValuesAnswer {
  std::string path;
  size_t leaf = 0;
  std::string text;
};
// An answer shown as lines of text.
struct TextAnswer {
  std::string title;
  Status status;
  std::vector<std::string> lines;
  bool is_bad = false;
  std::vector<size_t> damaged_leaves;
  std::string path;
};
struct ProgressAnswer {
  std::string phase;  // "" when idle
  uint64_t done = 0;
  uint64_t total = 0;
};
using Answer =
    std::variant<StepsAnswer, RootAnswer, OpenedAnswer, NumbersAnswer,
                 DriftAnswer, ValuesAnswer, TextAnswer, ProgressAnswer>;

// --- The state itself ---

// The numbers of a tree node, summed over its leaves.
struct NodeNumbers {
  size_t measured_count = 0;
  double squares = 0;
  uint64_t non_finite_count = 0;
  size_t drift_count = 0;
  double moved_squares = 0;
  double before_squares = 0;
  bool is_damaged = false;
};

struct Row {
  size_t node = 0;
  size_t depth = 0;
};

enum class Pane : uint8_t { kSteps, kTree };
enum class Page : uint8_t { kTree, kTensor, kText, kHelp };

struct State {
  std::string path;  // as it was typed
  bool is_root = false;
  bool follows = false;  // --watch
  Pane pane = Pane::kTree;
  Page page = Page::kTree;

  std::vector<StepInfo> steps;
  std::vector<LiveSave> live;
  size_t step = 0;     // the selected one
  std::string marked;  // path of the step to compare with; "": one before

  std::string wanted;                    // path that is open or being opened
  std::shared_ptr<const Opened> opened;  // null until something is open
  std::string since;                     // path that drift is measured from
  std::vector<NodeNumbers> numbers;      // by node
  std::vector<std::optional<TensorNumbers>> tensors;  // by leaf
  std::vector<std::optional<TensorDrift>> drifts;     // by leaf
  std::set<std::string> expanded;                     // names of modules
  std::vector<Row> rows;
  size_t cursor = 0;  // of rows

  size_t leaf = 0;  // of Page::kTensor
  std::string values;
  std::string title;  // of Page::kText
  std::vector<std::string> lines;
  size_t scroll = 0;

  bool is_typing = false;
  std::string search;
  std::string warning;  // shown when there is no message
  std::string message;
  bool message_is_bad = false;
  ProgressAnswer progress;
  bool is_over = false;
};

}  // namespace holdfast::cli::top
