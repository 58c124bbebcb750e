// tiers: measures what a step stored on the hosts themselves costs, and how
// fast a lost host is restored.
//
//   ninja -C build tiers && build/bench/tiers DIRECTORY [MiB] [rounds]
//
// First it measures how many bytes per second one core encodes. Then it runs 8
// processes, each a host with its own directory below DIRECTORY (a tmpfs), in
// one group of 7 + 1. Each round:
// - saves the state as one checkpoint that all hosts write together (`plain`,
//   for comparison), and with TieredManager;
// - removes one host's directory and restores from the others (`parity`);
// - restores again, when nothing is missing (`local`);
// - restores the same state from a checkpoint on a shared tier of 200 MB/s, of
//   which every host has an eighth (`shared`).
// A restore ends when every rank has its rows of every array in memory, and
// every byte was compared with a checksum. The memory is either new or (`in
// place`) that of existing arrays. Prints medians of the rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <sstream>
#include <string>

#include "engine/checkpoint/opened_checkpoint.h"
#include "ground/base/status_macros.h"
#include "ground/tensor/box.h"
#include "holdfast/holdfast.h"
#include "holdfast/tiers/tiered_manager.h"
#include "stores/cloud/read_only_bucket.h"
#include "stores/place/place.h"
#include "stores/storage/file_store.h"
#include "tiers/manager/rate_limit.h"
#include "tiers/parity/erasure_code.h"
#include "twins/local_ranks.h"

namespace {

using namespace holdfast;  // NOLINT: a separate program
namespace fs = std::filesystem;

constexpr int64_t kHostCount = 8;
constexpr int64_t kLostHost = 3;
constexpr int64_t kLeafCount = 8;
constexpr int64_t kColumnCount = 2048;
constexpr double kSharedBytesPerSecond = 200e6;

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

// --- Coding ---

double CodedGbPerSecond(int64_t data_count, int64_t parity_count,
                        size_t block_bytes) {
  const auto code = ErasureCode::Make(data_count, parity_count);
  std::vector<std::string> blocks;
  std::minstd_rand random(1);
  for (int64_t i = 0; i < data_count + parity_count; ++i) {
    std::string& block = blocks.emplace_back(block_bytes, '\0');
    for (char& byte : block) byte = static_cast<char>(random());
  }
  const auto encode = [&] {
    for (int64_t p = 0; p < parity_count; ++p) {
      std::string& target = blocks[data_count + p];
      for (int64_t i = 0; i < data_count; ++i) {
        AddProduct(code->coefficient(p, i), blocks[i], target);
      }
    }
  };
  encode();
  const auto begun = Clock::now();
  double byte_count = 0;
  while (SecondsSince(begun) < 0.5) {
    encode();
    byte_count += static_cast<double>(block_bytes * data_count);
  }
  return byte_count / SecondsSince(begun) / 1e9;
}

double CopiedGbPerSecond(size_t block_bytes) {
  std::vector<std::string> blocks(16, std::string(block_bytes, 'x'));
  const auto begun = Clock::now();
  double byte_count = 0;
  while (SecondsSince(begun) < 0.5) {
    for (int i = 0; i < 8; ++i) {
      std::copy(blocks[i].begin(), blocks[i].end(), blocks[i + 8].begin());
    }
    byte_count += static_cast<double>(block_bytes) * 8;
  }
  return byte_count / SecondsSince(begun) / 1e9;
}

void PrintCoding() {
  std::printf(
      "| n + m | block | GB of data a second and core |\n|---|--:|--:|\n");
  for (const auto& [n, m] : {std::pair{7, 1}, {14, 2}, {6, 2}, {12, 4}}) {
    for (const size_t block_bytes : {size_t{64} << 10, size_t{1} << 20}) {
      std::printf("| %d + %d | %zu KiB | %.1f |\n", n, m, block_bytes >> 10,
                  CodedGbPerSecond(n, m, block_bytes));
    }
  }
  std::printf("| (a copy) | 1024 KiB | %.1f |\n\n",
              CopiedGbPerSecond(size_t{1} << 20));
}

// --- The shared tier ---

// Serves the files of a directory, within the bandwidth limit.
class ThrottledFiles final : public ReadOnlyBucket {
 public:
  ThrottledFiles(const std::string& directory, double bytes_per_second)
      : ReadOnlyBucket("throttled files"),
        store_(directory),
        limit_(bytes_per_second, cancel_) {
    const Status listed = store_.List(
        "", [&](std::string_view key, const ObjectInfo& info) -> Status {
          sizes_.emplace(key, info.byte_count);
          return Status();
        });
    if (!listed.ok()) std::abort();
  }

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override {
    return "throttled://" + std::string(key);
  }
  Result<ObjectEntry> Head(std::string_view key) override {
    const auto found = sizes_.find(NameOf(key));
    if (found == sizes_.end()) return NotFoundError(UrlOf(key));
    return ObjectEntry{std::string(key), found->second, "1", 0};
  }
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken*) override {
    std::vector<Result<GetResult>> results;
    for (const GetRequest& request : requests) {
      results.push_back(GetOne(request));
    }
    return results;
  }
  Result<ListPage> List(const ListRequest& request) override {
    return ListNames(request, kPrefix, sizes_,
                     [](const std::string& key, uint64_t byte_count) {
                       return ObjectEntry{key, byte_count, "1", 0};
                     });
  }
  int64_t ServerTimeNs() const override { return 0; }

