// Tree: the nested value that a checkpoint holds, as JAX understands a pytree:
// dicts, lists, tuples and named tuples whose leaves are arrays, scalars,
// strings, None, a placeholder, or an object of the caller's own type.
//
//   Tree state = Tree::Dict({
//       {"step", 7},
//       {"params", Tree::Dict({{"w", weights}, {"b", bias}})},
//   });
//   const Tree* w = state.FindPath({"params", "w"});
//
// A dict keeps its insertion order; a checkpoint sorts it by key, as JAX does.
// An empty dict, list, tuple or named tuple is a distinct value (a typed empty)
// and survives a save.
// Thread-safety: values; const methods may run concurrently.
// Ownership: a Tree owns its nodes; Array leaves share their memory.
// Errors: accessors assert the kind they need; nothing here fails otherwise.
#pragma once

#include <any>
#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "holdfast/dtype.h"
#include "holdfast/export.h"
#include "holdfast/tensor.h"

namespace holdfast HOLDFAST_EXPORT {

// How a key selects a child.
enum class KeyKind : uint8_t {
  kName,     // of a dict or named tuple
  kIndex,    // in a list or tuple, in decimal
  kInteger,  // of a dict: Python's int, in decimal
};

// Returns true for the decimal text of an int64: "0", "-12"; not "007", "+1" or
// "".
bool IsIntegerText(std::string_view text);

enum class NodeKind : uint8_t { kDict, kList, kTuple, kNamedTuple, kLeaf };

enum class LeafKind : uint8_t {
  kArray,
  kScalar,
  kString,
  kBytes,  // read from old msgpack checkpoints only
  kNone,
  kPlaceholder,  // Python's Ellipsis: "leave this leaf out"
  kReference,    // the value is stored elsewhere, under this parameter name
  kExternal,     // a TypeHandler stores it: only its value_type is recorded
  kObject,  // a value of the caller's own C++ type; a TypeHandler stores it
};

// The type of an array in the program that saved it.
enum class ArrayKind : uint8_t { kNumpy, kJax };

// Every function that walks a Tree refuses containers nested deeper than this.
inline constexpr int kTreeDepthMax = 512;

// The entry of `_sharding` for a jax.Array on one CPU device.
inline constexpr std::string_view kSingleDeviceShardingJson =
    R"({"sharding_type": "SingleDeviceSharding", "device_str": "cpu:0"})";

// How one jax.Array leaf was laid out in the program that saves it. Many leaves
// may share one ArrayTraits.
struct ArrayTraits {
  // The array's entry in `_sharding`, as JSON. If empty, the array has no entry
  // there.
  std::string sharding_json = std::string(kSingleDeviceShardingJson);
  // The implementation of a typed PRNG key ("threefry2x32"); the array then
  // holds the key data. Empty if the array is not a key.
  std::string prng_impl;
  // The shape of the pieces that processes write: a shard after Orbax's replica
  // slicing. A chunk is never larger. If empty, the array's own shape.
  Shape write_shape;

  bool operator==(const ArrayTraits&) const = default;
};

struct StoredChunks;  // internal

// Reads the elements of an array that is not in memory, when a save needs them.
//
// Thread-safety: Read is called from several threads concurrently.
class ArrayReader {
 public:
  virtual ~ArrayReader() = default;
  // Fills `target` with the box that starts at `origin` and has the target's
  // shape. The target has the array's dtype.
  virtual Status Read(const Shape& origin, const ArrayView& target) const = 0;
  // Returns the chunks that files already hold, or null. A save refers to these
  // chunks instead of reading and writing them.
  virtual const StoredChunks* stored() const { return nullptr; }
  // Returns true if the elements are in memory of this process that the program
  // may change later, such as a device's. The array is then saved as one in
  // host memory is: an asynchronous save copies it before it returns, and of
  // several processes only the primary writes it. Other deferred arrays are
  // divided among the processes.
  virtual bool is_live() const { return false; }
};

// One part of a sharded array, which starts at `origin` in the complete array.
struct ArrayShard {
  Shape origin;
  Array array;
  // If not null, the part's elements are read from `reader`, whose origin is
  // the part's first element, and `array` has the part's dtype and shape but no
  // memory (Array::Outline).
  std::shared_ptr<const ArrayReader> reader = nullptr;
};

// One element of any dtype: a Python bool, int, float or complex if
// `is_python`, otherwise a numpy scalar.
struct Scalar {
  DType dtype = DType::kInt64;
  bool is_python = true;
  std::array<char, 16> bytes{};  // the first DTypeBytes(dtype), little endian

