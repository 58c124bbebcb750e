// Helpers shared by the handlers' tests: infos, and calls that must succeed.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "holdfast/orbax/type_handlers.h"
#include "twins/scratch_directory.h"

namespace holdfast {

struct StoredAs {
  bool use_ocdbt = true;
  bool use_zarr3 = false;

  std::string Name() const {
    return std::string(use_ocdbt ? "Ocdbt" : "Files") +
           (use_zarr3 ? "Zarr3" : "Zarr2");
  }
};

inline ParamInfo InfoOf(const std::string& directory, const std::string& name,
                        StoredAs stored_as = {}) {
  ParamInfo info;
  info.name = name;
  info.parent_dir = directory;
  info.keypath = {name};
  info.is_ocdbt_checkpoint = stored_as.use_ocdbt;
  info.use_zarr3 = stored_as.use_zarr3;
  return info;
}

inline std::vector<const Tree*> PointersTo(const std::vector<Tree>& values) {
  std::vector<const Tree*> pointers;
  for (const Tree& value : values) pointers.push_back(&value);
  return pointers;
}

// Calls Serialize and waits.
inline Status SerializeNow(TypeHandler& handler,
                           const std::vector<Tree>& values,
                           const std::vector<ParamInfo>& infos,
                           const std::vector<SaveArgs>& args = {}) {
  const std::vector<const Tree*> pointers = PointersTo(values);
  const auto futures = handler.Serialize(pointers, infos, args);
  if (!futures.ok()) return futures.status();
  for (const CommitFuture& future : *futures) {
    if (!future.get().ok()) return future.get();
  }
  return Status();
}

// Like SerializeNow, then finalizes, so that the values can be read.
inline void Write(TypeHandler& handler, const std::vector<Tree>& values,
                  const std::vector<ParamInfo>& infos,
                  const std::vector<SaveArgs>& args = {}) {
  const Status written = SerializeNow(handler, values, infos, args);
  ASSERT_TRUE(written.ok()) << written.ToString();
  const Status finalized = handler.Finalize(infos[0].parent_dir);
  ASSERT_TRUE(finalized.ok()) << finalized.ToString();
}

inline std::vector<Tree> Read(TypeHandler& handler,
                              const std::vector<ParamInfo>& infos,
                              const std::vector<AnyRestoreArgs>& args = {}) {
  auto values = handler.Deserialize(infos, args);
  EXPECT_TRUE(values.ok()) << values.status().ToString();
  return values.ok() ? *std::move(values) : std::vector<Tree>(infos.size());
}

inline Array Int32s(Shape shape, const std::vector<int32_t>& values) {
  return Array::FromBytes(DType::kInt32, std::move(shape), values.data());
}

}  // namespace holdfast
