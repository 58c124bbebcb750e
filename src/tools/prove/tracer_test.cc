#include "tools/prove/tracer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "tools/powerloss/disk_mirror.h"
#include "twins/scratch_directory.h"

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

namespace fs = std::filesystem;

int MustOpen(const char* name, int flags) {
  const int fd = ::open(name, flags, 0666);
  if (fd < 0) std::abort();
  return fd;
}

void Must(bool is_done) {
  if (!is_done) std::abort();
}

void WriteAll(int fd, const std::string& text) {
  Must(::write(fd, text.data(), text.size()) ==
       static_cast<ssize_t>(text.size()));
}

// Functions that a traced process runs. Its current directory is the root.
void ActWrites() {
  const int fd = MustOpen("a", O_CREAT | O_RDWR);
  iovec pieces[] = {{const_cast<char*>("12"), 2},
                    {const_cast<char*>("345"), 3}};
  Must(::writev(fd, pieces, 2) == 5);
  Must(::pwrite(fd, "XY", 2, 1) == 2);
  Must(::pwritev(fd, pieces, 2, 7) == 5);
  Must(::pwritev2(fd, pieces, 1, -1, 0) == 2);
  Must(::ftruncate(fd, 10) == 0);
  const int end = MustOpen("a", O_WRONLY | O_APPEND);
  WriteAll(end, "!");
  Must(::pwrite(end, "?", 1, 3) == 1);  // Linux appends
  Must(::truncate("a", 11) == 0);
}

void ActSpace() {
  const int fd = MustOpen("a", O_CREAT | O_RDWR);
  WriteAll(fd, std::string(10000, 'x'));
  Must(::fallocate(fd, 0, 0, 12000) == 0);
  Must(::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096,
                   4096) == 0);
}

void ActCopies() {
  const int from = MustOpen("a", O_CREAT | O_RDWR);
  WriteAll(from, "content");
  const int to = MustOpen("b", O_CREAT | O_RDWR);
  off_t at = 2;
  Must(::sendfile(to, from, &at, 3) == 3);
  off64_t from_at = 0, to_at = 5;
  Must(::copy_file_range(from, &from_at, to, &to_at, 4, 0) == 4);
}

void ActNames() {
  Must(::mkdir("d", 0777) == 0 && ::mkdir("d/e", 0777) == 0);
  ::close(MustOpen("d/f", O_CREAT | O_WRONLY));
  Must(::rename("d/f", "d/g") == 0 && ::link("d/g", "h") == 0);
  Must(::symlink("d/g", "s") == 0 && ::unlink("d/g") == 0);
  Must(::renameat2(AT_FDCWD, "h", AT_FDCWD, "d", RENAME_EXCHANGE) == 0);
  Must(::rmdir("h/e") == 0);
  const int fd = MustOpen(".", O_TMPFILE | O_RDWR);
  WriteAll(fd, "t");
  const std::string own = "/proc/self/fd/" + std::to_string(fd);
  Must(::linkat(AT_FDCWD, own.c_str(), AT_FDCWD, "t", AT_SYMLINK_FOLLOW) == 0);
}

