// Converts Python values to msgpack and back, for programs that define their
// own extension types: `_engine.msgpack_pack` and `_engine.msgpack_unpack`.
// (For Flax's dialect of complete trees, see aggregate_bindings.cc.)
//
// Thread-safety: needs the GIL. Units: bytes.
// Errors: ValueError for damaged bytes and too many levels, OverflowError for
// integers of more than 64 bits, and what the callbacks raise.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <bit>
#include <cstdint>
#include <limits>
#include <msgpack.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bindings.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

// The limit of Python's msgpack package.
constexpr int kLevelsMax = 511;

// A value of an extension type, which the program defines.
struct Extension {
  int8_t code;
  nb::bytes data;
};

[[noreturn]] void Fail(PyObject* kind, const char* text) {
  PyErr_SetString(kind, text);
  nb::raise_python_error();
}

uint32_t LengthOf(size_t length) {
  if (length > std::numeric_limits<uint32_t>::max()) {
    Fail(PyExc_ValueError, "msgpack has no room for so many items or bytes");
  }
  return static_cast<uint32_t>(length);
}

class ValuePacker {
 public:
  explicit ValuePacker(nb::handle fallback) : fallback_(fallback) {}

  void Pack(nb::handle value, int level = 0) {
    if (level > kLevelsMax) Fail(PyExc_ValueError, "recursion limit exceeded");
    PyObject* object = value.ptr();
    if (value.is_none()) {
      packer_.pack_nil();
    } else if (PyBool_Check(object)) {
      object == Py_True ? packer_.pack_true() : packer_.pack_false();
    } else if (PyLong_CheckExact(object)) {
      PackInteger(object);
    } else if (PyFloat_CheckExact(object)) {
      PackDouble(PyFloat_AsDouble(object));
    } else if (PyUnicode_CheckExact(object)) {
      PackText(object);
    } else if (PyBytes_CheckExact(object)) {
      PackBytes(object);
    } else if (PyList_CheckExact(object)) {
      packer_.pack_array(LengthOf(nb::len(value)));
      for (nb::handle item : nb::borrow<nb::list>(value)) Pack(item, level + 1);
    } else if (PyDict_CheckExact(object)) {
      packer_.pack_map(LengthOf(nb::len(value)));
      for (auto [key, item] : nb::borrow<nb::dict>(value)) {
        Pack(key, level + 1);
        Pack(item, level + 1);
      }
    } else if (nb::isinstance<Extension>(value)) {
      PackExtension(nb::cast<const Extension&>(value));
    } else {
      Pack(fallback_(value), level + 1);
    }
  }

  nb::bytes Take() const { return nb::bytes(buffer_.data(), buffer_.size()); }

 private:
  void PackInteger(PyObject* object) {
    int overflow = 0;
    const int64_t value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow == 0) {
      packer_.pack_int64(value);
      return;
    }
    const uint64_t large = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred() != nullptr) {
      PyErr_Clear();
      Fail(PyExc_OverflowError, "Integer value out of range");
    }
    packer_.pack_uint64(large);
  }

  // Packs a double as a double. The packer's own method would pack 2.0 and -0.0
  // as integers.
  void PackDouble(double value) {
    char bytes[9] = {static_cast<char>(0xcb)};
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) {
      bytes[i + 1] = static_cast<char>(bits >> (56 - 8 * i));
    }
    buffer_.write(bytes, sizeof(bytes));
  }

  void PackText(PyObject* object) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) nb::raise_python_error();
    const uint32_t length = LengthOf(static_cast<size_t>(size));
    packer_.pack_str(length);
    packer_.pack_str_body(text, length);
  }

  void PackBytes(PyObject* object) {
    const uint32_t length = LengthOf(static_cast<size_t>(PyBytes_Size(object)));
    packer_.pack_bin(length);
    packer_.pack_bin_body(PyBytes_AsString(object), length);
  }

  void PackExtension(const Extension& extension) {
    const uint32_t length = LengthOf(extension.data.size());
    packer_.pack_ext(length, extension.code);
    packer_.pack_ext_body(extension.data.c_str(), length);
  }

  nb::handle fallback_;
  msgpack::sbuffer buffer_;
  msgpack::packer<msgpack::sbuffer> packer_{buffer_};
};