 private:
  static constexpr std::string_view kPrefix = "step/";
  static std::string NameOf(std::string_view key) {
    return std::string(key.substr(std::min(key.size(), kPrefix.size())));
  }

  Result<GetResult> GetOne(const GetRequest& request) {
    GetResult result;
    HF_ASSIGN_OR_RETURN(result.object, Head(request.key));
    HF_ASSIGN_OR_RETURN(const ByteRange range,
                        ResolveRange(request.range, result.object.byte_count,
                                     UrlOf(request.key)));
    if (range.byte_count == 0) return result;
    HF_RETURN_IF_ERROR(limit_.Take(range.byte_count));
    const std::string name = NameOf(request.key);
    if (request.target.empty()) {
      HF_ASSIGN_OR_RETURN(result.bytes, store_.Read(name, range));
    } else {
      HF_RETURN_IF_ERROR(store_.ReadInto(name, range.offset, request.target));
    }
    return result;
  }

  FileStore store_;
  CancelToken cancel_;
  RateLimit limit_;
  BucketTraits traits_;
  std::map<std::string, uint64_t, std::less<>> sizes_;
};

// --- Hosts ---

struct Measure {
  double seconds = 0;        // of the slowest rank
  double write_seconds = 0;  // of a save by the manager
  double protect_seconds = 0;
  double call_seconds = 0;  // until Save returned
  double received_bytes = 0;
  double cpu_seconds = 0;  // of all ranks
  std::string source;
};

int64_t RowsPerHost(int64_t mib) {
  return (mib << 20) / (kLeafCount * kHostCount * kColumnCount * 4);
}

Tree StateOf(int64_t rank, int64_t mib) {
  const int64_t rows = RowsPerHost(mib);
  const auto traits = std::make_shared<const ArrayTraits>(
      ArrayTraits{"{}", "", {rows, kColumnCount}});
  Tree tree = Tree::Dict();
  for (int64_t leaf = 0; leaf < kLeafCount; ++leaf) {
    Array array = *Array::Allocate(DType::kFloat32, {rows, kColumnCount});
    auto* values = reinterpret_cast<float*>(array.mutable_view().data);
    std::minstd_rand random(static_cast<uint32_t>(rank * 100 + leaf + 1));
    for (int64_t i = 0; i < rows * kColumnCount; ++i) {
      values[i] = static_cast<float>(random()) * 1e-9f;
    }
    tree.Add("w" + std::to_string(leaf),
             Tree::ShardedArray({rows * kHostCount, kColumnCount},
                                {{{rank * rows, 0}, array}}, traits));
  }
  return tree;
}

// The memory that a restore reads into: untouched pages, as in a program that
// has just started; or existing arrays, as holdfast.torch fills them.
enum class Memory { kNew, kTouched };

class Hosts {
 public:
  Hosts(std::string root, int64_t mib) : root_(std::move(root)), mib_(mib) {}

  std::string HostPath(int64_t host) const {
    return root_ + "/host" + std::to_string(host);
  }
  std::string PlainPath() const { return root_ + "/plain"; }

  Measure SavePlainly() const {
    return Run([&](ProcessGroup& group, Measure& measure) -> Status {
      const Tree tree = StateOf(group.rank(), mib_);
      SaveOptions options = Options();
      options.group = &group;
      options.overwrite = true;
      (void)group.Agree({"start", ""}, Status());
      const auto begun = Clock::now();
      HF_RETURN_IF_ERROR(Save(PlainPath(), tree, options).status());
      measure.seconds = SecondsSince(begun);
      return Status();
    });
  }