  template <typename T>
  static Scalar Of(DType dtype, T value, bool is_python) {
    static_assert(sizeof(T) <= 16);
    Scalar scalar{dtype, is_python, {}};
    std::memcpy(scalar.bytes.data(), &value, sizeof value);
    return scalar;
  }
  // Returns the element's bytes as a T. REQUIRES: T is the C++ type of `dtype`.
  template <typename T>
  T As() const {
    static_assert(sizeof(T) <= 16);
    T value;
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  std::string_view view() const { return {bytes.data(), DTypeBytes(dtype)}; }
};

bool operator==(const Scalar& a, const Scalar& b);

class Tree {
 public:
  using Member = std::pair<std::string, Tree>;

  Tree() : node_(LeafKind::kNone) {}
  // These conversions are implicit so that a literal looks like Python's.
  Tree(Array array);             // NOLINT: a numpy array
  Tree(Scalar scalar);           // NOLINT
  Tree(std::string text);        // NOLINT
  Tree(const char* text);        // NOLINT
  Tree(std::string_view text);   // NOLINT
  Tree(std::complex<double> v);  // NOLINT
  template <std::floating_point T>
  Tree(T value)  // NOLINT: a Python float
      : Tree(Scalar::Of<double>(DType::kFloat64, value, true)) {}
  template <std::integral T>
    requires(sizeof(T) < sizeof(int64_t) || std::is_signed_v<T>)
  Tree(T value)  // NOLINT: a Python bool or int
      : Tree(OfIntegral(value)) {}

  static Tree Dict(std::vector<Member> members = {});
  // Makes a dict whose keys are integers, as a torch optimizer's state has.
  static Tree IntegerDict(std::vector<std::pair<int64_t, Tree>> members);
  static Tree List(std::vector<Tree> items = {});
  static Tree Tuple(std::vector<Tree> items = {});
  // Makes a named tuple. `module` and `type_name` are Python's __module__ and
  // __qualname__. Without a type_name, makes a node of some other class whose
  // children have names.
  static Tree NamedTuple(std::string module, std::string type_name,
                         std::vector<Member> fields = {});
  // Makes a node of some other class whose children have positions. It is
  // stored like a tuple.
  static Tree Positional(std::vector<Tree> items = {});
  // Makes a jax.Array. Without `traits`, it is on one CPU device.
  static Tree JaxArray(Array array,
                       std::shared_ptr<const ArrayTraits> traits = {});
  // Makes an array of `shape` from shards that are separate in memory. Together
  // they must cover the array exactly once: Save refuses gaps and overlaps.
  // REQUIRES: at least one shard; all shards have the same dtype and are inside
  // `shape`.
  static Tree ShardedArray(Shape shape, std::vector<ArrayShard> shards,
                           std::shared_ptr<const ArrayTraits> traits);
  // Makes the part of a sharded array that one of several processes holds.
  // `shards` may be empty. With kNumpy, the array is recorded as a numpy array,
  // which can be restored without a sharding; of the traits, only write_shape
  // is then used.
  static Tree ShardedArray(DType dtype, Shape shape,
                           std::vector<ArrayShard> shards,
                           std::shared_ptr<const ArrayTraits> traits,
                           ArrayKind kind = ArrayKind::kJax);
  // Makes an array whose elements are read from `reader` in parts while it is
  // saved. It has no array(). With kNumpy, no traits may be given.
  static Tree DeferredArray(DType dtype, Shape shape,
                            std::shared_ptr<const ArrayReader> reader,
                            ArrayKind kind = ArrayKind::kNumpy,
                            std::shared_ptr<const ArrayTraits> traits = {});
  static Tree None() { return Tree(); }
  static Tree Placeholder();
  static Tree ByteString(std::string bytes);
  static Tree Reference(std::string param_name);
  // Makes a leaf that a TypeHandler has stored, or will store. Save writes only
  // its entry in `_METADATA`, with this value_type.
  static Tree External(std::string value_type);
  // Makes a leaf of the caller's own type. Copies share the object. Save
  // refuses such a leaf; PyTreeCheckpointHandler passes it to the TypeHandler
  // for its type.
  static Tree Object(std::any object);

