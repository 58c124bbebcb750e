// Processes that die during a save. A child overwrites a checkpoint and ends
// just before its k-th change to the file system. For every k, the destination
// must then hold the complete old or new tree, and the next save must clean up.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/test_trees.h"
#include "crash/crash_device.h"
#include "crash/libc_calls.h"
#include "crash/model_times.h"
#include "crash/recorder.h"
#include "holdfast/tools/view.h"
#include "tools/powerloss/disk_mirror.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;

constexpr int kCrashExit = 137;
constexpr int kFailedExit = 1;

// Counts the changes, and ends the process at a chosen one.
class Crasher : public CallHook {
 public:
  // Ends the process at the change `last_change`; 0 means never. With
  // `tears_writes`, the first half of a write at that point is still made.
  Crasher(long last_change, bool tears_writes)
      : last_change_(last_change), tears_writes_(tears_writes) {}

  long Run(const FileCall& call, const std::function<long()>& make) override {
    if (!IsChange(call.kind)) return make();
    if (count_.fetch_add(1) + 1 != last_change_) return make();
    if (tears_writes_ && call.kind == FileCallKind::kWrite) {
      WriteFirstBytes(call, TotalBytes(call.pieces) / 2);
    }
    ::_exit(kCrashExit);
  }
  long count() const { return count_; }

 private:
  const long last_change_;
  const bool tears_writes_;
  std::atomic<long> count_{0};
};

struct Layout {
  const char* name;
  bool use_ocdbt;
  bool sync;
  bool in_pieces = false;  // PendingSave with two items and loose files
  bool in_views = false;   // views of other checkpoints, by each kind of link
  Renames renames = Renames::kAll;
  bool from_device = false;
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
  SaveOptions Options() const {
    SaveOptions options;
    options.run.threads = 1;
    options.use_ocdbt = GetParam().use_ocdbt;
    options.sync = GetParam().sync;
    options.overwrite = true;
    return options;
  }

  static LoadOptions OneThread() {
    LoadOptions options;
    options.run.threads = 1;
    return options;
  }

  Status SaveTree(const Tree& tree) const {
    const ScopedRenames renames(GetParam().renames);
    if (GetParam().in_views) return SaveView(tree);
    if (GetParam().from_device) return SaveFromDevice(tree);
    return GetParam().in_pieces ? SaveInPieces(tree)
                                : Save(path_, tree, Options()).status();
  }

  Status SaveFromDevice(const Tree& tree) const {
    CrashDevice device;
    const auto held = device.Hold(tree);
    return held.ok() ? Save(path_, *held, Options()).status() : held.status();
  }

  // Makes a view of one of the sources, which hold both trees.
  Status SaveView(const Tree& tree) const {
    const bool is_old = tree == old_;
    ViewOptions options;
    options.run.threads = 1;
    options.sync = GetParam().sync;
    options.overwrite = true;
    options.link = is_old ? LinkKind::kSymbolic : LinkKind::kCopy;
    options.checksums = !is_old;
    return View(SourceOf(is_old), path_, options).status();
  }

  std::string SourceOf(bool is_old) const {
    return sources_.path() + (is_old ? "/old" : "/new");
  }

  void SetUp() override {
    if (!GetParam().in_views) return;
    SaveOptions options;
    options.compression = Compression::kNone;
    ASSERT_TRUE(Save(SourceOf(true), old_, options).ok());
    ASSERT_TRUE(Save(SourceOf(false), new_, options).ok());
    SetModelTimes(sources_.path());
    source_files_ = ReadFiles(sources_.path());
  }

  // Checks that views have left their sources unchanged.
  void TearDown() override {
    const Files files = ReadFiles(sources_.path());
    ASSERT_EQ(files.size(), source_files_.size());
    for (const auto& [path, bytes] : source_files_) {
      EXPECT_TRUE(bytes == nullptr || *files.at(path) == *bytes) << path;
    }
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

  // Returns the tree that Load returns after `tree` was saved.
  Tree Whole(const Tree& tree) const {
    if (!GetParam().in_pieces) return tree;
    return Tree::Dict(
        {{"notes", Tree("[1, 2]")}, {"other/extra", extra_}, {"state", tree}});
  }

  // Saves in a child that dies at change `k`; 0 means never. Returns the exit
  // status of the child.
  int SaveInChild(const Tree& tree, long k) {
    const pid_t child = ::fork();
    if (child == 0) {
      Crasher crasher(k, tears_writes_);
      const ScopedCallHook hook(&crasher);
      ::_exit(SaveTree(tree).ok() ? 0 : kFailedExit);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  // Returns "old", "new", or what is wrong with the destination.
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

  // Crashes the save at change 1, 2, ..., until it survives. From some change
  // on, the destination must hold the new tree. Returns the number of crashes.
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

  bool tears_writes_ = false;
  const MemoryDirectory scratch_;
  const MemoryDirectory sources_;
  Files source_files_;
  const std::string path_ = scratch_.path() + "/checkpoint";
  const Tree old_ = MakeTree(1);
  const Tree new_ = MakeTree(10);
  const Tree extra_ = Tree::List({Tree(RandomArray(DType::kInt16, {9}, 5))});
};

TEST_P(Crash, TheCallsAreCounted) {
  Crasher crasher(0, false);
  const ScopedCallHook hook(&crasher);
  ASSERT_TRUE(SaveTree(old_).ok());
  EXPECT_GT(crasher.count(), GetParam().sync ? 30 : 20);
}

TEST_P(Crash, OldOrNewAfterEveryCall) {
  const long crash_count = CrashEverywhere();
  std::printf("%s: %ld crashes\n", GetParam().name, crash_count);
  EXPECT_GT(crash_count, 20);
}

TEST_P(Crash, OldOrNewAfterEveryTornWrite) {
  tears_writes_ = true;
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
    testing::Values(
        Layout{"OcdbtSynced", true, true}, Layout{"OcdbtUnsynced", true, false},
        Layout{"DirectoriesSynced", false, true},
        Layout{"Pieces", true, true, true},
        Layout{"Views", true, true, false, true},
        Layout{"PlainRenames", true, true, false, false, Renames::kPlain},
        Layout{"ViewsByPlainRenames", true, true, false, true, Renames::kPlain},
        Layout{.name = "FromDevice",
               .use_ocdbt = true,
               .sync = true,
               .from_device = true}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace holdfast
