#include "cli/top/model.h"

#include <algorithm>
#include <cctype>
#include <utility>

namespace holdfast::cli::top {
namespace {

const ModuleTree& TreeOf(const State& state) { return state.opened->tree; }

void Say(State& state, std::string_view message, bool is_bad = false) {
  state.message = message;
  state.message_is_bad = is_bad;
}

// --- The tree's rows ---

void AddRows(State& state, size_t node, size_t depth) {
  for (const size_t child : TreeOf(state).nodes[node].children) {
    state.rows.push_back({child, depth});
    const bool is_open = !TreeOf(state).nodes[child].leaf &&
                         state.expanded.contains(TreeOf(state).NameOf(child));
    if (is_open) AddRows(state, child, depth + 1);
  }
}

// Makes the rows anew, and puts the cursor on `node`.
void LayRows(State& state, size_t node) {
  state.rows.clear();
  AddRows(state, 0, 0);
  state.cursor = 0;
  for (size_t i = 0; i < state.rows.size(); ++i) {
    if (state.rows[i].node == node) state.cursor = i;
  }
}

size_t NodeAtCursor(const State& state) {
  return state.rows.empty() ? 0 : state.rows[state.cursor].node;
}

// Expands the modules above a node, and puts the cursor on the node.
void Reveal(State& state, size_t node) {
  for (size_t up = TreeOf(state).nodes[node].parent; up != 0;
       up = TreeOf(state).nodes[up].parent) {
    state.expanded.insert(TreeOf(state).NameOf(up));
  }
  LayRows(state, node);
}

// Expands modules from the root down, as long as each is an only child.
void ExpandChain(State& state) {
  for (size_t node = 0; TreeOf(state).nodes[node].children.size() == 1;) {
    node = TreeOf(state).nodes[node].children[0];
    if (TreeOf(state).nodes[node].leaf) return;
    state.expanded.insert(TreeOf(state).NameOf(node));
  }
}

template <typename Change>
void ForNodeAndAbove(State& state, size_t leaf, Change change) {
  for (size_t node = state.opened->node_of_leaf[leaf];;
       node = TreeOf(state).nodes[node].parent) {
    change(state.numbers[node]);
    if (node == 0) return;
  }
}

// --- Steps ---

std::string SelectedPath(const State& state) {
  if (!state.is_root) return state.path;
  return state.step < state.steps.size() ? state.steps[state.step].path : "";
}

std::string StepBefore(const State& state, const std::string& path) {
  std::string before;
  for (const StepInfo& step : state.steps) {
    if (step.path == path) return before;
    if (step.committed) before = step.path;
  }
  return "";
}

std::vector<Ask> OpenSelected(State& state) {
  const std::string path = SelectedPath(state);
  if (path.empty() || path == state.wanted) return {};
  const StepInfo* step = state.is_root ? &state.steps[state.step] : nullptr;
  if (step != nullptr && !step->committed) {
    Say(state, step->name + ": " + step->why_not);
    return {};
  }
  state.wanted = path;
  state.since = StepBefore(state, path);
  if (state.page != Page::kHelp) state.page = Page::kTree;
  return {{.kind = AskKind::kOpen, .path = path, .other = state.since}};
}

std::vector<Ask> SelectStep(State& state, size_t step) {
  if (state.steps.empty()) return {};
  state.step = std::min(step, state.steps.size() - 1);
  return OpenSelected(state);
}

size_t NewestCommitted(const std::vector<StepInfo>& steps) {
  size_t newest = steps.empty() ? 0 : steps.size() - 1;
  while (newest > 0 && !steps[newest].committed) --newest;
  return newest;
}

// --- Search ---

bool Matches(const State& state, size_t node) {
  const auto lower = [](std::string text) {
    for (char& c : text) {
      c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return text;
  };
  return lower(TreeOf(state).NameOf(node)).find(lower(state.search)) !=
         std::string::npos;
}

// Finds the first leaf that matches, from the cursor on. `skips` excludes the
// leaf at the cursor.
void Find(State& state, bool skips) {
  if (state.opened == nullptr || state.search.empty()) return;
  const std::vector<size_t>& nodes = state.opened->node_of_leaf;
  const size_t at = NodeAtCursor(state);
  size_t first = 0;
  while (first < nodes.size() && nodes[first] < at) ++first;
  if (skips && first < nodes.size() && nodes[first] == at) ++first;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const size_t node = nodes[(first + i) % nodes.size()];
    if (!Matches(state, node)) continue;
    Say(state, "");
    return Reveal(state, node);
  }
  Say(state, "no tensor matches " + state.search, true);
}

std::vector<Ask> OnTyped(State& state, Key key) {
  if (key == kKeyEscape || key == kKeyEnter) {
    state.is_typing = false;
    if (key == kKeyEscape) state.search.clear();
    return {};
  }
  if (key == kKeyBackspace) {
    while (!state.search.empty()) {
      const auto byte = static_cast<unsigned char>(state.search.back());
      state.search.pop_back();
      if ((byte & 0xc0) != 0x80) break;
    }
  } else if (key >= 0x80 && key < 0x800) {
    state.search += static_cast<char>(0xc0 | key >> 6);
    state.search += static_cast<char>(0x80 | (key & 0x3f));
  } else if (key >= 0x800 && key < 0x10000) {
    state.search += static_cast<char>(0xe0 | key >> 12);
    state.search += static_cast<char>(0x80 | (key >> 6 & 0x3f));
    state.search += static_cast<char>(0x80 | (key & 0x3f));
  } else if (key >= ' ' && key < 0x7f) {
    state.search += static_cast<char>(key);
  }
  Find(state, false);
  return {};
}

// --- Keys ---

// Returns the row to which the key moves a cursor among `count` rows, or
// `count` for a key that does not move it.
size_t Moved(Key key, size_t at, size_t count, size_t page_rows) {
  if (count == 0) return count;
  const size_t last = count - 1;
  switch (key) {
    case kKeyUp:
    case 'k':
      return at - (at > 0);
    case kKeyDown:
    case 'j':
      return std::min(last, at + 1);
    case kKeyPageUp:
      return at - std::min(at, page_rows);
    case kKeyPageDown:
    case ' ':
      return std::min(last, at + page_rows);
    case kKeyHome:
    case 'g':
      return 0;
    case kKeyEnd:
    case 'G':
      return last;
    default:
      return count;
  }
}

std::vector<Ask> OnEnter(State& state) {
  if (state.rows.empty()) return {};
  const size_t node = NodeAtCursor(state);
  const ModuleNode& at = TreeOf(state).nodes[node];
  if (!at.leaf) {
    const std::string name = TreeOf(state).NameOf(node);
    if (state.expanded.erase(name) == 0) state.expanded.insert(name);
    LayRows(state, node);
    return {};
  }
  state.page = Page::kTensor;
  state.leaf = *at.leaf;
  state.values.clear();
  state.scroll = 0;
  return {{.kind = AskKind::kValues, .path = state.wanted, .leaf = *at.leaf}};
}

void OnLeft(State& state) {
  if (state.rows.empty()) return;
  const size_t node = NodeAtCursor(state);
  if (state.expanded.erase(TreeOf(state).NameOf(node)) > 0) {
    return LayRows(state, node);
  }
  const size_t parent = TreeOf(state).nodes[node].parent;
  if (parent != 0) LayRows(state, parent);
}

std::vector<Ask> OnTreeKey(State& state, Key key, size_t page_rows) {
  const size_t moved = Moved(key, state.cursor, state.rows.size(), page_rows);
  if (moved < state.rows.size()) {
    state.cursor = moved;
    return {};
  }
  if (key == kKeyEnter) return OnEnter(state);
  if (key == kKeyLeft || key == 'h') OnLeft(state);
  const bool opens = (key == kKeyRight || key == 'l') && !state.rows.empty();
  if (opens) {
    const size_t node = NodeAtCursor(state);
    if (TreeOf(state).nodes[node].leaf) return OnEnter(state);
    state.expanded.insert(TreeOf(state).NameOf(node));
    LayRows(state, node);
  }
  return {};
}

std::vector<Ask> OnStepsKey(State& state, Key key, size_t page_rows) {
  const size_t moved = Moved(key, state.step, state.steps.size(), page_rows);
  if (moved < state.steps.size()) return SelectStep(state, moved);
  if (key == 'm' && !state.steps.empty()) {
    const std::string& path = state.steps[state.step].path;
    state.marked = state.marked == path ? "" : path;
  }
  if (key == kKeyEnter || key == kKeyRight || key == 'l') {
    state.pane = Pane::kTree;
  }
  return {};
}

std::vector<Ask> OnPageKey(State& state, Key key, size_t page_rows) {
  const size_t count =
      state.page == Page::kText ? state.lines.size() : size_t{1000};
  const size_t moved = Moved(key, state.scroll, count, page_rows);
  if (moved < count) {
    state.scroll = moved;
  } else if (key == kKeyEscape || key == kKeyEnter || key == kKeyLeft ||
             key == 'h') {
    state.page = Page::kTree;
  }
  return {};
}

std::vector<Ask> AskDiff(State& state) {
  const std::string other = ComparedWith(state);
  if (state.opened == nullptr || other.empty()) {
    Say(state, "no step before this one; m marks one to compare with", true);
    return {};
  }
  Say(state, "");
  return {{.kind = AskKind::kDiff, .path = state.wanted, .other = other}};
}

// Handles keys that mean the same on all pages. Returns nullopt for other keys.
std::optional<std::vector<Ask>> OnCommonKey(State& state, Key key) {
  switch (key) {
    case 'q':
      state.is_over = true;
      return std::vector<Ask>();
    case '?':
      state.page = state.page == Page::kHelp ? Page::kTree : Page::kHelp;
      return std::vector<Ask>();
    case kKeyTab:
      if (state.is_root) {
        state.pane = state.pane == Pane::kTree ? Pane::kSteps : Pane::kTree;
      }
      return std::vector<Ask>();
    case '/':
      state.page = Page::kTree;
      state.pane = Pane::kTree;
      state.is_typing = true;
      state.search.clear();
      return std::vector<Ask>();
    case 'n':
      state.page = Page::kTree;
      Find(state, true);
      return std::vector<Ask>();
    case 'd':
      return AskDiff(state);
    case 'v':
      if (state.opened == nullptr) return std::vector<Ask>();
      return std::vector<Ask>{{.kind = AskKind::kVerify, .path = state.wanted}};
    case 'r':
      state.wanted.clear();
      return FirstAsks(state);
    default:
      return std::nullopt;
  }
}

// --- Answers ---

std::vector<Ask> Take(State& state, const StepsAnswer& answer) {
  if (!answer.status.ok()) {
    Say(state, answer.status.message(), true);
    return {};
  }
  const bool was_newest =
      state.steps.empty() || state.step == NewestCommitted(state.steps);
  const std::string selected = SelectedPath(state);
  state.steps = answer.steps;
  state.live = answer.live;
  state.step = NewestCommitted(state.steps);
  const bool stays = !was_newest || (!state.follows && !selected.empty());
  for (size_t i = 0; stays && i < state.steps.size(); ++i) {
    if (state.steps[i].path == selected) state.step = i;
  }
  return OpenSelected(state);
}

std::vector<Ask> Take(State& state, const RootAnswer& answer) {
  if (answer.path != state.wanted) return {};
  state.is_root = true;
  state.pane = Pane::kSteps;
  state.wanted.clear();
  return FirstAsks(state);
}

std::vector<Ask> Take(State& state, const OpenedAnswer& answer) {
  if (answer.path != state.wanted) return {};
  const bool is_first = state.opened == nullptr;
  const std::string under_cursor =
      is_first ? "" : TreeOf(state).NameOf(NodeAtCursor(state));
  state.opened = answer.opened;
  state.rows.clear();
  state.numbers.clear();
  state.tensors.clear();
  state.drifts.clear();
  if (!answer.status.ok()) {
    Say(state, answer.status.message(), true);
    return {};
  }
  Say(state, "");
  state.numbers.resize(TreeOf(state).nodes.size());
  const std::vector<LeafInfo>& leaves = state.opened->checkpoint->leaves();
  state.tensors.resize(leaves.size());
  state.drifts.resize(leaves.size());
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves[i].problem.ok()) continue;
    ForNodeAndAbove(state, i, [](NodeNumbers& it) { it.is_damaged = true; });
  }
  if (is_first) ExpandChain(state);
  size_t node = 0;
  while (node < TreeOf(state).nodes.size() &&
         TreeOf(state).NameOf(node) != under_cursor) {
    ++node;
  }
  LayRows(state, node);
  return {};
}

