// Pickles and files of torch.save, read without running anything, and written.
//
// A pickle is a program; this reader runs none of it. It builds values from a
// fixed table: what torch.save writes for numbers, strings, containers,
// tensors, numpy arrays, OrderedDict, argparse.Namespace, sets, BytesIO, dtypes
// and sizes. Objects of other classes become inert records (module, name, and
// what was to be put into them), enums likewise. A function that is not in the
// table, and everything of modules that can act (os, sys, subprocess, builtins,
// importlib, ...), is refused by name:
//   pickle refers to os.system, which holdfast does not run
//
// Not kept: which equal values were one object. A value that contains itself is
// refused, and so is one that would be far larger than its file when every
// shared part is written out (kPickleExpansionMax).
// Thread-safety: PickleValue is an immutable value; copies share memory.
// Ownership: values own what they hold; nothing refers to the bytes given.
// Units: bytes, elements.
// Errors: DataLoss (the bytes are cut, damaged or lie, with the offset in the
// pickle or the entry of the file), PermissionDenied (it names a function or
// class that is not read), Unimplemented (valid, but not read here: what it
// is), InvalidArgument (a value that cannot be written, and where).
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
  kNdarray,      // a numpy array; dtypes that holdfast lacks are kept as bytes
  kNumpyScalar,  // one element of a numpy dtype
  kTorchDType,   // text() is "torch.float32"
  kTorchDevice,  // text() is "cuda:0"
  kTorchSize,    // items() are ints
  kEnum,         // a member of an enum: by its value or by its name
  kRecord,       // an object of another class
  kGlobal,       // a class or function that is only mentioned
};

// "none", "int", "ordered dict", ...
std::string_view PickleKindName(PickleKind kind);

// Values nested deeper than this are refused.
inline constexpr int kPickleDepthMax = 500;
// A value may be this many times larger than its file when shared parts are
// written out each time (plus 64 MiB, so that small files are not held to it).
inline constexpr uint64_t kPickleExpansionMax = 64;

struct PickleRecord;

class PickleValue {
 public:
  using Pair = std::pair<PickleValue, PickleValue>;

  PickleValue() = default;  // None

  static PickleValue None() { return {}; }
  static PickleValue Bool(bool value);
  static PickleValue Int(int64_t value);
  // Two's complement, little endian, any length; small ones become Int.
  static PickleValue IntOfBytes(std::string_view bytes);
  static PickleValue Float(double value);
  static PickleValue Complex(double real, double imaginary);
  static PickleValue String(std::string utf8);
  // kBytes, kByteArray, kBytesIO, kTorchDType, kTorchDevice.
  static PickleValue Text(PickleKind kind, std::string text);
  static PickleValue Bytes(std::string bytes) {
    return Text(PickleKind::kBytes, std::move(bytes));
  }
  // kList, kTuple, kSet, kFrozenSet, kTorchSize.
  static PickleValue Items(PickleKind kind, std::vector<PickleValue> items);
  static PickleValue List(std::vector<PickleValue> items) {
    return Items(PickleKind::kList, std::move(items));
  }
  static PickleValue Tuple(std::vector<PickleValue> items) {
    return Items(PickleKind::kTuple, std::move(items));
  }
  // kDict, kOrderedDict, kNamespace (keys are strings).
  static PickleValue Pairs(PickleKind kind, std::vector<Pair> pairs);
  static PickleValue Dict(std::vector<Pair> pairs) {
    return Pairs(PickleKind::kDict, std::move(pairs));
  }
  static PickleValue Tensor(Array array);
  // A dtype that holdfast has.
  static PickleValue Ndarray(Array array);
  // `numpy_dtype` is numpy's dtype.str, e.g. "<U5"; the array is uint8 with one
  // more axis, of the element's bytes. kNdarray or kNumpyScalar.
  static PickleValue Numpy(PickleKind kind, Array array,
                           std::string numpy_dtype, Shape shape);
  // kRecord, kEnum, kGlobal.
  static PickleValue Record(PickleKind kind, PickleRecord record);

