// The handler in several processes, which threads simulate. Some processes
// save, and others restore on another mesh.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "engine/checkpoint/opened_checkpoint.h"
#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "holdfast/checkpoint.h"
#include "holdfast/orbax/pytree_checkpoint_handler.h"
#include "holdfast/process_group.h"
#include "holdfast/shard_plan.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

NamedSharding OnMesh(Shape shape, PartitionSpec spec) {
  NamedSharding sharding;
  sharding.mesh.axis_names = {"data", "model"};
  sharding.mesh.shape = std::move(shape);
  sharding.spec = std::move(spec);
  return sharding;
}

Array Numbers() {
  std::vector<float> values(8 * 12);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  return Array::FromBytes(DType::kFloat32, {8, 12}, values.data());
}

Array PartOf(const Array& whole, const Box& box) {
  Array part = *Array::Allocate(whole.dtype(), box.shape);
  CopyStrided(Subview(whole.view(), box), part.mutable_view());
  return part;
}

// Returns the tree that rank `rank` saves in a program with one device per
// process.
Tree TreeOfRank(const NamedSharding& sharding, int64_t rank) {
  const Array whole = Numbers();
  const ShardPlanner planner = *ShardPlanner::OfRank(sharding, {}, rank);
  const WriteLayout layout = *planner.Layout(whole.shape(), 4, {});
  std::vector<ArrayShard> shards;
  const std::vector<DeviceShare> shares =
      *planner.Shares(whole.shape(), layout);
  for (const DeviceShare& share : shares) {
    if (!share.write_origin) continue;
    shards.push_back(
        {*share.write_origin,
         PartOf(whole, {*share.write_origin, layout.write_shape})});
  }
  auto traits = std::make_shared<ArrayTraits>();
  traits->sharding_json = ShardingToJson(sharding);
  traits->write_shape = layout.write_shape;
  return Tree::Dict({{"host", whole},
                     {"step", Tree(3)},
                     {"w", Tree::ShardedArray(DType::kFloat32, whole.shape(),
                                              std::move(shards), traits)}});
}

