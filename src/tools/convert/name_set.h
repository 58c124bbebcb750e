// NameSet: selects leaves by names. A name selects the leaf of that name and
// all leaves below it.
//
// Thread-safety: one thread at a time. Errors: none.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace holdfast {

class NameSet {
 public:
  explicit NameSet(const std::vector<std::string>& names) {
    for (const std::string& name : names) is_used_.emplace(name, false);
  }

  // Returns true if a name in the set selects `leaf`. An empty set selects
  // everything.
  bool Selects(const std::string& leaf) {
    if (is_used_.empty()) return true;
    bool found = Use(leaf);
    for (size_t dot = leaf.find('.'); dot != std::string::npos;
         dot = leaf.find('.', dot + 1)) {
      found |= Use(leaf.substr(0, dot));
    }
    return found;
  }

  // Returns a name that has selected nothing, or null if every name has
  // selected something.
  const std::string* FirstUnused() const {
    for (const auto& [name, is_used] : is_used_) {
      if (!is_used) return &name;
    }
    return nullptr;
  }

 private:
  bool Use(const std::string& name) {
    const auto found = is_used_.find(name);
    if (found == is_used_.end()) return false;
    return found->second = true;
  }

  std::map<std::string, bool> is_used_;
};

}  // namespace holdfast
