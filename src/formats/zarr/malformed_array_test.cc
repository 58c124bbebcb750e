// Reads every borderline and malformed array of the table completely, and
// compares with the verdict of TensorStore 0.1.86 and its values.
#include <gtest/gtest.h>

#include <span>

#include "formats/zarr/array_test_util.h"
#include "formats/zarr/format/malformed_v2_testdata.h"
#include "formats/zarr/format/malformed_v3_testdata.h"
#include "stores/storage/memory_store.h"

namespace holdfast::zarr {
namespace {

std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(
        std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

// Returns the elements of the array in C order.
Result<std::string> ReadAll(Store& store, std::string_view metadata_key) {
  auto array =
      OpenForTest(&store, "", {.metadata_key = std::string(metadata_key)});
  if (!array.ok()) return array.status();
  if (ElementCount(array->shape()) > 100) {
    ADD_FAILURE() << "array too large for a test";
    return InternalError("too large");
  }
  std::string bytes(ElementCount(array->shape()) * DTypeBytes(array->dtype()),
                    '?');
  const ArrayView view = {
      array->dtype(), bytes.data(), array->shape(),
      ContiguousStrides(array->shape(), DTypeBytes(array->dtype()))};
  const Status status = ReadForTest(store, *array, BoxOf(array->shape()), view);
  if (!status.ok()) return status;
  return bytes;
}

void CheckAll(std::span<const MalformedCase> cases, std::string_view base,
              std::string_view metadata_key, std::string_view chunk_key) {
  for (const MalformedCase& test_case : cases) {
    SCOPED_TRACE(test_case.name);
    MemoryStore store;
    ASSERT_TRUE(store.Write(metadata_key, MetadataText(base, test_case)).ok());
    if (test_case.has_chunk) {
      ASSERT_TRUE(store.Write(chunk_key, FromHex(test_case.chunk_hex)).ok());
    }
    const auto read = ReadAll(store, metadata_key);
    if (test_case.accepted) {
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      EXPECT_EQ(*read, FromHex(test_case.expected));
      continue;
    }
    const StatusCode code = read.status().code();
    EXPECT_TRUE(code == StatusCode::kFailedPrecondition ||
                code == StatusCode::kUnimplemented ||
                code == StatusCode::kDataLoss)
        << read.status().ToString();
  }
}

TEST(MalformedArrayTest, V2) {
  CheckAll(kMalformedV2, kMalformedBaseV2, ".zarray", "0");
}

TEST(MalformedArrayTest, V3) {
  CheckAll(kMalformedV3, kMalformedBaseV3, "zarr.json", "c/0");
}

}  // namespace
}  // namespace holdfast::zarr
