#include "holdfast/tools/fingerprint.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "ground/tensor/box.h"
#include "ground/tensor/copy.h"
#include "twins/host_reader.h"

namespace holdfast {
namespace {

Array Numbers(int64_t count, float first) {
  std::vector<float> numbers(count);
  for (float& number : numbers) number = first++;
  return Array::Of(numbers);
}

TEST(FingerprintOf, IsTheSameForAnyThreadsAndMemory) {
  const int64_t count = 3 << 20;  // several pieces
  const Array array = Numbers(count, 0);
  RunOptions one;
  one.threads = 1;
  const auto whole = FingerprintOf(array.view(), one);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(whole->size(), 32u);
  RunOptions three;
  three.threads = 3;
  EXPECT_EQ(*FingerprintOf(array.view(), three), *whole);
  ConstArrayView square = array.view();
  square.shape = {count / 4, 4};
  square.strides = {16, 4};
  EXPECT_NE(*FingerprintOf(square), *whole);
}

// Returns each rank's report.
std::vector<ReplicaReport> CompareAll(
    const std::vector<std::vector<Replica>>& by_rank) {
  const auto transports = MakeThreadTransports(by_rank.size());
  std::vector<ReplicaReport> reports(by_rank.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < by_rank.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      auto report = CompareReplicas(group.get(), by_rank[rank]);
      ASSERT_TRUE(report.ok()) << report.status().message();
      reports[rank] = *std::move(report);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return reports;
}

Replica Whole(const std::string& name, const Array& array) {
  return {name, array.shape(), {}, array.view()};
}

TEST(CompareReplicas, NamesTheRankAndTensorThatDiffer) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto reports = CompareAll({{Whole("a", good), Whole("b", good)},
                                   {Whole("a", good), Whole("b", good)},
                                   {Whole("a", good), Whole("b", bad)}});
  for (const ReplicaReport& report : reports) {
    ASSERT_EQ(report.divergences.size(), 1u);
    EXPECT_EQ(report.box_count, 2u);
    EXPECT_EQ(report.replica_count, 6u);
    EXPECT_EQ(report.compared_count, 6u);
    EXPECT_EQ(DivergenceText(report.divergences[0]),
              "tensor b: rank 2 differs from ranks 0, 1");
  }
}

TEST(CompareReplicas, ATieNamesAll) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto reports = CompareAll({{Whole("w", good)}, {Whole("w", bad)}});
  ASSERT_EQ(reports[1].divergences.size(), 1u);
  EXPECT_FALSE(reports[1].divergences[0].has_majority());
  EXPECT_EQ(DivergenceText(reports[1].divergences[0]),
            "tensor w: rank 0 and rank 1 differ, and none has a majority");
}

// Ranks 0 and 2 hold the first half, ranks 1 and 3 the second; rank 3's is
// damaged. A box that only one rank holds is not compared.
TEST(CompareReplicas, BoxesAreComparedWithEqualBoxes) {
  const Array whole = Numbers(100, 0);
  const Array damaged = Numbers(50, 51);
  const auto half = [&](int64_t origin) {
    return Replica{
        "w", {100}, {origin}, Subview(whole.view(), {{origin}, {50}})};
  };
  const auto reports = CompareAll({{half(0), Whole("mine", whole)},
                                   {half(50)},
                                   {half(0)},
                                   {{"w", {100}, {50}, damaged.view()}}});
  for (const ReplicaReport& report : reports) {
    EXPECT_EQ(report.box_count, 3u);
    EXPECT_EQ(report.compared_count, 4u);
    ASSERT_EQ(report.divergences.size(), 1u);
    EXPECT_EQ(DivergenceText(report.divergences[0]),
              "tensor w[50:100]: rank 1 and rank 3 differ, and none has a "
              "majority");
  }
}

TEST(CompareReplicas, OfATieOfManyNobodyIsNamedAlone) {
  const Array a = Numbers(100, 0), b = Numbers(100, 1), c = Numbers(100, 2);
  const auto reports = CompareAll({{Whole("v", a), Whole("w", a)},
                                   {Whole("v", b), Whole("w", b)},
                                   {Whole("v", a), Whole("w", c)},
                                   {Whole("v", b), Whole("w", a)}});
  ASSERT_EQ(reports[3].divergences.size(), 2u);
  EXPECT_EQ(DivergenceText(reports[3].divergences[0]),
            "tensor v: ranks 0, 2 and ranks 1, 3 differ, and none has a "
            "majority");
  EXPECT_EQ(DivergenceText(reports[3].divergences[1]),
            "tensor w: rank 1 and rank 2 differ from ranks 0, 3");
}

int64_t Uniform(std::mt19937_64& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// Returns a tensor with a random dtype and up to 64 elements.
Array RandomTensor(std::mt19937_64& random) {
  const auto dtype = static_cast<DType>(Uniform(random, 0, kDTypeCount - 1));
  Shape shape(Uniform(random, 0, 2));
  for (int64_t& extent : shape) extent = Uniform(random, 1, 8);
  const size_t count = ElementCount(shape);
  std::vector<char> bytes(count * DTypeBytes(dtype));
  for (char& byte : bytes) byte = static_cast<char>(random());
  ClearUnusedBits(dtype, bytes.data(), count);
  return Array::FromBytes(dtype, shape, bytes.data());
}

Array WithOneBitFlipped(std::mt19937_64& random, const Array& array) {
  Array copy =
      Array::FromBytes(array.dtype(), array.shape(), array.view().data);
  const int64_t element = Uniform(random, 0, ElementCount(array.shape()) - 1);
  const int64_t bit = array.dtype() == DType::kBool
                          ? 0
                          : Uniform(random, 0, DTypeBits(array.dtype()) - 1);
  copy.mutable_view().data[element * DTypeBytes(array.dtype()) + bit / 8] ^=
      static_cast<char>(1 << bit % 8);
  return copy;
}

// 20 groups of 4 to 8 ranks with 750 tensors each. Two thirds of the tensors
// have one bit flipped on one rank: exactly these tensors are reported, each
// with its damaged rank.
TEST(CompareReplicas, TenThousandFlipsOfOneBitAreNamed) {
  std::mt19937_64 random(5);
  int64_t flip_count = 0;
  for (int round = 0; round < 20; ++round) {
    const int64_t rank_count = Uniform(random, 4, 8);
    std::vector<Array> tensors;  // borrowed by replicas
    std::vector<std::vector<Replica>> by_rank(rank_count);
    std::vector<std::string> wanted;
    for (int i = 0; i < 750; ++i) {
      const std::string name = "t" + std::to_string(1000 + i);
      const Array& good = tensors.emplace_back(RandomTensor(random));
      std::vector<Array> held(rank_count, good);
      if (i % 3 != 0) {
        const int64_t rank = Uniform(random, 0, rank_count - 1);
        held[rank] = WithOneBitFlipped(random, good);
        wanted.push_back(name + " " + std::to_string(rank));
      }
      for (int64_t rank = 0; rank < rank_count; ++rank) {
        tensors.push_back(held[rank]);
        by_rank[rank].push_back(Whole(name, held[rank]));
      }
    }
    flip_count += static_cast<int64_t>(wanted.size());
    for (const ReplicaReport& report : CompareAll(by_rank)) {
      std::vector<std::string> named;
      for (const Divergence& divergence : report.divergences) {
        ASSERT_TRUE(divergence.has_majority());
        ASSERT_EQ(divergence.groups.size(), 2u);
        ASSERT_EQ(divergence.groups[1].size(), 1u);
        named.push_back(divergence.tensor + " " +
                        std::to_string(divergence.groups[1][0].rank));
      }
      ASSERT_EQ(named, wanted);
    }
  }
  EXPECT_EQ(flip_count, 10000);
}

Tree StateOf(const Array& w, int64_t step) {
  return Tree::Dict({{"name", Tree("a text")},
                     {"none", Tree::None()},
                     {"step", Tree(step)},
                     {"w", Tree(w)}});
}

TEST(CompareReplicas, OfTreesNamesLeaves) {
  const Array good = Numbers(6, 0), bad = Numbers(6, 1);
  const std::vector<Tree> trees = {StateOf(good, 7), StateOf(good, 8),
                                   StateOf(bad, 7)};
  const auto transports = MakeThreadTransports(3);
  std::vector<Status> statuses(3);
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      const auto report = CompareReplicas(group.get(), trees[rank]);
      ASSERT_TRUE(report.ok()) << report.status().message();
      EXPECT_EQ(report->replica_count, 6u);
      statuses[rank] = report->Check();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kDataLoss);
    EXPECT_EQ(status.message(),
              "replicas differ: tensor step: rank 1 differs from ranks 0, 2; "
              "tensor w: rank 2 differs from ranks 0, 1");
  }
  EXPECT_TRUE(CompareReplicas(nullptr, trees[0])->Check().ok());
}

