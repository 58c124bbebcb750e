// together: compares several processes of this machine that load a checkpoint
// together with one process that loads as many bytes.
//
//   ninja -C build together && build/bench/together /tmp/together [MiB]
//   [rounds]
//
// 2 or 4 processes load a checkpoint together. In the case `rows`, each reads
// an equal share of every array's rows; in the case `columns`, of every array's
// columns, so all processes need every chunk. Both are compared with one
// process that reads the same boxes. In the case `all`, each reads everything;
// this is compared with as many processes that do not cooperate.
//
// Each round runs every case once, in a different order, in separate processes,
// from opening the checkpoint until the last rank has its arrays. Prints the
// rounds' medians of wall time and of the processor time of all processes, and
// the bytes read from the store.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <numeric>
#include <random>
#include <sstream>
#include <string>

#include "holdfast/holdfast.h"
#include "twins/local_ranks.h"

namespace {

using namespace holdfast;  // NOLINT: a separate program

constexpr int64_t kLeafCount = 8;
constexpr int64_t kColumnCount = 2048;

struct Case {
  std::string compression;
  std::string wants;
  int64_t part_count = 1;  // parts that are read in total
  int64_t process_count = 1;
  bool is_apart = false;  // the processes share nothing
};

struct Measure {
  double seconds = 0;
  double cpu_seconds = 0;  // of all processes, to their end
  uint64_t stored_bytes = 0;
};

Array MakeValues(int64_t row_count, uint32_t seed) {
  Array array = *Array::Allocate(DType::kFloat32, {row_count, kColumnCount});
  auto* values = reinterpret_cast<float*>(array.mutable_view().data);
  std::minstd_rand random(seed);
  // Like weights: approximately normal.
  for (int64_t i = 0; i < row_count * kColumnCount; ++i) {
    float sum = 0;
    for (int k = 0; k < 4; ++k) sum += static_cast<float>(random() & 0xffff);
    values[i] = (sum - 131072.0f) * 1e-7f;
  }
  return array;
}

void SaveAll(const std::string& root, int64_t mib) {
  const int64_t row_count = (mib << 20) / (kLeafCount * kColumnCount * 4);
  Tree tree = Tree::Dict();
  for (int64_t i = 0; i < kLeafCount; ++i) {
    tree.Add("w" + std::to_string(i),
             Tree(MakeValues(row_count, static_cast<uint32_t>(i + 1))));
  }
  const std::map<std::string, Compression> compressions = {
      {"none", Compression::kNone},
      {"planes", Compression::kPlanes},
      {"zstd", Compression::kZstd},
      {"fast", Compression::kFast}};
  for (const auto& [name, compression] : compressions) {
    SaveOptions options;
    options.compression = compression;
    options.overwrite = true;
    const auto saved = Save(root + "/" + name, tree, options);
    if (!saved.ok()) {
      std::cerr << saved.status().ToString() << "\n";
      std::exit(1);
    }
  }
}

std::vector<TogetherRequest> Wanted(const Case& c, const ProcessGroup& group,
                                    const Checkpoint& checkpoint) {
  std::vector<TogetherRequest> requests;
  for (size_t leaf = 0; leaf < checkpoint.leaves().size(); ++leaf) {
    for (int64_t part = 0; part < c.part_count; ++part) {
      if (part % c.process_count != group.rank()) continue;
      TogetherRequest request{
          leaf, {0, 0}, checkpoint.leaves()[leaf].shape, {}};
      if (c.wants != "all") {
        const size_t axis = c.wants == "columns";
        request.shape[axis] /= c.part_count;
        request.origin[axis] = part * request.shape[axis];
      }
      requests.push_back(std::move(request));
    }
  }
  return requests;
}

Measure RunOnce(const std::string& root, const Case& c) {
  const auto ends = OnProcesses(
      c.process_count, 600, [&](ProcessGroup& group) -> std::string {
        (void)group.Agree({"start", ""}, Status());
        const auto start = std::chrono::steady_clock::now();
        const auto opened = Open(root + "/" + c.compression);
        if (!opened.ok()) return opened.status().ToString();
        const auto requests = Wanted(c, group, **opened);
        ReadTogetherOptions options;
        if (c.is_apart) options.host = std::to_string(group.rank());
        const auto read = ReadTogether(**opened, requests, group, options);
        if (!read.ok()) return read.status().ToString();
        const std::chrono::duration<double> seconds =
            std::chrono::steady_clock::now() - start;
        std::ostringstream report;
        report << "ok " << seconds.count() << " " << read->group_stored_bytes;
        return report.str();
      });
  Measure measure;
  for (const RankEnd& end : ends) {
    std::istringstream report(end.report);
    std::string ok;
    double seconds = 0;
    report >> ok >> seconds >> measure.stored_bytes;
    if (ok != "ok") {
      std::cerr << end.report << "\n";
      std::exit(1);
    }
    measure.seconds = std::max(measure.seconds, seconds);
    measure.cpu_seconds += end.cpu_seconds;
  }
  return measure;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The measurements of a case in all rounds.
struct Row {
  std::vector<double> seconds;
  std::vector<double> cpu_seconds;
  uint64_t stored_bytes = 0;
};

double Best(const std::vector<double>& values) {
  return *std::min_element(values.begin(), values.end());
}

void PrintLine(const Case& c, const Row& base, const Row& row) {
  std::printf("| %s | %s | %d |", c.compression.c_str(), c.wants.c_str(),
              static_cast<int>(c.process_count));
  const auto print_pair = [](double base_value, double value) {
    std::printf(" %.3f | %.3f | %.2f |", base_value, value, value / base_value);
  };
  print_pair(Median(base.seconds), Median(row.seconds));
  print_pair(Best(base.seconds), Best(row.seconds));
  print_pair(Best(base.cpu_seconds), Best(row.cpu_seconds));
  constexpr double kMiB = 1 << 20;
  std::printf(" %.1f | %.1f |\n", static_cast<double>(base.stored_bytes) / kMiB,
              static_cast<double>(row.stored_bytes) / kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: together DIRECTORY [MiB] [rounds]\n";
    return 2;
  }
  const std::string root = argv[1];
  const int64_t mib = argc > 2 ? std::atoll(argv[2]) : 512;
  const int round_count = argc > 3 ? std::atoi(argv[3]) : 9;
  std::filesystem::create_directories(root);
  SaveAll(root, mib);
  // Each case follows the case that it is compared with.
  std::vector<Case> cases;
  for (const char* compression : {"none", "planes", "zstd", "fast"}) {
    for (const int64_t count : {2, 4}) {
      for (const char* wants : {"rows", "columns"}) {
        cases.push_back({compression, wants, count, 1, false});
        cases.push_back({compression, wants, count, count, false});
      }
      cases.push_back({compression, "all", count, count, true});
      cases.push_back({compression, "all", count, count, false});
    }
  }
  std::vector<Row> rows(cases.size());
  // Shuffled, because the cases before a case affect how warm its memory is.
  std::vector<size_t> order(cases.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round < round_count; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const Measure measure = RunOnce(root, cases[i]);
      rows[i].seconds.push_back(measure.seconds);
      rows[i].cpu_seconds.push_back(measure.cpu_seconds);
      rows[i].stored_bytes = measure.stored_bytes;
    }
  }
  std::printf("%d MiB, %d rounds\n\n", static_cast<int>(mib), round_count);
  std::printf(
      "| compression | wants | processes | base s, median | s | ratio | base "
      "s, "
      "best | s | ratio | base CPU s, best | CPU s | ratio | base MiB read | "
      "MiB "
      "read |\n|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|\n");
  for (size_t i = 1; i < cases.size(); i += 2) {
    PrintLine(cases[i], rows[i - 1], rows[i]);
  }
  return 0;
}