// Builds the value while msgpack's parser reads its bytes.
class ValueVisitor : public msgpack::null_visitor {
 public:
  ValueVisitor(const nb::bytes& data, nb::handle extension,
               bool texts_are_bytes)
      : data_(data), extension_(extension), texts_are_bytes_(texts_are_bytes) {}

  nb::object root;

  bool visit_nil() { return Add(nb::none()); }
  bool visit_boolean(bool value) { return Add(nb::bool_(value)); }
  bool visit_positive_integer(uint64_t value) { return Add(nb::int_(value)); }
  bool visit_negative_integer(int64_t value) { return Add(nb::int_(value)); }
  bool visit_float32(float value) { return visit_float64(value); }
  bool visit_float64(double value) { return Add(nb::float_(value)); }
  bool visit_bin(const char* data, uint32_t size) {
    return Add(nb::bytes(data, size));
  }
  bool visit_str(const char* data, uint32_t size) {
    if (texts_are_bytes_) return visit_bin(data, size);
    PyObject* text =
        PyUnicode_DecodeUTF8(data, static_cast<Py_ssize_t>(size), nullptr);
    if (text == nullptr) nb::raise_python_error();
    return Add(nb::steal(text));
  }
  // `data` starts with the code.
  bool visit_ext(const char* data, uint32_t size) {
    const int code = static_cast<int8_t>(data[0]);
    return Add(extension_(code, nb::bytes(data + 1, size - 1)));
  }

  bool start_array(uint32_t) { return Push(nb::list(), false); }
  bool end_array() { return Pop(); }
  bool start_map(uint32_t) { return Push(nb::dict(), true); }
  bool end_map() { return Pop(); }

  void parse_error(size_t, size_t error_offset) {
    const auto code = static_cast<uint8_t>(data_.c_str()[error_offset]);
    PyErr_Format(PyExc_ValueError, "msgpack has no values of code 0x%x", code);
    nb::raise_python_error();
  }
  void insufficient_bytes(size_t, size_t) {
    Fail(PyExc_ValueError, "msgpack data ends too early");
  }

 private:
  struct Frame {
    nb::object node;
    bool is_dict;
    nb::object key;  // in a dict, the key whose value comes next
  };

  bool Push(nb::object node, bool is_dict) {
    if (frames_.size() >= static_cast<size_t>(kLevelsMax)) {
      Fail(PyExc_ValueError, "msgpack data has too many levels");
    }
    frames_.push_back({std::move(node), is_dict, {}});
    return true;
  }

  bool Pop() {
    nb::object node = std::move(frames_.back().node);
    frames_.pop_back();
    return Add(std::move(node));
  }

  bool Add(nb::object value) {
    if (frames_.empty()) {
      root = std::move(value);
      return true;
    }
    Frame& frame = frames_.back();
    if (!frame.is_dict) {
      nb::borrow<nb::list>(frame.node).append(value);
    } else if (!frame.key.is_valid()) {
      frame.key = std::move(value);
    } else {
      nb::borrow<nb::dict>(frame.node)[frame.key] = value;
      frame.key.reset();
    }
    return true;
  }

  const nb::bytes& data_;
  nb::handle extension_;
  const bool texts_are_bytes_;
  std::vector<Frame> frames_;
};

nb::bytes Pack(nb::handle value, nb::handle fallback) {
  ValuePacker packer(fallback);
  packer.Pack(value);
  return packer.Take();
}

nb::object Unpack(const nb::bytes& data, nb::handle extension,
                  bool texts_are_bytes) {
  ValueVisitor visitor(data, extension, texts_are_bytes);
  size_t offset = 0;
  msgpack::parse(data.c_str(), data.size(), offset, visitor);
  if (offset != data.size()) {
    Fail(PyExc_ValueError, "msgpack data goes on after its value");
  }
  return std::move(visitor.root);
}

}  // namespace

void BindMsgpack(nb::module_& module) {
  nb::class_<Extension>(module, "MsgpackExtension")
      .def(
          "__init__",
          [](Extension* self, int8_t code, nb::bytes data) {
            new (self) Extension{code, std::move(data)};
          },
          nb::arg("code"), nb::arg("data"));
  module.def("msgpack_pack", &Pack, nb::arg("value").none(),
             nb::arg("default"));
  module.def("msgpack_unpack", &Unpack, nb::arg("data"), nb::arg("extension"),
             nb::kw_only(), nb::arg("texts_are_bytes") = false);
}

}  // namespace holdfast::python
