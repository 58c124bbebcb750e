#include "stores/storage/file_mapping.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace holdfast {
namespace {

class FileMappingTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = testing::TempDir() + "file_mapping_" +
            testing::UnitTest::GetInstance()->current_test_info()->name();
    for (int i = 0; i < 10'000; ++i) content_ += static_cast<char>(i % 251);
    std::ofstream(path_, std::ios::binary) << content_;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  std::string path_, content_;
};

TEST_F(FileMappingTest, HasTheBytesWhereverTheyBegin) {
  for (const uint64_t offset : {0, 1, 4095, 4096, 9999}) {
    const uint64_t byte_count = content_.size() - offset;
    const auto mapping =
        FileMapping::Map(path_, offset, byte_count, FileMapping::Access::kRead);
    ASSERT_TRUE(mapping.ok()) << mapping.status().ToString();
    EXPECT_EQ(std::memcmp((*mapping)->at(offset), content_.data() + offset,
                          byte_count),
              0);
  }
}

TEST_F(FileMappingTest, OutlivesTheName) {
  const auto mapping =
      FileMapping::Map(path_, 5, 100, FileMapping::Access::kRead);
  std::filesystem::remove(path_);
  EXPECT_EQ(std::string((*mapping)->at(5), 100), content_.substr(5, 100));
}

TEST_F(FileMappingTest, WritesStayInTheProcess) {
  const auto mapping =
      FileMapping::Map(path_, 0, 100, FileMapping::Access::kCopyOnWrite);
  (*mapping)->at(7)[0] = '!';
  const auto other =
      FileMapping::Map(path_, 0, 100, FileMapping::Access::kRead);
  EXPECT_EQ((*mapping)->at(7)[0], '!');
  EXPECT_EQ((*other)->at(7)[0], content_[7]);
}

TEST_F(FileMappingTest, RefusesWhatIsNotInsideTheFile) {
  for (const auto& [offset, byte_count] :
       {std::pair<uint64_t, uint64_t>{0, 10'001},
        {9'999, 2},
        {10'001, 1},
        {~uint64_t{0}, 2},
        {5, ~uint64_t{0}}}) {
    const auto mapping =
        FileMapping::Map(path_, offset, byte_count, FileMapping::Access::kRead);
    EXPECT_EQ(mapping.status().code(), StatusCode::kDataLoss);
    EXPECT_NE(mapping.status().message().find("got 10000 bytes"),
              std::string::npos);
  }
}

TEST_F(FileMappingTest, RefusesWhatIsNoFile) {
  const auto map = [](const std::string& path) {
    return FileMapping::Map(path, 0, 1, FileMapping::Access::kRead)
        .status()
        .code();
  };
  EXPECT_EQ(map(path_ + ".none"), StatusCode::kNotFound);
  EXPECT_EQ(map(testing::TempDir()), StatusCode::kNotFound);
  const std::string fifo = path_ + ".fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_EQ(map(fifo), StatusCode::kNotFound);
  std::filesystem::remove(fifo);
}

}  // namespace
}  // namespace holdfast
