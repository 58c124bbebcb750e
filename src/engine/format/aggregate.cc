#include "engine/format/aggregate.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <msgpack.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/format/aggregate_extensions.h"
#include "engine/format/directory_names.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/base/utf8.h"

namespace holdfast {
namespace {

// Limits nested containers and tuples; far above any real tree.
constexpr int kDepthMax = 128;
constexpr std::string_view kChunkedKey = "__msgpack_chunked_array__";
constexpr std::string_view kReferencePrefixes[] = {"PLACEHOLDER://",
                                                   "AGGREGATED://"};

// Calls the visitor's events for the single value that `data` consists of. The
// visitor stops the parse by returning false, and sets its `status` to the
// reason.
template <typename Visitor>
Status ParseMsgpack(std::string_view data, Visitor& visitor) {
  size_t offset = 0;
  try {
    const bool done = msgpack::parse(data.data(), data.size(), offset, visitor);
    if (!visitor.status.ok()) return visitor.status;
    if (done && offset == data.size()) return Status();
  } catch (const std::exception&) {
    if (!visitor.status.ok()) return visitor.status;
  }
  return DataLossError("offset " + std::to_string(offset) +
                       ": not a msgpack value");
}

// Shared by both visitors below: a parse error ends the parse.
struct VisitorBase : msgpack::null_visitor {
  Status status;

  bool Fail(Status failure) {
    if (status.ok()) status = std::move(failure);
    return false;
  }
  void parse_error(size_t, size_t error_offset) {
    Fail(DataLossError("offset " + std::to_string(error_offset) +
                       ": not a msgpack value"));
  }
  void insufficient_bytes(size_t, size_t error_offset) {
    Fail(DataLossError("offset " + std::to_string(error_offset) +
                       ": msgpack value is cut short"));
  }
};

// Reads the payload of extensions 1 and 3, [[extent, ...], dtype name, bytes],
// and of extension 2, [real, imaginary].
struct ArrayVisitor : VisitorBase {
  int depth = 0;
  uint32_t outer_count = 0;
  Shape shape;
  std::vector<double> numbers;
  std::vector<std::string_view> texts;  // dtype name and bytes, in the payload

  bool start_array(uint32_t count) {
    if (depth == 0) outer_count = count;
    return ++depth <= 2 || Fail(DataLossError("nested arrays in an array"));
  }
  bool end_array() {
    --depth;
    return true;
  }
  bool start_map(uint32_t) {
    return Fail(DataLossError("map inside an array"));
  }
  // Takes an inner integer as an extent, and an outer integer as a number,
  // since a packer may write 2.0 as 2.
  bool visit_positive_integer(uint64_t value) {
    if (depth == 1) return visit_float64(static_cast<double>(value));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(DataLossError("extent out of range"));
    }
    if (shape.size() >= kRankMax) return Fail(DataLossError("rank too large"));
    shape.push_back(static_cast<int64_t>(value));
    return true;
  }
  bool visit_negative_integer(int64_t value) {
    if (depth == 1) return visit_float64(static_cast<double>(value));
    return Fail(DataLossError("negative extent"));
  }
  bool visit_float32(float value) { return visit_float64(value); }
  bool visit_float64(double value) {
    numbers.push_back(value);
    return numbers.size() <= 2 || Fail(DataLossError("too many numbers"));
  }
  // Takes a string as bytes, as Python does with raw=True.
  bool visit_str(const char* text, uint32_t size) {
    return visit_bin(text, size);
  }
  bool visit_bin(const char* text, uint32_t size) {
    texts.emplace_back(text, size);
    return texts.size() <= 2 || Fail(DataLossError("too many texts"));
  }
};

Result<Array> ParseArray(std::string_view payload) {
  ArrayVisitor visitor;
  HF_RETURN_IF_ERROR(ParseMsgpack(payload, visitor));
  if (visitor.outer_count != 3 || visitor.texts.size() != 2) {
    return DataLossError("array: want [shape, dtype, bytes]");
  }
  const std::string_view name = visitor.texts[0];
  const std::string_view bytes = visitor.texts[1];
  const std::optional<DType> dtype = DTypeFromName(name);
  if (!dtype) {
    return UnimplementedError("array: dtype '" + std::string(name) +
                              "' is not supported");
  }
  const int64_t element_count = ElementCount(visitor.shape);
  const size_t element_bytes = DTypeBytes(*dtype);
  // Sizes must agree before memory is allocated for the array.
  if (bytes.size() % element_bytes != 0 ||
      static_cast<uint64_t>(element_count) != bytes.size() / element_bytes) {
    return DataLossError("array: got " + std::to_string(bytes.size()) +
                         " bytes for " + std::string(name) + " of shape " +
                         ShapeToString(visitor.shape));
  }
  HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(*dtype, visitor.shape));
  if (!bytes.empty()) {
    std::memcpy(array.mutable_view().data, bytes.data(), bytes.size());
  }
  return array;
}

