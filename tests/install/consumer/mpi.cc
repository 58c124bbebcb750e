// A single MPI process: the transport is found, and is rank 0 of 1.

#include <holdfast/mpi.h>

#include <cstdio>

int main() {
  const auto transport = holdfast::MpiTransport();
  if (!transport.ok()) {
    std::fprintf(stderr, "%s\n", transport.status().ToString().c_str());
    return 1;
  }
  std::printf("rank %lld of %lld\n",
              static_cast<long long>((*transport)->rank()),
              static_cast<long long>((*transport)->size()));
  return (*transport)->size() == 1 ? 0 : 1;
}
