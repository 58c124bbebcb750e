// KeyPath: where a leaf lies in a tree, and the parameter name that Orbax
// makes of it.
//
// Thread-safety: values. Errors: none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "holdfast/tree.h"

namespace holdfast {

struct KeyElement {
  std::string key;
  KeyKind kind = KeyKind::kName;

  friend bool operator==(const KeyElement&, const KeyElement&) = default;
};

using KeyPath = std::vector<KeyElement>;

// The keys joined with "."; empty for a bare leaf.
std::string ParamName(const KeyPath& path);
// Python's text of a tuple: "(a, b)", "(a,)", "()". `append` adds the text of
// one item to the string it is given.
template <typename Items, typename Append>
std::string PythonTupleText(const Items& items, const Append& append) {
  std::string text = "(";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    append(text, items[i]);
  }
  return text + (items.size() == 1 ? ",)" : ")");
}

// Python's repr of the tuple of keys: "('a', '0')", "()". For messages and for
// the member names of `_METADATA`.
std::string KeyPathRepr(const KeyPath& path);
// Negative, 0 or positive: the order of the children of one node.
int CompareElements(std::string_view a, KeyKind a_kind, std::string_view b,
                    KeyKind b_kind);
// Sorts as Orbax sorts stored paths: element by element, indices and integers
// by value, names by code point, a prefix first. An index sorts before an
// integer, and that before a name.
bool KeyPathLess(const KeyPath& a, const KeyPath& b);
// Negative, 0 or positive, only by the keys as text, whatever their kinds.
int CompareKeys(const KeyPath& a, const KeyPath& b);

}  // namespace holdfast
