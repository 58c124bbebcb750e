// Trees for the tests, with every leaf kind and dtype; values depend on a seed.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <string>

#include "holdfast/holdfast.h"

namespace holdfast {

inline Array RandomArray(DType dtype, Shape shape, uint32_t seed) {
  std::mt19937 random(seed);
  Array array = *Array::Allocate(dtype, std::move(shape));
  char* data = array.mutable_view().data;
  const int bits = DTypeBits(dtype);
  const int mask = dtype == DType::kBool ? 1 : bits < 8 ? (1 << bits) - 1 : 255;
  for (size_t i = 0; i < array.byte_count(); ++i) {
    data[i] = static_cast<char>(random() & mask);
  }
  return array;
}

// Returns the dtypes that zarr can store, sorted by name, which is the order in
// which dicts are restored.
inline std::vector<DType> StorableDTypes() {
  std::vector<DType> dtypes;
  for (int i = 0; i < kDTypeCount; ++i) {
    const DType dtype = static_cast<DType>(i);
    if (dtype != DType::kUint2 && dtype != DType::kUint4) {
      dtypes.push_back(dtype);
    }
  }
  std::sort(dtypes.begin(), dtypes.end(),
            [](DType a, DType b) { return DTypeName(a) < DTypeName(b); });
  return dtypes;
}

inline Tree AllKindsTree() {
  Tree arrays = Tree::Dict();
  uint32_t seed = 1;
  for (const DType dtype : StorableDTypes()) {
    arrays.Add(std::string(DTypeName(dtype)),
               Tree(RandomArray(dtype, {3, 5}, seed++)));
  }
  return Tree::Dict({
      {"arrays", std::move(arrays)},
      {"big", Tree(RandomArray(DType::kFloat32, {64, 33}, 100))},
      {"empty_dict", Tree::Dict()},
      {"empty_list", Tree::List()},
      {"jax", Tree::JaxArray(RandomArray(DType::kBfloat16, {7, 9}, 101))},
      {"list", Tree::List({Tree(1), Tree(2.5), Tree(true)})},
      {"none", Tree::None()},
      {"text", Tree("hello")},
      {"zero_d", Tree(RandomArray(DType::kInt32, {}, 102))},
  });
}

}  // namespace holdfast
