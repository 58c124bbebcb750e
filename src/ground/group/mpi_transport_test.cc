#include "ground/group/mpi_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <vector>

namespace holdfast {
namespace {

using ::testing::HasSubstr;

// One end of a connection; both ends are in this process.
struct FakeMpi {
  int64_t rank = 0;
  FakeMpi* peer = nullptr;
  std::deque<std::string> arrived;
  std::string given;
  bool fails = false;
};

int FakeSend(void* connection, int64_t to, const char* bytes, size_t count,
             char* error, size_t error_bytes) {
  auto& mpi = *static_cast<FakeMpi*>(connection);
  if (mpi.fails) {
    snprintf(error, error_bytes, "link down");
    return -1;
  }
  EXPECT_EQ(to, mpi.peer->rank);
  mpi.peer->arrived.emplace_back(bytes, count);
  return 0;
}

int FakePoll(void* connection, int64_t* from, const char** bytes, size_t* count,
             char* error, size_t error_bytes) {
  auto& mpi = *static_cast<FakeMpi*>(connection);
  if (mpi.fails) {
    snprintf(error, error_bytes, "link down");
    return -1;
  }
  if (mpi.arrived.empty()) return 0;
  mpi.given = std::move(mpi.arrived.front());
  mpi.arrived.pop_front();
  *from = mpi.peer->rank;
  *bytes = mpi.given.data();
  *count = mpi.given.size();
  return 1;
}

const HoldfastMpiCalls kFakeCalls = {kHoldfastMpiVersion, nullptr, FakeSend,
                                     FakePoll};

class MpiTransportTest : public ::testing::Test {
 protected:
  MpiTransportTest() {
    for (int64_t rank = 0; rank < 2; ++rank) {
      ends_[rank].rank = rank;
      ends_[rank].peer = &ends_[1 - rank];
      transports_.push_back(
          MakeMpiTransport(kFakeCalls, {&ends_[rank], rank, 2}));
    }
  }
  FakeMpi ends_[2];
  std::vector<std::shared_ptr<ProcessTransport>> transports_;
};

TEST_F(MpiTransportTest, FindsMessagesByTopicInAnyOrder) {
  const std::string binary("\0\xff\n", 3);
  ASSERT_TRUE(transports_[0]->Send(1, "a", "one").ok());
  ASSERT_TRUE(transports_[0]->Send(1, "b", binary).ok());
  ASSERT_TRUE(transports_[0]->Send(1, std::string(200, 't'), "").ok());
  EXPECT_EQ(*transports_[1]->Receive(0, "b", 0), binary);
  EXPECT_EQ(*transports_[1]->Receive(0, std::string(200, 't'), 0), "");
  EXPECT_EQ(*transports_[1]->Receive(0, "a", 0), "one");
  // Each message is delivered once.
  EXPECT_EQ(transports_[1]->Receive(0, "a", 0).status().code(),
            StatusCode::kDeadlineExceeded);
}

TEST_F(MpiTransportTest, KeepsWhatOthersSent) {
  ASSERT_TRUE(transports_[0]->Send(1, "a", "one").ok());
  EXPECT_EQ(transports_[1]->Receive(1, "a", 0).status().code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(*transports_[1]->Receive(0, "a", 0), "one");
}

TEST_F(MpiTransportTest, RefusesWhatIsNotItsOwn) {
  for (const std::string& bytes : {std::string(),
                                   std::string("\x05"
                                               "abc"),
                                   std::string(11, '\xff')}) {
    ends_[1].arrived = {bytes};
    EXPECT_EQ(transports_[1]->Receive(0, "a", 0).status().code(),
              StatusCode::kDataLoss);
  }
}

TEST_F(MpiTransportTest, SaysWhatMpiSays) {
  ends_[0].fails = true;
  EXPECT_THAT(
      transports_[0]->Send(1, "a", "one").ToString(),
      HasSubstr("UNAVAILABLE: MPI: message of 5 bytes to rank 1: link down"));
  EXPECT_THAT(transports_[0]->Receive(1, "a", 0).status().ToString(),
              HasSubstr("UNAVAILABLE: MPI: link down"));
}

}  // namespace
}  // namespace holdfast
