// Reads pickles and torch.save files without running anything, and writes them.
//
// A pickle is a program that may call any function of any module. This reader
// never calls Python. It makes values only for a fixed table of functions and
// classes: those that torch.save uses for numbers, strings, containers,
// tensors, numpy arrays, OrderedDict, argparse.Namespace, sets, BytesIO, dtypes
// and sizes. Objects of other classes, and enums, become inert records (module,
// name, and contents). Other functions, and everything from modules that can do
// harm (os, sys, subprocess, builtins, importlib, ...), are refused by name:
//   pickle refers to os.system, which holdfast does not run
//
// Values do not record whether two equal parts were the same object in Python.
// A value that contains itself is refused, and so is a value that would be far
// larger than its file if every shared part were written out
// (kPickleExpansionMax).
//
// Thread-safety: PickleValue is an immutable value; copies share memory.
// Ownership: values own their contents; nothing refers to the given bytes.
// Units: bytes, elements.
// Errors: DataLoss (the bytes are truncated, damaged or inconsistent, with the
// offset in the pickle or the entry of the file), PermissionDenied (the pickle
// names a function or class that is not read), Unimplemented (valid, but not
// supported, naming it), InvalidArgument (a value that cannot be written, and
// where).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/status.h"
#include "holdfast/tensor.h"
#include "holdfast/tree.h"

namespace holdfast HOLDFAST_EXPORT {

enum class PickleKind : uint8_t {
  kNone,
  kBool,
  kInt,  // of any size
  kFloat,
  kComplex,
  kString,  // UTF-8; lone surrogates in three bytes each, as Python's
            // "surrogatepass" writes them
  kBytes,
  kByteArray,
  kBytesIO,
  kList,
  kTuple,
  kSet,
  kFrozenSet,
  kDict,  // pairs in insertion order, each key once
  kOrderedDict,
  kNamespace,    // argparse.Namespace, types.SimpleNamespace
  kTensor,       // a torch tensor or parameter, on the CPU
  kNdarray,      // a numpy array; unsupported dtypes are kept as bytes
  kNumpyScalar,  // one element of a numpy dtype
  kTorchDType,   // text() is "torch.float32"
  kTorchDevice,  // text() is "cuda:0"
  kTorchSize,    // items() are ints
  kEnum,         // a member of an enum, by its value or by its name
  kRecord,       // an object of another class
  kGlobal,       // a class or function that is only referred to
};

// Returns the kind's name: "none", "int", "ordered dict", ...
std::string_view PickleKindName(PickleKind kind);

// Values nested deeper than this are refused.
inline constexpr int kPickleDepthMax = 500;
// A value, with shared parts written out each time, may be at most this many
// times larger than its file (plus 64 MiB, so that small files are not
// limited).
inline constexpr uint64_t kPickleExpansionMax = 64;

struct PickleRecord;

class PickleValue {
 public:
  using Pair = std::pair<PickleValue, PickleValue>;

  PickleValue() = default;  // None

  static PickleValue None() { return {}; }
  static PickleValue Bool(bool value);
  static PickleValue Int(int64_t value);
  // Makes an integer from bytes of any length: two's complement, little endian.
  // If it fits an int64, the result equals Int's.
  static PickleValue IntOfBytes(std::string_view bytes);
  static PickleValue Float(double value);
  static PickleValue Complex(double real, double imaginary);
  static PickleValue String(std::string utf8);
  // `kind` is kBytes, kByteArray, kBytesIO, kTorchDType or kTorchDevice.
  static PickleValue Text(PickleKind kind, std::string text);
  static PickleValue Bytes(std::string bytes) {
    return Text(PickleKind::kBytes, std::move(bytes));
  }
  // `kind` is kList, kTuple, kSet, kFrozenSet or kTorchSize.
  static PickleValue Items(PickleKind kind, std::vector<PickleValue> items);
  static PickleValue List(std::vector<PickleValue> items) {
    return Items(PickleKind::kList, std::move(items));
  }
  static PickleValue Tuple(std::vector<PickleValue> items) {
    return Items(PickleKind::kTuple, std::move(items));
  }
  // `kind` is kDict, kOrderedDict or kNamespace, whose keys are strings.
  static PickleValue Pairs(PickleKind kind, std::vector<Pair> pairs);
  static PickleValue Dict(std::vector<Pair> pairs) {
    return Pairs(PickleKind::kDict, std::move(pairs));
  }
  static PickleValue Tensor(Array array);
  // Makes a numpy array with a dtype that holdfast supports.
  static PickleValue Ndarray(Array array);
  // Makes a kNdarray or kNumpyScalar with another dtype. `numpy_dtype` is
  // numpy's dtype.str, e.g. "<U5"; `array` has dtype uint8 and one additional
  // axis for each element's bytes.
  static PickleValue Numpy(PickleKind kind, Array array,
                           std::string numpy_dtype, Shape shape);
  // `kind` is kRecord, kEnum or kGlobal.
  static PickleValue Record(PickleKind kind, PickleRecord record);

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }

