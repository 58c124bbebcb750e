#include "tree_builder.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "array_copies.h"
#include "blocking.h"
#include "device_arrays.h"
#include "errors.h"
#include "leaves.h"
#include "numpy_arrays.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// One step of the path to a leaf: a key, or an index if key is null.
struct Step {
  PyObject* key = nullptr;  // borrowed
  Py_ssize_t index = 0;
};

struct Key {
  std::string text;  // its str()
  KeyKind kind = KeyKind::kName;
};

class TreeBuilder {
 public:
  explicit TreeBuilder(const BuildOptions& options) : options_(options) {}

  BuiltTree Build(nb::handle root) {
    result_.tree = Visit(root.ptr(), /*may_adapt=*/true);
    result_.copied_bytes += snapshot_.byte_count();
    if (snapshot_.byte_count() > 0) {
      RunBlocking({}, nb::none(),
                  [this](const RunOptions&) { return snapshot_.Run(); });
    }
    // The copies are made, so their sources are no longer needed.
    copied_.clear();
    copied_readers_.clear();
    return std::move(result_);
  }

 private:
  Tree Visit(PyObject* object, bool may_adapt);
  // `is_inside`: the object is already in containers_.
  Tree VisitAdapted(PyObject* object, bool is_inside);
  Tree VisitDict(PyObject* dict);
  // Refuses keys of a dict that become the same name.
  void CheckNames(PyObject* keys, const std::vector<Key>& names) const;
  Tree VisitSequence(PyObject* sequence);
  Tree VisitNamedTuple(PyObject* tuple, PyObject* fields);
  Tree VisitNode(const Node& node);
  Tree Child(Step step, PyObject* object);

  Tree OfArray(nb::handle array);
  Tree OfLeaf(const ArrayLeaf& leaf);
  Tree OfNumpyScalar(nb::handle scalar);
  Tree OfInt(PyObject* object);
  Tree OfText(PyObject* object);

  Array Borrow(nb::handle array, bool may_change);
  // Returns a shard for an array on a device, without its origin.
  ArrayShard BorrowFromDevice(const DeviceArrayObject& array, bool may_change);
  DType StoredDType(nb::handle array) const;
  Tree Number(Scalar scalar);
  std::shared_ptr<const ArrayTraits> TraitsOf(const ArrayLeaf& leaf);

  nb::tuple PathKeys() const;
  std::string LeafName() const;
  [[noreturn]] void Refuse(const std::string& message) const {
    ThrowValueError(message + " (leaf \"" + LeafName() + "\")");
  }
  [[noreturn]] void RefuseDType(const std::string& name) const {
    Refuse("Error parsing object member \"dtype\": Unsupported data type: \"" +
           name + "\"");
  }
  // Refuses bytes by numpy's name for their dtype, whose size is never 0.
  [[noreturn]] void RefuseBytes(PyObject* bytes) const {
    const Py_ssize_t size = std::max<Py_ssize_t>(PyBytes_Size(bytes), 1);
    RefuseDType("bytes" + std::to_string(8 * size));
  }

  const BuildOptions& options_;
  BuiltTree result_;
  Snapshot snapshot_;
  std::vector<nb::object> copied_;
  std::vector<std::shared_ptr<const ArrayReader>> copied_readers_;
  std::vector<Step> path_;
  std::vector<PyObject*> containers_;          // borrowed; root first
  std::shared_ptr<const ArrayTraits> traits_;  // latest; shared if equal
};

// Records in `containers` that the walk is inside `container`, during its
// lifetime.
class Inside {
 public:
  Inside(std::vector<PyObject*>& containers, PyObject* container)
      : containers_(containers) {
    containers_.push_back(container);
  }
  ~Inside() { containers_.pop_back(); }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::vector<PyObject*>& containers_;
};

uint64_t ByteCount(const ConstArrayView& view) {
  return static_cast<uint64_t>(ElementCount(view.shape)) *
         DTypeBytes(view.dtype);
}

bool FitsInto(const Shape& origin, const Shape& extents, const Shape& shape) {
  if (origin.size() != shape.size() || extents.size() != shape.size()) {
    return false;
  }
  for (size_t i = 0; i < shape.size(); ++i) {
    if (origin[i] < 0 || origin[i] > shape[i] - extents[i]) return false;
  }
  return true;
}

