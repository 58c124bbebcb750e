// Trees and handlers for the tests of this folder.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "ground/tensor/copy.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"

namespace holdfast {

template <typename T>
Array ArrayOf(DType dtype, Shape shape, const std::vector<T>& values) {
  assert(values.size() == static_cast<size_t>(ElementCount(shape)));
  return Array::FromBytes(dtype, std::move(shape), values.data());
}

inline Array Floats(Shape shape, const std::vector<float>& values) {
  return ArrayOf(DType::kFloat32, std::move(shape), values);
}

// Returns the array 0, 1, 2, ...
inline Array Iota(Shape shape) {
  std::vector<float> values(ElementCount(shape));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Floats(std::move(shape), values);
}

inline Array CastTo(const Array& array, DType dtype) {
  Array cast = *Array::Allocate(dtype, array.shape());
  ConvertStrided(array.view(), cast.mutable_view());
  return cast;
}

inline std::vector<float> Elements(const Array& array) {
  const Array floats = CastTo(array, DType::kFloat32);
  const auto* data = reinterpret_cast<const float*>(floats.view().data);
  return {data, data + floats.element_count()};
}

inline std::unique_ptr<PyTreeCheckpointHandler> MakeHandler(
    PyTreeCheckpointHandlerOptions options = {}) {
  auto handler = PyTreeCheckpointHandler::Make(std::move(options));
  EXPECT_TRUE(handler.ok()) << handler.status().ToString();
  return std::move(handler).value();
}

inline Status SaveTree(const std::string& directory, const Tree& item,
                       PyTreeCheckpointHandlerOptions options = {}) {
  return MakeHandler(std::move(options))->Save(directory, {.item = item});
}

inline PyTreeRestoreArgs RestoreOf(
    std::optional<Tree> item, std::optional<RestoreArgsMap> restore_args = {}) {
  PyTreeRestoreArgs args;
  args.item = std::move(item);
  args.restore_args = std::move(restore_args);
  return args;
}

// Returns the sharding of the first dimension over devices 0, 1, 2, ...
inline Sharding Rows(int64_t device_count) {
  return NamedSharding{{{"x"}, {device_count}, {}, {}}, {{"x"}}};
}

}  // namespace holdfast