  // Each of these functions REQUIRES one of the kinds in its comment.
  bool bool_value() const;                   // kBool
  std::optional<int64_t> int_value() const;  // kInt; nullopt: needs more bits
  std::string int_bytes() const;             // kInt, in the form of IntOfBytes
  double float_value() const;                // kFloat; kComplex: the real part
  double imaginary() const;                  // kComplex
  const std::string& text() const;           // kString and the kinds of Text
  const std::vector<PickleValue>& items() const;  // the kinds of Items
  const std::vector<Pair>& pairs() const;         // the kinds of Pairs
  const Array& array() const;              // kTensor, kNdarray, kNumpyScalar
  const std::string& numpy_dtype() const;  // kNdarray, kNumpyScalar: "<f4"
  const Shape& shape() const;              // these and kTensor
  const PickleRecord& record() const;      // kRecord, kEnum, kGlobal

  // Returns the value for a string key of kDict, kOrderedDict or kNamespace;
  // null if it is missing. Takes time linear in the number of pairs.
  const PickleValue* Find(std::string_view key) const;

 private:
  struct TextRep;
  struct ItemsRep;
  struct PairsRep;
  struct ArrayRep;

  PickleKind kind_ = PickleKind::kNone;
  union {
    bool bool_value;
    int64_t int_value;
    double float_value;
  } small_ = {.int_value = 0};
  std::shared_ptr<const void> rep_;  // its type depends on kind_
};

// An object of a class that holdfast does not know, as the pickle describes it.
struct PickleRecord {
  std::string module;
  std::string name;  // qualified
  // How the object is made: cls.__new__(cls, *args), or cls(*args).
  bool is_called = false;
  // An enum has one argument: its value, or if by_name, its name.
  bool by_name = false;
  std::vector<PickleValue> args;
  std::optional<PickleValue> state;      // for __setstate__ or __dict__
  std::vector<PickleValue> items;        // appended to the object
  std::vector<PickleValue::Pair> pairs;  // set in the object

  std::string FullName() const { return module + "." + name; }
};

// Reads a pickle of protocol 0 to 5, which may not refer to storages in a
// torch.save file.
Result<PickleValue> ReadPickle(std::string_view bytes);

// Reads a torch.save file: a zip archive, or the format before torch 1.6. (Open
// in checkpoint.h reads such files tensor by tensor.) Each storage is copied
// from `bytes` once; its tensors share that memory.
Result<PickleValue> ReadTorchFile(std::string_view bytes);

// Returns a file that torch.load(weights_only=True) can read, in torch.save's
// layout. The same value gives the same bytes. Records and enums are written as
// they were read; torch reads these only with weights_only=False.
Result<std::string> WriteTorchFile(const PickleValue& value);

// Returns the value as canonical JSON on one line: ASCII, string keys of dicts
// sorted, no spaces. None, bool, int, float, str, list and dicts whose keys are
// strings that do not start with '$' are written directly; other values as
// {"$tuple":[]}, {"$dict":[[k,v]]}, {"$odict":[[k,v]]}, {"$set":[]} (sorted),
// {"$frozenset":[]}, {"$bytes":hex}, {"$bytearray":hex}, {"$bytesio":hex},
// {"$float":"nan"}, {"$complex":[re,im]}, {"$namespace":{}},
// {"$torch.dtype":"torch.x"}, {"$torch.device":""}, {"$torch.size":[]},
// {"$tensor":{dtype,shape,sha256[,hex]}} (hex up to 16 elements),
// {"$ndarray":{dtype,shape,sha256}}, {"$numpy":{dtype,hex}},
// {"$enum":{class,value|name}},
// {"$record":{class[,args][,state][,items][,pairs]}},
// {"$global":"module.name"}. Elements are hashed in C order, little endian.
std::string PickleValueToJson(const PickleValue& value);

// Converts a tree of containers, numbers, strings, bytes and arrays. Named
// tuples become tuples; jax and numpy arrays become tensors. InvalidArgument
// for leaves without a value (placeholders, references, deferred arrays).
Result<PickleValue> PickleValueOf(const Tree& tree);
// Converts back to a tree. Unimplemented, naming the place, for keys that are
// not strings, and for kinds that a tree cannot hold.
Result<Tree> TreeOf(const PickleValue& value);

}  // namespace holdfast
