// Saves by many ranks, simulated by threads: together they write what one
// process would write, and when one of them fails, all fail and nothing is
// lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/test_trees.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/pending_save.h"
#include "holdfast/process_group.h"
#include "twins/host_reader.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

Array Part(const Array& whole, const Box& box) {
  Array copy = *Array::Allocate(whole.dtype(), box.shape);
  CopyStrided(Subview(whole.view(), box), copy.mutable_view());
  return copy;
}

// Calls fn(group) on every rank concurrently; returns their statuses by rank.
std::vector<Status> OnAllRanks(
    int64_t rank_count, const std::function<Status(ProcessGroup& group)>& fn,
    double timeout_seconds = 60) {
  const auto transports = MakeThreadTransports(rank_count);
  std::vector<Status> statuses(rank_count);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < rank_count; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank],
                                          {.timeout_seconds = timeout_seconds});
      statuses[rank] = fn(*group);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

void ExpectAllOk(const std::vector<Status>& statuses) {
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_TRUE(statuses[rank].ok())
        << "rank " << rank << ": " << statuses[rank].ToString();
  }
}

// Expects every rank to fail with `code` and a message that matches `words`.
void ExpectAllFail(const std::vector<Status>& statuses, StatusCode code,
                   const testing::Matcher<std::string>& words) {
  for (size_t rank = 0; rank < statuses.size(); ++rank) {
    EXPECT_EQ(statuses[rank].code(), code)
        << "rank " << rank << ": " << statuses[rank].ToString();
    EXPECT_THAT(std::string(statuses[rank].message()), words);
  }
}

std::shared_ptr<const ArrayTraits> Written(Shape write_shape) {
  return std::make_shared<const ArrayTraits>(
      ArrayTraits{"{}", "", std::move(write_shape)});
}

// The trees of the ranks. The rows of "rows" are dealt out one by one, and each
// rank has a block of the columns of "columns". "replica" is on rank 0 only,
// "few" on the first two ranks. The other leaves are equal on all ranks.
class RankTrees {
 public:
  explicit RankTrees(int64_t rank_count) : rank_count_(rank_count) {}

  Tree OfRank(int64_t rank) const {
    std::vector<ArrayShard> rows, columns, replica, few;
    for (int64_t row = rank; row < 16; row += rank_count_) {
      rows.push_back({{row, 0}, Part(rows_, {{row, 0}, {1, 8}})});
    }
    const int64_t width = 24 / rank_count_;
    columns.push_back(
        {{0, rank * width}, Part(columns_, {{0, rank * width}, {6, width}})});
    if (rank == 0) replica.push_back({{0}, replica_});
    if (rank < 2) few.push_back({{rank * 3}, Part(few_, {{rank * 3}, {3}})});
    const auto sharded = [](const Array& whole, std::vector<ArrayShard> shards,
                            Shape write_shape) {
      return Tree::ShardedArray(whole.dtype(), whole.shape(), std::move(shards),
                                Written(std::move(write_shape)));
    };
    return Tree::Dict({
        {"columns", sharded(columns_, std::move(columns), {6, width})},
        {"few", sharded(few_, std::move(few), {3})},
        {"host", host_},
        {"replica", sharded(replica_, std::move(replica), {7})},
        {"rows", sharded(rows_, std::move(rows), {1, 8})},
        {"step", 7},
        {"text", "words"},
    });
  }

  Tree Whole() const {
    const int64_t width = 24 / rank_count_;
    return Tree::Dict({
        {"columns", Tree::JaxArray(columns_, Written({6, width}))},
        {"few", Tree::JaxArray(few_, Written({3}))},
        {"host", host_},
        {"replica", Tree::JaxArray(replica_, Written({}))},
        {"rows", Tree::JaxArray(rows_, Written({1, 8}))},
        {"step", 7},
        {"text", "words"},
    });
  }

