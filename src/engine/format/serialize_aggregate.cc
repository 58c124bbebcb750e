#include "engine/format/serialize_aggregate.h"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstdint>
#include <cstring>
#include <msgpack.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/format/aggregate_extensions.h"
#include "ground/base/status_macros.h"
#include "ground/base/utf8.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/tensor.h"

namespace holdfast {
namespace {

using Packer = msgpack::packer<msgpack::sbuffer>;

// Larger arrays are cut into pieces of this size, as flax does, since a msgpack
// extension cannot exceed 4 GiB.
constexpr size_t kArrayBytesMax = size_t{1} << 30;

Status Refused(const std::vector<std::string>& path, std::string_view why) {
  std::string text = "leaf ";
  for (size_t i = 0; i < path.size(); ++i) {
    text += (i == 0 ? "" : "/") + path[i];
  }
  return InvalidArgumentError(text + ": " + std::string(why));
}

void PackText(Packer& packer, std::string_view text) {
  packer.pack_str(static_cast<uint32_t>(text.size()));
  packer.pack_str_body(text.data(), static_cast<uint32_t>(text.size()));
}

// Packs a double. The packer's own function would turn 2.0 and -0.0 into
// integers.
void PackDouble(Packer& packer, double value) {
  char bytes[9] = {static_cast<char>(0xcb)};
  const auto bits = std::bit_cast<uint64_t>(value);
  for (int i = 0; i < 8; ++i) {
    bytes[i + 1] = static_cast<char>(bits >> (56 - 8 * i));
  }
  packer.pack_bin_body(bytes, sizeof(bytes));
}

void PackExtension(Packer& packer, int8_t type, const msgpack::sbuffer& body) {
  packer.pack_ext(body.size(), type);
  packer.pack_ext_body(body.data(), static_cast<uint32_t>(body.size()));
}

// Packs [shape, dtype name, bytes].
void PackElements(Packer& packer, int8_t type, const Shape& shape, DType dtype,
                  std::string_view bytes) {
  msgpack::sbuffer body;
  Packer inner(body);
  inner.pack_array(3);
  inner.pack_array(static_cast<uint32_t>(shape.size()));
  for (const int64_t extent : shape) inner.pack_int64(extent);
  PackText(inner, DTypeName(dtype));
  inner.pack_bin(static_cast<uint32_t>(bytes.size()));
  inner.pack_bin_body(bytes.data(), static_cast<uint32_t>(bytes.size()));
  PackExtension(packer, type, body);
}

// Copies the elements of a leaf in C order.
Result<Array> Gather(const Tree& leaf) {
  HF_ASSIGN_OR_RETURN(Array whole,
                      Array::Allocate(leaf.array_dtype(), leaf.array_shape()));
  const ArrayView target = whole.mutable_view();
  if (leaf.reader() != nullptr) {
    const Shape origin(leaf.array_shape().size(), 0);
    HF_RETURN_IF_ERROR(leaf.reader()->Read(origin, target));
    return whole;
  }
  if (!leaf.is_sharded()) {
    CopyStrided(leaf.array().view(), target);
    return whole;
  }
  for (const ArrayShard& shard : leaf.shards()) {
    const Box box{shard.origin, shard.array.shape()};
    const ArrayView part = Subview(target, box);
    if (shard.reader != nullptr) {
      const Shape first(shard.origin.size(), 0);
      HF_RETURN_IF_ERROR(shard.reader->Read(first, part));
    } else {
      CopyStrided(shard.array.view(), part);
    }
  }
  return whole;
}

// Packs {"0": ..., "1": ...}.
template <typename Pack>
void PackNumbered(Packer& packer, size_t count, const Pack& pack) {
  packer.pack_map(static_cast<uint32_t>(count));
  for (size_t i = 0; i < count; ++i) {
    PackText(packer, std::to_string(i));
    pack(i);
  }
}

void PackLargeArray(Packer& packer, const Array& array) {
  const std::string_view bytes(array.view().data, array.byte_count());
  const size_t element_bytes = DTypeBytes(array.dtype());
  const size_t piece_bytes = kArrayBytesMax / element_bytes * element_bytes;
  const size_t piece_count = (bytes.size() + piece_bytes - 1) / piece_bytes;
  packer.pack_map(3);
  PackText(packer, "__msgpack_chunked_array__");
  packer.pack_true();
  PackText(packer, "shape");
  PackNumbered(packer, array.shape().size(),
               [&](size_t i) { packer.pack_int64(array.shape()[i]); });
  PackText(packer, "chunks");
  PackNumbered(packer, piece_count, [&](size_t i) {
    const std::string_view piece = bytes.substr(i * piece_bytes, piece_bytes);
    const auto element_count =
        static_cast<int64_t>(piece.size() / element_bytes);
    PackElements(packer, kExtArray, {element_count}, array.dtype(), piece);
  });
}

class AggregateWriter {
 public:
  Status Pack(Packer& packer, const Tree& tree) {
    if (path_.size() > kTreeDepthMax) return Refused(path_, "too deep");
    switch (tree.kind()) {
      case NodeKind::kDict:
      case NodeKind::kNamedTuple:
        packer.pack_map(static_cast<uint32_t>(tree.size()));
        return PackChildren(packer, tree, true);
      case NodeKind::kList:
        packer.pack_array(static_cast<uint32_t>(tree.size()));
        return PackChildren(packer, tree, false);
      case NodeKind::kTuple:
        return PackTuple(packer, tree);
      case NodeKind::kLeaf:
        return PackLeaf(packer, tree);
    }
    return Status();
  }

