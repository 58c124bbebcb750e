// Runs the real binary as a process: exit codes and streams.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "twins/scratch_directory.h"

namespace {

using holdfast::ScratchDirectory;

struct Ran {
  int code = -1;
  std::string out;
};

Ran RunShell(const std::string& command) {
  Ran ran;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return ran;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof(buffer), pipe)) {
    ran.out.append(buffer, count);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) ran.code = WEXITSTATUS(status);
  return ran;
}

Ran RunBinary(const std::string& arguments) {
  return RunShell(std::string(HOLDFAST_BINARY) + " " + arguments);
}

TEST(Binary, KeepsItsExitCodes) {
  const Ran version = RunBinary("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_EQ(version.out.substr(0, 9), "holdfast ");
  EXPECT_EQ(RunBinary("2>/dev/null").code, 2);
  EXPECT_EQ(RunBinary("frobnicate 2>/dev/null").code, 2);
  EXPECT_EQ(RunBinary("ls /nonexistent/checkpoint 2>/dev/null").code, 3);
  EXPECT_EQ(RunBinary("help >/dev/full 2>/dev/null").code, 3);
}

TEST(Binary, SpeaksOfFailuresOnStandardErrorAlone) {
  const Ran quiet = RunBinary("ls /nonexistent/checkpoint 2>/dev/null");
  EXPECT_EQ(quiet.out, "");
  const Ran loud = RunBinary("ls /nonexistent/checkpoint 2>&1");
  EXPECT_EQ(loud.out.substr(0, 10), "holdfast: ");
}

std::string ForeignFile(const std::string& name) {
  return std::string(HOLDFAST_SOURCE_DIR) + "/tests/golden/foreign/" + name;
}

TEST(Binary, ReadsFormatsOfOthers) {
  const Ran leaf =
      RunBinary("cat --json " + ForeignFile("torch.safetensors") + " scalar");
  EXPECT_EQ(leaf.code, 0);
  EXPECT_NE(leaf.out.find("3.5"), std::string::npos) << leaf.out;
  EXPECT_NE(RunBinary("info " + ForeignFile("numpy.safetensors"))
                .out.find("format      safetensors"),
            std::string::npos);
  EXPECT_NE(RunBinary("ls " + ForeignFile("deflated.npz")).out.find("deflate"),
            std::string::npos);
  // Equal arrays, stored differently.
  EXPECT_EQ(RunBinary("digest " + ForeignFile("stored.npz")).out,
            RunBinary("digest " + ForeignFile("deflated.npz")).out);
  // The file also contains strings and dates, which are not supported.
  EXPECT_EQ(RunBinary("verify --quiet " + ForeignFile("stored.npz")).code, 3);
}

// Returns what Tab offers for the last of `words`, one completion per line.
std::string Completed(const std::string& words) {
  const ScratchDirectory scratch;
  const std::string script = scratch / "complete.bash";
  std::ofstream(script) << "PATH=$(dirname '" HOLDFAST_BINARY "'):$PATH\n"
                        << "source <(holdfast completion bash)\n"
                        << "COMP_WORDS=(holdfast " << words << ")\n"
                        << "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                        << "_holdfast\n"
                        << "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
  return RunShell("bash " + script + " 2>&1").out;
}

TEST(Binary, TabCompletesVerbsAndLeaves) {
  const std::string file = ForeignFile("torch.safetensors");
  const std::string leaves = Completed("cat " + file + " sc");
  EXPECT_EQ(leaves, "scalar\n");
  EXPECT_EQ(Completed("cat " + file + " unheard-of"), "\n");
  EXPECT_EQ(Completed("conv"), "convert\n");
  // Completion makes no network requests.
  EXPECT_EQ(Completed("ls s3://bucket/run par"), "\n");
}

TEST(Binary, ListingsTellOfABrokenArrayOfMegatron) {
  const ScratchDirectory scratch;
  const std::string golden = HOLDFAST_SOURCE_DIR "/tests/golden/megatron/";
  ASSERT_EQ(std::system(("tar -xJf " + golden + "open.tar.xz -C " +
                         scratch.path() + " open/pair_zarr_w2")
                            .c_str()),
            0);
  const std::string ckpt = scratch / "open/pair_zarr_w2/ckpt";
  const std::string key = "embedding.word_embeddings.weight";
  std::ofstream(ckpt + "/" + key + "/.zarray") << "{";
  for (const std::string verb : {"ls ", "ls --json ", "info ", "tree "}) {
    const Ran ran = RunBinary(verb + ckpt + " 2>&1");
    EXPECT_EQ(ran.code, 1) << verb;
    const bool is_json = verb.find("--json") != std::string::npos;
    const std::string begin = is_json ? "{\"error\": \"" : "holdfast: ";
    EXPECT_NE(ran.out.find(begin + "Array " + ckpt + "/" + key),
              std::string::npos)
        << ran.out;
  }
}

}  // namespace
