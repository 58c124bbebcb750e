// TreeTrim of holdfast/tree_utils.h.

#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/python_repr.h"
#include "ground/tree/rebuild.h"
#include "holdfast/tree_utils.h"

namespace holdfast {
namespace {

// Orbax lists at most this many missing keys.
constexpr size_t kListedKeysMax = 10;

Tree Placeholders(const Tree& template_tree) {
  return MapLeaves(template_tree, [](const KeyPath&, const Tree& leaf) {
    const bool is_empty = leaf.is_none() || leaf.is_empty_container();
    return is_empty ? leaf : Tree::Placeholder();
  });
}

class Trimmer {
 public:
  explicit Trimmer(const TreeTrimOptions& options) : options_(options) {}

  Result<Tree> Visit(const Tree& want, const Tree& have) {
    if (want.is_none()) return VisitNone(have);
    if (want.is_leaf()) {
      if (have.is_none()) {
        return InvalidArgumentError("Tree is not complete: " +
                                    KeyPathRepr(path_));
      }
      if (!have.is_leaf()) return TypeMismatch(want, have);
      return have;
    }
    const bool is_dict = want.kind() == NodeKind::kDict;
    const bool is_field_wise =
        want.kind() == NodeKind::kNamedTuple && have.is_mapping();
    return is_dict || is_field_wise ? VisitMapping(want, have)
                                    : VisitSequence(want, have);
  }

 private:
  Result<Tree> VisitNone(const Tree& have) {
    if (!have.is_leaf()) {
      HF_RETURN_IF_ERROR(VisitMapping(Tree::Dict(), have).status());
    } else if (!have.is_none()) {
      Drop(have);
    }
    return Tree();
  }

  void Drop(const Tree& part) const {
    if (options_.trimmed_structure_callback) {
      options_.trimmed_structure_callback(PathOf(path_), part);
    }
  }

  // Returns true for lists and tuples only if the caller asks to match by
  // index.
  bool IsMappingLike(const Tree& have) const {
    if (have.is_none() || have.is_mapping()) return true;
    return have.is_sequence() && options_.allow_sequence_mapping_alignment;
  }

  Result<Tree> VisitMapping(const Tree& want, const Tree& have) {
    if (!IsMappingLike(have)) return TypeMismatch(want, have);
    std::unordered_map<std::string, const Tree*> have_of_key;
    std::vector<std::string> have_keys = have.keys();
    for (size_t i = have_keys.size(); i < have.size(); ++i) {
      have_keys.push_back(std::to_string(i));
    }
    for (size_t i = 0; i < have.size(); ++i) {
      have_of_key.emplace(have_keys[i], &have.children()[i]);
    }
    HF_RETURN_IF_ERROR(CheckMissing(want, have_of_key));
    DropOthers(want, have, have_keys);
    std::vector<Tree> children;
    for (size_t i = 0; i < want.size(); ++i) {
      const auto value = have_of_key.find(want.keys()[i]);
      if (value == have_of_key.end()) {
        children.push_back(Placeholders(want.children()[i]));
        continue;
      }
      HF_ASSIGN_OR_RETURN(
          children.emplace_back(),
          VisitChild(ElementOf(want, i), want.children()[i], *value->second));
    }
    return WithChildren(want, std::move(children));
  }

  Result<Tree> VisitChild(KeyElement element, const Tree& want,
                          const Tree& have) {
    path_.push_back(std::move(element));
    Result<Tree> child = Visit(want, have);
    path_.pop_back();
    return child;
  }

  Status CheckMissing(
      const Tree& want,
      const std::unordered_map<std::string, const Tree*>& have_of_key) const {
    size_t missing_count = 0;
    std::string listed;
    for (const std::string& key : want.keys()) {
      if (have_of_key.contains(key)) continue;
      if (++missing_count > kListedKeysMax) continue;
      if (!listed.empty()) listed += ", ";
      AppendPythonRepr(listed, key);
    }
    if (missing_count == 0 || !options_.strict) return Status();
    return InvalidArgumentError("Missing " + std::to_string(missing_count) +
                                " keys in structure path " +
                                TreePathRepr(path_) + ", including: [" +
                                listed + "]");
  }

  void DropOthers(const Tree& want, const Tree& have,
                  const std::vector<std::string>& have_keys) {
    if (!options_.trimmed_structure_callback) return;
    std::unordered_map<std::string_view, bool> wanted;
    for (const std::string& key : want.keys()) wanted.emplace(key, true);
    for (size_t i = 0; i < have.size(); ++i) {
      if (wanted.contains(have_keys[i])) continue;
      path_.push_back({have_keys[i], have.key_kind(i)});
      Drop(have.children()[i]);
      path_.pop_back();
    }
  }

  Result<Tree> VisitSequence(const Tree& want, const Tree& have) {
    const bool is_nothing = have.is_none();
    const bool has_elements =
        have.is_sequence() || have.kind() == NodeKind::kNamedTuple;
    if (!is_nothing && !has_elements) return TypeMismatch(want, have, "");
    const size_t have_size = is_nothing ? 0 : have.size();
    if (have_size != want.size()) {
      return InvalidArgumentError(
          "Length mismatch at key path " + TreePathRepr(path_) +
          ": template has length " + std::to_string(want.size()) +
          ", but structure has length " + std::to_string(have_size));
    }
    std::vector<Tree> children;
    for (size_t i = 0; i < want.size(); ++i) {
      HF_ASSIGN_OR_RETURN(children.emplace_back(),
                          VisitChild(ElementOf(want, i), want.children()[i],
                                     have.children()[i]));
    }
    return WithChildren(want, std::move(children));
  }

  Status TypeMismatch(const Tree& want, const Tree& have,
                      std::string_view end = ".") const {
    return InvalidArgumentError(
        "Type mismatch at key path " + TreePathRepr(path_) +
        ": template has type " + PythonClassText(want) +
        ", but structure has type " + PythonClassText(have) + std::string(end));
  }

  const TreeTrimOptions& options_;
  KeyPath path_;
};

}  // namespace

Result<Tree> TreeTrim(const Tree& template_tree, const Tree& structure,
                      const TreeTrimOptions& options) {
  HF_RETURN_IF_ERROR(Flatten(template_tree).status());
  HF_RETURN_IF_ERROR(Flatten(structure).status());
  return Trimmer(options).Visit(template_tree, structure);
}

}  // namespace holdfast
