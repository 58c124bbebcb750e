// Saves that die. A child overwrites a checkpoint and ends just before its
// k-th change to the file system; for every k the destination must then hold
// the old tree or the new one, whole, and the next save must clean up.
//
// The changing calls of libc are defined here: those in a program come before
// those of a shared library. They count, and then make the system call.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/test_trees.h"
#include "storage/scratch_directory.h"

namespace {

constexpr int kCrashExit = 137;
constexpr int kFailedExit = 1;

// Changes left before the process ends; 0: it never does.
std::atomic<long> changes_left{0};
std::atomic<long> change_count{0};

// What the crash leaves of a write that it meets.
std::atomic<bool> tears_writes{false};

bool IsLastChange() {
  change_count.fetch_add(1);
  return changes_left.load() > 0 && changes_left.fetch_sub(1) == 1;
}

void CountChange() {
  if (IsLastChange()) ::_exit(kCrashExit);
}

// Half of the first piece, as when the system stops in the middle.
void CountWrite(int fd, const iovec* pieces, int piece_count, off_t offset) {
  if (!IsLastChange()) return;
  if (tears_writes && piece_count > 0) {
    ::syscall(SYS_pwrite64, fd, pieces[0].iov_base, pieces[0].iov_len / 2,
              offset);
  }
  ::_exit(kCrashExit);
}

}  // namespace

extern "C" {

ssize_t pwritev(int fd, const iovec* pieces, int piece_count, off_t offset) {
  CountWrite(fd, pieces, piece_count, offset);
  return ::syscall(SYS_pwritev, fd, pieces, piece_count, offset, off_t{0});
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  const iovec piece{const_cast<void*>(data), size};
  CountWrite(fd, &piece, 1, offset);
  return ::syscall(SYS_pwrite64, fd, data, size, offset);
}

int openat(int directory, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) ? va_arg(list, mode_t) : 0;
  va_end(list);
  if (flags & O_CREAT) CountChange();
  return static_cast<int>(::syscall(SYS_openat, directory, path, flags, mode));
}

int mkdir(const char* path, mode_t mode) noexcept {
  CountChange();
  return static_cast<int>(::syscall(SYS_mkdirat, AT_FDCWD, path, mode));
}

int mkdirat(int directory, const char* path, mode_t mode) noexcept {
  CountChange();
  return static_cast<int>(::syscall(SYS_mkdirat, directory, path, mode));
}

int renameat2(int from_directory, const char* from, int to_directory,
              const char* to, unsigned flags) noexcept {
  CountChange();
  return static_cast<int>(
      ::syscall(SYS_renameat2, from_directory, from, to_directory, to, flags));
}

int rename(const char* from, const char* to) noexcept {
  CountChange();
  return static_cast<int>(
      ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0));
}

int linkat(int from_directory, const char* from, int to_directory,
           const char* to, int flags) noexcept {
  CountChange();
  return static_cast<int>(
      ::syscall(SYS_linkat, from_directory, from, to_directory, to, flags));
}

int unlinkat(int directory, const char* path, int flags) noexcept {
  CountChange();
  return static_cast<int>(::syscall(SYS_unlinkat, directory, path, flags));
}

int rmdir(const char* path) noexcept {
  CountChange();
  return static_cast<int>(
      ::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR));
}

int fsync(int fd) {
  CountChange();
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

int fdatasync(int fd) {
  CountChange();
  return static_cast<int>(::syscall(SYS_fdatasync, fd));
}

}  // extern "C"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

struct Layout {
  const char* name;
  bool use_ocdbt;
  bool sync;
  bool in_pieces = false;  // PendingSave with two items and loose files
};

Tree MakeTree(uint32_t seed) {
  return Tree::Dict({
      {"bias", Tree::JaxArray(RandomArray(DType::kBfloat16, {5}, seed))},
      {"loose", Tree(RandomArray(DType::kUint8, {1500}, seed + 1))},
      {"step", Tree(static_cast<int>(seed))},
      {"text", Tree("hello")},
  });
}

class Crash : public testing::TestWithParam<Layout> {
 protected:
  void TearDown() override {
    changes_left = 0;
    tears_writes = false;
  }

  SaveOptions Options() const {
    SaveOptions options;
    options.run.thread_count = 1;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.sync = GetParam().sync;
    options.overwrite = true;
    return options;
  }

  static LoadOptions OneThread() {
    LoadOptions options;
    options.run.thread_count = 1;
    return options;
  }

  Status SaveTree(const Tree& tree) const {
    return GetParam().in_pieces ? SaveInPieces(tree)
                                : Save(path_, tree, Options()).status();
  }