std::string ToUtf8(PyObject* text, const char* what) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text, &size);
  if (data != nullptr) return std::string(data, static_cast<size_t>(size));
  PyErr_Clear();
  const nb::str shown(nb::repr(text));
  ThrowValueError(std::string(what) + " " + shown.c_str() +
                  " holds surrogates, which UTF-8 cannot store");
}

Key DictKey(PyObject* key, bool int_keys) {
  if (PyUnicode_CheckExact(key)) return {ToUtf8(key, "the key")};
  const nb::object text = nb::steal(PyObject_Str(key));
  if (!text.is_valid()) nb::raise_python_error();
  Key made{ToUtf8(text.ptr(), "the key")};
  const bool is_int = PyIndex_Check(key) && !PyBool_Check(key);
  if (int_keys && is_int && IsIntegerText(made.text)) {
    made.kind = KeyKind::kInteger;
  }
  return made;
}

std::string Repr(nb::handle object) {
  return nb::str(nb::repr(object)).c_str();
}

std::string TypeAttribute(PyObject* type, const char* name) {
  const nb::object value = nb::steal(PyObject_GetAttrString(type, name));
  if (!value.is_valid() || !PyUnicode_Check(value.ptr())) {
    PyErr_Clear();
    return {};
  }
  return ToUtf8(value.ptr(), "the type name");
}

nb::tuple TreeBuilder::PathKeys() const {
  nb::list keys;
  for (const Step& step : path_) {
    if (step.key != nullptr) {
      keys.append(nb::borrow(step.key));
    } else {
      keys.append(nb::int_(step.index));
    }
  }
  return nb::tuple(keys);
}

std::string TreeBuilder::LeafName() const {
  std::string name;
  for (const Step& step : path_) {
    if (!name.empty()) name += '.';
    name += step.key != nullptr ? nb::str(nb::handle(step.key)).c_str()
                                : std::to_string(step.index);
  }
  return name;
}

Tree TreeBuilder::Child(Step step, PyObject* object) {
  path_.push_back(step);
  // Hold the object: the code of a key or of `adapt` may remove values from the
  // caller's containers during the walk.
  const nb::object held = nb::borrow(object);
  Tree tree = Visit(object, /*may_adapt=*/true);
  path_.pop_back();
  return tree;
}

Tree TreeBuilder::Visit(PyObject* object, bool may_adapt) {
  if (IsArray(object)) return OfArray(object);
  if (object == Py_None) return Tree::None();
  const bool is_container = PyDict_CheckExact(object) ||
                            PyList_CheckExact(object) || PyTuple_Check(object);
  if (is_container) {
    if (std::find(containers_.begin(), containers_.end(), object) !=
        containers_.end()) {
      Refuse("the tree contains itself");
    }
    if (static_cast<int>(containers_.size()) >= kTreeDepthMax) {
      Refuse("the tree is deeper than " + std::to_string(kTreeDepthMax) +
             " containers");
    }
    const Inside inside(containers_, object);
    if (PyDict_CheckExact(object)) return VisitDict(object);
    if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
      return VisitSequence(object);
    }
    const nb::object fields =
        nb::steal(PyObject_GetAttrString(object, "_fields"));
    if (fields.is_valid() && PyTuple_Check(fields.ptr())) {
      return VisitNamedTuple(object, fields.ptr());
    }
    PyErr_Clear();
    return VisitAdapted(object, /*is_inside=*/true);
  }
  if (PyBool_Check(object)) {
    return Number(Scalar::Of<bool>(DType::kBool, object == Py_True, true));
  }
  if (IsNumpyScalar(object)) return OfNumpyScalar(object);
  if (PyLong_Check(object)) return OfInt(object);
  if (PyFloat_Check(object)) {
    return Number(
        Scalar::Of<double>(DType::kFloat64, PyFloat_AsDouble(object), true));
  }
  if (PyUnicode_Check(object)) return OfText(object);
  if (object == Py_Ellipsis) {
    ++result_.leaf_count;
    return Tree::Placeholder();
  }
  if (PyComplex_Check(object)) {
    // The formats have no scalar type for a Python complex, so it is stored as
    // a 0-d array.
    const double parts[2] = {PyComplex_RealAsDouble(object),
                             PyComplex_ImagAsDouble(object)};
    ++result_.leaf_count;
    result_.byte_count += sizeof parts;
    return Tree(Array::FromBytes(DType::kComplex128, {}, parts));
  }
  if (PyBytes_Check(object)) {
    RefuseBytes(object);
  }
  const nb::handle handle(object);
  if (nb::isinstance<ArrayLeaf>(handle)) {
    return OfLeaf(nb::cast<const ArrayLeaf&>(handle));
  }
  if (nb::isinstance<ExternalLeaf>(handle)) {
    ++result_.leaf_count;
    return Tree::External(nb::cast<const ExternalLeaf&>(handle).value_type);
  }
  if (nb::isinstance<Node>(handle)) {
    const Inside inside(containers_, object);
    return VisitNode(nb::cast<const Node&>(handle));
  }
  if (may_adapt) return VisitAdapted(object, /*is_inside=*/false);
  throw nb::type_error(
      ("adapt returned a " + Repr(nb::handle(object).type()) + " for a leaf")
          .c_str());
}

