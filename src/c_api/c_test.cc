#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "c_api/guard.h"
#include "c_api/structs.h"
#include "holdfast/c/holdfast.h"
#include "holdfast/checkpoint.h"
#include "holdfast/version.h"

namespace holdfast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Has a temporary directory with a state and a checkpoint in it.
class CTest : public ::testing::Test {
 protected:
  CTest() {
    directory_ =
        std::filesystem::path(::testing::TempDir()) /
        ("c_" +
         std::string(
             ::testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directory(directory_);
    EXPECT_EQ(holdfast_state_new(&state_), HOLDFAST_OK);
  }
  ~CTest() override {
    holdfast_close(checkpoint_);
    holdfast_state_close(state_);
    std::filesystem::remove_all(directory_);
  }

  std::string Path() const { return directory_ / "checkpoint"; }

  // Saves "params.w", "note" and "step".
  void SaveAll() {
    const int64_t shape[] = {2, 3};
    ASSERT_EQ(holdfast_state_add_array(state_, "params.w", "float32", 2, shape,
                                       values_.data()),
              HOLDFAST_OK);
    ASSERT_EQ(holdfast_state_add_string(state_, "note", "héllo", 6),
              HOLDFAST_OK);
    ASSERT_EQ(holdfast_state_add_int(state_, "step", 7), HOLDFAST_OK);
    holdfast_save_options options{};
    options.struct_size = sizeof options;
    options.compression = "none";
    options.use_files = 1;
    ASSERT_EQ(holdfast_save(Path().c_str(), state_, &options), HOLDFAST_OK)
        << holdfast_last_error();
  }

  void OpenIt() {
    ASSERT_EQ(holdfast_open(Path().c_str(), nullptr, &checkpoint_), HOLDFAST_OK)
        << holdfast_last_error();
  }

  size_t Leaf(const char* name) {
    size_t leaf = 99;
    EXPECT_EQ(holdfast_find(checkpoint_, name, &leaf), HOLDFAST_OK);
    return leaf;
  }

  // Flips a bit of values that are stored unchanged in a file of the
  // checkpoint.
  void FlipLastByte(const std::vector<float>& values) {
    const std::string raw(reinterpret_cast<const char*>(values.data()),
                          values.size() * sizeof(float));
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(Path())) {
      if (!entry.is_regular_file()) continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out);
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      const size_t at = bytes.find(raw);
      if (at == std::string::npos) continue;
      file.seekp(static_cast<std::streamoff>(at + raw.size() - 1));
      file.put(static_cast<char>(raw.back() ^ 1));
    }
  }

  std::filesystem::path directory_;
  std::vector<float> values_ = {0, 1, 2, 3, 4, 5};
  holdfast_state* state_ = nullptr;
  holdfast_checkpoint* checkpoint_ = nullptr;
};

TEST_F(CTest, NamesBecomeNestedDicts) {
  const int64_t shape[] = {2};
  const int16_t numbers[] = {1, 2};
  holdfast_state_add_array(state_, "a.b.c", "int16", 1, shape, numbers);
  holdfast_state_add_array(state_, "a.d", "bfloat16", 0, nullptr, numbers);
  holdfast_state_add_float(state_, "pi", 3.5);
  holdfast_state_add_bool(state_, "flag", 2);
  ASSERT_EQ(holdfast_save(Path().c_str(), state_, nullptr), HOLDFAST_OK);
  const Result<LoadResult> loaded = Load(Path());
  ASSERT_TRUE(loaded.ok());
  const uint16_t one = 1;
  EXPECT_TRUE(
      loaded->tree ==
      Tree::Dict(
          {{"a",
            Tree::Dict({{"b", Tree::Dict({{"c", Array::Of(numbers)}})},
                        {"d", Array::FromBytes(DType::kBfloat16, {}, &one)}})},
           {"flag", true},
           {"pi", 3.5}}));
}