void ActMemory() {
  const int fd = MustOpen("a", O_CREAT | O_RDWR);
  Must(::ftruncate(fd, 9000) == 0);
  auto* const bytes = static_cast<char*>(
      ::mmap(nullptr, 9000, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
  Must(bytes != MAP_FAILED);
  bytes[5000] = 'x';
  Must(::msync(bytes, 9000, MS_SYNC) == 0);
  bytes[1] = 'y';
  Must(::rmdir(".holdfast-crash-mark m") != 0);
}

void ActSyncs() {
  const int fd = MustOpen("a", O_CREAT | O_RDWR);
  Must(::fsync(fd) == 0 && ::fdatasync(fd) == 0);
  Must(::sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE) == 0);
  Must(::syncfs(fd) == 0);
  ::sync();
  const int directory = MustOpen(".", O_RDONLY | O_DIRECTORY);
  Must(::fsync(directory) == 0);
  const int synced = MustOpen("b", O_CREAT | O_WRONLY | O_DSYNC);
  WriteAll(synced, "b");
}

void ActThreads() {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      const std::string name = "t" + std::to_string(i);
      for (int k = 0; k < 20; ++k) {
        const int fd = MustOpen("all", O_CREAT | O_WRONLY | O_APPEND);
        WriteAll(fd, name);
        ::close(fd);
      }
      ::close(MustOpen(name.c_str(), O_CREAT | O_WRONLY));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void ActStdio() {
  std::FILE* file = std::fopen("a", "w");
  std::fputs("text", file);
  std::fclose(file);
}

const std::map<std::string, void (*)()> kActs = {
    {"writes", ActWrites},   {"space", ActSpace},   {"copies", ActCopies},
    {"names", ActNames},     {"memory", ActMemory}, {"syncs", ActSyncs},
    {"threads", ActThreads}, {"stdio", ActStdio}};

TEST(Tracee, DISABLED_Acts) { kActs.at(std::getenv("TRACEE_ACT"))(); }

class TracerTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto run = TraceCommand({"true"}, root());
    if (run.status().code() == StatusCode::kUnimplemented) {
      GTEST_SKIP() << run.status().ToString();
    }
  }
  const std::string& root() const { return root_.path(); }

  TracedRun Trace(std::vector<std::string> command) {
    auto run = TraceCommand(command, root());
    EXPECT_TRUE(run.ok()) << run.status().ToString();
    if (!run.ok()) return {};
    EXPECT_EQ(run->gap, "");
    EXPECT_EQ(run->exit_code, 0);
    return *std::move(run);
  }
  TracedRun Shell(const std::string& text) {
    return Trace({"sh", "-ec", "cd \"$HOLDFAST_PROVE_ROOT\"; " + text});
  }
  TracedRun Act(const std::string& name) {
    const std::string self = fs::read_symlink("/proc/self/exe");
    // LeakSanitizer does not work in a traced program.
    return Shell("ASAN_OPTIONS=detect_leaks=0 TRACEE_ACT=" + name + " '" +
                 self +
                 "' --gtest_filter=Tracee.* --gtest_also_run_disabled_tests "
                 "--gtest_brief=1");
  }

  const ScratchDirectory root_;
};

// Returns the changes as "create a, write a 0+2, sync a". '.' is the root, '*'
// means all files.
std::string TextOf(const TracedRun& run) {
  constexpr const char* kNames[] = {"create", "mkdir",  "write",
                                    "resize", "rename", "exchange",
                                    "link",   "remove", "sync"};
  std::map<NodeId, std::string> names = {{kRootNode, "."}, {kNoNode, "*"}};
  std::string text;
  for (const DiskChange& change : run.record.changes) {
    if (change.kind == Kind::kCreate || change.kind == Kind::kMakeDirectory) {
      names[change.node] = change.name;
    }
    if (!text.empty()) text += ", ";
    text += kNames[static_cast<size_t>(change.kind)];
    const auto name = names.find(change.node);
    text += ' ' + (name == names.end() ? "?" : name->second);
    if (change.kind == Kind::kWrite) {
      text += ' ' + std::to_string(change.offset) + '+' +
              std::to_string(change.data.size());
    }
    if (change.kind == Kind::kResize) {
      text += ' ' + std::to_string(change.offset);
    }
    if (!change.to_name.empty()) text += ' ' + change.to_name;
  }
  return text;
}

TEST_F(TracerTest, AShellAndItsChildren) {
  const TracedRun run = Shell("echo x > a; (echo yy >> a; mv a b); sync");
  EXPECT_EQ(TextOf(run),
            "create a, write a 0+2, write a 2+3, rename a b, sync *");
}

TEST_F(TracerTest, WhatWasThereIsTheStart) {
  WriteTestFile(root_ / "old", "1");
  const TracedRun run = Shell("echo x > old");
  EXPECT_EQ(run.record.start.List().size(), 1u);
  EXPECT_EQ(run.record.changes.size(), 2u);
  EXPECT_EQ(run.record.changes[0].kind, Kind::kResize);
}

