// The golden Megatron corpus (tests/golden/megatron) for tests: unpacks and
// parses it, and recomputes its tensors from their formula.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ground/base/sha256.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/megatron/state.h"
#include "holdfast/megatron/zarr.h"
#include "twins/scratch_directory.h"

namespace holdfast::megatron {

using Json = nlohmann::json;

// Returns the directory of the corpus, which is unpacked once per process.
inline const std::string& CorpusRoot() {
  struct Corpus {
    Corpus() : root(scratch / "open") {
      const std::string command = "tar -xJf " HOLDFAST_SOURCE_DIR
                                  "/tests/golden/megatron/open.tar.xz -C " +
                                  scratch.path();
      if (std::system(command.c_str()) != 0) std::abort();
    }
    const ScratchDirectory scratch;
    const std::string root;
  };
  static const Corpus corpus;
  return corpus.root;
}

inline Json ReadJson(const std::string& path) {
  return Json::parse(ReadTestFile(path));
}

inline std::string Sha256Hex(std::string_view bytes) {
  Sha256 hash;
  hash.Update(bytes);
  return hash.HexDigest();
}

// Returns the names of the checkpoints with the zarr back end.
inline std::vector<std::string> ZarrCheckpoints() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(CorpusRoot())) {
    const std::string expected = entry.path() / "expected.json";
    if (entry.path().filename() == "units") continue;
    if (ReadJson(expected)["backend"] == "zarr") {
      names.push_back(entry.path().filename());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline uint32_t CorpusHash(uint64_t i, uint32_t seed) {
  uint32_t x =
      static_cast<uint32_t>(i) * 0x9E3779B1U + seed * 0x85EBCA6BU + 0x27D4EB2FU;
  x ^= x >> 15;
  x *= 0x2C1B3C6DU;
  x ^= x >> 12;
  x *= 0x297A2D39U;
  return x ^ (x >> 15);
}

inline void PutFloat16(float value, bool is_bfloat16, char* target) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint16_t half;
  if (is_bfloat16) {
    half = static_cast<uint16_t>(bits >> 16);  // exact for k/8, |k| <= 128
  } else {
    const uint32_t sign = bits >> 31;
    const uint32_t exponent = (bits >> 23) & 0xFF;
    half = exponent == 0 ? 0
                         : static_cast<uint16_t>((sign << 15) |
                                                 ((exponent - 127 + 15) << 10) |
                                                 ((bits >> 13) & 0x3FF));
  }
  std::memcpy(target, &half, sizeof half);
}

inline void PutFormula(DType dtype, uint64_t i, uint32_t seed, char* target) {
  const uint32_t x = CorpusHash(i, seed);
  const uint32_t y = CorpusHash(i, seed ^ 0x5BD1E995U);
  const auto wide = [](uint32_t v) {
    return (static_cast<double>(v & 0xFFFFF) - 524288) / 1024.0;
  };
  const auto put = [&](auto value, size_t at = 0) {
    std::memcpy(target + at, &value, sizeof value);
  };
  switch (dtype) {
    case DType::kBool:
      return put(static_cast<uint8_t>(x & 1));
    case DType::kInt64:
      return put(x | (static_cast<uint64_t>(y) << 32));
    case DType::kFloat16:
    case DType::kBfloat16:
      return PutFloat16((static_cast<float>(x & 0xFF) - 128) / 8,
                        dtype == DType::kBfloat16, target);
    case DType::kFloat32:
      return put(static_cast<float>(wide(x)));
    case DType::kFloat64:
      return put(wide(x));
    case DType::kComplex64:
      put(static_cast<float>(wide(x)));
      return put(static_cast<float>(wide(y)), 4);
    case DType::kComplex128:
      put(wide(x));
      return put(wide(y), 8);
    default:
      std::memcpy(target, &x, DTypeBytes(dtype));
  }
}

inline Array CorpusTensor(const Json& tensor) {
  const DType dtype = *DTypeFromName(tensor["dtype"].get<std::string>());
  const Shape shape = tensor["global_shape"].get<Shape>();
  const size_t item_bytes = DTypeBytes(dtype);
  std::string bytes(static_cast<size_t>(ElementCount(shape)) * item_bytes,
                    '\0');
  if (tensor.contains("hex")) {
    const std::string hex = tensor["hex"];
    for (size_t i = 0; i < bytes.size(); ++i) {
      bytes[i] =
          static_cast<char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
    }
  } else {
    for (size_t i = 0; i * item_bytes < bytes.size(); ++i) {
      PutFormula(dtype, i, tensor["seed"].get<uint32_t>(),
                 bytes.data() + i * item_bytes);
    }
  }
  return Array::FromBytes(dtype, shape, bytes.data());
}

inline ReplicaId ReplicaOf(const Json& json) {
  if (json.is_array()) {
    return ReplicaId::Tuple(json.get<std::vector<int64_t>>());
  }
  return ReplicaId::Int(json.get<int64_t>());
}

inline ShardedTensor TensorOf(const Json& entry) {
  ShardedTensor tensor;
  tensor.key = entry["key"];
  tensor.dtype = *DTypeFromName(entry["dtype"].get<std::string>());
  tensor.local_shape = entry["local_shape"].get<Shape>();
  tensor.global_shape = entry["global_shape"].get<Shape>();
  tensor.global_offset = entry["global_offset"].get<Shape>();
  tensor.axis_fragmentations = entry["axis_fragmentations"].get<Shape>();
  tensor.replica_id = ReplicaOf(entry["replica_id"]);
  tensor.prepend_axis_num = entry["prepend_axis_num"];
  tensor.allow_shape_mismatch = entry["allow_shape_mismatch"];
  if (!entry["flattened_range"].is_null()) {
    tensor.flattened_range =
        FlatRange{entry["flattened_range"][0], entry["flattened_range"][1]};
  }
  return tensor;
}

inline ShardedObject ObjectOf(const Json& entry) {
  return {entry["key"], entry["global_shape"].get<Shape>(),
          entry["global_offset"].get<Shape>(), ReplicaOf(entry["replica_id"]),
          ""};
}

// Returns a rank's entries, with factories expanded and without empty flattened
// ranges.
inline RankState RankOf(const Json& entries) {
  RankState rank;
  for (const Json& entry : entries) {
    if (entry["kind"] == "object") rank.objects.push_back(ObjectOf(entry));
    std::vector<Json> parts;
    if (entry["kind"] == "tensor") parts.push_back(entry);
    if (entry["kind"] == "factory") {
      parts = entry["parts"].get<std::vector<Json>>();
    }
    for (const Json& part : parts) {
      ShardedTensor tensor = TensorOf(part);
      const auto& range = tensor.flattened_range;
      if (range && range->start == range->stop) continue;
      rank.tensors.push_back(std::move(tensor));
    }
  }
  return rank;
}

inline std::vector<RankState> RanksOf(const Json& ranks) {
  std::vector<RankState> states;
  for (const Json& entries : ranks) states.push_back(RankOf(entries));
  return states;
}

// Returns the elements in C order.
inline std::string PackedBytes(const ConstArrayView& view) {
  const size_t item_bytes = DTypeBytes(view.dtype);
  std::string bytes(static_cast<size_t>(ElementCount(view.shape)) * item_bytes,
                    '\0');
  const ArrayView packed = {view.dtype, bytes.data(), view.shape,
                            ContiguousStrides(view.shape, item_bytes)};
  CopyStrided(view, packed);
  return bytes;
}

// Applies `quiet` to the bits of each NaN in bfloat16 elements. Megatron
// converts them through float32, which loses the payload of NaNs.
template <typename Quiet>
std::string NormalizeNans(std::string bytes, const Quiet& quiet) {
  for (size_t i = 0; i + 1 < bytes.size(); i += 2) {
    uint16_t bits;
    std::memcpy(&bits, bytes.data() + i, 2);
    if ((bits & 0x7F80) != 0x7F80 || (bits & 0x7F) == 0) continue;
    bits = quiet(bits);
    std::memcpy(bytes.data() + i, &bits, 2);
  }
  return bytes;
}

}  // namespace holdfast::megatron