 private:
  const int64_t rank_count_;
  const Array rows_ = RandomArray(DType::kFloat32, {16, 8}, 1);
  const Array columns_ = RandomArray(DType::kBfloat16, {6, 24}, 2);
  const Array replica_ = RandomArray(DType::kInt64, {7}, 3);
  const Array few_ = RandomArray(DType::kUint8, {6}, 4);
  const Array host_ = RandomArray(DType::kFloat64, {5, 5}, 5);
};

struct RanksLayout {
  int64_t rank_count;
  int zarr_format;
  bool use_ocdbt;
  Compression compression;
};

class ManyRanks : public testing::TestWithParam<RanksLayout> {
 protected:
  SaveOptions Options(ProcessGroup& group) const {
    SaveOptions options;
    options.group = &group;
    options.zarr_format = GetParam().zarr_format;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.compression = GetParam().compression;
    options.chunk_bytes = 0;
    options.sync = false;
    options.run.threads = 1;
    return options;
  }
  int64_t rank_count() const { return GetParam().rank_count; }

  std::vector<Status> SaveTrees(
      const std::function<Tree(int64_t rank)>& tree_of) {
    return OnAllRanks(rank_count(), [&](ProcessGroup& group) {
      return Save(path_, tree_of(group.rank()), Options(group)).status();
    });
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
};

TEST_P(ManyRanks, WriteWhatOneProcessWouldHave) {
  const RankTrees trees(rank_count());
  ExpectAllOk(SaveTrees([&](int64_t rank) { return trees.OfRank(rank); }));
  const auto report = Verify(path_);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == trees.Whole());
  for (int64_t rank = 0; rank < rank_count(); ++rank) {
    const std::string number = std::to_string(rank);
    EXPECT_TRUE(fs::exists(path_ + "/array_metadatas/process_" + number));
    EXPECT_EQ(fs::exists(path_ + "/ocdbt.process_" + number),
              GetParam().use_ocdbt);
    EXPECT_FALSE(fs::exists(path_ + "/_HOLDFAST_PART_" + number));
  }
}

TEST_P(ManyRanks, RefuseAnotherTreeOnOneRankByName) {
  const RankTrees trees(rank_count());
  const int64_t odd = rank_count() - 1;
  ExpectAllOk(SaveTrees([&](int64_t rank) { return trees.OfRank(rank); }));
  for (const char* change : {"dtype", "leaf"}) {
    const auto statuses = OnAllRanks(rank_count(), [&](ProcessGroup& group) {
      Tree tree = trees.OfRank(group.rank());
      if (group.rank() == odd && change == std::string("leaf")) {
        tree.Add("more", Tree(1));
      } else if (group.rank() == odd) {
        tree.mutable_child(2) = RandomArray(DType::kFloat32, {5, 5}, 5);
      }
      SaveOptions options = Options(group);
      options.overwrite = true;
      return Save(path_, tree, options).status();
    });
    const std::string name = "rank " + std::to_string(odd) + " saved another";
    ExpectAllFail(statuses, StatusCode::kFailedPrecondition,
                  AllOf(HasSubstr(name), change == std::string("leaf")
                                             ? HasSubstr("8 leaves")
                                             : HasSubstr("host")));
  }
  EXPECT_FALSE(fs::exists(path_ + ".orbax-checkpoint-tmp"));
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->tree == trees.Whole()) << "the previous one stays";
}

TEST_P(ManyRanks, RefuseChunksThatNobodyOrTwoWrote) {
  const RankTrees trees(rank_count());
  const auto with_few = [&](int64_t rank, std::vector<ArrayShard> shards) {
    Tree tree = trees.OfRank(rank);
    tree.mutable_child(1) =
        Tree::ShardedArray(DType::kUint8, {6}, std::move(shards), Written({3}));
    return tree;
  };
  const Array half = RandomArray(DType::kUint8, {3}, 9);
  ExpectAllFail(SaveTrees([&](int64_t rank) {
                  return rank == 0 ? with_few(rank, {{{3}, half}})
                                   : with_few(rank, {});
                }),
                StatusCode::kFailedPrecondition,
                HasSubstr("array few: no process wrote chunk \"few/" +
                          std::string(GetParam().zarr_format == 3 ? "c/" : "") +
                          "0\" (got 1 chunks, want 2)"));
  const auto twice = SaveTrees([&](int64_t rank) {
    return rank == 0   ? with_few(rank, {{{0}, half}, {{3}, half}})
           : rank == 1 ? with_few(rank, {{{3}, half}})
                       : with_few(rank, {});
  });
  ExpectAllFail(twice, StatusCode::kFailedPrecondition,
                HasSubstr("was written by two processes"));
  EXPECT_FALSE(fs::exists(path_));
}