Tree TreeBuilder::VisitAdapted(PyObject* object, bool is_inside) {
  // Objects that `adapt` converts may also contain themselves.
  if (static_cast<int>(path_.size()) > kTreeDepthMax) {
    Refuse("the tree is deeper than " + std::to_string(kTreeDepthMax) +
           " containers, or contains itself");
  }
  const nb::object adapted = options_.adapt(nb::borrow(object), PathKeys());
  if (!is_inside && std::find(containers_.begin(), containers_.end(), object) !=
                        containers_.end()) {
    Refuse("the tree contains itself");
  }
  if (is_inside || adapted.ptr() == object) return Visit(adapted.ptr(), false);
  const Inside inside(containers_, object);
  return Visit(adapted.ptr(), false);
}

Tree TreeBuilder::VisitDict(PyObject* dict) {
  const nb::object keys = nb::steal(PyDict_Keys(dict));
  if (!keys.is_valid()) nb::raise_python_error();
  if (PyList_Sort(keys.ptr()) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_Exception)) nb::raise_python_error();
    PyErr_Clear();
    const nb::object said =
        nb::module_::import_("holdfast._pytree").attr("unsorted_keys")(keys);
    Refuse(nb::cast<std::string>(said));
  }
  const Py_ssize_t count = PyList_Size(keys.ptr());
  std::vector<Key> names;
  names.reserve(static_cast<size_t>(count));
  bool are_texts = true, are_integers = true;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyList_GetItem(keys.ptr(), i);
    names.push_back(DictKey(key, options_.int_keys));
    are_texts = are_texts && PyUnicode_CheckExact(key);
    are_integers = are_integers && names.back().kind == KeyKind::kInteger;
  }
  if (!are_texts) CheckNames(keys.ptr(), names);
  // A Dict sorts its keys as strings or integers, but other keys have another
  // order (1.5 before 10.0). A NamedTuple keeps the order of its members.
  Tree tree =
      are_texts || are_integers ? Tree::Dict() : Tree::NamedTuple("", "");
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyList_GetItem(keys.ptr(), i);
    PyObject* value = PyDict_GetItemWithError(dict, key);
    if (value == nullptr) {
      if (PyErr_Occurred()) nb::raise_python_error();
      Refuse("a dict changed while it was saved");
    }
    Key& name = names[static_cast<size_t>(i)];
    tree.Add(std::move(name.text), Child({key, 0}, value), name.kind);
  }
  return tree;
}

void TreeBuilder::CheckNames(PyObject* keys,
                             const std::vector<Key>& names) const {
  std::vector<std::pair<std::string_view, Py_ssize_t>> sorted;
  for (const Key& name : names) {
    sorted.emplace_back(name.text, static_cast<Py_ssize_t>(sorted.size()));
  }
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 1; i < sorted.size(); ++i) {
    if (sorted[i - 1].first != sorted[i].first) continue;
    Refuse("the keys " + Repr(PyList_GetItem(keys, sorted[i - 1].second)) +
           " and " + Repr(PyList_GetItem(keys, sorted[i].second)) +
           " are one name, '" + std::string(sorted[i].first) +
           "', in a checkpoint");
  }
}

Tree TreeBuilder::VisitSequence(PyObject* sequence) {
  const bool is_list = PyList_CheckExact(sequence);
  std::vector<Tree> items;
  items.reserve(static_cast<size_t>(PySequence_Size(sequence)));
  // The size is read each time, because a list may shrink during the walk.
  for (Py_ssize_t i = 0; i < PySequence_Size(sequence); ++i) {
    items.push_back(Child({nullptr, i}, is_list
                                            ? PyList_GetItem(sequence, i)
                                            : PyTuple_GetItem(sequence, i)));
  }
  return is_list ? Tree::List(std::move(items)) : Tree::Tuple(std::move(items));
}

