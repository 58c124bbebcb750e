// Runs the opcodes of a pickle on inert nodes: nothing is imported or called.
//
// The result is a graph: nodes in the order in which they were made, which
// refer to each other by index. Nodes may be shared, and the graph may even be
// cyclic. values.h turns it into a PickleValue.
// Thread-safety: pure functions. Ownership: the strings of a program point into
// its pickle, or into the program.
// Units: bytes; offsets in the pickle.
// Errors: DataLoss (cut short, damaged or inconsistent, with the offset),
// PermissionDenied (the pickle names a function or class that is not allowed),
// Unimplemented (extension codes, out-of-band buffers). With keeps_refused,
// what would be PermissionDenied, extension codes and calls of values that the
// pickle itself has made become refusals instead.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/pickle/names.h"
#include "holdfast/status.h"

namespace holdfast::pickle {

using NodeIndex = uint32_t;

enum class NodeKind : uint8_t {
  kNone,
  kBool,        // number
  kInt,         // number
  kBigInt,      // text: two's complement, little endian
  kFloat,       // real
  kString,      // text
  kBytes,       // text
  kByteArray,   // text
  kList,        // children
  kTuple,       // children
  kDict,        // children: key, value, key, value, ...
  kSet,         // children
  kFrozenSet,   // children
  kGlobal,      // number: index into globals
  kObject,      // number: index into objects
  kPersistent,  // children: the id
  kRefused,     // number: index into refusals; children: what it was made of
};

std::string_view NodeKindName(NodeKind kind);

struct Node {
  NodeKind kind = NodeKind::kNone;
  union {
    int64_t number = 0;
    double real;
  };
  std::string_view text;
  std::vector<NodeIndex> children;
};

struct Global {
  std::string module;
  std::string name;
  NameUse use = NameUse::kClass;

  std::string FullName() const { return module + "." + name; }
};

// callable(*args), or cls.__new__(cls, *args), and the later changes to its
// result.
struct Object {
  NodeIndex callee = 0;  // a kGlobal
  NodeIndex args = 0;    // a kTuple
  std::optional<NodeIndex> kwargs;
  bool is_called = false;
  std::optional<NodeIndex> state;
  std::vector<NodeIndex> items;  // appended
  std::vector<NodeIndex> pairs;  // key, value, ...
};

struct Program {
  std::vector<Node> nodes;
  std::vector<Global> globals;
  std::vector<Object> objects;
  // The reasons why values are refused, each once, in the order of their
  // appearance; empty unless ProgramOptions::keeps_refused.
  std::vector<Status> refusals;
  std::deque<std::string> texts;  // strings that are not in the pickle itself
  NodeIndex root = 0;
  size_t byte_count = 0;  // of the pickle, up to its STOP

  const Node& node(NodeIndex index) const { return nodes[index]; }
  const Global& global(const Node& node) const {
    return globals[static_cast<size_t>(node.number)];
  }
  const Object& object(const Node& node) const {
    return objects[static_cast<size_t>(node.number)];
  }
  // Calls fn with each node that the node refers to.
  template <typename Fn>
  void ForEachPart(NodeIndex index, const Fn& fn) const {
    const Node& whole = nodes[index];
    for (const NodeIndex part : whole.children) fn(part);
    if (whole.kind != NodeKind::kObject) return;
    const Object& made = object(whole);
    fn(made.callee);
    fn(made.args);
    if (made.kwargs) fn(*made.kwargs);
    if (made.state) fn(*made.state);
    for (const NodeIndex part : made.items) fn(part);
    for (const NodeIndex part : made.pairs) fn(part);
  }
};

// The most opcodes of a pickle; each makes at most one node.
inline constexpr size_t kNodesMax = size_t{1} << 26;
// The most bytes of one integer.
inline constexpr size_t kIntBytesMax = 4096;

struct ProgramOptions {
  bool persistent_ids = false;  // if false, they are refused
  // If true, a call that is not allowed becomes a kRefused node, so that the
  // rest can be read; if false, it fails the run.
  bool keeps_refused = false;
  bool* is_cut = nullptr;  // set to true if the bytes end too early
};

// Runs the first pickle in `bytes`; bytes after its STOP are ignored.
Result<Program> RunPickle(std::string_view bytes,
                          const ProgramOptions& options = {});

}  // namespace holdfast::pickle
