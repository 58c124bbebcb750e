// Runs a fuzz target once for each given file, or for each file in a given
// directory. Exits with 0 if no run crashed; a crash or a failed check aborts.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void RunFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string content((std::istreambuf_iterator<char>(file)), {});
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(content.data()),
                         content.size());
}

}  // namespace

int main(int argc, char** argv) {
  namespace fs = std::filesystem;
  int run_count = 0;
  for (int i = 1; i < argc; ++i) {
    if (!fs::is_directory(argv[i])) {
      RunFile(argv[i]);
      ++run_count;
      continue;
    }
    for (const auto& entry : fs::directory_iterator(argv[i])) {
      RunFile(entry.path());
      ++run_count;
    }
  }
  std::printf("%d inputs replayed\n", run_count);
  return run_count > 0 ? 0 : 1;
}