 private:
  Status PackChildren(Packer& packer, const Tree& tree, bool with_keys) {
    for (size_t i = 0; i < tree.size(); ++i) {
      path_.push_back(with_keys ? tree.keys()[i] : std::to_string(i));
      if (with_keys) {
        if (!IsValidUtf8(path_.back()))
          return Refused(path_, "a key is not UTF-8");
        PackText(packer, path_.back());
      }
      HF_RETURN_IF_ERROR(Pack(packer, tree.children()[i]));
      path_.pop_back();
    }
    return Status();
  }

  Status PackTuple(Packer& packer, const Tree& tree) {
    msgpack::sbuffer body;
    Packer inner(body);
    inner.pack_array(static_cast<uint32_t>(tree.size()));
    HF_RETURN_IF_ERROR(PackChildren(inner, tree, false));
    PackExtension(packer, kExtTuple, body);
    return Status();
  }

  Status PackLeaf(Packer& packer, const Tree& leaf) {
    switch (leaf.leaf_kind()) {
      case LeafKind::kNone:
        packer.pack_nil();
        return Status();
      case LeafKind::kString:
        if (!IsValidUtf8(leaf.text())) return Refused(path_, "is not UTF-8");
        PackText(packer, leaf.text());
        return Status();
      case LeafKind::kReference:
        PackText(packer, "PLACEHOLDER://" + leaf.text());
        return Status();
      case LeafKind::kBytes:
        packer.pack_bin(static_cast<uint32_t>(leaf.text().size()));
        packer.pack_bin_body(leaf.text().data(),
                             static_cast<uint32_t>(leaf.text().size()));
        return Status();
      case LeafKind::kScalar:
        PackScalar(packer, leaf.scalar());
        return Status();
      case LeafKind::kArray:
        return PackArray(packer, leaf);
      default:
        return Refused(path_, "Unsupported msgpack object");
    }
  }

  static void PackScalar(Packer& packer, const Scalar& scalar) {
    if (!scalar.is_python) {
      PackElements(packer, kExtScalar, {}, scalar.dtype, scalar.view());
    } else if (scalar.dtype == DType::kBool) {
      scalar.As<bool>() ? packer.pack_true() : packer.pack_false();
    } else if (scalar.dtype == DType::kInt64) {
      packer.pack_int64(scalar.As<int64_t>());
    } else if (scalar.dtype == DType::kUint64) {
      packer.pack_uint64(scalar.As<uint64_t>());
    } else if (scalar.dtype == DType::kComplex128) {
      PackComplex(packer, scalar.As<std::complex<double>>());
    } else {
      PackDouble(packer, scalar.As<double>());
    }
  }

  static void PackComplex(Packer& packer, std::complex<double> value) {
    msgpack::sbuffer body;
    Packer inner(body);
    inner.pack_array(2);
    PackDouble(inner, value.real());
    PackDouble(inner, value.imag());
    PackExtension(packer, kExtComplex, body);
  }

  Status PackArray(Packer& packer, const Tree& leaf) {
    if (!leaf.array_traits().prng_impl.empty()) {
      return Refused(path_, "typed PRNG keys have no form in msgpack");
    }
    HF_ASSIGN_OR_RETURN(const Array array, Gather(leaf));
    if (array.byte_count() > kArrayBytesMax) {
      PackLargeArray(packer, array);
      return Status();
    }
    PackElements(packer, kExtArray, array.shape(), array.dtype(),
                 {array.view().data, array.byte_count()});
    return Status();
  }

  std::vector<std::string> path_;
};

}  // namespace

Result<std::string> SerializeAggregate(const Tree& tree) {
  msgpack::sbuffer buffer;
  Packer packer(buffer);
  HF_RETURN_IF_ERROR(AggregateWriter().Pack(packer, tree));
  return std::string(buffer.data(), buffer.size());
}

}  // namespace holdfast