Tree TreeBuilder::VisitNamedTuple(PyObject* tuple, PyObject* fields) {
  const Py_ssize_t count = PyTuple_Size(tuple);
  if (PyTuple_Size(fields) != count) {
    Refuse("a named tuple has " + std::to_string(count) + " values and " +
           std::to_string(PyTuple_Size(fields)) + " names");
  }
  std::vector<Tree::Member> members;
  members.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* field = PyTuple_GetItem(fields, i);
    members.emplace_back(DictKey(field, /*int_keys=*/false).text,
                         Child({field, 0}, PyTuple_GetItem(tuple, i)));
  }
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(tuple));
  return Tree::NamedTuple(TypeAttribute(type, "__module__"),
                          TypeAttribute(type, "__qualname__"),
                          std::move(members));
}

Tree TreeBuilder::VisitNode(const Node& node) {
  const size_t count = nb::len(node.children);
  if (node.is_sequence) {
    std::vector<Tree> items;
    items.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      const nb::object child = node.children[i];
      items.push_back(
          Child({nullptr, static_cast<Py_ssize_t>(i)}, child.ptr()));
    }
    return Tree::Positional(std::move(items));
  }
  Tree tree = Tree::NamedTuple("", "");
  for (size_t i = 0; i < count; ++i) {
    PyObject* key = node.keys[i].ptr();
    Key name = DictKey(key, options_.int_keys);
    const nb::object child = node.children[i];
    tree.Add(std::move(name.text), Child({key, 0}, child.ptr()), name.kind);
  }
  return tree;
}

DType TreeBuilder::StoredDType(nb::handle array) const {
  const std::optional<DType> dtype = DTypeOf(array);
  if (!dtype || *dtype == DType::kUint2 || *dtype == DType::kUint4) {
    RefuseDType(DTypeNameOf(array));
  }
  return *dtype;
}

Array TreeBuilder::Borrow(nb::handle array, bool may_change) {
  const DType dtype = StoredDType(array);
  nb::object native = AsNative(array);
  const bool is_copy = native.ptr() != array.ptr();
  const ConstArrayView view = ViewOf(native, dtype);
  if (!options_.snapshot || !may_change || is_copy) {
    if (is_copy) result_.copied_bytes += ByteCount(view);
    result_.borrowed.push_back(std::move(native));
    return Array::Borrow(view, nullptr);
  }
  std::optional<Array> copy = Check(snapshot_.Plan(view));
  if (copy) {
    copied_.push_back(std::move(native));
    return *std::move(copy);
  }
  native = CopyArray(native);
  Array made = Array::Borrow(ViewOf(native, dtype), nullptr);
  result_.copied_bytes += made.byte_count();
  result_.borrowed.push_back(std::move(native));
  return made;
}

ArrayShard TreeBuilder::BorrowFromDevice(const DeviceArrayObject& array,
                                         bool may_change) {
  ArrayShard shard;
  shard.reader = ReaderOf(array);
  if (!options_.snapshot || !may_change) {
    shard.array = Array::Outline(array.dtype, array.shape);
    return shard;
  }
  shard.array =
      Check(snapshot_.PlanRead(array.dtype, array.shape, *shard.reader));
  copied_readers_.push_back(std::move(shard.reader));
  return shard;
}

Tree TreeBuilder::OfArray(nb::handle array) {
  if (!IsPlainArray(array) && nb::hasattr(array, "_mask")) {
    Refuse(
        "a masked array has no stored form; save its .filled() or its "
        ".data and .mask");
  }
  Array borrowed = Borrow(array, /*may_change=*/true);
  ++result_.leaf_count;
  result_.byte_count += borrowed.byte_count();
  return Tree(std::move(borrowed));
}

Tree TreeBuilder::Number(Scalar scalar) {
  ++result_.leaf_count;
  result_.byte_count += DTypeBytes(scalar.dtype);
  return Tree(scalar);
}