std::vector<Ask> Take(State& state, const NumbersAnswer& answer) {
  if (answer.path != state.wanted || state.opened == nullptr) return {};
  for (const TensorNumbers& tensor : answer.tensors) {
    if (state.tensors[tensor.leaf]) continue;
    state.tensors[tensor.leaf] = tensor;
    ForNodeAndAbove(state, tensor.leaf, [&](NodeNumbers& node) {
      ++node.measured_count;
      node.squares += tensor.l2_norm * tensor.l2_norm;
      node.non_finite_count += tensor.nan_count + tensor.infinity_count;
      node.is_damaged = node.is_damaged || !tensor.problem.empty();
    });
  }
  return {};
}

std::vector<Ask> Take(State& state, const DriftAnswer& answer) {
  if (answer.path != state.wanted || state.opened == nullptr) return {};
  for (const TensorDrift& tensor : answer.tensors) {
    if (state.drifts[tensor.leaf]) continue;
    state.drifts[tensor.leaf] = tensor;
    ForNodeAndAbove(state, tensor.leaf, [&](NodeNumbers& node) {
      ++node.drift_count;
      node.moved_squares += tensor.moved * tensor.moved;
      node.before_squares += tensor.norm * tensor.norm;
    });
  }
  return {};
}

std::vector<Ask> Take(State& state, const ValuesAnswer& answer) {
  const bool is_asked = answer.path == state.wanted &&
                        state.page == Page::kTensor &&
                        answer.leaf == state.leaf;
  if (is_asked) state.values = answer.text;
  return {};
}

