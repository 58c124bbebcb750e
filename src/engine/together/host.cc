#include "engine/together/host.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "ground/base/sha256.h"

namespace holdfast {
std::string HostKey() {
  std::string boot_id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot_id);
  struct stat processes{};
  if (boot_id.empty() || ::stat("/proc/self/ns/pid", &processes) != 0) {
    return "alone-" + RandomHex32();
  }
  return boot_id + " pid:" + std::to_string(processes.st_dev) + ":" +
         std::to_string(processes.st_ino) +
         " uid:" + std::to_string(::geteuid());
}

std::vector<std::vector<int64_t>> RanksByHost(
    const std::vector<std::string>& keys, const std::vector<bool>& shares) {
  struct Host {
    std::vector<int64_t> ranks;
    bool shares = true;
  };
  std::map<std::string, Host> hosts;
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    Host& host = hosts[keys[rank]];
    host.ranks.push_back(static_cast<int64_t>(rank));
    host.shares = host.shares && shares[rank];
  }
  std::vector<std::vector<int64_t>> by_rank(keys.size());
  for (size_t rank = 0; rank < keys.size(); ++rank) {
    const Host& host = hosts[keys[rank]];
    by_rank[rank] = host.shares
                        ? host.ranks
                        : std::vector<int64_t>{static_cast<int64_t>(rank)};
  }
  return by_rank;
}

}  // namespace holdfast
