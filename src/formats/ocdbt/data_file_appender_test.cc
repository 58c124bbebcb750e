#include "formats/ocdbt/data_file_appender.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "formats/ocdbt/database_test_util.h"

namespace holdfast::ocdbt {
namespace {

DataFileOptions MakeOptions(uint64_t target_byte_count) {
  DataFileOptions options;
  options.directory = "dir/";
  options.target_byte_count = target_byte_count;
  options.sync = false;
  options.new_file_name = FixedOptions().new_file_name;
  return options;
}

Status AppendValue(DataFileAppender& appender, const std::string& value) {
  const std::string_view piece = value;
  return appender.Write(appender.Place(value.size()), {&piece, 1});
}

TEST(DataFileAppenderTest, ClosesFileWhenItReachesTarget) {
  MemoryStore store;
  DataFileTable files = {{"foreign", 0}};
  DataFileAppender appender(&store, MakeOptions(8), &files);
  const Reference places[] = {appender.Place(3), appender.Place(5),
                              appender.Place(7), appender.Place(1),
                              appender.Place(2)};
  const Reference want[] = {
      {1, 0, 3}, {1, 3, 5}, {2, 0, 7}, {2, 7, 1}, {3, 0, 2}};
  for (int i = 0; i < 5; ++i) EXPECT_EQ(places[i], want[i]) << i;
  ASSERT_EQ(files.size(), 4u);
  EXPECT_EQ(files[1].path, "d/" + std::string(31, 'a') + "0");
  // The bytes are written backwards, two adjacent places at a time.
  const std::string text = "abcdefghijklmnopqr";
  const auto write = [&](const Reference& place, size_t start) {
    const std::string_view piece =
        std::string_view(text).substr(start, place.byte_count);
    EXPECT_TRUE(appender.Write(place, {&piece, 1}).ok());
  };
  write(places[4], 16);
  write(places[3], 15);
  write(places[2], 8);
  write({1, 0, 8}, 0);
  const auto written = appender.Finish();
  ASSERT_TRUE(written.ok());
  ASSERT_EQ(written->size(), 3u);
  EXPECT_EQ(store.Read("dir/" + files[1].path)->view(), "abcdefgh");
  EXPECT_EQ(store.Read("dir/" + files[2].path)->view(), "ijklmnop");
  EXPECT_EQ(store.Read("dir/" + files[3].path)->view(), "qr");
  EXPECT_EQ((*written)[2].path, files[3].path);
  EXPECT_EQ((*written)[2].byte_count, 2u);
}

TEST(DataFileAppenderTest, FullFileIsFinishedAtOnce) {
  MemoryStore store;
  DataFileTable files;
  DataFileAppender appender(&store, MakeOptions(4), &files);
  ASSERT_TRUE(AppendValue(appender, "full").ok());
  EXPECT_EQ(store.Read("dir/" + files[0].path)->view(), "full");
}

TEST(DataFileAppenderTest, WithoutTargetThereIsOneFile) {
  MemoryStore store;
  DataFileTable files;
  DataFileAppender appender(&store, MakeOptions(0), &files);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(AppendValue(appender, std::string(1000, 'x')).ok());
  }
  EXPECT_EQ(appender.Finish()->size(), 1u);
}

TEST(DataFileAppenderTest, UnfinishedFilesAreRemoved) {
  MemoryStore store;
  DataFileTable files;
  {
    DataFileAppender appender(&store, MakeOptions(4), &files);
    ASSERT_TRUE(AppendValue(appender, "full").ok());
    ASSERT_TRUE(AppendValue(appender, "2").ok());
  }
  EXPECT_TRUE(Contents(store).empty());
}

}  // namespace
}  // namespace holdfast::ocdbt
