#include "leaf_rows.h"

#include <string>

#include "arguments.h"
#include "holdfast/dtype.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// Converts strings to Python objects. Equal consecutive strings share one
// object.
class LastText {
 public:
  nb::object Get(const std::string& text) {
    if (!object_.is_valid() || text_ != text) {
      object_ = ToPythonText(text);
      text_ = text;
    }
    return object_;
  }

 private:
  std::string text_;
  nb::object object_;
};

class RowMaker {
 public:
  nb::tuple Make(const LeafInfo& leaf) {
    if (!IsStoredAsLast(leaf)) layout_ = LayoutOf(leaf);
    last_ = &leaf;
    return nb::make_tuple(ToPythonText(leaf.name), KeyOf(leaf), layout_,
                          sharding_.Get(leaf.sharding_json),
                          !leaf.problem.ok());
  }

 private:
  bool IsStoredAsLast(const LeafInfo& leaf) const {
    return last_ != nullptr && last_->value_type == leaf.value_type &&
           last_->skip_deserialize == leaf.skip_deserialize &&
           last_->dtype == leaf.dtype && last_->shape == leaf.shape &&
           last_->chunk_shape == leaf.chunk_shape &&
           last_->write_shape == leaf.write_shape &&
           last_->array_metadata == leaf.array_metadata;
  }

  nb::tuple LayoutOf(const LeafInfo& leaf) {
    nb::object dtype = nb::none();
    if (leaf.dtype) dtype = ToPythonText(DTypeName(*leaf.dtype));
    nb::object write_shape = nb::none();
    if (leaf.write_shape) write_shape = ToTuple(*leaf.write_shape);
    return nb::make_tuple(ToPythonText(leaf.value_type), leaf.skip_deserialize,
                          dtype, ToTuple(leaf.shape), ToTuple(leaf.chunk_shape),
                          write_shape,
                          array_metadata_.Get(leaf.array_metadata));
  }

  static nb::object KeyOf(const LeafInfo& leaf) {
    nb::object keys =
        nb::steal(PyTuple_New(static_cast<Py_ssize_t>(leaf.key.size())));
    if (!keys.is_valid()) nb::raise_python_error();
    for (size_t i = 0; i < leaf.key.size(); ++i) {
      nb::object key = ToPythonText(leaf.key[i]);
      PyObject* text = key.release().ptr();
      // These become keys of dicts, so equal keys share one object.
      PyUnicode_InternInPlace(&text);
      PyTuple_SetItem(keys.ptr(), static_cast<Py_ssize_t>(i), text);
    }
    return keys;
  }

  const LeafInfo* last_ = nullptr;
  nb::tuple layout_;  // of last_
  LastText array_metadata_, sharding_;
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