TEST_F(CTest, LeavesAreListed) {
  SaveAll();
  OpenIt();
  size_t count = 0;
  ASSERT_EQ(holdfast_leaf_count(checkpoint_, &count), HOLDFAST_OK);
  EXPECT_EQ(count, 3u);
  holdfast_leaf_info info{};
  info.struct_size = sizeof info;
  ASSERT_EQ(holdfast_leaf(checkpoint_, Leaf("params.w"), &info), HOLDFAST_OK);
  EXPECT_STREQ(info.name, "params.w");
  EXPECT_STREQ(info.kind, "array");
  EXPECT_STREQ(info.dtype, "float32");
  EXPECT_EQ(info.element_bytes, 4u);
  EXPECT_THAT(std::vector<int64_t>(info.shape, info.shape + info.rank),
              ElementsAre(2, 3));
  ASSERT_EQ(holdfast_leaf(checkpoint_, Leaf("note"), &info), HOLDFAST_OK);
  EXPECT_STREQ(info.kind, "string");
  EXPECT_EQ(info.dtype, nullptr);
  EXPECT_EQ(info.rank, 0u);
  EXPECT_EQ(info.struct_size, sizeof info);
}

TEST_F(CTest, ArraysBoxesScalarsAndTextAreRead) {
  SaveAll();
  OpenIt();
  size_t bytes = 0;
  const size_t w = Leaf("params.w");
  ASSERT_EQ(holdfast_leaf_bytes(checkpoint_, w, &bytes), HOLDFAST_OK);
  EXPECT_EQ(bytes, 24u);
  std::vector<float> whole(6);
  ASSERT_EQ(holdfast_read(checkpoint_, w, whole.data(), 24), HOLDFAST_OK);
  EXPECT_EQ(whole, values_);

  const int64_t origin[] = {0, 1};
  const int64_t shape[] = {2, 2};
  ASSERT_EQ(holdfast_box_bytes(checkpoint_, w, 2, shape, &bytes), HOLDFAST_OK);
  EXPECT_EQ(bytes, 16u);
  std::vector<float> box(4);
  ASSERT_EQ(holdfast_read_box(checkpoint_, w, 2, origin, shape, box.data(), 16),
            HOLDFAST_OK);
  EXPECT_THAT(box, ElementsAre(1, 2, 4, 5));

  holdfast_leaf_info info{};
  info.struct_size = sizeof info;
  const size_t step = Leaf("step");
  ASSERT_EQ(holdfast_leaf(checkpoint_, step, &info), HOLDFAST_OK);
  EXPECT_STREQ(info.kind, "scalar");
  std::vector<char> scalar(info.element_bytes);
  ASSERT_EQ(holdfast_read(checkpoint_, step, scalar.data(), info.element_bytes),
            HOLDFAST_OK);
  EXPECT_EQ(scalar[0], 7);

  char* text = nullptr;
  ASSERT_EQ(holdfast_read_text(checkpoint_, Leaf("note"), &text, &bytes),
            HOLDFAST_OK);
  EXPECT_STREQ(text, "héllo");
  EXPECT_EQ(bytes, 6u);
  holdfast_free(text);
}

