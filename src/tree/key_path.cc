#include "tree/key_path.h"

#include <algorithm>

#include "tree/python_repr.h"

namespace holdfast {
namespace {

// Negative, 0 or positive. Indexes are compared as numbers: the longer one is
// larger, and equal lengths are compared digit by digit.
int CompareElements(const KeyElement& a, const KeyElement& b) {
  if (a.is_sequence != b.is_sequence) return a.is_sequence ? -1 : 1;
  if (a.is_sequence && a.key.size() != b.key.size()) {
    return a.key.size() < b.key.size() ? -1 : 1;
  }
  return a.key.compare(b.key);
}

}  // namespace

std::string ParamName(const KeyPath& path) {
  std::string name;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) name += '.';
    name += path[i].key;
  }
  return name;
}

std::string KeyPathRepr(const KeyPath& path) {
  return PythonTupleText(path,
                         [](std::string& repr, const KeyElement& element) {
                           AppendPythonRepr(repr, element.key);
                         });
}

bool KeyPathLess(const KeyPath& a, const KeyPath& b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    const int order = CompareElements(a[i], b[i]);
    if (order != 0) return order < 0;
  }
  return a.size() < b.size();
}

int CompareKeys(const KeyPath& a, const KeyPath& b) {
  const size_t common = std::min(a.size(), b.size());
  for (size_t i = 0; i < common; ++i) {
    const int order = a[i].key.compare(b[i].key);
    if (order != 0) return order;
  }
  return a.size() < b.size() ? -1 : a.size() > b.size();
}

}  // namespace holdfast