TEST(CompareReplicas, ManyDivergencesAreCounted) {
  const Array good = Numbers(6, 0), bad = Numbers(6, 1);
  std::vector<Replica> replicas;
  for (int i = 0; i < 12; ++i) {
    replicas.push_back(Whole("t" + std::to_string(i), good));
    replicas.push_back(Whole("t" + std::to_string(i), bad));
  }
  const std::string text(CompareReplicas(nullptr, replicas)->Check().message());
  EXPECT_EQ(text.substr(text.rfind(';')), "; and 2 more");
}

TEST(FingerprintsOf, AreThoseOfEachLeafHoweverItIsCut) {
  const Array w = Numbers(12, 0);
  ConstArrayView square = w.view();
  square.shape = {3, 4};
  square.strides = {16, 4};
  std::vector<ArrayShard> shards;
  for (const int64_t row : {2, 0, 1}) {
    Array part = *Array::Allocate(DType::kFloat32, {1, 4});
    CopyStrided(Subview(square, {{row, 0}, {1, 4}}), part.mutable_view());
    shards.push_back({{row, 0}, part});
  }
  const auto found = FingerprintsOf(
      Tree::Dict({{"none", Tree::None()},
                  {"s", Tree::ShardedArray({3, 4}, shards, nullptr)},
                  {"step", Tree(7)},
                  {"text", Tree("words")}}));
  ASSERT_TRUE(found.ok()) << found.status().ToString();
  const std::vector<int64_t> seven = {7};
  const std::map<std::string, std::string> wanted = {
      {"s", *FingerprintOf(square)},
      {"step", *FingerprintOf({DType::kInt64,
                               reinterpret_cast<const char*>(seven.data()),
                               {},
                               {}})}};
  EXPECT_EQ(*found, wanted);
  shards[0].reader = std::make_shared<HostReader>(shards[0].array);
  EXPECT_EQ(FingerprintsOf(Tree::ShardedArray({3, 4}, shards, nullptr))
                .status()
                .code(),
            StatusCode::kInvalidArgument)
      << "a shard that is not in host memory";
  shards[0].reader = nullptr;
  shards.pop_back();
  const Status status =
      FingerprintsOf(Tree::ShardedArray({3, 4}, shards, nullptr)).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
}

TEST(CompareReplicas, CopiesOfOneRankAreReplicasToo) {
  const Array good = Numbers(100, 0), bad = Numbers(100, 1);
  const auto report = CompareReplicas(
      nullptr, {Whole("w", good), Whole("w", bad), Whole("w", good)});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->divergences.size(), 1u);
  EXPECT_EQ(DivergenceText(report->divergences[0]),
            "tensor w: rank 0 (copy 1) differs from rank 0 (copy 0, 2)");
}

TEST(CompareReplicas, ABadBoxOfOneRankFailsAll) {
  const Array array = Numbers(10, 0);
  const auto transports = MakeThreadTransports(2);
  std::vector<Status> statuses(2);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      const auto group = MakeProcessGroup(transports[rank]);
      const Replica replica{"w", {10}, {rank}, array.view()};
      statuses[rank] = CompareReplicas(group.get(), {replica}).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find(
                  "replica of tensor w: box [1:11] is not inside shape (10,)"),
              std::string::npos)
        << status.message();
  }
}

}  // namespace
}  // namespace holdfast