Tree TreeBuilder::OfNumpyScalar(nb::handle scalar) {
  if (PyUnicode_Check(scalar.ptr())) return OfText(scalar.ptr());
  if (PyBytes_Check(scalar.ptr())) {
    RefuseBytes(scalar.ptr());
  }
  const nb::object array = ScalarAsArray(scalar);
  const DType dtype = StoredDType(array);
  // Like Orbax, store an np.number as a scalar. Orbax cannot store other numpy
  // scalars, which become 0-d arrays.
  if (IsNumpyNumber(scalar)) return Number(ScalarOf(scalar, dtype));
  Array borrowed = Borrow(array, /*may_change=*/false);
  ++result_.leaf_count;
  result_.byte_count += borrowed.byte_count();
  return Tree(std::move(borrowed));
}

Tree TreeBuilder::OfInt(PyObject* object) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (value == -1 && PyErr_Occurred()) nb::raise_python_error();
    return Number(Scalar::Of<int64_t>(DType::kInt64, value, true));
  }
  const unsigned long long large = PyLong_AsUnsignedLongLong(object);
  if (!PyErr_Occurred()) {
    return Number(Scalar::Of<uint64_t>(DType::kUint64, large, true));
  }
  PyErr_Clear();
  Refuse(
      "Error parsing object member \"dtype\": Unsupported data type: "
      "\"object\": an integer of more than 64 bits; save it as text (str), or "
      "in a JSON item or custom_metadata, which keep it");
}

Tree TreeBuilder::OfText(PyObject* object) {
  if (!options_.strings) {
    ThrowValueError("Unsupported type: " + Repr(nb::handle(object).type()) +
                    " for key: " + Repr(PathKeys()) + ".");
  }
  ++result_.leaf_count;
  return Tree(
      ToUtf8(object, ("leaf \"" + LeafName() + "\": the text").c_str()));
}

std::shared_ptr<const ArrayTraits> TreeBuilder::TraitsOf(
    const ArrayLeaf& leaf) {
  if (traits_ != nullptr && traits_->sharding_json == leaf.sharding_json &&
      traits_->prng_impl == leaf.prng_impl &&
      traits_->write_shape == leaf.write_shape) {
    return traits_;
  }
  traits_ = std::make_shared<ArrayTraits>(
      ArrayTraits{leaf.sharding_json, leaf.prng_impl, leaf.write_shape});
  return traits_;
}

Tree TreeBuilder::OfLeaf(const ArrayLeaf& leaf) {
  std::vector<ArrayShard> shards;
  shards.reserve(leaf.shards.size());
  std::optional<DType> dtype = leaf.dtype;
  for (const LeafShard& shard : leaf.shards) {
    ArrayShard part;
    if (IsArray(shard.array)) {
      part.array = Borrow(shard.array, !leaf.immutable);
    } else {
      part = BorrowFromDevice(nb::cast<const DeviceArrayObject&>(shard.array),
                              !leaf.immutable);
    }
    const Array& array = part.array;
    if (dtype.value_or(array.dtype()) != array.dtype()) {
      Refuse("the shards' dtypes differ");
    }
    dtype = array.dtype();
    if (!FitsInto(shard.origin, array.shape(), leaf.shape)) {
      Refuse("a shard of shape " + ShapeToString(array.shape()) + " at " +
             ShapeToString(shard.origin) + " is not inside the array's shape " +
             ShapeToString(leaf.shape));
    }
    result_.byte_count += array.byte_count();
    part.origin = shard.origin;
    shards.push_back(std::move(part));
  }
  ++result_.leaf_count;
  const bool is_whole = !leaf.dtype && shards.size() == 1 &&
                        shards[0].array.shape() == leaf.shape;
  if (!is_whole) {
    return Tree::ShardedArray(
        *dtype, leaf.shape, std::move(shards), TraitsOf(leaf),
        leaf.is_jax ? ArrayKind::kJax : ArrayKind::kNumpy);
  }
  if (shards[0].reader != nullptr) {
    return Tree::DeferredArray(
        *dtype, leaf.shape, std::move(shards[0].reader),
        leaf.is_jax ? ArrayKind::kJax : ArrayKind::kNumpy,
        leaf.is_jax ? TraitsOf(leaf) : nullptr);
  }
  if (!leaf.is_jax) return Tree(std::move(shards[0].array));
  return Tree::JaxArray(std::move(shards[0].array), TraitsOf(leaf));
}

}  // namespace

BuiltTree BuildTree(nb::handle tree, const BuildOptions& options) {
  return TreeBuilder(options).Build(tree);
}

}  // namespace holdfast::python
