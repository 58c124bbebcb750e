// together: do several processes of this machine load a checkpoint as fast as
// one that loads as many bytes?
//
//   ninja -C build together && build/bench/together /tmp/together [MiB]
//   [rounds]
//
// One process reads every array whole (the base). Then 2 and 4 processes read
// the same bytes between them (`rows`: each an equal share of the rows of every
// array; `leaves`: every n-th array; `columns`: each a share of the columns, so
// that every chunk is wanted by all), or each of them all of it (`all`). Each
// round runs every case once, in another order, in processes of their own, from
// opening the checkpoint to the moment when the last rank has its arrays.
// Prints medians of the rounds of the wall clock and of the processor time of
// all processes, both with their ratio to the base, and what was read of the
// store.

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

#include "distributed/local_ranks.h"
#include "holdfast/holdfast.h"

namespace {

using namespace holdfast;  // NOLINT: a program of its own

constexpr int64_t kLeafCount = 16;
constexpr int64_t kColumnCount = 2048;

struct Case {
  std::string compression;
  std::string wants;
  int64_t process_count = 1;
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
  // As weights: about normal.
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
  const int64_t rank = group.rank(), size = group.size();
  for (size_t leaf = 0; leaf < checkpoint.leaves().size(); ++leaf) {
    TogetherRequest request{leaf, {0, 0}, checkpoint.leaves()[leaf].shape, {}};
    const bool is_mine = static_cast<int64_t>(leaf) % size == rank;
    if (c.wants == "leaves" && !is_mine) continue;
    if (c.wants == "rows" || c.wants == "columns") {
      const size_t axis = c.wants == "columns";
      request.shape[axis] /= size;
      request.origin[axis] = rank * request.shape[axis];
    }
    requests.push_back(std::move(request));
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
        const auto read = ReadTogether(**opened, requests, group);
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
  std::vector<Case> cases;
  for (const char* compression : {"none", "zstd", "fast"}) {
    cases.push_back({compression, "rows", 1});
    for (const char* wants : {"rows", "leaves", "columns", "all"}) {
      for (const int64_t count : {2, 4}) {
        cases.push_back({compression, wants, count});
      }
    }
  }
  std::vector<std::vector<double>> seconds(cases.size());
  std::vector<std::vector<double>> cpu_seconds(cases.size());
  std::vector<uint64_t> stored_bytes(cases.size());
  // What ran before decides how warm the memory is that a case is given.
  std::vector<size_t> order(cases.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::mt19937 random(1);
  for (int round = 0; round < round_count; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    for (const size_t i : order) {
      const Measure measure = RunOnce(root, cases[i]);
      seconds[i].push_back(measure.seconds);
      cpu_seconds[i].push_back(measure.cpu_seconds);
      stored_bytes[i] = measure.stored_bytes;
    }
  }
  std::cout
      << mib << " MiB, " << round_count << " rounds, medians\n\n"
      << "| compression | wants | processes | s | of one process | CPU s | "
         "of one process | MiB read |\n"
      << "|---|---|--:|--:|--:|--:|--:|--:|\n";
  double base = 0, cpu_base = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    const double median = Median(seconds[i]);
    const double cpu_median = Median(cpu_seconds[i]);
    if (c.process_count == 1) base = median;
    if (c.process_count == 1) cpu_base = cpu_median;
    char line[200];
    std::snprintf(line, sizeof line,
                  "| %s | %s | %d | %.3f | %.2f | %.3f | %.2f | %.1f |",
                  c.compression.c_str(),
                  c.process_count == 1 ? "everything" : c.wants.c_str(),
                  static_cast<int>(c.process_count), median, median / base,
                  cpu_median, cpu_median / cpu_base,
                  static_cast<double>(stored_bytes[i]) / (1 << 20));
    std::cout << line << "\n";
  }
  return 0;
}