  Measure SaveInTiers(int64_t step) const {
    return Run([&](ProcessGroup& group, Measure& measure) -> Status {
      const Tree tree = StateOf(group.rank(), mib_);
      HF_ASSIGN_OR_RETURN(const auto manager, MakeManager(group));
      (void)manager->Agree(Status());
      const auto begun = Clock::now();
      HF_RETURN_IF_ERROR(manager->Save(step, tree).status());
      measure.call_seconds = SecondsSince(begun);
      HF_RETURN_IF_ERROR(manager->WaitProtected());
      measure.seconds = SecondsSince(begun);
      const TierStats stats = manager->stats();
      measure.write_seconds = stats.write_seconds;
      measure.protect_seconds = stats.protect_seconds;
      measure.received_bytes = static_cast<double>(stats.received_bytes);
      return manager->Close();
    });
  }

  Measure RestoreFromTiers(Memory memory) const {
    return Run([&](ProcessGroup& group, Measure& measure) -> Status {
      HF_ASSIGN_OR_RETURN(const auto manager, MakeManager(group));
      std::vector<Array> arrays = RowsBefore(memory);
      (void)manager->Agree(Status());
      const auto begun = Clock::now();
      HF_ASSIGN_OR_RETURN(const TierRestore restore,
                          manager->Restore([&](const TierRestore& opened) {
                            return ReadRows(*opened.checkpoint, group.rank(),
                                            arrays);
                          }));
      measure.seconds = SecondsSince(begun);
      measure.received_bytes = static_cast<double>(restore.peer_bytes);
      measure.source = restore.source;
      return manager->Close();
    });
  }

  Measure RestoreFromShared(Memory memory) const {
    return Run([&](ProcessGroup& group, Measure& measure) -> Status {
      const auto files = std::make_shared<ThrottledFiles>(
          PlainPath(), kSharedBytesPerSecond / kHostCount);
      std::vector<Array> arrays = RowsBefore(memory);
      (void)group.Agree({"start", ""}, Status());
      const auto begun = Clock::now();
      HF_ASSIGN_OR_RETURN(
          const auto opened,
          OpenCheckpoint(Place::OfBucket("throttled://step", {files, "step"})));
      HF_RETURN_IF_ERROR(ReadRows(*opened, group.rank(), arrays));
      measure.seconds = SecondsSince(begun);
      measure.source = "shared";
      return Status();
    });
  }

 private:
  using Body = std::function<Status(ProcessGroup&, Measure&)>;

  static SaveOptions Options() {
    SaveOptions options;
    options.compression = Compression::kNone;
    return options;
  }

  Result<std::unique_ptr<TieredManager>> MakeManager(
      ProcessGroup& group) const {
    TieredManagerOptions options;
    options.local.directory = HostPath(group.rank());
    options.parity.failure_domain = std::to_string(group.rank());
    options.save = Options();
    options.host = options.listen_address = "127.0.0.1";
    return TieredManager::Make(options, &group);
  }

  // Returns the arrays that exist before the clock starts; none for kNew.
  std::vector<Array> RowsBefore(Memory memory) const {
    std::vector<Array> arrays;
    if (memory == Memory::kNew) return arrays;
    arrays = NewRows();
    for (Array& array : arrays) {
      std::memset(array.mutable_view().data, 1, array.byte_count());
    }
    return arrays;
  }

  std::vector<Array> NewRows() const {
    std::vector<Array> arrays;
    for (int64_t leaf = 0; leaf < kLeafCount; ++leaf) {
      arrays.push_back(
          *Array::Allocate(DType::kFloat32, {RowsPerHost(mib_), kColumnCount}));
    }
    return arrays;
  }

  Status ReadRows(const Checkpoint& checkpoint, int64_t rank,
                  std::vector<Array>& arrays) const {
    const int64_t rows = RowsPerHost(mib_);
    if (arrays.empty()) arrays = NewRows();
    std::vector<ReadRequest> requests;
    for (size_t leaf = 0; leaf < arrays.size(); ++leaf) {
      requests.push_back({leaf, {rank * rows, 0}, arrays[leaf].mutable_view()});
    }
    return checkpoint.ReadInto(requests, {}).status();
  }

