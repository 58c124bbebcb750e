#include "leaf_rows.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "arguments.h"
#include "holdfast/dtype.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// The Python object of the value before, for a value that is equal to it.
template <typename T>
class Last {
 public:
  template <typename Make>
  nb::object Get(const T& value, const Make& make) {
    if (!object_.is_valid() || value_ != value) {
      object_ = make(value);
      value_ = value;
    }
    return object_;
  }

 private:
  T value_{};
  nb::object object_;
};

class RowMaker {
 public:
  nb::tuple Make(const LeafInfo& leaf) {
    const auto text = [](const std::string& value) {
      return ToPythonText(value);
    };
    const auto shape = [](const Shape& value) -> nb::object {
      return ToTuple(value);
    };
    return nb::make_tuple(
        ToPythonText(leaf.name), KeyOf(leaf), IsSequenceOf(leaf),
        value_type_.Get(leaf.value_type, text), leaf.skip_deserialize,
        dtype_.Get(leaf.dtype,
                   [](std::optional<DType> dtype) -> nb::object {
                     if (!dtype) return nb::none();
                     return ToPythonText(DTypeName(*dtype));
                   }),
        shape_.Get(leaf.shape, shape),
        chunk_shape_.Get(leaf.chunk_shape, shape),
        write_shape_.Get(leaf.write_shape,
                         [](const std::optional<Shape>& value) -> nb::object {
                           if (!value) return nb::none();
                           return ToTuple(*value);
                         }),
        array_metadata_.Get(leaf.array_metadata, text),
        sharding_.Get(leaf.sharding_json, text), !leaf.problem.ok());
  }

 private:
  static nb::object KeyOf(const LeafInfo& leaf) {
    nb::object keys =
        nb::steal(PyTuple_New(static_cast<Py_ssize_t>(leaf.key.size())));
    if (!keys.is_valid()) nb::raise_python_error();
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      nb::object key = ToPythonText(leaf.key[i]);
      PyObject* text = key.release().ptr();
      // Dicts are made of them: equal keys are one object.
      PyUnicode_InternInPlace(&text);
      PyTuple_SetItem(keys.ptr(), static_cast<Py_ssize_t>(i), text);
    }
    return keys;
  }

  static nb::object IsSequenceOf(const LeafInfo& leaf) {
    const std::vector<KeyKind>& kinds = leaf.key_kinds;
    if (std::find(kinds.begin(), kinds.end(), KeyKind::kIndex) == kinds.end()) {
      return nb::none();
    }
    nb::list values;
    for (const KeyKind kind : kinds) values.append(kind == KeyKind::kIndex);
    return nb::tuple(values);
  }

  Last<std::string> value_type_, array_metadata_, sharding_;
  Last<std::optional<DType>> dtype_;
  Last<Shape> shape_, chunk_shape_;
  Last<std::optional<Shape>> write_shape_;
};

}  // namespace

nb::list LeafRows(const Checkpoint& checkpoint) {
  RowMaker maker;
  nb::list rows;
  for (const LeafInfo& leaf : checkpoint.leaves()) {
    rows.append(maker.Make(leaf));
  }
  return rows;
}

}  // namespace holdfast::python