TEST_F(TracerTest, Writes) {
  EXPECT_EQ(TextOf(Act("writes")),
            "create a, write a 0+5, write a 1+2, write a 7+5, write a 5+2, "
            "resize a 10, write a 10+1, write a 11+1, resize a 11");
}

TEST_F(TracerTest, Space) {
  EXPECT_EQ(TextOf(Act("space")),
            "create a, write a 0+10000, resize a 12000, write a 4096+4096");
}

TEST_F(TracerTest, Copies) {
  EXPECT_EQ(TextOf(Act("copies")),
            "create a, write a 0+7, create b, write b 0+3, write b 5+4");
}

TEST_F(TracerTest, Names) {
  EXPECT_EQ(TextOf(Act("names")),
            "mkdir d, mkdir e, create f, rename f g, link f h, create s, "
            "remove f, exchange f d, remove e, write ? 0+1, link ? t");
}

TEST_F(TracerTest, MemoryIsWrittenPageByPage) {
  const TracedRun run = Act("memory");
  EXPECT_EQ(TextOf(run),
            "create a, resize a 9000, write a 4096+4096, sync a, "
            "write a 0+4096");
  ASSERT_EQ(run.marks.size(), 1u);
  EXPECT_EQ(run.marks[0].change_count, 5u);
}

TEST_F(TracerTest, Syncs) {
  EXPECT_EQ(TextOf(Act("syncs")),
            "create a, sync a, sync a, sync *, sync *, sync ., create b, "
            "write b 0+1, sync b");
}

TEST_F(TracerTest, ThreadsOneAfterTheOther) {
  const TracedRun run = Act("threads");
  EXPECT_EQ(run.record.changes.size(), 8u + 1 + 8 * 20);
}

TEST_F(TracerTest, StdioInsideLibc) {
  EXPECT_EQ(TextOf(Act("stdio")), "create a, write a 0+4");
}

TEST_F(TracerTest, FilesFromOutsideAreNotSafe) {
  const ScratchDirectory other;
  const TracedRun run =
      Shell("echo x > '" + other.path() + "/a'; mv '" + other.path() + "/a' b");
  EXPECT_EQ(TextOf(run), "create b, write b 0+2");
}

TEST_F(TracerTest, Marks) {
  const TracedRun run = Shell(
      "echo x > a; rmdir '.holdfast-crash-mark saved 1' || true; "
      "echo x > b");
  ASSERT_EQ(run.marks.size(), 1u);
  EXPECT_EQ(run.marks[0].text, "saved 1");
  EXPECT_EQ(run.marks[0].change_count, 2u);
}

TEST_F(TracerTest, WhatNobodyExplainsIsAGap) {
  // This process is not traced, so its writes cannot be explained.
  const auto run = TraceCommand(
      {"sh", "-c", "cd \"$HOLDFAST_PROVE_ROOT\"; echo x > a"}, root());
  ASSERT_TRUE(run.ok());
  EXPECT_EQ(run->gap, "");
  const ScratchDirectory other;
  std::thread stranger;
  ASSERT_EQ(::mkfifo((other / "go").c_str(), 0666), 0);
  stranger = std::thread([&] {
    const int fd = ::open((other / "go").c_str(), O_WRONLY);
    WriteTestFile(root_ / "b", "from elsewhere");
    ::close(fd);
  });
  const auto met = TraceCommand({"cat", other / "go"}, root());
  stranger.join();
  ASSERT_TRUE(met.ok());
  EXPECT_EQ(met->gap, "no recorded call explains what is in b");
}

TEST_F(TracerTest, TellsHowTheCommandEnded) {
  EXPECT_EQ(TraceCommand({"sh", "-c", "exit 7"}, root())->exit_code, 7);
  EXPECT_EQ(TraceCommand({"sh", "-c", "kill -9 $$"}, root())->exit_code, 137);
  EXPECT_EQ(TraceCommand({"/no/such"}, root()).status().code(),
            StatusCode::kNotFound);
}

}  // namespace
}  // namespace holdfast