std::vector<Ask> Take(State& state, const TextAnswer& answer) {
  if (!answer.status.ok()) {
    Say(state, answer.status.message(), true);
    return {};
  }
  Say(state, answer.title, answer.is_bad);
  if (answer.path == state.wanted && state.opened != nullptr) {
    for (const size_t leaf : answer.damaged_leaves) {
      ForNodeAndAbove(state, leaf,
                      [](NodeNumbers& node) { node.is_damaged = true; });
    }
  }
  if (answer.lines.empty()) return {};
  state.page = Page::kText;
  state.pane = Pane::kTree;
  state.title = answer.title;
  state.lines = answer.lines;
  state.scroll = 0;
  return {};
}

std::vector<Ask> Take(State& state, const ProgressAnswer& answer) {
  state.progress = answer;
  return {};
}

}  // namespace

std::shared_ptr<const Opened> MakeOpened(std::shared_ptr<const Checkpoint> it) {
  auto opened = std::make_shared<Opened>();
  opened->tree = MakeModuleTree(it->leaves());
  opened->node_of_leaf.resize(it->leaves().size());
  std::vector<ModuleNode>& nodes = opened->tree.nodes;
  opened->measurable_counts.resize(nodes.size());
  for (size_t i = nodes.size(); i-- > 0;) {
    size_t& count = opened->measurable_counts[i];
    if (const std::optional<size_t>& leaf = nodes[i].leaf) {
      opened->node_of_leaf[*leaf] = i;
      const ValueKind kind = it->leaves()[*leaf].kind;
      count = kind == ValueKind::kArray || kind == ValueKind::kScalar;
    }
    if (i > 0) opened->measurable_counts[nodes[i].parent] += count;
  }
  opened->checkpoint = std::move(it);
  return opened;
}