TEST_P(ManyRanks, RefuseBordersThroughChunks) {
  const RankTrees trees(rank_count());
  const Array part = RandomArray(DType::kUint8, {2}, 9);
  const auto statuses = SaveTrees([&](int64_t rank) {
    Tree tree = trees.OfRank(rank);
    std::vector<ArrayShard> shards;
    if (rank == 1) shards.push_back({{2}, part});
    tree.mutable_child(1) =
        Tree::ShardedArray(DType::kUint8, {6}, std::move(shards), Written({3}));
    return tree;
  });
  ExpectAllFail(statuses, StatusCode::kInvalidArgument,
                AllOf(HasSubstr("rank 1"), HasSubstr("leaf few: chunk [0:3] "
                                                     "is cut by a border")));
}

TEST_P(ManyRanks, HearOfTheRankThatCannotWrite) {
  const RankTrees trees(rank_count());
  ExpectAllOk(SaveTrees([&](int64_t rank) { return trees.OfRank(rank); }));
  const auto statuses = OnAllRanks(rank_count(), [&](ProcessGroup& group) {
    SaveOptions options = Options(group);
    options.overwrite = true;
    if (group.rank() == 1) {
      options.now_ns = [&]() -> uint64_t {
        // Blocks this rank: puts a file where its database must be, and
        // directories where its chunks must be.
        const std::string blocked = path_ + ".orbax-checkpoint-tmp/";
        if (fs::exists(blocked)) {
          std::ofstream(blocked + "ocdbt.process_1");
          fs::create_directories(blocked + "columns/0.1");
          fs::create_directories(blocked + "columns/c/0/1");
        }
        return 1;
      };
    }
    return Save(path_, trees.OfRank(group.rank()), options).status();
  });
  for (const Status& status : statuses) {
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1"));
  }
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok());
  EXPECT_TRUE(loaded->tree == trees.Whole());
}

TEST_P(ManyRanks, NameTheRankThatNeverCame) {
  const RankTrees trees(rank_count());
  const int64_t absent = rank_count() - 1;
  const auto statuses = OnAllRanks(
      rank_count(),
      [&](ProcessGroup& group) -> Status {
        if (group.rank() == absent) return Status();
        return Save(path_, trees.OfRank(group.rank()), Options(group)).status();
      },
      0.3);
  for (int64_t rank = 0; rank < absent; ++rank) {
    EXPECT_EQ(statuses[rank].code(), StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(statuses[rank].message()),
                HasSubstr("rank " + std::to_string(absent)));
  }
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_FALSE(fs::exists(path_ + ".orbax-checkpoint-tmp"));
}

TEST_P(ManyRanks, ShareDeferredArrays) {
  const Array big = RandomArray(DType::kFloat32, {64, 32}, 1);
  const Array small = RandomArray(DType::kInt16, {3}, 2);
  std::vector<int64_t> counts(rank_count());
  ExpectAllOk(OnAllRanks(rank_count(), [&](ProcessGroup& group) {
    const auto big_reader = std::make_shared<HostReader>(big);
    const auto small_reader = std::make_shared<HostReader>(small);
    SaveOptions options = Options(group);
    options.chunk_bytes = 512;
    options.save_args["cast"].dtype = DType::kFloat64;
    const Tree tree = Tree::Dict(
        {{"big", Tree::DeferredArray(DType::kFloat32, {64, 32}, big_reader)},
         {"cast", Tree::DeferredArray(DType::kInt16, {3}, small_reader)}});
    const Status status = Save(path_, tree, options).status();
    counts[group.rank()] = big_reader->read_count();
    return status;
  }));
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(*loaded->tree.Find("big") == Tree(big));
  EXPECT_EQ(loaded->tree.Find("cast")->array_dtype(), DType::kFloat64);
  int64_t sum = 0;
  for (const int64_t count : counts) {
    EXPECT_LE(count, 64 * 32 / rank_count() + 128);
    sum += count;
  }
  EXPECT_EQ(sum, 64 * 32) << "each chunk is read by one rank";
}

