// tree: prints the leaves, indented. It does not use recursion, because a file
// may nest keys arbitrarily deeply.

#include <map>

#include "cli/failures.h"
#include "cli/leaf_text.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

struct TreeArgs : Args {
  int depth_max = std::numeric_limits<int>::max();

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("depth", depth_max);
  }
};

struct Node {
  std::string_view key;
  std::vector<size_t> children;    // in the checkpoint's order
  const LeafInfo* leaf = nullptr;  // a node may be both a leaf and a parent
  LeafTotals below;                // leaves here and below
};

// nodes[0] is the root.
class Forest {
 public:
  explicit Forest(const std::vector<LeafInfo>& leaves) {
    nodes_.emplace_back();
    for (const LeafInfo& leaf : leaves) Add(leaf);
  }
  const Node& at(size_t node) const { return nodes_[node]; }

 private:
  void Add(const LeafInfo& leaf) {
    size_t node = 0;
    nodes_[node].below.Add(leaf);
    for (const std::string& key : leaf.key) {
      node = Child(node, key);
      nodes_[node].below.Add(leaf);
    }
    nodes_[node].leaf = &leaf;
  }

  size_t Child(size_t parent, const std::string& key) {
    const auto [entry, is_new] =
        index_.try_emplace({parent, key}, nodes_.size());
    if (is_new) {
      nodes_.push_back(Node{.key = key});
      nodes_[parent].children.push_back(entry->second);
    }
    return entry->second;
  }

  std::vector<Node> nodes_;
  std::map<std::pair<size_t, std::string_view>, size_t> index_;
};

struct Glyphs {
  const char* branch;
  const char* last;
  const char* pass;
  const char* space;
};
constexpr Glyphs kBoxes = {"├── ", "└── ", "│   ", "    "};
constexpr Glyphs kAscii = {"|-- ", "`-- ", "|   ", "    "};

// A node on the way down, and the number of its next child.
struct Level {
  size_t node;
  size_t next_child = 0;
};

class TreePrinter {
 public:
  TreePrinter(const Forest& forest, const TreeArgs& args, Env& env)
      : forest_(forest),
        out_(env.out),
        glyphs_(env.utf8 ? kBoxes : kAscii),
        color_(UseColor(args, env)),
        depth_max_(static_cast<size_t>(args.depth_max)) {}

  void Print() {
    std::vector<Level> path = {{0}};
    while (!path.empty()) {
      Level& level = path.back();
      const Node& parent = forest_.at(level.node);
      if (level.next_child == parent.children.size()) {
        path.pop_back();
        if (!prefix_ends_.empty()) {
          prefix_.resize(prefix_ends_.back());
          prefix_ends_.pop_back();
        }
        continue;
      }
      const size_t child = parent.children[level.next_child++];
      const bool is_last = level.next_child == parent.children.size();
      PrintNode(forest_.at(child), is_last, path.size() >= depth_max_);
      if (path.size() >= depth_max_) continue;
      prefix_ends_.push_back(prefix_.size());
      prefix_ += is_last ? glyphs_.space : glyphs_.pass;
      path.push_back({child});
    }
  }

 private:
  void PrintNode(const Node& node, bool is_last, bool at_bottom) {
    const bool is_parent = !node.children.empty();
    out_ << prefix_ << (is_last ? glyphs_.last : glyphs_.branch)
         << Paint(is_parent ? "\x1b[1;34m" : "", PrintableText(node.key));
    if (node.leaf != nullptr) {
      out_ << "  " << Paint("\x1b[2m", SummaryText(*node.leaf));
    }
    const bool is_sum = node.below.leaf_count > 1;
    if (is_parent && (at_bottom || is_sum))
      out_ << "  " << Paint("\x1b[2m", BelowText(node, at_bottom));
    out_ << '\n';
  }

