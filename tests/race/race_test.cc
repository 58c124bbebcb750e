// race_test: savers, pruners, cleaners and readers race for one root, and some
// of them die. A complete checkpoint must exist at every moment.
//
// usage: race_test [--seed N] [--disk-rounds N] [--bucket-rounds N]
//                  [--minutes N]
//   --minutes N   runs further rounds, with new seeds, for N minutes
//
// Exit status 1 when something was lost, mixed or left over.
#include "race/race.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

struct Wanted {
  uint64_t seed = 1;
  uint64_t disk_rounds = 40;
  uint64_t bucket_rounds = 30;
  uint64_t minutes = 0;
};

bool ParseFlags(int argc, char** argv, Wanted& wanted) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view flag = argv[i];
    uint64_t* const value = flag == "--seed"            ? &wanted.seed
                            : flag == "--disk-rounds"   ? &wanted.disk_rounds
                            : flag == "--bucket-rounds" ? &wanted.bucket_rounds
                            : flag == "--minutes"       ? &wanted.minutes
                                                        : nullptr;
    if (value == nullptr) return false;
    *value = std::strtoull(argv[i + 1], nullptr, 10);
  }
  return argc % 2 == 1;
}

}  // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  if (!ParseFlags(argc, argv, wanted)) {
    std::fprintf(stderr,
                 "usage: race_test [--seed N] [--disk-rounds N] "
                 "[--bucket-rounds N] [--minutes N]\n");
    return 2;
  }
  const auto begun = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return std::chrono::steady_clock::now() - begun >=
           std::chrono::minutes(wanted.minutes);
  };
  holdfast::RaceCounts disk, bucket;
  do {
    for (uint64_t i = 0; i < wanted.disk_rounds; ++i) {
      disk.Add(holdfast::RaceOnDisk(wanted.seed + i));
    }
    // A bucket round ends all its threads before processes are forked again.
    for (uint64_t i = 0; i < wanted.bucket_rounds; ++i) {
      bucket.Add(holdfast::RaceInBucket(wanted.seed + i));
    }
    wanted.seed +=
        std::max<uint64_t>({wanted.disk_rounds, wanted.bucket_rounds, 1});
  } while (!is_over());
  std::printf("disk: %s\nbuckets: %s\n", disk.ToString().c_str(),
              bucket.ToString().c_str());
  return disk.violations + bucket.violations == 0 ? 0 : 1;
}