// Ranks may hold different elements of an array in memory. They are not mixed.
TEST_P(ManyRanks, OnlyThePrimaryWritesALiveArray) {
  class Reader : public ArrayReader {
   public:
    explicit Reader(int64_t rank) : rank_(rank) {}
    Status Read(const Shape&, const ArrayView& target) const override {
      const auto element = static_cast<uint8_t>(rank_ + 1);
      FillStrided(target, reinterpret_cast<const char*>(&element));
      return Status();
    }
    bool is_live() const override { return true; }

   private:
    const int64_t rank_;
  };
  ExpectAllOk(OnAllRanks(rank_count(), [&](ProcessGroup& group) {
    SaveOptions options = Options(group);
    options.chunk_bytes = 64;
    const Tree tree = Tree::Dict(
        {{"w", Tree::DeferredArray(DType::kUint8, {64, 8},
                                   std::make_shared<Reader>(group.rank()))}});
    return Save(path_, tree, options).status();
  }));
  Array want = *Array::Allocate(DType::kUint8, {64, 8});
  const char one = 1;
  FillStrided(want.mutable_view(), &one);
  const auto loaded = Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(*loaded->tree.Find("w") == Tree(want));
}

TEST_P(ManyRanks, PutSeveralItemsIntoOneCheckpoint) {
  const RankTrees trees(rank_count());
  ExpectAllOk(OnAllRanks(rank_count(), [&](ProcessGroup& group) -> Status {
    PendingSaveOptions options;
    options.group = &group;
    options.sync = false;
    auto pending = PendingSave::Begin(path_, options);
    if (!pending.ok()) return pending.status();
    const Tree tree = trees.OfRank(group.rank());
    for (const char* item : {"params", "opt/inner"}) {
      const auto saved = (*pending)->SaveItem(item, tree, Options(group));
      if (!saved.ok()) return saved.status();
    }
    const Status written = (*pending)->WriteFile("meta/metadata", "{}");
    if (!written.ok()) return written;
    return (*pending)->Commit(
        {R"({"params": "x", "opt/inner": "x"})", "", "", false});
  }));
  const auto report = Verify(path_);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
  for (const char* item : {"params", "opt/inner"}) {
    const auto loaded = Load(path_ + "/" + item);
    ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
    EXPECT_TRUE(loaded->tree == trees.Whole());
  }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, ManyRanks,
    testing::Values(RanksLayout{2, 2, true, Compression::kZstd},
                    RanksLayout{4, 3, true, Compression::kNone},
                    RanksLayout{3, 2, false, Compression::kZstd},
                    RanksLayout{4, 3, false, Compression::kZstd}),
    [](const auto& info) {
      const RanksLayout& layout = info.param;
      return std::to_string(layout.rank_count) + "_ranks_zarr" +
             std::to_string(layout.zarr_format) +
             (layout.use_ocdbt ? "_ocdbt" : "_dirs");
    });

// Callers that coordinate the processes themselves save parts of an item, and
// finish the item later.
class ItemParts : public testing::Test {
 protected:
  SaveOptions Options() const {
    SaveOptions options;
    options.chunk_bytes = 0;
    options.sync = false;
    return options;
  }
  Status SavePart(int64_t rank, const std::string& save_id,
                  bool is_primary = false) {
    const RankTrees trees(2);
    return SaveItemPart(directory_, trees.OfRank(rank), Options(),
                        {rank, is_primary || rank == 0, "", save_id})
        .status();
  }
  Status Finish(std::vector<int64_t> ranks, const std::string& save_id) {
    FinishItemOptions options;
    options.ranks = std::move(ranks);
    options.save_id = save_id;
    options.sync = false;
    return FinishItem(directory_, options);
  }

