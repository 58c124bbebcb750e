#include "orbax/pytree/item_match.h"

#include <algorithm>
#include <string>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/rebuild.h"
#include "holdfast/tree_utils.h"
#include "orbax/pytree/item_source.h"

namespace holdfast {
namespace {

bool IsLeafOrEmpty(const Tree& node) { return node.size() == 0; }

bool IsPlaceholder(const Tree& node) {
  return node.is_leaf() && node.leaf_kind() == LeafKind::kPlaceholder;
}

// Returns the child of an entry tree, or null. Its dicts are sorted.
const Tree* EntryChild(const Tree& entries, const std::string& key) {
  const auto& keys = entries.keys();
  const auto found = std::lower_bound(keys.begin(), keys.end(), key);
  if (found == keys.end() || *found != key) return nullptr;
  return &entries.children()[found - keys.begin()];
}

size_t EntryNumber(const Tree& entry) {
  return static_cast<size_t>(entry.scalar().As<int64_t>());
}

// Returns the class name of a container as `_METADATA` has it. An empty
// container is a number there.
std::string TemplateClassText(const Tree& node) {
  if (node.is_none() || node.is_empty_container()) return "<class 'int'>";
  if (node.is_sequence()) return "<class 'list'>";
  if (node.is_mapping()) return "<class 'dict'>";
  return PythonClassText(node);
}

std::string StoredClassText(const Tree& entries) {
  return PythonClassText(entries.is_leaf() ? Tree::Object(ValueMetadataEntry())
                                           : entries);
}

class Matcher {
 public:
  explicit Matcher(bool partial_restore) : is_partial_(partial_restore) {}

  // Matches two subtrees. They match if the result is ok and `differs` is
  // false.
  Status Match(const Tree& item, const Tree& entries) {
    if (IsLeafOrEmpty(item)) return MatchLeaf(item, entries);
    if (item.is_sequence()) return MatchSequence(item, entries);
    return MatchMapping(item, entries);
  }

  bool differs() const { return differs_; }
  std::vector<ItemMatch> TakeMatches() { return std::move(matches_); }

 private:
  void Add(const Tree& leaf, const Tree* entry) {
    if (!leaf.is_leaf() || leaf.is_none()) return;
    ItemMatch& match = matches_.emplace_back(ItemMatch{path_, &leaf, {}});
    const bool is_left_out = !is_partial_ && IsPlaceholder(leaf);
    if (entry != nullptr && !is_left_out) match.entry = EntryNumber(*entry);
  }

  // Adds a subtree that is not stored, so that it stays as it is in the item.
  void AddMissing(const Tree& node) {
    if (IsLeafOrEmpty(node)) return Add(node, nullptr);
    for (size_t i = 0; i < node.size(); ++i) {
      path_.push_back(ElementOf(node, i));
      AddMissing(node.children()[i]);
      path_.pop_back();
    }
  }

  Status Differ(const Tree& item, const Tree& entries, const char* end) {
    differs_ = true;
    if (!is_partial_) return Status();
    return InvalidArgumentError(
        "Type mismatch at key path " + TreePathRepr(path_) +
        ": template has type " + TemplateClassText(item) +
        ", but structure has type " + StoredClassText(entries) + end);
  }

  Status MatchLeaf(const Tree& item, const Tree& entries) {
    if (!entries.is_leaf()) return Differ(item, entries, ".");
    Add(item, &entries);
    return Status();
  }

  Status MatchSequence(const Tree& item, const Tree& entries) {
    if (!entries.is_sequence()) return Differ(item, entries, "");
    if (item.size() != entries.size()) {
      differs_ = true;
      if (!is_partial_) return Status();
      return InvalidArgumentError(
          "Length mismatch at key path " + TreePathRepr(path_) +
          ": template has length " + std::to_string(item.size()) +
          ", but structure has length " + std::to_string(entries.size()));
    }
    for (size_t i = 0; i < item.size(); ++i) {
      HF_RETURN_IF_ERROR(MatchChild(item, i, entries.children()[i]));
    }
    return Status();
  }

  Status MatchMapping(const Tree& item, const Tree& entries) {
    if (!entries.is_mapping()) return Differ(item, entries, ".");
    size_t found_count = 0;
    for (size_t i = 0; i < item.size(); ++i) {
      const Tree* entry = EntryChild(entries, item.keys()[i]);
      if (entry != nullptr) {
        ++found_count;
        HF_RETURN_IF_ERROR(MatchChild(item, i, *entry));
        continue;
      }
      differs_ |= !is_partial_ && !IsPlaceholder(item.children()[i]);
      path_.push_back(ElementOf(item, i));
      AddMissing(item.children()[i]);
      path_.pop_back();
    }
    // Keys that exist only in the checkpoint. A partial restore ignores them.
    differs_ |= !is_partial_ && found_count != entries.size();
    return Status();
  }

  Status MatchChild(const Tree& item, size_t i, const Tree& entries) {
    path_.push_back(ElementOf(item, i));
    Status status = Match(item.children()[i], entries);
    path_.pop_back();
    return status;
  }

  const bool is_partial_;
  bool differs_ = false;
  KeyPath path_;
  std::vector<ItemMatch> matches_;
};

// Returns the item with a leaf in place of each empty container that is a leaf
// in the checkpoint, because Orbax does not report this difference.
Tree WithoutEmpties(const Tree& item, const Tree& entries) {
  if (item.size() == 0) {
    return item.is_leaf() || !entries.is_leaf() ? item : Tree(0);
  }
  std::vector<Tree> children;
  for (size_t i = 0; i < item.size(); ++i) {
    const Tree* entry = nullptr;
    if (item.is_sequence()) {
      if (i < entries.size()) entry = &entries.children()[i];
    } else if (entries.is_mapping()) {
      entry = EntryChild(entries, item.keys()[i]);
    }
    const Tree& child = item.children()[i];
    children.push_back(entry == nullptr ? child
                                        : WithoutEmpties(child, *entry));
  }
  return WithChildren(item, std::move(children));
}

Status MismatchError(const Tree& item, const Tree& entries,
                     const Checkpoint& checkpoint) {
  HF_ASSIGN_OR_RETURN(const Tree serialized,
                      SerializeTree(WithoutEmpties(item, entries),
                                    /*keep_empty_nodes=*/true));
  const Tree stored =
      MapLeaves(entries, [&](const KeyPath&, const Tree& entry) {
        return Tree::Object(EntryOf(checkpoint.leaves()[EntryNumber(entry)]));
      });
  HF_ASSIGN_OR_RETURN(
      const std::vector<TreeDiff> differences,
      TreeDifference(serialized, stored,
                     [](const Tree&, const Tree&) { return true; }));
  const bool is_whole =
      differences.size() == 1 && differences.front().path.empty();
  return InvalidArgumentError(
      "User-provided restore item and on-disk value metadata tree structures "
      "do not match:\n" +
      FormatTreeDifference(differences, is_whole ? "Item" : "Source",
                           is_whole ? "Metadata" : "Target") +
      "\nIf this mismatch is intentional, pass `partial_restore=True` to only "
      "restore parameters found in `item`.");
}

}  // namespace

Result<std::vector<ItemMatch>> MatchItem(const Tree& item, const Tree& entries,
                                         const Checkpoint& checkpoint,
                                         bool partial_restore) {
  Matcher matcher(partial_restore);
  HF_RETURN_IF_ERROR(matcher.Match(item, entries));
  if (matcher.differs()) return MismatchError(item, entries, checkpoint);
  return matcher.TakeMatches();
}

}  // namespace holdfast