  PickleKind kind() const { return kind_; }
  bool is(PickleKind kind) const { return kind_ == kind; }

  // Each REQUIRES the kinds that it names.
  bool bool_value() const;                   // kBool
  std::optional<int64_t> int_value() const;  // kInt; nullopt: needs more bits
  std::string int_bytes() const;             // kInt, as IntOfBytes takes it
  double float_value() const;                // kFloat; kComplex: the real part
  double imaginary() const;                  // kComplex
  const std::string& text() const;           // kString and the kinds of Text
  const std::vector<PickleValue>& items() const;  // the kinds of Items
  const std::vector<Pair>& pairs() const;         // the kinds of Pairs
  const Array& array() const;              // kTensor, kNdarray, kNumpyScalar
  const std::string& numpy_dtype() const;  // kNdarray, kNumpyScalar: "<f4"
  const Shape& shape() const;              // those and kTensor
  const PickleRecord& record() const;      // kRecord, kEnum, kGlobal

  // The value of a string key of kDict, kOrderedDict or kNamespace; null when
  // it is missing. Takes time linear in the pairs.
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
  std::shared_ptr<const void> rep_;  // of the type that kind_ tells
};

// An object of a class that holdfast does not know, as its pickle describes it.
struct PickleRecord {
  std::string module;
  std::string name;  // qualified
  // The call that makes it: cls.__new__(cls, *args), or cls(*args).
  bool is_called = false;
  // An enum: one argument, its value; or, when by_name, its name.
  bool by_name = false;
  std::vector<PickleValue> args;
  std::optional<PickleValue> state;      // for __setstate__ or __dict__
  std::vector<PickleValue> items;        // appended to it
  std::vector<PickleValue::Pair> pairs;  // set in it

  std::string FullName() const { return module + "." + name; }
};

// One pickle of protocol 0 to 5. It may not refer to storages of a torch file.
Result<PickleValue> ReadPickle(std::string_view bytes);

// A file of torch.save: a zip archive, or the form before torch 1.6. (Open
// of checkpoint.h reads such files tensor by tensor.) Tensors share their
// storage's memory, which is copied from `bytes` once.
Result<PickleValue> ReadTorchFile(std::string_view bytes);

// A file that torch.load(weights_only=True) reads, laid out as torch.save lays
// it out; the same value gives the same bytes. Records and enums are written as
// they were read; torch reads those with weights_only=False.
Result<std::string> WriteTorchFile(const PickleValue& value);

// Canonical JSON on one line, ASCII, string keys of dicts sorted, no spaces.
// None, bool, int, float, str, list and dicts with string keys that do not
// start with
// '$' are themselves; else {"$tuple":[]}, {"$dict":[[k,v]]},
// {"$odict":[[k,v]]},
// {"$set":[]} (sorted), {"$frozenset":[]}, {"$bytes":hex}, {"$bytearray":hex},
// {"$bytesio":hex}, {"$float":"nan"}, {"$complex":[re,im]}, {"$namespace":{}},
// {"$torch.dtype":"torch.x"}, {"$torch.device":""}, {"$torch.size":[]},
// {"$tensor":{dtype,shape,sha256[,hex]}} (hex up to 16 elements),
// {"$ndarray":{dtype,shape,sha256}}, {"$numpy":{dtype,hex}},
// {"$enum":{class,value|name}}, {"$record":{class[,args][,state][,items]
// [,pairs]}}, {"$global":"module.name"}. Elements are hashed in C order, little
// endian.
std::string PickleValueToJson(const PickleValue& value);

// Containers, numbers, strings, bytes and arrays; named tuples become tuples,
// jax and numpy arrays tensors. InvalidArgument for leaves that have no value
// (placeholders, references, deferred arrays).
Result<PickleValue> PickleValueOf(const Tree& tree);
// The same back; keys that are not strings, and kinds that a tree lacks, are
// Unimplemented, naming where they are.
Result<Tree> TreeOf(const PickleValue& value);

}  // namespace holdfast