  NodeKind kind() const;
  bool is_leaf() const { return kind() == NodeKind::kLeaf; }
  bool is_sequence() const;
  bool is_mapping() const { return !is_leaf() && !is_sequence(); }
  // True for a node of a class that is neither a dict, a list, a tuple nor a
  // named tuple.
  bool is_other_class() const;
  // True for a container without children.
  bool is_empty_container() const { return !is_leaf() && size() == 0; }

  // Containers. A leaf has no children.
  size_t size() const;
  const std::vector<Tree>& children() const;
  // Returns one key per child for dicts and named tuples; empty for sequences.
  const std::vector<std::string>& keys() const;
  // REQUIRES: i < size().
  KeyKind key_kind(size_t i) const;
  // Returns the child with this key, which in a sequence is its decimal index;
  // null if the child does not exist. Takes time linear in size().
  const Tree* Find(std::string_view key) const;
  const Tree* FindPath(const std::vector<std::string>& path) const;
  // Adds a child to a dict or named tuple. REQUIRES: the key is new (Flatten
  // reports duplicates); `kind` is not kIndex, and is kInteger only if
  // IsIntegerText(key).
  void Add(std::string key, Tree child, KeyKind kind = KeyKind::kName);
  // REQUIRES: this is a list or tuple.
  void Append(Tree child);
  // REQUIRES: index < size().
  Tree& mutable_child(size_t index);
  // REQUIRES: this is a named tuple.
  const std::string& type_module() const;
  const std::string& type_name() const;

  // Leaves.
  LeafKind leaf_kind() const;
  bool is_none() const { return is_leaf() && leaf_kind() == LeafKind::kNone; }
  // Each function below REQUIRES the kind of leaf that its name says. For a
  // sharded array, array() returns its first shard, which must exist and be in
  // memory.
  const Array& array() const;
  ArrayKind array_kind() const;
  // Returns the dtype of the complete array.
  DType array_dtype() const;
  const Shape& array_shape() const;
  bool is_sharded() const;
  // Empty unless the array is sharded.
  const std::vector<ArrayShard>& shards() const;
  // Null unless the array is deferred.
  const ArrayReader* reader() const;
  // Returns the default traits if the array was made without traits.
  const ArrayTraits& array_traits() const;
  std::string_view sharding_json() const {
    return array_traits().sharding_json;
  }
  const Scalar& scalar() const;
  // Returns the text of a kString, the bytes of a kBytes, the name of a
  // kReference, or the value_type of a kExternal.
  const std::string& text() const;
  const std::any& object() const;

 private:
  struct TypeName {
    std::string module;
    std::string name;
  };
  struct Container {
    NodeKind kind;
    std::vector<std::string> keys;
    std::vector<Tree> children;
    std::shared_ptr<const TypeName> type;
    // One entry per key up to the last integer key; keys past the end are
    // names.
    std::vector<bool> is_integer = {};
  };
  struct Sharded {
    Shape shape;
    std::vector<ArrayShard> shards;
  };
  struct ArrayLeaf {
    Array array;
    ArrayKind kind;
    std::shared_ptr<const ArrayTraits> traits;
    std::shared_ptr<const Sharded> sharded;  // null: `array` is complete
    std::shared_ptr<const ArrayReader> reader = nullptr;  // null: not deferred
  };
  struct TextLeaf {
    LeafKind kind;
    std::string text;
  };

  template <typename T>
  static Scalar OfIntegral(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar::Of<bool>(DType::kBool, value, true);
    } else {
      return Scalar::Of<int64_t>(DType::kInt64, value, true);
    }
  }
  static Tree FromMembers(NodeKind kind, std::vector<Member> members);
  static Tree FromItems(NodeKind kind, std::vector<Tree> items);

  // A LeafKind here is a leaf without a value: None or Placeholder.
  std::variant<LeafKind, Container, ArrayLeaf, Scalar, TextLeaf,
               std::shared_ptr<const std::any>>
      node_;
};

// Returns true if both trees have the same containers, with the same keys of
// the same kinds in the same order, and equal leaves. Arrays are equal if their
// kind, traits, dtype, shape and every element's bytes are equal, however their
// elements are divided into shards. An object or a deferred array is equal only
// to itself.
bool operator==(const Tree& a, const Tree& b);

}  // namespace holdfast
