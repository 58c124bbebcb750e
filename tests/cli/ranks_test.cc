// Verbs on several ranks: threads that communicate through memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "holdfast/process_group.h"
#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;

// Runs `words` on the first `present` of `size` ranks; the other ranks do not
// take part.
std::vector<Ran> RunOnRanks(const std::vector<std::string>& words, int64_t size,
                            int64_t present) {
  const auto transports = MakeThreadTransports(size);
  std::vector<Ran> ran(present);
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < present; ++rank) {
    threads.emplace_back([&, rank] {
      ran[rank] = RunWords(words, [&](cli::Env& env) {
        env.is_started_by_mpi = true;
        env.mpi_transport = [&] {
          return Result<std::shared_ptr<ProcessTransport>>(transports[rank]);
        };
      });
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ran;
}

class Ranks : public ::testing::Test {
 protected:
  void SetUp() override {
    ClearWorld();
    FakeCheckpoint c;
    c.report.leaf_count = 7;
    PutCheckpoint("/fine", c);
    c.report.damages = {{"w", "d/1a", 0, DataLossError("torn")}};
    PutCheckpoint("/torn", c);
  }
};

TEST_F(Ranks, RankZeroAlonePrints) {
  const auto ran = RunOnRanks({"verify", "/fine"}, 3, 3);
  EXPECT_THAT(ran[0].out, HasSubstr("ok: 7 leaves"));
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(ran[rank].code, 0);
    EXPECT_EQ(ran[rank].err, "");
    EXPECT_EQ(ran[rank].out.empty(), rank > 0);
  }
}

TEST_F(Ranks, ExitCodesAreAlike) {
  for (const Ran& ran : RunOnRanks({"verify", "/torn"}, 3, 3)) {
    EXPECT_EQ(ran.code, 1);
  }
  const auto failed = RunOnRanks({"verify", "/gone"}, 2, 2);
  EXPECT_EQ(failed[0].err, "holdfast: no checkpoint at /gone\n");
  EXPECT_EQ(failed[1].err, "");
  EXPECT_EQ(failed[0].code, 3);
  EXPECT_EQ(failed[1].code, 3);
}

TEST_F(Ranks, NamesWhoDoesNotCome) {
  const auto ran = RunOnRanks({"verify", "--timeout=1", "/fine"}, 3, 2);
  EXPECT_THAT(ran[0].err,
              HasSubstr("verify: /fine: rank 2 of 3 did not arrive"));
  EXPECT_EQ(ran[0].code, 3);
  EXPECT_EQ(ran[1].code, 3);
}

TEST_F(Ranks, AloneWhenAsked) {
  const auto ran = RunOnRanks({"verify", "--mpi=never", "/fine"}, 2, 1);
  EXPECT_EQ(ran[0].code, 0);
}

TEST_F(Ranks, SaysWhyThereIsNoMpi) {
  const Ran ran = RunWords({"verify", "/fine"}, [](cli::Env& env) {
    env.is_started_by_mpi = true;
    env.mpi_transport = [] {
      return Result<std::shared_ptr<ProcessTransport>>(
          FailedPreconditionError("no library"));
    };
  });
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("no library"));
  EXPECT_THAT(ran.err, HasSubstr("--mpi never"));
}

}  // namespace
}  // namespace holdfast::testing
