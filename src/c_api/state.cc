// The saving functions of the C API.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "c_api/guard.h"
#include "c_api/structs.h"
#include "ground/base/status_macros.h"
#include "holdfast/c/holdfast.h"
#include "holdfast/checkpoint.h"
#include "holdfast/device.h"
#include "holdfast/tree_utils.h"

struct holdfast_state {
  holdfast::FlatDict values;
};

namespace holdfast {
namespace {

// Splits "a.b" into ("a", "b").
Result<TreePath> KeysOf(std::string_view name) {
  TreePath keys;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    if (end == begin) {
      return InvalidArgumentError("name \"" + std::string(name) +
                                  "\": an empty key");
    }
    keys.emplace_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  return keys;
}

Status AddValue(holdfast_state* state, const char* name, Tree value) {
  HF_RETURN_IF_ERROR(NotNull(state, "state"));
  HF_RETURN_IF_ERROR(NotNull(name, "name"));
  HF_ASSIGN_OR_RETURN(TreePath keys, KeysOf(name));
  state->values.emplace_back(std::move(keys), std::move(value));
  return Status();
}

struct ArrayType {
  DType dtype = DType::kUint8;
  Shape shape;
};

Result<ArrayType> TypeFrom(const char* dtype_name, size_t rank,
                           const int64_t* shape) {
  HF_RETURN_IF_ERROR(NotNull(dtype_name, "dtype"));
  const std::optional<DType> dtype = DTypeFromName(dtype_name);
  if (!dtype.has_value()) {
    return InvalidArgumentError("dtype: unknown (got " +
                                std::string(dtype_name) + ")");
  }
  if (rank > kRankMax) {
    return InvalidArgumentError("rank: too large (got " + std::to_string(rank) +
                                ", want at most " + std::to_string(kRankMax) +
                                ")");
  }
  if (rank > 0) HF_RETURN_IF_ERROR(NotNull(shape, "shape"));
  if (std::any_of(shape, shape + rank, [](int64_t n) { return n < 0; })) {
    return InvalidArgumentError("shape: a negative extent");
  }
  ArrayType type{*dtype, Shape(shape, shape + rank)};
  const int64_t count = ElementCount(type.shape);
  if (count > PTRDIFF_MAX / static_cast<int64_t>(DTypeBytes(*dtype))) {
    return InvalidArgumentError("shape: too large for any memory (got " +
                                ShapeToString(type.shape) + ")");
  }
  return type;
}

Result<Array> BorrowArray(ArrayType type, const void* data) {
  if (ElementCount(type.shape) > 0) HF_RETURN_IF_ERROR(NotNull(data, "data"));
  ConstArrayView view{
      type.dtype, static_cast<const char*>(data), std::move(type.shape), {}};
  view.strides = ContiguousStrides(view.shape, DTypeBytes(type.dtype));
  return Array::Borrow(std::move(view), nullptr);
}

Result<Compression> CompressionFrom(const char* name) {
  if (name == nullptr) return SaveOptions().compression;
  if (const auto compression = CompressionFromName(name)) return *compression;
  return InvalidArgumentError("compression: unknown (got " + std::string(name) +
                              ", want planes, zstd, fast or none)");
}

Result<SaveOptions> SaveOptionsFrom(const holdfast_save_options* options) {
  HF_ASSIGN_OR_RETURN(const holdfast_save_options given, ReadOptions(options));
  SaveOptions result;
  const auto format =
      FormatFromName(given.format == nullptr ? "orbax" : given.format);
  if (!format.has_value() || !IsOrbaxFormat(*format)) {
    return InvalidArgumentError("format: cannot be saved (got " +
                                std::string(given.format) +
                                ", want orbax or orbax-v1)");
  }
  result.format = *format;
  HF_ASSIGN_OR_RETURN(result.compression, CompressionFrom(given.compression));
  result.zarr_format = given.zarr_format;
  result.use_ocdbt = given.use_files == 0;
  result.overwrite = given.overwrite != 0;
  result.run.threads = given.threads;
  return result;
}

}  // namespace
}  // namespace holdfast

using holdfast::AddValue;
using holdfast::Guard;
using holdfast::NotNull;
using holdfast::Status;
using holdfast::Tree;

holdfast_code holdfast_state_new(holdfast_state** state) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(state, "state"));
    *state = new holdfast_state;
    return Status();
  });
}

void holdfast_state_close(holdfast_state* state) { delete state; }

holdfast_code holdfast_state_add_array(holdfast_state* state, const char* name,
                                       const char* dtype, size_t rank,
                                       const int64_t* shape, const void* data) {
  return Guard([&]() -> Status {
    HF_ASSIGN_OR_RETURN(holdfast::ArrayType type,
                        holdfast::TypeFrom(dtype, rank, shape));
    HF_ASSIGN_OR_RETURN(holdfast::Array array,
                        holdfast::BorrowArray(std::move(type), data));
    return AddValue(state, name, std::move(array));
  });
}

holdfast_code holdfast_state_add_device_array(
    holdfast_state* state, const char* name, const char* dtype, size_t rank,
    const int64_t* shape, const int64_t* strides, uint64_t address,
    uint64_t stream) {
  return Guard([&]() -> Status {
    HF_ASSIGN_OR_RETURN(holdfast::ArrayType type,
                        holdfast::TypeFrom(dtype, rank, shape));
    holdfast::DeviceArray array;
    array.dtype = type.dtype;
    array.shape = std::move(type.shape);
    if (strides != nullptr) array.strides.assign(strides, strides + rank);
    array.address = address;
    array.stream = stream;
    HF_ASSIGN_OR_RETURN(Tree leaf, holdfast::DeviceLeaf(std::move(array)));
    return AddValue(state, name, std::move(leaf));
  });
}

holdfast_code holdfast_state_add_int(holdfast_state* state, const char* name,
                                     int64_t value) {
  return Guard([&] { return AddValue(state, name, Tree(value)); });
}

holdfast_code holdfast_state_add_float(holdfast_state* state, const char* name,
                                       double value) {
  return Guard([&] { return AddValue(state, name, Tree(value)); });
}

holdfast_code holdfast_state_add_bool(holdfast_state* state, const char* name,
                                      int value) {
  return Guard([&] { return AddValue(state, name, Tree(value != 0)); });
}

holdfast_code holdfast_state_add_string(holdfast_state* state, const char* name,
                                        const char* text, size_t bytes) {
  return Guard([&]() -> Status {
    if (bytes > 0) HF_RETURN_IF_ERROR(NotNull(text, "text"));
    return AddValue(state, name, Tree(std::string_view(text, bytes)));
  });
}

holdfast_code holdfast_save(const char* path, const holdfast_state* state,
                            const holdfast_save_options* options) {
  return Guard([&]() -> Status {
    HF_RETURN_IF_ERROR(NotNull(path, "path"));
    HF_RETURN_IF_ERROR(NotNull(state, "state"));
    HF_ASSIGN_OR_RETURN(const holdfast::SaveOptions save_options,
                        holdfast::SaveOptionsFrom(options));
    HF_ASSIGN_OR_RETURN(const Tree tree, holdfast::FromFlatDict(state->values));
    return holdfast::Save(path, tree, save_options).status();
  });
}