State NewState(const std::string& path, bool is_root, bool follows) {
  State state;
  state.path = path;
  state.is_root = is_root;
  state.follows = follows;
  state.pane = is_root ? Pane::kSteps : Pane::kTree;
  if (!is_root) state.wanted = path;
  return state;
}

std::vector<Ask> FirstAsks(const State& state) {
  if (state.is_root) return {{.kind = AskKind::kList, .path = state.path}};
  return {{.kind = AskKind::kFirst, .path = state.path}};
}

std::vector<Ask> OnKey(State& state, Key key, size_t page_rows) {
  if (state.is_typing) return OnTyped(state, key);
  if (const auto asks = OnCommonKey(state, key)) {
    // A single checkpoint is always the wanted one.
    if (!state.is_root) state.wanted = state.path;
    return *asks;
  }
  if (key == kKeyEscape && state.page == Page::kTree) {
    Say(state, "");
    return {{.kind = AskKind::kCancel}};
  }
  if (state.pane == Pane::kSteps && state.page != Page::kHelp) {
    return OnStepsKey(state, key, page_rows);
  }
  if (state.page == Page::kTree) return OnTreeKey(state, key, page_rows);
  return OnPageKey(state, key, page_rows);
}

std::vector<Ask> OnAnswer(State& state, const Answer& answer) {
  return std::visit([&](const auto& it) { return Take(state, it); }, answer);
}

const LiveSave* LiveAt(const State& state, const std::string& path) {
  for (const LiveSave& save : state.live) {
    if (save.directory == path || save.path == path) return &save;
  }
  return nullptr;
}

std::string ComparedWith(const State& state) {
  if (!state.marked.empty() && state.marked != state.wanted) {
    return state.marked;
  }
  return StepBefore(state, state.wanted);
}

}  // namespace holdfast::cli::top
