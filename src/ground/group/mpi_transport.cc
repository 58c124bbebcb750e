#include "ground/group/mpi_transport.h"

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <thread>
#include <utility>

#include "ground/base/coding.h"
#include "ground/base/status_macros.h"
#include "ground/base/wait_time.h"

namespace holdfast {
namespace {

constexpr auto kPauseMin = std::chrono::microseconds(10);
constexpr auto kPauseMax = std::chrono::microseconds(1000);

class MpiMessages : public ProcessTransport {
 public:
  MpiMessages(const HoldfastMpiCalls& calls, const HoldfastMpiWorld& world)
      : calls_(calls), world_(world) {}

  int64_t rank() const override { return world_.rank; }
  int64_t size() const override { return world_.size; }

  Status Send(int64_t to, std::string_view topic,
              std::string_view message) override {
    std::string bytes;
    PutVarint(bytes, topic.size());
    bytes += topic;
    bytes += message;
    std::array<char, 512> error = {};
    if (calls_.send(world_.connection, to, bytes.data(), bytes.size(),
                    error.data(), error.size()) < 0) {
      return UnavailableError("MPI: message of " +
                              std::to_string(bytes.size()) + " bytes to rank " +
                              std::to_string(to) + ": " + error.data());
    }
    return Status();
  }

  Result<std::string> Receive(int64_t from, std::string_view topic,
                              double timeout_seconds) override {
    const Key key(from, topic);
    const auto deadline = WaitClock::now() + WaitTime(timeout_seconds);
    auto pause = std::chrono::duration_cast<WaitClock::duration>(kPauseMin);
    for (;;) {
      // Takes all messages that have arrived before it checks the clock: a
      // receiver that was late itself must not report others as missing.
      HF_ASSIGN_OR_RETURN(const bool has_come, TakeOne());
      const auto found = waiting_.find(key);
      if (found != waiting_.end()) {
        return std::move(waiting_.extract(found).mapped());
      }
      if (has_come) continue;
      const auto now = WaitClock::now();
      if (now >= deadline) {
        return DeadlineExceededError("no message from rank " +
                                     std::to_string(from) + " on " +
                                     key.second);
      }
      // The pause doubles, so that a quick answer is noticed within
      // microseconds and a long wait takes little processor time.
      std::this_thread::sleep_for(std::min(pause, deadline - now));
      pause = std::min<WaitClock::duration>(pause * 2, kPauseMax);
    }
  }

 private:
  using Key = std::pair<int64_t, std::string>;  // sender, topic

  // Moves one message from MPI to `waiting_`; returns false if none has
  // arrived.
  Result<bool> TakeOne() {
    std::array<char, 512> error = {};
    int64_t from = 0;
    const char* bytes = nullptr;
    size_t byte_count = 0;
    const int result = calls_.poll(world_.connection, &from, &bytes,
                                   &byte_count, error.data(), error.size());
    if (result < 0) {
      return UnavailableError(std::string("MPI: ") + error.data());
    }
    if (result == 0) return false;
    Cursor cursor({bytes, byte_count});
    uint64_t topic_bytes = 0;
    std::string_view topic;
    std::string_view message;
    if (cursor.ReadVarint(byte_count, topic_bytes) !=
            Cursor::VarintResult::kOk ||
        !cursor.ReadBytes(topic_bytes, topic) ||
        !cursor.ReadBytes(cursor.remaining(), message)) {
      return DataLossError("MPI: a message of " + std::to_string(byte_count) +
                           " bytes from rank " + std::to_string(from) +
                           " that is not holdfast's");
    }
    waiting_.emplace(Key(from, topic), message);
    return true;
  }

  const HoldfastMpiCalls& calls_;
  HoldfastMpiWorld world_;
  std::multimap<Key, std::string> waiting_;  // arrived, not yet requested
};

}  // namespace

std::shared_ptr<ProcessTransport> MakeMpiTransport(
    const HoldfastMpiCalls& calls, const HoldfastMpiWorld& world) {
  return std::make_shared<MpiMessages>(calls, world);
}

}  // namespace holdfast
