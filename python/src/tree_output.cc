#include "tree_output.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "numpy_arrays.h"
#include "pickle_objects.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

using ValueOf = std::function<nb::object(size_t)>;

class Converter {
 public:
  // If `value_of` is set, every scalar is an index, and becomes `value_of`'s
  // result.
  explicit Converter(const ValueOf* value_of = nullptr,
                     nb::handle namedtuple_of = {})
      : value_of_(value_of), namedtuple_of_(namedtuple_of) {}

  nb::object Convert(const Tree& tree) {
    switch (tree.kind()) {
      case NodeKind::kLeaf:
        return OfLeaf(tree);
      case NodeKind::kDict:
        return OfMapping(tree);
      case NodeKind::kNamedTuple:
        return OfNamedTuple(tree);
      case NodeKind::kList:
        return OfList(tree);
      case NodeKind::kTuple:
        return nb::tuple(OfList(tree));
    }
    return nb::none();
  }

 private:
  nb::object OfMapping(const Tree& tree) {
    nb::dict result;
    for (const size_t i : OrderOf(tree)) {
      path_.push_back(tree.keys()[i]);
      result[KeyOf(tree, i)] = Convert(tree.children()[i]);
      path_.pop_back();
    }
    return result;
  }

  std::vector<size_t> OrderOf(const Tree& tree) const {
    std::vector<size_t> order(tree.size());
    std::iota(order.begin(), order.end(), size_t{0});
    if (value_of_ == nullptr || tree.kind() != NodeKind::kDict) return order;
    const auto less = [&](size_t a, size_t b) {
      return tree.keys()[a] < tree.keys()[b];
    };
    std::stable_sort(order.begin(), order.end(), less);
    return order;
  }

  nb::object KeyOf(const Tree& tree, size_t i) const {
    const std::string& key = tree.keys()[i];
    if (value_of_ != nullptr || tree.key_kind(i) != KeyKind::kInteger) {
      return ToPythonText(key);
    }
    return nb::steal(PyLong_FromString(key.c_str(), nullptr, 10));
  }

  nb::object OfNamedTuple(const Tree& tree) {
    nb::object mapping = OfMapping(tree);
    if (!namedtuple_of_.is_valid()) return mapping;
    const auto values = nb::cast<nb::dict>(mapping);
    return namedtuple_of_(
        ToPythonText(tree.type_module()), ToPythonText(tree.type_name()),
        nb::tuple(values.keys()))(*nb::tuple(values.values()));
  }

  nb::object OfList(const Tree& tree) {
    nb::list result;
    for (size_t i = 0; i < tree.size(); ++i) {
      path_.push_back(std::to_string(i));
      result.append(Convert(tree.children()[i]));
      path_.pop_back();
    }
    return result;
  }

  nb::object OfLeaf(const Tree& tree) {
    switch (tree.leaf_kind()) {
      case LeafKind::kArray:
        return ToNumpy(tree.array(), Name(tree.array().dtype()));
      case LeafKind::kScalar:
        if (value_of_ != nullptr) {
          return (*value_of_)(static_cast<size_t>(tree.scalar().As<int64_t>()));
        }
        return ToPythonNumber(tree.scalar(), Name(tree.scalar().dtype));
      case LeafKind::kString:
      case LeafKind::kReference:
        return ToPythonText(tree.text());
      case LeafKind::kBytes:
        return nb::bytes(tree.text().data(), tree.text().size());
      case LeafKind::kNone:
        return nb::none();
      case LeafKind::kPlaceholder:
        return nb::ellipsis();
      case LeafKind::kObject:
        return OfObject(tree);
      case LeafKind::kExternal:
        break;  // never in a tree that was read
    }
    return nb::none();
  }

  // Converts the pickled object of a foreign format; any other object becomes
  // None.
  static nb::object OfObject(const Tree& tree) {
    const auto* value = std::any_cast<PickleValue>(&tree.object());
    return value != nullptr ? ToPython(*value, nb::none()) : nb::none();
  }

  // Returns the leaf's name for errors. For numpy's own dtypes, which cannot
  // fail, does not join the keys, and returns "".
  std::string Name(DType dtype) const {
    if (IsBuiltin(dtype)) return {};
    std::string name;
    for (const std::string_view key : path_) {
      if (!name.empty()) name += '.';
      name += key;
    }
    return name;
  }

  const ValueOf* value_of_;
  const nb::handle namedtuple_of_;
  std::vector<std::string> path_;
};

}  // namespace

nb::object ToPythonText(std::string_view text) {
  PyObject* result = PyUnicode_DecodeUTF8(
      text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (result == nullptr) nb::raise_python_error();
  return nb::steal(result);
}

nb::object ToPython(const Tree& tree) { return Converter().Convert(tree); }

nb::object ToPython(const Tree& structure,
                    const std::function<nb::object(size_t)>& value_of,
                    nb::handle namedtuple_of) {
  return Converter(&value_of, namedtuple_of).Convert(structure);
}

nb::list ToPythonTexts(const std::vector<std::string>& texts) {
  nb::list list;
  for (const std::string& text : texts) list.append(ToPythonText(text));
  return list;
}

}  // namespace holdfast::python
