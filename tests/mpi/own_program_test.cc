// A program that initializes and finalizes MPI itself, and passes a
// communicator with half of its ranks.

#include <mpi.h>

#include "check.h"
#include "holdfast/mpi.h"

namespace holdfast {
namespace {

int Run() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  RankChecks checks(rank);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  const auto transport = MpiTransport({.communicator = MPI_Comm_c2f(half)});
  checks.True("transport", transport.ok());
  if (!transport.ok()) return 1;
  const auto group = MakeProcessGroup(*transport, {.timeout_seconds = 60});
  const auto all = group->AllGather({"plan", ""}, std::to_string(rank));
  checks.True("gathered", all.ok());
  if (!all.ok()) return 1;
  checks.Equal("the half", (*all)[0] + (*all)[1], rank % 2 == 0 ? "02" : "13");
  return checks.ExitCode();
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = holdfast::Run();
  MPI_Finalize();
  return code;
}