Result<Tree> ParseNumpyScalar(std::string_view payload) {
  HF_ASSIGN_OR_RETURN(const Array array, ParseArray(payload));
  if (array.element_count() != 1) {
    return DataLossError("numpy scalar: got shape " +
                         ShapeToString(array.shape()) + ", want ()");
  }
  Scalar scalar{array.dtype(), false, {}};
  std::memcpy(scalar.bytes.data(), array.view().data, array.byte_count());
  return Tree(scalar);
}

Result<Tree> ParseComplex(std::string_view payload) {
  ArrayVisitor visitor;
  HF_RETURN_IF_ERROR(ParseMsgpack(payload, visitor));
  if (visitor.outer_count != 2 || visitor.numbers.size() != 2) {
    return DataLossError("complex: want [real, imaginary]");
  }
  return Tree(std::complex<double>(visitor.numbers[0], visitor.numbers[1]));
}

Result<Tree> ParseText(std::string_view text) {
  if (!IsValidUtf8(text)) return DataLossError("string is not valid UTF-8");
  for (std::string_view prefix : kReferencePrefixes) {
    if (text.starts_with(prefix)) {
      return Tree::Reference(std::string(text.substr(prefix.size())));
    }
  }
  return Tree(text);
}

// Returns the children of {"0": a, "1": b, ...} in numeric order.
Result<std::vector<const Tree*>> Numbered(const Tree* dict) {
  if (dict == nullptr || dict->kind() != NodeKind::kDict) {
    return DataLossError("chunked array: want dicts 'shape' and 'chunks'");
  }
  std::vector<const Tree*> items(dict->size());
  for (size_t i = 0; i < dict->size(); ++i) {
    const std::string& key = dict->keys()[i];
    const auto index = ParseNumber<size_t>(key);
    if (!index || *index >= items.size() || items[*index] != nullptr) {
      return DataLossError("chunked array: unexpected key '" + key + "'");
    }
    items[*index] = &dict->children()[i];
  }
  return items;
}

Result<Shape> ChunkedShape(const Tree& dict) {
  HF_ASSIGN_OR_RETURN(auto extents, Numbered(dict.Find("shape")));
  if (extents.size() > kRankMax) {
    return DataLossError("chunked array: rank too large");
  }
  Shape shape;
  for (const Tree* extent : extents) {
    const bool is_extent = extent->is_leaf() &&
                           extent->leaf_kind() == LeafKind::kScalar &&
                           extent->scalar().dtype == DType::kInt64 &&
                           extent->scalar().As<int64_t>() >= 0;
    if (!is_extent) return DataLossError("chunked array: bad extent");
    shape.push_back(extent->scalar().As<int64_t>());
  }
  return shape;
}

// Returns the arrays in "chunks", all of the same dtype.
Result<std::vector<const Array*>> ChunkedParts(const Tree& dict) {
  HF_ASSIGN_OR_RETURN(auto chunks, Numbered(dict.Find("chunks")));
  std::vector<const Array*> parts;
  for (const Tree* chunk : chunks) {
    const bool fits =
        chunk->is_leaf() && chunk->leaf_kind() == LeafKind::kArray &&
        (parts.empty() || chunk->array().dtype() == parts[0]->dtype());
    if (!fits) return DataLossError("chunked array: chunks differ in dtype");
    parts.push_back(&chunk->array());
  }
  if (parts.empty()) return DataLossError("chunked array: no chunks");
  return parts;
}

Result<Tree> JoinChunks(const Tree& dict) {
  HF_ASSIGN_OR_RETURN(const Shape shape, ChunkedShape(dict));
  HF_ASSIGN_OR_RETURN(const auto parts, ChunkedParts(dict));
  int64_t element_count = 0;  // limited by the bytes of the file
  for (const Array* part : parts) element_count += part->element_count();
  if (element_count != ElementCount(shape)) {
    return DataLossError("chunked array: got " + std::to_string(element_count) +
                         " elements for shape " + ShapeToString(shape));
  }
  HF_ASSIGN_OR_RETURN(Array array, Array::Allocate(parts[0]->dtype(), shape));
  char* target = element_count > 0 ? array.mutable_view().data : nullptr;
  for (const Array* part : parts) {
    if (part->byte_count() == 0) continue;
    std::memcpy(target, part->view().data, part->byte_count());
    target += part->byte_count();
  }
  return Tree(std::move(array));
}

Result<Tree> ParseValue(std::string_view data, int depth);

class TreeVisitor : public VisitorBase {
 public:
  // `depth` counts the containers and tuples around this value.
  explicit TreeVisitor(int depth) : depth_(depth), is_root_(depth == 0) {}

  Tree root;

