// peak_memory: checks that saving and loading a tree four times the byte budget
// stays within values + budget + 64 MiB.
//
//   ninja -C build peak_memory && build/bench/peak_memory /tmp/peak [MiB]
//
// Saves and loads one array of 4 x the budget (default 64 MiB), mostly as one
// chunk, in every layout, cast and not cast, each in a separate process, and
// prints the resident peak (VmHWM) beyond what the program held before. Exits
// with 1 if a peak is above its bound.

#include <holdfast/holdfast.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <random>
#include <string>

namespace {

using holdfast::Array;
using holdfast::Compression;
using holdfast::DType;
using holdfast::Tree;

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kSlackBytes = 64 * kMiB;

int64_t PeakBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:") status >> kib;
  }
  return kib * 1024;
}

struct Case {
  std::string name;
  int zarr_format = 2;
  bool use_ocdbt = true;
  Compression compression = Compression::kZstd;
  bool is_cast = false;
  uint64_t chunk_bytes = 0;  // 0: one chunk
};

Array MakeValues(int64_t byte_count) {
  Array array = *Array::Allocate(DType::kFloat32, {byte_count / 4096, 1024});
  auto* values = reinterpret_cast<uint32_t*>(array.mutable_view().data);
  std::minstd_rand random(1);
  // Sign and exponent repeat and the rest does not, so zstd saves a little.
  for (int64_t i = 0; i < byte_count / 4; ++i) {
    values[i] = 0x3c000000 | (random() & 0x00ff00ff);
  }
  return array;
}

// Runs `fn` in a child; prints its peak beyond `value_bytes`, and returns
// whether it is within the bound.
bool Measure(const std::string& name, int64_t value_bytes, int64_t budget_bytes,
             const std::function<bool()>& fn) {
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    const int64_t before = PeakBytes();
    if (!fn()) _exit(2);
    const int64_t extra = PeakBytes() - before - value_bytes;
    const bool holds = extra <= budget_bytes + kSlackBytes;
    std::cout << name << ": " << extra / kMiB << " MiB beyond the values, "
              << (holds ? "within" : "ABOVE") << " the bound of "
              << (budget_bytes + kSlackBytes) / kMiB << std::endl;
    _exit(holds ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool Report(const holdfast::Status& status) {
  if (!status.ok()) std::cerr << status.ToString() << '\n';
  return status.ok();
}

bool Save(const std::string& path, int64_t value_bytes, int64_t budget_bytes,
          const Case& c) {
  holdfast::SaveOptions options;
  options.overwrite = true;
  options.zarr_format = c.zarr_format;
  options.use_ocdbt = c.use_ocdbt;
  options.compression = c.compression;
  options.chunk_bytes = c.chunk_bytes;
  options.run.memory_bytes = budget_bytes;
  if (c.is_cast) options.save_args["w"].dtype = DType::kFloat64;
  const Tree tree = Tree::Dict({{"w", Tree(MakeValues(value_bytes))}});
  return Report(holdfast::Save(path, tree, options).status());
}

bool Load(const std::string& path, int64_t value_bytes, int64_t budget_bytes,
          const Case& c) {
  holdfast::RunOptions run;
  run.memory_bytes = budget_bytes;
  if (!c.is_cast) {
    holdfast::LoadOptions options;
    options.run = run;
    return Report(holdfast::Load(path, options).status());
  }
  const auto checkpoint = holdfast::Open(path);
  if (!Report(checkpoint.status())) return false;
  Array array = *Array::Allocate(DType::kFloat32, {value_bytes / 4096, 1024});
  const holdfast::ReadRequest request{0, {0, 0}, array.mutable_view()};
  return Report((*checkpoint)->ReadInto({request}, run).status());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: peak_memory DIRECTORY [BUDGET_MIB]\n";
    return 2;
  }
  const int64_t budget_bytes = (argc > 2 ? std::atoll(argv[2]) : 64) * kMiB;
  const int64_t value_bytes = 4 * budget_bytes;
  const std::vector<Case> cases = {
      {"zarr 2, ocdbt, zstd"},
      {"zarr 2, ocdbt, zstd, cast", 2, true, Compression::kZstd, true},
      {"zarr 2, ocdbt, raw, cast", 2, true, Compression::kNone, true},
      {"zarr 3, ocdbt, zstd", 3},
      {"zarr 2, directories, zstd, cast", 2, false, Compression::kZstd, true},
      {"zarr 3, directories, raw", 3, false, Compression::kNone},
      {"zarr 2, ocdbt, zstd, cast, chunks of 8 MiB", 2, true,
       Compression::kZstd, true, 8 << 20},
      {"zarr 3, ocdbt, zstd, chunks of 40 MiB", 3, true, Compression::kZstd,
       false, 40 << 20},
  };
  std::filesystem::create_directories(argv[1]);
  const std::string path = std::string(argv[1]) + "/checkpoint";
  bool all_hold = true;
  for (const Case& c : cases) {
    all_hold &= Measure("save " + c.name, value_bytes, budget_bytes, [&] {
      return Save(path, value_bytes, budget_bytes, c);
    });
    all_hold &= Measure("load " + c.name, value_bytes, budget_bytes, [&] {
      return Load(path, value_bytes, budget_bytes, c);
    });
  }
  std::filesystem::remove_all(path);
  return all_hold ? 0 : 1;
}