  // Returns the totals of the leaves below a node.
  static std::string BelowText(const Node& node, bool at_bottom) {
    const LeafTotals& below = node.below;
    std::string text = "(";
    if (at_bottom) text += Counted(below.leaf_count, "leaf", "leaves") + ", ";
    if (below.parameter_count > 0) text += ParametersText(below) + ", ";
    return text + HumanBytes(below.decoded_bytes) + ")";
  }

  std::string Paint(std::string_view color, const std::string& text) const {
    if (!color_ || color.empty()) return text;
    return std::string(color) + text + "\x1b[0m";
  }

  const Forest& forest_;
  std::ostream& out_;
  const Glyphs glyphs_;
  const bool color_;
  const size_t depth_max_;
  std::string prefix_;
  std::vector<size_t> prefix_ends_;
};

void BeginNodeJson(const Node& node, bool at_bottom, JsonWriter* json) {
  json->BeginObject();
  json->Field("key", node.key);
  if (node.leaf != nullptr) {
    json->Key("leaf");
    json->BeginObject();
    WriteLeafFields(*node.leaf, json);
    json->EndObject();
  }
  if (node.children.empty()) return;
  json->Key("below");
  json->BeginObject();
  WriteTotals(node.below, json);
  json->EndObject();
  if (at_bottom) return;
  json->Key("children");
  json->BeginArray();
}

void PrintTreeJson(const Forest& forest, const TreeArgs& args,
                   JsonWriter* json) {
  const auto depth_max = static_cast<size_t>(args.depth_max);
  std::vector<Level> path = {{0}};
  json->Key("children");
  json->BeginArray();
  while (!path.empty()) {
    Level& level = path.back();
    const Node& parent = forest.at(level.node);
    if (level.next_child == parent.children.size()) {
      path.pop_back();
      json->EndArray();
      if (!path.empty()) json->EndObject();
      continue;
    }
    const size_t child = parent.children[level.next_child++];
    const bool at_bottom = path.size() >= depth_max;
    BeginNodeJson(forest.at(child), at_bottom, json);
    if (at_bottom || forest.at(child).children.empty()) {
      json->EndObject();
    } else {
      path.push_back({child});
    }
  }
}

void PrintTreeText(const Checkpoint& checkpoint, const Forest& forest,
                   const TreeArgs& args, Env& env) {
  BeginListing(args, env);
  const Node& root = forest.at(0);
  if (!args.quiet) env.out << PrintableText(checkpoint.info().path);
  // A checkpoint may be a single bare value.
  if (root.leaf != nullptr) env.out << "  " << SummaryText(*root.leaf);
  if (!args.quiet || root.leaf != nullptr) env.out << '\n';
  TreePrinter(forest, args, env).Print();
  if (!args.quiet) env.out << TotalsText(root.below) << '\n';
}

int RunTree(const TreeArgs& args, Env& env) {
  OpenOptions options = args.open;
  options.leaves_only = true;
  const auto opened = Open(args.operands[0], options);
  if (!opened.ok()) return Fail(env, opened.status());
  const Checkpoint& checkpoint = **opened;
  const Forest forest(checkpoint.leaves());
  if (!args.json) {
    PrintTreeText(checkpoint, forest, args, env);
    return FailIfUnreadable(env, checkpoint.leaves());
  }
  JsonWriter json(env.out);
  json.BeginObject();
  json.Field("path", checkpoint.info().path);
  json.Field("format", checkpoint.info().format);
  if (forest.at(0).leaf != nullptr) {
    json.Key("leaf");
    json.BeginObject();
    WriteLeafFields(*forest.at(0).leaf, &json);
    json.EndObject();
  }
  PrintTreeJson(forest, args, &json);
  WriteTotals(forest.at(0).below, &json);
  json.EndObject();
  env.out << '\n';
  return FailIfUnreadable(env, checkpoint.leaves());
}

}  // namespace

int RunTree(const Words& words, Env& env) {
  return RunFilled<TreeArgs>(words, env, RunTree);
}

}  // namespace holdfast::cli