  Status SaveInPieces(const Tree& tree) const {
    auto pending = PendingSave::Begin(path_, {.overwrite = true});
    if (!pending.ok()) return pending.status();
    PendingSave& save = **pending;
    Status status = save.SaveItem("state", tree, Options()).status();
    SaveOptions directories = Options();
    directories.use_ocdbt = false;
    if (status.ok()) {
      status = save.SaveItem("other/extra", extra_, directories).status();
    }
    if (status.ok()) status = save.WriteFile("notes/metadata", "[1, 2]");
    if (!status.ok()) return status;
    std::ofstream(save.directory() + "/state/mine.txt") << "by the caller";
    return save.Commit({});
  }

  // What Load gives for it.
  Tree Whole(const Tree& tree) const {
    if (!GetParam().in_pieces) return tree;
    return Tree::Dict(
        {{"notes", Tree("[1, 2]")}, {"other/extra", extra_}, {"state", tree}});
  }

  // Saves in a child that dies at change `k`; 0: it lives. Its exit status.
  int SaveInChild(const Tree& tree, long k) {
    const pid_t child = ::fork();
    if (child == 0) {
      changes_left = k;
      ::_exit(SaveTree(tree).ok() ? 0 : kFailedExit);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // "old", "new", or what is wrong with the destination.
  std::string Found() {
    const auto loaded = Load(path_, OneThread());
    if (!loaded.ok()) return loaded.status().ToString();
    const auto report = Verify(path_, {}, OneThread().run);
    if (!report.ok() || !report->damages.empty()) return "damaged";
    if (loaded->tree == Whole(old_)) return "old";
    return loaded->tree == Whole(new_) ? "new" : "another tree";
  }

  void ExpectNothingElse(long k) {
    for (const auto& entry : fs::directory_iterator(scratch_.path())) {
      EXPECT_EQ(entry.path(), path_) << "left behind after a crash at " << k;
    }
  }

  // Every k until the save lives through; the old tree must be replaced once
  // and for all at one of them. Returns how many crashes there were.
  long CrashEverywhere() {
    long k = 1;
    bool was_new = false;
    for (;; ++k) {
      EXPECT_TRUE(SaveTree(old_).ok());
      ExpectNothingElse(k);
      const int exit_status = SaveInChild(new_, k);
      const std::string found = Found();
      if (exit_status != kCrashExit) {
        EXPECT_EQ(exit_status, 0);
        EXPECT_EQ(found, "new");
        break;
      }
      EXPECT_TRUE(found == "old" || found == "new")
          << "a crash at change " << k << " leaves: " << found;
      EXPECT_TRUE(!was_new || found == "new") << "back to old at " << k;
      was_new = found == "new";
      if (testing::Test::HasFailure() || k > 1000) break;
    }
    EXPECT_TRUE(was_new) << "no crash came after the commit";
    ExpectNothingElse(k);
    return k - 1;
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "checkpoint";
  const Tree old_ = MakeTree(1);
  const Tree new_ = MakeTree(10);
  const Tree extra_ = Tree::List({Tree(RandomArray(DType::kInt16, {9}, 5))});
};

TEST_P(Crash, TheCallsAreCounted) {
  const long before = change_count;
  ASSERT_TRUE(SaveTree(old_).ok());
  EXPECT_GT(change_count - before, GetParam().sync ? 30 : 20);
}

TEST_P(Crash, OldOrNewAfterEveryCall) {
  const long crash_count = CrashEverywhere();
  std::printf("%s: %ld crashes\n", GetParam().name, crash_count);
  EXPECT_GT(crash_count, 20);
}

TEST_P(Crash, OldOrNewAfterEveryTornWrite) {
  tears_writes = true;
  EXPECT_GT(CrashEverywhere(), 20);
}

TEST_P(Crash, FirstSaveIsThereOrNot) {
  bool was_there = false;
  for (long k = 1; k < 1000; ++k) {
    fs::remove_all(path_);
    const int exit_status = SaveInChild(new_, k);
    const auto loaded = Load(path_, OneThread());
    if (loaded.ok()) {
      EXPECT_TRUE(loaded->tree == Whole(new_));
    } else {
      EXPECT_EQ(loaded.status().code(), StatusCode::kNotFound);
      EXPECT_FALSE(fs::exists(path_));
    }
    EXPECT_TRUE(!was_there || loaded.ok());
    was_there = loaded.ok();
    if (exit_status != kCrashExit) break;
  }
  EXPECT_TRUE(was_there);
  ExpectNothingElse(0);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Crash,
    testing::Values(Layout{"OcdbtSynced", true, true},
                    Layout{"OcdbtUnsynced", true, false},
                    Layout{"DirectoriesSynced", false, true},
                    Layout{"Pieces", true, true, true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace holdfast