  Measure Run(const Body& body) const {
    const auto ends =
        OnProcesses(kHostCount, 600, [&](ProcessGroup& group) -> std::string {
          Measure measure;
          const Status status = body(group, measure);
          if (!status.ok()) return status.ToString();
          std::ostringstream report;
          report << "ok " << measure.seconds << " " << measure.write_seconds
                 << " " << measure.protect_seconds << " "
                 << measure.call_seconds << " " << measure.received_bytes << " "
                 << measure.source;
          return report.str();
        });
    Measure all;
    for (const RankEnd& end : ends) {
      std::istringstream report(end.report);
      std::string ok;
      Measure one;
      report >> ok >> one.seconds >> one.write_seconds >> one.protect_seconds >>
          one.call_seconds >> one.received_bytes >> all.source;
      if (ok != "ok") {
        std::cerr << end.report << "\n";
        std::exit(1);
      }
      all.seconds = std::max(all.seconds, one.seconds);
      all.write_seconds = std::max(all.write_seconds, one.write_seconds);
      all.protect_seconds = std::max(all.protect_seconds, one.protect_seconds);
      all.call_seconds = std::max(all.call_seconds, one.call_seconds);
      all.received_bytes += one.received_bytes;
      all.cpu_seconds += end.cpu_seconds;
    }
    return all;
  }

  const std::string root_;
  const int64_t mib_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double MedianOf(const std::vector<Measure>& measures, double Measure::* field) {
  std::vector<double> values;
  for (const Measure& measure : measures) values.push_back(measure.*field);
  return Median(values);
}

void PrintHosts(std::map<std::string, std::vector<Measure>>& rounds) {
  std::printf(
      "| | s | CPU s of all | MiB between hosts |\n|---|--:|--:|--:|\n");
  for (const auto& [name, measures] : rounds) {
    std::printf("| %s | %.3f | %.2f | %.0f |\n", name.c_str(),
                MedianOf(measures, &Measure::seconds),
                MedianOf(measures, &Measure::cpu_seconds),
                MedianOf(measures, &Measure::received_bytes) / (1 << 20));
  }
  const auto& saves = rounds["save: tiers"];
  std::printf(
      "\nSave returned after %.4f s; written after %.3f s, protected "
      "%.3f s later\n",
      MedianOf(saves, &Measure::call_seconds),
      MedianOf(saves, &Measure::write_seconds),
      MedianOf(saves, &Measure::protect_seconds));
  for (const std::string in : {"", ", in place"}) {
    // Ratios within the same round, under the same conditions.
    std::vector<double> ratios;
    const auto& shared = rounds["restore: shared" + in];
    const auto& parity = rounds["restore: parity" + in];
    for (size_t i = 0; i < shared.size(); ++i) {
      ratios.push_back(shared[i].seconds / parity[i].seconds);
    }
    std::printf(
        "one lost host of 8%s: %.1f times as fast as the shared tier "
        "(%.1f to %.1f)\n",
        in.c_str(), Median(ratios),
        *std::min_element(ratios.begin(), ratios.end()),
        *std::max_element(ratios.begin(), ratios.end()));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: tiers DIRECTORY [MiB] [rounds]\n";
    return 2;
  }
  const std::string root = argv[1];
  const int64_t mib = argc > 2 ? std::atoll(argv[2]) : 512;
  const int round_count = argc > 3 ? std::atoi(argv[3]) : 5;
  PrintCoding();
  std::map<std::string, std::vector<Measure>> rounds;
  const Hosts hosts(root, mib);
  for (int round = 0; round < round_count; ++round) {
    fs::create_directories(root);
    rounds["save: plain"].push_back(hosts.SavePlainly());
    rounds["save: tiers"].push_back(hosts.SaveInTiers(round));
    for (const auto memory : {Memory::kNew, Memory::kTouched}) {
      const std::string in = memory == Memory::kNew ? "" : ", in place";
      rounds["restore: local" + in].push_back(hosts.RestoreFromTiers(memory));
      fs::remove_all(hosts.HostPath(kLostHost));
      auto& parity = rounds["restore: parity" + in];
      parity.push_back(hosts.RestoreFromTiers(memory));
      if (parity.back().source != "parity") return 1;
      rounds["restore: shared" + in].push_back(hosts.RestoreFromShared(memory));
    }
    fs::remove_all(root);
  }
  std::printf("%d MiB on %d hosts, %d rounds\n\n", static_cast<int>(mib),
              static_cast<int>(kHostCount), round_count);
  PrintHosts(rounds);
  return 0;
}