  bool visit_nil() { return Add(Tree()); }
  bool visit_boolean(bool value) { return Add(Tree(value)); }
  bool visit_positive_integer(uint64_t value) {
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Add(Scalar::Of(DType::kUint64, value, true));
    }
    return Add(Tree(static_cast<int64_t>(value)));
  }
  bool visit_negative_integer(int64_t value) { return Add(Tree(value)); }
  bool visit_float32(float value) { return Add(Tree(value)); }
  bool visit_float64(double value) { return Add(Tree(value)); }

  bool visit_str(const char* data, uint32_t size) {
    const std::string_view text(data, size);
    if (!at_key_) return AddResult(ParseText(text));
    if (!IsValidUtf8(text)) return Fail(DataLossError("key is not UTF-8"));
    frames_.back().key = text;
    return true;
  }

  bool visit_bin(const char* data, uint32_t size) {
    return Add(Tree::ByteString(std::string(data, size)));
  }

  // `data` starts with the type byte.
  bool visit_ext(const char* data, uint32_t size) {
    if (size == 0) return Fail(DataLossError("extension without a type"));
    const int8_t type = static_cast<int8_t>(data[0]);
    const std::string_view payload(data + 1, size - 1);
    switch (type) {
      case kExtArray: {
        Result<Array> array = ParseArray(payload);
        if (!array.ok()) return Fail(array.status());
        return Add(Tree(*std::move(array)));
      }
      case kExtComplex:
        return AddResult(ParseComplex(payload));
      case kExtScalar:
        return AddResult(ParseNumpyScalar(payload));
      case kExtTuple:
        return AddTuple(payload);
      default:
        return Fail(UnimplementedError("msgpack extension type " +
                                       std::to_string(type)));
    }
  }

  bool start_array(uint32_t) { return Push(Tree::List()); }
  bool end_array() { return Pop(); }
  bool start_map(uint32_t) { return Push(Tree::Dict()); }
  bool end_map() { return Pop(); }
  bool start_map_key() {
    at_key_ = true;
    return true;
  }
  bool end_map_key() {
    at_key_ = false;
    return true;
  }

 private:
  struct Frame {
    Tree node;
    std::string key;  // of the next member
  };

  bool Push(Tree container) {
    if (at_key_) return Fail(DataLossError("key is not a string"));
    if (depth_ + static_cast<int>(frames_.size()) >= kDepthMax) {
      return Fail(DataLossError("nested too deep (want " +
                                std::to_string(kDepthMax) +
                                " levels at most)"));
    }
    frames_.push_back({std::move(container), {}});
    return true;
  }

  // Returns whether a chunked array here is joined. Orbax joins them only in
  // dicts of dicts, not below lists and tuples.
  bool IsJoinable() const {
    if (!is_root_) return false;
    for (const Frame& frame : frames_) {
      if (frame.node.is_sequence()) return false;
    }
    return true;
  }

  bool Pop() {
    Tree node = std::move(frames_.back().node);
    frames_.pop_back();
    if (!node.is_sequence()) {
      if (!HasUniqueKeys(node)) {
        return Fail(DataLossError("a key is given twice in one dict"));
      }
      if (IsJoinable() && node.Find(kChunkedKey) != nullptr) {
        return AddResult(JoinChunks(node));
      }
    }
    return Add(std::move(node));
  }

  static bool HasUniqueKeys(const Tree& dict) {
    std::vector<std::string_view> keys(dict.keys().begin(), dict.keys().end());
    std::sort(keys.begin(), keys.end());
    return std::adjacent_find(keys.begin(), keys.end()) == keys.end();
  }

  // Adds a tuple. It has its own payload, which a new visitor parses; the depth
  // is passed on so that nesting stays limited.
  bool AddTuple(std::string_view payload) {
    const int depth = depth_ + static_cast<int>(frames_.size()) + 1;
    if (depth > kDepthMax) return Fail(DataLossError("nested too deep"));
    Result<Tree> list = ParseValue(payload, depth);
    if (!list.ok()) return Fail(list.status());
    if (list->kind() != NodeKind::kList) {
      return Fail(DataLossError("tuple: want an array"));
    }
    return Add(Tree::Tuple(list->children()));
  }

  bool AddResult(Result<Tree> tree) {
    return tree.ok() ? Add(*std::move(tree)) : Fail(tree.status());
  }

  bool Add(Tree tree) {
    if (at_key_) return Fail(DataLossError("key is not a string"));
    if (frames_.empty()) {
      root = std::move(tree);
    } else if (Frame& frame = frames_.back(); frame.node.is_sequence()) {
      frame.node.Append(std::move(tree));
    } else {
      frame.node.Add(std::move(frame.key), std::move(tree));
    }
    return true;
  }

  const int depth_;
  const bool is_root_;
  bool at_key_ = false;
  std::vector<Frame> frames_;
};

Result<Tree> ParseValue(std::string_view data, int depth) {
  TreeVisitor visitor(depth);
  HF_RETURN_IF_ERROR(ParseMsgpack(data, visitor));
  return std::move(visitor.root);
}

}  // namespace

Result<Tree> ParseAggregate(std::string_view file) {
  Result<Tree> tree = ParseValue(file, 0);
  if (tree.ok()) return tree;
  return tree.status().WithContext(kAggregateFile);
}

}  // namespace holdfast