  const ScratchDirectory scratch_;
  const std::string directory_ = scratch_ / "item";
};

TEST_F(ItemParts, BecomeOneItem) {
  ASSERT_TRUE(SavePart(1, "a").ok());
  ASSERT_TRUE(SavePart(0, "a").ok());
  ASSERT_TRUE(Finish({0, 1}, "a").ok());
  const auto loaded = Load(directory_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == RankTrees(2).Whole());
}

TEST_F(ItemParts, MustAllBeThereAndOfOneSave) {
  ASSERT_TRUE(SavePart(0, "a").ok());
  const Status missing = Finish({0, 1, 2}, "a");
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(missing.message()),
              HasSubstr("ranks 1, 2 left no part"));
  ASSERT_TRUE(SavePart(1, "b").ok());
  EXPECT_THAT(std::string(Finish({0, 1}, "a").message()),
              HasSubstr("the parts of rank 1 are of another save"));
  ASSERT_TRUE(SavePart(1, "a", true).ok());
  EXPECT_THAT(std::string(Finish({0, 1}, "a").message()),
              HasSubstr("ranks 0 and 1 are both primary"));
}

TEST_F(ItemParts, AreCheckedBeforeTheyAreBelieved) {
  ASSERT_TRUE(SavePart(0, "a").ok());
  ASSERT_TRUE(SavePart(1, "a").ok());
  // A late process of an older save replaces the manifest.
  fs::copy_file(directory_ + "/ocdbt.process_0/manifest.ocdbt",
                directory_ + "/ocdbt.process_1/manifest.ocdbt",
                fs::copy_options::overwrite_existing);
  const Status foreign = Finish({0, 1}, "a");
  EXPECT_EQ(foreign.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(foreign.message()),
              HasSubstr("ocdbt.process_1/manifest.ocdbt"));
  std::ofstream(directory_ + "/_HOLDFAST_PART_1", std::ios::app) << "x";
  const Status damaged = Finish({0, 1}, "a");
  EXPECT_EQ(damaged.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damaged.message()), HasSubstr("_HOLDFAST_PART_1"));
}

TEST_F(ItemParts, OnDisksOfTheirOwnHoldTheirShards) {
  const RankTrees trees(2);
  for (int64_t rank = 0; rank < 2; ++rank) {
    const std::string directory = scratch_ / ("disk" + std::to_string(rank));
    ASSERT_TRUE(
        SaveItemPart(directory, trees.OfRank(rank), Options(), {rank, true})
            .ok());
    FinishItemOptions options;
    options.ranks = {rank};
    options.is_partial = true;
    options.sync = false;
    ASSERT_TRUE(FinishItem(directory, options).ok());
    const auto opened = Open(directory);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    const size_t leaf = *(*opened)->Find("columns");
    const auto here = (*opened)->ReadBox(leaf, {0, rank * 12}, {6, 12});
    ASSERT_TRUE(here.ok()) << here.status().ToString();
    EXPECT_FALSE((*opened)->ReadBox(leaf, {0, 12 - rank * 12}, {6, 12}).ok());
  }
}

TEST_F(ItemParts, RefuseIdsThatAreNoDirectories) {
  const RankTrees trees(2);
  for (const char* id : {"../x", "a b", "a/b"}) {
    EXPECT_EQ(
        SaveItemPart(directory_, trees.OfRank(0), Options(), {0, true, id})
            .status()
            .code(),
        StatusCode::kInvalidArgument)
        << id;
  }
  EXPECT_TRUE(
      SaveItemPart(directory_, trees.OfRank(0), Options(), {0, true, "host7"})
          .ok());
  EXPECT_TRUE(fs::exists(directory_ + "/ocdbt.process_host7/manifest.ocdbt"));
}

}  // namespace
}  // namespace holdfast