TEST_F(CTest, WrongReadsAreErrors) {
  SaveAll();
  OpenIt();
  const size_t w = Leaf("params.w");
  char bytes[24];
  const int64_t zero[] = {0, 0};
  const int64_t two[] = {3, 1};
  const int64_t minus[] = {-1, 1};
  EXPECT_EQ(holdfast_read(checkpoint_, w, bytes, 23),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_THAT(holdfast_last_error(),
              HasSubstr("params.w: target_bytes: wrong size (got 23, want "
                        "24)"));
  EXPECT_EQ(holdfast_read(checkpoint_, w, nullptr, 24),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_read(checkpoint_, 3, bytes, 24), HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(holdfast_read(checkpoint_, SIZE_MAX, bytes, 24),
            HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(holdfast_read_box(checkpoint_, w, 1, zero, zero, bytes, 0),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_read_box(checkpoint_, w, 2, nullptr, zero, bytes, 0),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_read_box(checkpoint_, w, 2, zero, two, bytes, 12),
            HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(holdfast_read_box(checkpoint_, w, 2, minus, zero, bytes, 0),
            HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(holdfast_read_box(checkpoint_, w, 2, zero, minus, bytes, 4),
            HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(holdfast_read(checkpoint_, Leaf("note"), bytes, 24),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_THAT(holdfast_last_error(), HasSubstr("got string"));
  char* text = nullptr;
  EXPECT_EQ(holdfast_read_text(checkpoint_, w, &text, nullptr),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_read_text(checkpoint_, 3, &text, nullptr),
            HOLDFAST_OUT_OF_RANGE);
  EXPECT_EQ(text, nullptr);
  size_t leaf = 0;
  EXPECT_EQ(holdfast_find(checkpoint_, "params.x", &leaf), HOLDFAST_NOT_FOUND);
}

TEST_F(CTest, NullHandlesAreErrors) {
  size_t number = 0;
  char byte = 0;
  char* text = nullptr;
  const char* name = "a";
  holdfast_leaf_info info{};
  holdfast_damage damage{};
  holdfast_report* report = nullptr;
  const auto refuses = [](holdfast_code code) {
    return code == HOLDFAST_INVALID_ARGUMENT &&
           std::string(holdfast_last_error()).find(": null") !=
               std::string::npos;
  };
  EXPECT_TRUE(refuses(holdfast_open(nullptr, nullptr, &checkpoint_)));
  EXPECT_TRUE(refuses(holdfast_open("/", nullptr, nullptr)));
  EXPECT_TRUE(refuses(holdfast_leaf_count(nullptr, &number)));
  EXPECT_TRUE(refuses(holdfast_find(nullptr, name, &number)));
  EXPECT_TRUE(refuses(holdfast_leaf(nullptr, 0, &info)));
  EXPECT_TRUE(refuses(holdfast_leaf_bytes(nullptr, 0, &number)));
  EXPECT_TRUE(refuses(holdfast_box_bytes(nullptr, 0, 0, nullptr, &number)));
  EXPECT_TRUE(refuses(holdfast_read(nullptr, 0, &byte, 1)));
  EXPECT_TRUE(
      refuses(holdfast_read_box(nullptr, 0, 0, nullptr, nullptr, &byte, 1)));
  EXPECT_TRUE(refuses(holdfast_read_text(nullptr, 0, &text, &number)));
  EXPECT_TRUE(refuses(holdfast_verify(nullptr, nullptr, &report)));
  EXPECT_TRUE(refuses(holdfast_report_count(nullptr, &number)));
  EXPECT_TRUE(refuses(holdfast_report_damage(nullptr, 0, &damage)));
  EXPECT_TRUE(refuses(holdfast_state_new(nullptr)));
  EXPECT_TRUE(refuses(holdfast_state_add_int(nullptr, name, 1)));
  EXPECT_TRUE(refuses(holdfast_state_add_int(state_, nullptr, 1)));
  EXPECT_TRUE(refuses(holdfast_state_add_string(state_, name, nullptr, 1)));
  EXPECT_TRUE(refuses(
      holdfast_state_add_array(state_, name, nullptr, 0, nullptr, &byte)));
  EXPECT_TRUE(refuses(
      holdfast_state_add_array(state_, name, "int8", 1, nullptr, &byte)));
  EXPECT_TRUE(refuses(
      holdfast_state_add_array(state_, name, "int8", 0, nullptr, nullptr)));
  EXPECT_TRUE(refuses(holdfast_save("a", nullptr, nullptr)));
  EXPECT_TRUE(refuses(holdfast_save(nullptr, state_, nullptr)));
  holdfast_close(nullptr);
  holdfast_report_close(nullptr);
  holdfast_state_close(nullptr);
  holdfast_free(nullptr);
}

TEST_F(CTest, WrongValuesAreErrors) {
  const int64_t minus[] = {-1};
  const int64_t huge[] = {INT64_MAX, 2};
  const char byte = 0;
  EXPECT_EQ(holdfast_state_add_array(state_, "a", "float31", 0, nullptr, &byte),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_state_add_array(state_, "a", "int8", 1, minus, &byte),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_state_add_array(state_, "a", "int8", 33, huge, &byte),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_EQ(holdfast_state_add_array(state_, "a", "int16", 2, huge, &byte),
            HOLDFAST_INVALID_ARGUMENT);
  for (const char* name : {"", ".", "a.", ".a", "a..b"}) {
    EXPECT_EQ(holdfast_state_add_int(state_, name, 1),
              HOLDFAST_INVALID_ARGUMENT)
        << name;
  }
  EXPECT_EQ(holdfast_save(Path().c_str(), state_, nullptr),
            HOLDFAST_INVALID_ARGUMENT)
      << "nothing was added";
  ASSERT_EQ(holdfast_state_add_int(state_, "a", 1), HOLDFAST_OK);
  ASSERT_EQ(holdfast_state_add_int(state_, "a.b", 1), HOLDFAST_OK);
  EXPECT_EQ(holdfast_save(Path().c_str(), state_, nullptr),
            HOLDFAST_INVALID_ARGUMENT);
  EXPECT_FALSE(std::filesystem::exists(Path()));
}

TEST_F(CTest, SaveOptionsAreObeyed) {
  SaveAll();
  EXPECT_EQ(holdfast_save(Path().c_str(), state_, nullptr),
            HOLDFAST_ALREADY_EXISTS);
  holdfast_save_options options{};
  options.struct_size = sizeof options;
  options.overwrite = 1;
  options.use_files = 1;
  options.zarr_format = 3;
  options.format = "orbax-v1";
  options.compression = "none";
  ASSERT_EQ(holdfast_save(Path().c_str(), state_, &options), HOLDFAST_OK);
  const auto opened = Open(Path());
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ((*opened)->info().format, "orbax-v1");
  EXPECT_EQ((*opened)->info().zarr_format, 3);
  EXPECT_FALSE((*opened)->info().use_ocdbt);
  options.format = "safetensors";
  EXPECT_EQ(holdfast_save(Path().c_str(), state_, &options),
            HOLDFAST_INVALID_ARGUMENT);
  options.format = nullptr;
  options.compression = "lzma";
  EXPECT_EQ(holdfast_save(Path().c_str(), state_, &options),
            HOLDFAST_INVALID_ARGUMENT);
}

TEST_F(CTest, VerifyReportsDamage) {
  SaveAll();
  holdfast_report* report = nullptr;
  ASSERT_EQ(holdfast_verify(Path().c_str(), nullptr, &report), HOLDFAST_OK);
  size_t count = 99;
  ASSERT_EQ(holdfast_report_count(report, &count), HOLDFAST_OK);
  EXPECT_EQ(count, 0u);
  count = 99;
  ASSERT_EQ(holdfast_report_not_supported_count(report, &count), HOLDFAST_OK);
  EXPECT_EQ(count, 0u);
  holdfast_damage none{};
  none.struct_size = sizeof none;
  EXPECT_EQ(holdfast_report_not_supported(report, 0, &none),
            HOLDFAST_OUT_OF_RANGE);
  holdfast_report_close(report);

  FlipLastByte(values_);
  ASSERT_EQ(holdfast_verify(Path().c_str(), nullptr, &report), HOLDFAST_OK);
  ASSERT_EQ(holdfast_report_count(report, &count), HOLDFAST_OK);
  ASSERT_EQ(count, 1u);
  holdfast_damage damage{};
  damage.struct_size = sizeof damage;
  ASSERT_EQ(holdfast_report_damage(report, 0, &damage), HOLDFAST_OK);
  EXPECT_STREQ(damage.leaf, "params.w");
  EXPECT_STREQ(damage.file, "params.w/0.0");
  EXPECT_EQ(damage.code, HOLDFAST_DATA_LOSS);
  EXPECT_THAT(damage.message, HasSubstr("crc32c"));
  EXPECT_EQ(holdfast_report_damage(report, count, &damage),
            HOLDFAST_OUT_OF_RANGE);
  holdfast_report_close(report);

  EXPECT_EQ(holdfast_verify((directory_ / "none").c_str(), nullptr, &report),
            HOLDFAST_NOT_FOUND);
}

TEST_F(CTest, LastErrorIsTheThreadsOwn) {
  EXPECT_EQ(holdfast_open((directory_ / "none").c_str(), nullptr, &checkpoint_),
            HOLDFAST_NOT_FOUND);
  EXPECT_EQ(checkpoint_, nullptr);
  EXPECT_EQ(holdfast_last_error_code(), HOLDFAST_NOT_FOUND);
  EXPECT_THAT(holdfast_last_error(), HasSubstr("none"));
  std::thread([] {
    EXPECT_STREQ(holdfast_last_error(), "");
    EXPECT_EQ(holdfast_last_error_code(), HOLDFAST_OK);
  }).join();
  EXPECT_EQ(holdfast_state_add_int(state_, "a", 1), HOLDFAST_OK);
  EXPECT_EQ(holdfast_last_error_code(), HOLDFAST_NOT_FOUND)
      << "a call that succeeds leaves it";
}

TEST(CGuardTest, ExceptionsBecomeCodes) {
  EXPECT_EQ(Guard([]() -> Status { throw std::bad_alloc(); }),
            HOLDFAST_RESOURCE_EXHAUSTED);
  EXPECT_EQ(Guard([]() -> Status { throw std::length_error("x"); }),
            HOLDFAST_INTERNAL);
  EXPECT_EQ(Guard([]() -> Status { throw 1; }), HOLDFAST_INTERNAL);
  EXPECT_EQ(holdfast_last_error_code(), HOLDFAST_INTERNAL);
}

TEST(CGuardTest, CodesAndVersionAreTheLibrarys) {
  for (int code = HOLDFAST_OK; code <= HOLDFAST_INTERNAL; ++code) {
    EXPECT_EQ(holdfast_code_name(static_cast<holdfast_code>(code)),
              StatusCodeName(static_cast<StatusCode>(code)));
  }
  EXPECT_STREQ(holdfast_code_name(HOLDFAST_DATA_LOSS), "DATA_LOSS");
  EXPECT_EQ(holdfast_version(), Version());
}

// A struct from a later version of the header.
struct NewerOptions {
  holdfast_open_options known;
  int64_t unknown;
};

TEST(CStructsTest, OptionsOfOtherVersions) {
  holdfast_open_options options{};
  EXPECT_EQ(ReadOptions(&options).status().code(), StatusCode::kInvalidArgument)
      << "no size";
  options.struct_size = offsetof(holdfast_open_options, item);
  options.has_step = 1;
  options.step = 5;
  options.skip_checksums = 1;
  const auto older = ReadOptions(&options);
  ASSERT_TRUE(older.ok());
  EXPECT_EQ(older->step, 5);
  EXPECT_EQ(older->skip_checksums, 0) << "beyond the older struct";

  NewerOptions newer{};
  newer.known.struct_size = sizeof newer;
  newer.known.step = 6;
  EXPECT_EQ(ReadOptions(&newer.known)->step, 6);
  newer.unknown = 1;
  EXPECT_EQ(ReadOptions(&newer.known).status().code(),
            StatusCode::kUnimplemented);
}

TEST(CStructsTest, InfosOfOtherVersions) {
  holdfast_damage full{};
  full.leaf = "w";
  full.offset = 3;
  full.message = "m";
  holdfast_damage out{};
  out.message = "kept";
  out.struct_size = offsetof(holdfast_damage, message);
  ASSERT_TRUE(FillInfo(full, &out).ok());
  EXPECT_EQ(out.offset, 3u);
  EXPECT_STREQ(out.message, "kept") << "beyond the older struct";

  struct {
    holdfast_damage known;
    int64_t unknown = 9;
  } newer;
  newer.known.struct_size = sizeof newer;
  ASSERT_TRUE(FillInfo(full, &newer.known).ok());
  EXPECT_STREQ(newer.known.message, "m");
  EXPECT_EQ(newer.unknown, 0);
  newer.known.struct_size = 1;
  EXPECT_EQ(FillInfo(full, &newer.known).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
