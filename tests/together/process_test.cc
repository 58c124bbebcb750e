// ReadTogether with real processes: memory shared between processes, and a
// process that dies.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <cstring>

#include "checkpoint/test_trees.h"
#include "holdfast/read_together.h"
#include "twins/local_ranks.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class TogetherProcesses : public testing::Test {
 protected:
  TogetherProcesses() {
    SaveOptions save;
    save.sync = false;
    save.chunk_bytes = 256 << 10;
    for (int i = 0; i < 6; ++i) {
      arrays_.push_back(RandomArray(DType::kFloat32, {512, 512}, i));
      tree_.Add("w" + std::to_string(i), Tree(arrays_.back()));
    }
    const auto saved = Save(path_, tree_, save);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
  }

  // Returns a rank's requests: the first three leaves, and the rank's own rows
  // of the other three.
  static std::vector<TogetherRequest> Requests(const ProcessGroup& group) {
    std::vector<TogetherRequest> requests;
    const int64_t rows = 512 / group.size();
    for (size_t leaf = 0; leaf < 6; ++leaf) {
      if (leaf < 3) {
        requests.push_back({leaf, {0, 0}, {512, 512}, {}});
      } else {
        requests.push_back({leaf, {group.rank() * rows, 0}, {rows, 512}, {}});
      }
    }
    return requests;
  }

  bool IsExpected(const TogetherRequest& request, const Array& array) const {
    const size_t row_bytes = 512 * sizeof(float);
    return std::memcmp(arrays_[request.leaf].view().data +
                           request.origin[0] * row_bytes,
                       array.view().data, array.byte_count()) == 0;
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
  Tree tree_ = Tree::Dict();
  std::vector<Array> arrays_;
};

TEST_F(TogetherProcesses, EachGetsItsOwn) {
  for (const int64_t size : {1, 2, 4}) {
    const auto ends = OnProcesses(
        size, kPatienceSeconds, [&](ProcessGroup& group) -> std::string {
          const auto opened = Open(path_);
          if (!opened.ok()) return opened.status().ToString();
          const auto requests = Requests(group);
          auto read = ReadTogether(**opened, requests, group);
          if (!read.ok()) return read.status().ToString();
          if (read->host_rank_count != group.size()) return read->note;
          for (size_t i = 0; i < requests.size(); ++i) {
            if (!IsExpected(requests[i], read->arrays[i])) return "wrong";
          }
          // No other rank sees a rank's writes.
          for (size_t i = 0; i < requests.size(); ++i) {
            Array& array = read->arrays[i];
            if (group.rank() == 0) {
              std::memset(array.mutable_view().data, 0, array.byte_count());
            }
          }
          if (!group.Agree({"written", ""}, Status()).ok()) return "alone";
          for (size_t i = 0; group.rank() > 0 && i < requests.size(); ++i) {
            if (!IsExpected(requests[i], read->arrays[i])) return "changed";
          }
          return "good";
        });
    for (const RankEnd& end : ends) {
      EXPECT_EQ(end.report, "good");
      EXPECT_EQ(end.status, 0);
    }
  }
}

// When a rank dies while it reads, the others notice at the deadline.
TEST_F(TogetherProcesses, ADeadRankIsNamed) {
  const auto ends = OnProcesses(3, 1, [&](ProcessGroup& group) -> std::string {
    const auto opened = Open(path_);
    if (!opened.ok()) return opened.status().ToString();
    ReadTogetherOptions options;
    if (group.rank() == 1) {
      options.run.progress = [](const Progress& progress) {
        if (progress.done_bytes > 0) std::raise(SIGKILL);
      };
    }
    return ReadTogether(**opened, Requests(group), group, options)
        .status()
        .ToString();
  });
  EXPECT_TRUE(WIFSIGNALED(ends[1].status));
  for (const int rank : {0, 2}) {
    EXPECT_THAT(ends[rank].report,
                AllOf(HasSubstr("DEADLINE_EXCEEDED"), HasSubstr("rank 1")));
  }
}

}  // namespace
}  // namespace holdfast
