// TreeDifference of holdfast/tree_utils.h.

#include <unordered_map>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/tree/flatten.h"
#include "ground/tree/rebuild.h"
#include "holdfast/tree_utils.h"

namespace holdfast {
namespace {

constexpr std::string_view kMissing = "MISSING";

using LeavesEqual = std::function<bool(const Tree&, const Tree&)>;

std::string SideText(const Tree& node) {
  const bool is_nothing =
      node.is_leaf() && (node.leaf_kind() == LeafKind::kNone ||
                         node.leaf_kind() == LeafKind::kPlaceholder);
  return is_nothing ? std::string(kMissing) : PythonValueText(node);
}

std::string LengthText(const Tree& sequence) {
  return "(" + PythonClassText(sequence) + ", " +
         std::to_string(sequence.size()) + ")";
}

class Differ {
 public:
  Differ(const LeavesEqual& leaves_equal, std::vector<TreeDiff>& differences)
      : leaves_equal_(leaves_equal), differences_(differences) {}

  void Visit(const Tree& a, const Tree& b) {
    const bool are_values =
        a.is_leaf() && b.is_leaf() && !a.is_none() && !b.is_none();
    if (are_values && leaves_equal_) {
      if (!leaves_equal_(a, b)) Report(&a, &b, SideText(a), SideText(b));
      return;
    }
    const std::string a_class = PythonClassText(a);
    const std::string b_class = PythonClassText(b);
    if (a_class != b_class) {
      if (are_values) {
        Report(&a, &b, SideText(a), SideText(b));
      } else {
        Report(&a, &b, a_class, b_class);
      }
    } else if (a.is_sequence() && a.size() != b.size()) {
      Report(&a, &b, LengthText(a), LengthText(b));
    } else if (a.is_sequence()) {
      for (size_t i = 0; i < a.size(); ++i) {
        VisitChild(std::to_string(i), KeyKind::kIndex, a.children()[i],
                   b.children()[i]);
      }
    } else {
      VisitMapping(a, b);
    }
  }

 private:
  void VisitMapping(const Tree& a, const Tree& b) {
    std::unordered_map<std::string_view, const Tree*> b_of_key;
    for (size_t i = 0; i < b.size(); ++i) {
      b_of_key.emplace(b.keys()[i], &b.children()[i]);
    }
    const std::vector<size_t> a_order = SortedChildren(a);
    const std::vector<size_t> b_order = SortedChildren(b);
    std::unordered_map<std::string_view, const Tree*> a_of_key;
    for (size_t i = 0; i < a.size(); ++i) {
      a_of_key.emplace(a.keys()[i], &a.children()[i]);
    }
    // Merges two sorted lists of keys.
    size_t next_b = 0;
    const auto report_b_before = [&](const std::string* key) {
      for (; next_b < b_order.size(); ++next_b) {
        const size_t i = b_order[next_b];
        if (key != nullptr && b.keys()[i] > *key) return;
        if (!a_of_key.contains(b.keys()[i])) {
          ReportChild(b.keys()[i], nullptr, &b.children()[i]);
        }
      }
    };
    for (const size_t i : a_order) {
      const std::string& key = a.keys()[i];
      report_b_before(&key);
      const auto in_b = b_of_key.find(key);
      if (in_b == b_of_key.end()) {
        ReportChild(key, &a.children()[i], nullptr);
      } else {
        VisitChild(key, a.key_kind(i), a.children()[i], *in_b->second);
      }
    }
    report_b_before(nullptr);
  }

  void VisitChild(const std::string& key, KeyKind kind, const Tree& a,
                  const Tree& b) {
    path_.push_back({key, kind});
    Visit(a, b);
    path_.pop_back();
  }

  void ReportChild(const std::string& key, const Tree* a, const Tree* b) {
    path_.push_back({key});
    Report(a, b, a == nullptr ? std::string(kMissing) : SideText(*a),
           b == nullptr ? std::string(kMissing) : SideText(*b));
    path_.pop_back();
  }

  void Report(const Tree* a, const Tree* b, std::string a_text,
              std::string b_text) {
    std::string place;
    for (const KeyElement& element : path_) {
      if (element.kind == KeyKind::kIndex) {
        place += "[" + element.key + "]";
      } else {
        place += (place.empty() ? "" : ".") + element.key;
      }
    }
    differences_.push_back({PathOf(path_), a, b, std::move(place),
                            std::move(a_text), std::move(b_text)});
  }

  const LeavesEqual& leaves_equal_;
  std::vector<TreeDiff>& differences_;
  KeyPath path_;
};

}  // namespace

Result<std::vector<TreeDiff>> TreeDifference(const Tree& a, const Tree& b,
                                             const LeavesEqual& leaves_equal) {
  HF_RETURN_IF_ERROR(Flatten(a).status());
  HF_RETURN_IF_ERROR(Flatten(b).status());
  std::vector<TreeDiff> differences;
  Differ(leaves_equal, differences).Visit(a, b);
  return differences;
}

std::string FormatTreeDifference(const std::vector<TreeDiff>& differences,
                                 std::string_view source_label,
                                 std::string_view target_label) {
  std::string text;
  for (const TreeDiff& difference : differences) {
    const bool is_root = difference.path.empty();
    if (!text.empty()) text += "\n\n";
    text += is_root ? "Mismatch:" : difference.place + ":";
    text += "\n    - ";
    text += is_root ? source_label : "Source";
    text += ": " + difference.lhs_text + "\n    - ";
    text += is_root ? target_label : "Target";
    text += ": " + difference.rhs_text;
  }
  return text;
}

}  // namespace holdfast