class HandlerOfMany : public testing::Test {
 protected:
  using Body =
      std::function<Status(ProcessGroup&, PyTreeCheckpointHandler& handler)>;
  std::vector<Status> OnRanks(int64_t rank_count, const Body& body,
                              MultiprocessingOptions processes = {}) {
    const auto transports = MakeThreadTransports(rank_count);
    std::vector<Status> statuses(rank_count);
    std::vector<std::thread> threads;
    for (int64_t rank = 0; rank < rank_count; ++rank) {
      threads.emplace_back([&, rank, processes]() mutable {
        const auto group =
            MakeProcessGroup(transports[rank], {.timeout_seconds = 60});
        processes.group = group.get();
        PyTreeCheckpointHandlerOptions options = options_;
        options.multiprocessing_options = processes;
        const auto handler = PyTreeCheckpointHandler::Make(options);
        statuses[rank] =
            handler.ok() ? body(*group, **handler) : handler.status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    return statuses;
  }

  void Save(int64_t rank_count, const NamedSharding& sharding,
            bool is_async = false) {
    const auto statuses =
        OnRanks(rank_count, [&](ProcessGroup& group, auto& handler) -> Status {
          const PyTreeSaveArgs args{.item = TreeOfRank(sharding, group.rank())};
          const Status saved =
              is_async ? handler.AsyncSave(directory_, args).status()
                       : handler.Save(directory_, args);
          return saved.ok() ? handler.Finalize(directory_) : saved;
        });
    for (const Status& status : statuses) {
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
  }

  const ScratchDirectory scratch_;
  const std::string directory_ = scratch_ / "item";
  PyTreeCheckpointHandlerOptions options_;
};

TEST_F(HandlerOfMany, OtherRanksOnAnotherMeshGetTheirShards) {
  for (const bool is_async : {false, true}) {
    fs::remove_all(directory_);
    fs::create_directory(directory_);
    Save(4, OnMesh({4, 1}, {{"data"}}), is_async);
    const NamedSharding columns = OnMesh({1, 3}, {{}, {"model"}});
    std::vector<Tree> restored(3);
    const auto statuses =
        OnRanks(3, [&](ProcessGroup& group, auto& handler) -> Status {
          PyTreeRestoreArgs args;
          args.restore_args = RestoreArgsMap();
          (*args.restore_args)["w"] = ArrayRestoreArgs{.sharding = columns};
          auto tree = handler.Restore(directory_, args);
          if (!tree.ok()) return tree.status();
          restored[group.rank()] = std::move(tree).value();
          return Status();
        });
    for (int64_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(statuses[rank].ok()) << statuses[rank].ToString();
      const Tree& w = *restored[rank].Find("w");
      ASSERT_EQ(w.shards().size(), 1u);
      const Box box{{0, 4 * rank}, {8, 4}};
      EXPECT_EQ(w.shards()[0].origin, box.origin);
      EXPECT_TRUE(Tree(w.shards()[0].array) == Tree(PartOf(Numbers(), box)));
      EXPECT_TRUE(*restored[rank].Find("host") == Tree(Numbers()));
    }
  }
}

TEST_F(HandlerOfMany, ReplicasShareTheWriting) {
  fs::create_directory(directory_);
  Save(4, OnMesh({2, 2}, {{}, {"model"}}));
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_TRUE(fs::exists(directory_ + "/ocdbt.process_" +
                           std::to_string(rank) + "/manifest.ocdbt"));
  }
  const auto opened = OpenCheckpoint(Place(directory_));
  ASSERT_TRUE(opened.ok());
  const LeafInfo& w = (*opened)->leaves()[*(*opened)->Find("w")];
  EXPECT_EQ(w.chunk_shape, (Shape{4, 6}));
  EXPECT_TRUE(VerifyCheckpoint(Place(directory_))->damages.empty());
}

TEST_F(HandlerOfMany, RichTypesTellOfArraysThatAreSpread) {
  fs::create_directory(directory_);
  options_.pytree_metadata_options.support_rich_types = true;
  Save(4, OnMesh({4, 1}, {{"data"}}), /*is_async=*/true);
  std::ifstream file(directory_ + "/_METADATA");
  const std::string metadata((std::istreambuf_iterator<char>(file)), {});
  EXPECT_THAT(metadata, HasSubstr(R"(\"write_shape\": [2, 12])"));
  EXPECT_TRUE(VerifyCheckpoint(Place(directory_))->damages.empty());
}

TEST_F(HandlerOfMany, AProcessOutsideTheActiveOnesIsRefused) {
  fs::create_directory(directory_);
  MultiprocessingOptions processes;
  processes.active_processes = std::set<int>{0, 2};
  const auto statuses = OnRanks(
      3,
      [&](ProcessGroup& group, auto& handler) -> Status {
        Tree tree = Tree::Dict({{"a", Tree(1)}, {"b", Numbers()}});
        (void)group;
        const Status saved = handler.Save(directory_, {.item = tree});
        return saved.ok() ? handler.Finalize(directory_) : saved;
      },
      processes);
  EXPECT_TRUE(statuses[0].ok()) << statuses[0].ToString();
  EXPECT_TRUE(statuses[2].ok()) << statuses[2].ToString();
  EXPECT_THAT(std::string(statuses[1].message()),
              HasSubstr("there are 3 processes, and this one is not among"));
  EXPECT_TRUE(VerifyCheckpoint(Place(directory_))->damages.empty());
}

TEST_F(HandlerOfMany, OneThatIsRefusedStopsAll) {
  fs::create_directory(directory_);
  const auto statuses =
      OnRanks(3, [&](ProcessGroup& group, auto& handler) -> Status {
        Tree tree = Tree::Dict({{"a", Tree(1)}});
        if (group.rank() == 2) {
          tree.Add("b", *Array::Allocate(DType::kInt8, {0}));
        }
        return handler.Save(directory_, {.item = tree});
      });
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr("rank 2"), HasSubstr("zero size")));
  }
}

}  // namespace
}  // namespace holdfast
