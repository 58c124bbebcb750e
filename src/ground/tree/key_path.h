// KeyPath: the position of a leaf in a tree, and the parameter name that Orbax
// derives from it.
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

// Returns the keys joined with ".", or "" for a bare leaf.
std::string ParamName(const KeyPath& path);
// Formats items as Python prints a tuple: "(a, b)", "(a,)", "()". `append`
// appends the text of one item to the string passed to it.
template <typename Items, typename Append>
std::string PythonTupleText(const Items& items, const Append& append) {
  std::string text = "(";
  for (size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += ", ";
    append(text, items[i]);
  }
  return text + (items.size() == 1 ? ",)" : ")");
}

// Returns Python's repr of the tuple of keys: "('a', '0')", "()". It is used in
// messages and as the member names of `_METADATA`.
std::string KeyPathRepr(const KeyPath& path);
// Compares two children of one node. Returns a negative number, 0 or a positive
// number.
int CompareElements(std::string_view a, KeyKind a_kind, std::string_view b,
                    KeyKind b_kind);
// Orders stored paths as Orbax does: element by element, indices and integers
// by value, names by code point, a prefix first. Indices sort before integers,
// and integers before names.
bool KeyPathLess(const KeyPath& a, const KeyPath& b);
// Compares the keys only as text, ignoring their kinds. Returns a negative
// number, 0 or a positive number.
int CompareKeys(const KeyPath& a, const KeyPath& b);

}  // namespace holdfast
