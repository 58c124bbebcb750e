// A process group over MPI, used by a program that does not use MPI itself.

#include <unistd.h>

#include <cstring>

#include "check.h"
#include "holdfast/mpi.h"

namespace holdfast {
namespace {

void MeetsAndAgrees(ProcessGroup& group, RankChecks& checks) {
  for (int round = 0; round < 50; ++round) {
    // Round 20's message is too large for MPI's eager protocol.
    const size_t bytes = round == 20 ? 3'000'000 : 10;
    const auto all = group.AllGather(
        {"plan", "/ckpt"},
        std::string(bytes, static_cast<char>('a' + group.rank())));
    checks.True("gathered", all.ok());
    if (!all.ok()) return;
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      checks.True(
          "value of a rank",
          (*all)[rank] == std::string(bytes, static_cast<char>('a' + rank)));
    }
  }
  const Status mine =
      group.rank() == 2 ? ResourceExhaustedError("disk full") : Status();
  checks.Equal("agreed", group.Agree({"write", "/ckpt"}, mine).ToString(),
               "RESOURCE_EXHAUSTED: rank 2: disk full");
}

void NamesWhoDoesNotCome(ProcessTransport& transport,
                         std::shared_ptr<ProcessTransport> shared,
                         RankChecks& checks) {
  const auto group =
      MakeProcessGroup(shared, {.timeout_seconds = 0.3, .name = "absent"});
  const std::string expected =
      "DEADLINE_EXCEEDED: commit: /ckpt/7: rank 3 of 4 did not arrive within "
      "0.3 s";
  // Rank 3 waits until rank 0 tells it that the other ranks have given up.
  if (transport.rank() == 3) {
    checks.True("was told", transport.Receive(0, "go on", 60).ok());
  }
  checks.Equal("verdict",
               group->Agree({"commit", "/ckpt/7"}, Status()).ToString(),
               expected);
  if (transport.rank() == 0) {
    checks.True("told", transport.Send(3, "go on", "").ok());
  }
}

// Lets rank 3 hang. The others must report it, and then not wait for it.
int RunWithoutOne(const std::shared_ptr<ProcessTransport>& transport) {
  if (transport->rank() == 3) pause();
  const auto group = MakeProcessGroup(transport, {.timeout_seconds = 0.5});
  const Status status = group->Agree({"commit", "/ckpt/7"}, Status());
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int Run(bool hangs) {
  const auto transport = MpiTransport();
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    return 1;
  }
  if (hangs) return RunWithoutOne(*transport);
  RankChecks checks((*transport)->rank());
  checks.True("started by MPI", StartedByMpi());
  checks.Equal("ranks", std::to_string((*transport)->size()), "4");
  checks.True("one transport", *MpiTransport() == *transport);
  const auto group = MakeProcessGroup(*transport, {.timeout_seconds = 60});
  MeetsAndAgrees(*group, checks);
  NamesWhoDoesNotCome(**transport, *transport, checks);
  return checks.ExitCode();
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  return holdfast::Run(argc > 1 && std::strcmp(argv[1], "hang") == 0);
}
