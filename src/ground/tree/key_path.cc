#include "ground/tree/key_path.h"

#include <algorithm>

#include "ground/tree/python_repr.h"

namespace holdfast {
namespace {

// Compares decimal texts without leading zeros: the longer one is larger, and
// equal lengths are compared digit by digit.
int CompareNumbers(std::string_view a, std::string_view b) {
  const bool a_is_negative = a.starts_with('-');
  if (a_is_negative != b.starts_with('-')) return a_is_negative ? -1 : 1;
  if (a_is_negative) return CompareNumbers(b.substr(1), a.substr(1));
  if (a.size() != b.size()) return a.size() < b.size() ? -1 : 1;
  return a.compare(b);
}

int RankOf(KeyKind kind) {
  if (kind == KeyKind::kName) return 2;
  return kind == KeyKind::kIndex ? 0 : 1;
}

}  // namespace

int CompareElements(std::string_view a, KeyKind a_kind, std::string_view b,
                    KeyKind b_kind) {
  if (a_kind != b_kind) return RankOf(a_kind) - RankOf(b_kind);
  return a_kind == KeyKind::kName ? a.compare(b) : CompareNumbers(a, b);
}

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
    const int order = CompareElements(a[i].key, a[i].kind, b[i].key, b[i].kind);
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
