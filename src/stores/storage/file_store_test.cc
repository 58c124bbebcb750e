#include "stores/storage/file_store.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>

#include "conformance/store_conformance.h"
#include "ground/base/status_macros.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using conformance::Contents;
using conformance::Listing;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct FileFactory {
  std::unique_ptr<Store> Make() {
    return std::make_unique<FileStore>(scratch / "new/root");
  }
  ScratchDirectory scratch;
};
INSTANTIATE_TYPED_TEST_SUITE_P(File, StoreConformance, FileFactory);

struct OldKernelFactory {
  std::unique_ptr<Store> Make() {
    return std::make_unique<FileStore>(scratch.path(),
                                       FileStoreOptions{.use_openat2 = false});
  }
  ScratchDirectory scratch;
};
INSTANTIATE_TYPED_TEST_SUITE_P(FileOldKernel, StoreConformance,
                               OldKernelFactory);

struct OneDescriptorFactory {
  std::unique_ptr<Store> Make() {
    return std::make_unique<FileStore>(scratch.path(),
                                       FileStoreOptions{.open_files_max = 1});
  }
  ScratchDirectory scratch;
};
INSTANTIATE_TYPED_TEST_SUITE_P(FileOneDescriptor, StoreConformance,
                               OneDescriptorFactory);

// Returns all files below a directory, including hidden ones.
std::set<std::string> FilesBelow(const std::string& path) {
  std::set<std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(path)) {
    if (!entry.is_directory()) {
      files.insert(fs::relative(entry.path(), path).string());
    }
  }
  return files;
}

// Records the calls, and fails the one that `fail_at` selects.
struct CallLog {
  FileCalls::Hook Hook() {
    return [this](std::string_view call, std::string_view path) {
      calls.push_back(std::string(call) + " " + std::string(path));
      const bool fails = fail_at != 0 && calls.size() == fail_at;
      return fails ? error : 0;
    };
  }
  std::vector<std::string> Only(std::string_view call) const {
    std::vector<std::string> paths;
    for (const std::string& line : calls) {
      if (line.starts_with(std::string(call) + " ")) {
        paths.push_back(line.substr(call.size() + 1));
      }
    }
    return paths;
  }

  std::vector<std::string> calls;
  size_t fail_at = 0;  // 1 is the first call
  int error = 0;
};

TEST(FileStore, AMissingRootIsEmptyAndMadeByTheFirstWrite) {
  ScratchDirectory scratch;
  FileStore store(scratch / "a/b//");
  EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
  EXPECT_THAT(Listing(store, ""), IsEmpty());
  EXPECT_TRUE(store.Delete("k").ok());
  EXPECT_FALSE(fs::exists(scratch / "a"));
  ASSERT_TRUE(store.Write("c/k", "x").ok());
  EXPECT_EQ(ReadTestFile(scratch / "a/b/c/k"), "x");
  EXPECT_EQ(store.Describe("c/k"), scratch / "a/b/c/k");
}

TEST(FileStore, ModesFollowTheUmask) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  const mode_t old_mask = ::umask(027);
  ASSERT_TRUE(store.Write("d/k", "x").ok());
  ::umask(old_mask);
  struct stat info;
  ASSERT_EQ(::stat((scratch / "d").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0750u);
  ASSERT_EQ(::stat((scratch / "d/k").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

TEST(FileStore, AFileWhereADirectoryIsNeededIsFailedPrecondition) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  ASSERT_TRUE(store.Write("a", "x").ok());
  const Status status = store.Write("a/b", "y");
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/a/b"));
  EXPECT_EQ(store.Create("a/b/c").status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Contents(store, "a"), "x");
  FileStore inside(scratch / "a");
  EXPECT_EQ(inside.Write("k", "x").code(), StatusCode::kFailedPrecondition);
}

TEST(FileStore, ADirectoryIsNoObject) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  ASSERT_TRUE(store.Write("d/k", "x").ok());
  EXPECT_EQ(store.Stat("d").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Read("d").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store.Delete("d").code(), StatusCode::kOk);
  EXPECT_EQ(store.Write("d", "y").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(store.Write("d", "y", {.atomic = false}).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(FilesBelow(scratch.path()), std::set<std::string>{"d/k"});
}

TEST(FileStore, AFifoIsNoObjectAndDoesNotHang) {
  ScratchDirectory scratch;
  ASSERT_EQ(::mkfifo((scratch / "fifo").c_str(), 0600), 0);
  FileStore store(scratch.path());
  EXPECT_EQ(Contents(store, "fifo"), "<NOT_FOUND>");
  EXPECT_EQ(store.Stat("fifo").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(Listing(store, ""), IsEmpty());
  ASSERT_TRUE(store.Write("fifo", "x", {.atomic = false}).ok());
  EXPECT_EQ(Contents(store, "fifo"), "x");
}

TEST(FileStore, HiddenNamesAreNeitherWrittenNorListed) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  const std::string kTemp = "d/.k.holdfast-tmp.0123456789abcdef";
  for (const std::string& key :
       {kTemp, std::string("manifest.ocdbt.__lock"), std::string("__lock")}) {
    EXPECT_EQ(store.Write(key, "x").code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(store.Create(key).status().code(), StatusCode::kInvalidArgument);
    WriteTestFile(scratch / key, "left by somebody");
  }
  ASSERT_TRUE(store.Write("d/.k.holdfast-tmp.short", "x").ok());
  EXPECT_THAT(Listing(store, ""), ElementsAre("d/.k.holdfast-tmp.short:1"));
  EXPECT_TRUE(store.Delete("manifest.ocdbt.__lock").ok());
  EXPECT_FALSE(fs::exists(scratch / "manifest.ocdbt.__lock"));
}

TEST(FileStore, TemporaryFilesOfLivingWritersAreInvisible) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  auto writer = store.Create("d/k");
  ASSERT_TRUE(writer.ok());
  EXPECT_EQ(FilesBelow(scratch.path()).size(), 1u);
  EXPECT_THAT(Listing(store, ""), IsEmpty());
  writer->reset();
  EXPECT_THAT(FilesBelow(scratch.path()), IsEmpty());
}

// Another store, as in another process, replaces files that this store has
// open.
TEST(FileStore, SeesReplacementsByOthers) {
  ScratchDirectory scratch;
  FileStore store(scratch.path()), other(scratch.path());
  for (const WriteOptions& options : conformance::AllWriteOptions()) {
    if (options.must_create) continue;
    ASSERT_TRUE(other.Write("k", "old", options).ok());
    EXPECT_EQ(Contents(store, "k"), "old");
    ASSERT_TRUE(other.Write("k", "newer", options).ok());
    EXPECT_EQ(Contents(store, "k"), "newer");
  }
  fs::create_hard_link(scratch / "k", scratch / "link");
  EXPECT_EQ(Contents(store, "k"), "newer");
  ASSERT_TRUE(other.Write("k", "newest").ok());
  EXPECT_EQ(Contents(store, "k"), "newest");
  EXPECT_EQ(Contents(store, "link"), "newer");
  ASSERT_TRUE(other.Delete("k").ok());
  EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
}

TEST(FileStore, SeesAFileThatSomebodyMovedAway) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  WriteTestFile(scratch / "k", "x");
  // Moves the change time well before the rename below.
  const struct timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, (scratch / "k").c_str(), times, 0), 0);
  struct stat before, after;
  ASSERT_EQ(Contents(store, "k"), "x");
  ASSERT_EQ(::stat((scratch / "k").c_str(), &before), 0);
  do {  // until the file system's clock ticks
    fs::rename(scratch / "k", scratch / "moved");
    ASSERT_EQ(::stat((scratch / "moved").c_str(), &after), 0);
    if (after.st_ctim.tv_nsec != before.st_ctim.tv_nsec) break;
    fs::rename(scratch / "moved", scratch / "k");
  } while (true);
  EXPECT_EQ(Contents(store, "k"), "<NOT_FOUND>");
}

TEST(FileStore, ManyReadsOpenAFileOnce) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch.path(), {.hook = log.Hook()});
  ASSERT_TRUE(store.Write("d/k", std::string(5000, 'x')).ok());
  log.calls.clear();
  char target[8];
  for (uint64_t i = 0; i < 1000; ++i) {
    ASSERT_TRUE(store.ReadInto("d/k", i, target).ok());
  }
  EXPECT_THAT(log.Only("open"), ElementsAre("d/k"));
}

// Memory that nobody has touched is mapped ahead. The bytes around the target
// must not change.
TEST(FileStore, ReadsIntoMemoryThatNobodyHasTouched) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  std::string wanted((1 << 20) + 7777, '\0');
  for (size_t i = 0; i < wanted.size(); ++i) {
    wanted[i] = static_cast<char>(1 + i % 251);
  }
  ASSERT_TRUE(store.Write("k", wanted).ok());
  constexpr size_t kMemoryBytes = size_t{4} << 20;
  for (const size_t at : {size_t{0}, size_t{1}, size_t{4095}, size_t{123456}}) {
    auto* const memory =
        static_cast<char*>(::mmap(nullptr, kMemoryBytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    const std::span<char> target(memory + at, wanted.size());
    ASSERT_TRUE(store.ReadInto("k", 0, target).ok());
    EXPECT_TRUE(std::string_view(target.data(), target.size()) == wanted);
    const std::string zeros(kMemoryBytes, '\0');
    const std::string_view all(memory, kMemoryBytes);
    EXPECT_TRUE(zeros.starts_with(all.substr(0, at)));
    EXPECT_TRUE(zeros.starts_with(all.substr(at + wanted.size())));
    ::munmap(memory, kMemoryBytes);
  }
}

TEST(FileStore, FollowsARenamedRoot) {
  ScratchDirectory scratch;
  FileStore store(scratch / "tmp");
  ASSERT_TRUE(store.Write("k", "x").ok());
  fs::rename(scratch / "tmp", scratch / "final");
  EXPECT_EQ(Contents(store, "k"), "x");
  ASSERT_TRUE(store.Write("d/l", "y").ok());
  EXPECT_EQ(ReadTestFile(scratch / "final/d/l"), "y");
}

TEST(FileStore, TheRootMayBeASymbolicLink) {
  ScratchDirectory scratch;
  fs::create_directory(scratch / "real");
  fs::create_directory_symlink(scratch / "real", scratch / "link");
  FileStore store(scratch / "link");
  ASSERT_TRUE(store.Write("d/k", "x").ok());
  EXPECT_TRUE(store.SyncNames().ok());
  EXPECT_EQ(ReadTestFile(scratch / "real/d/k"), "x");
  EXPECT_THAT(Listing(store, ""), ElementsAre("d/k:1"));
}

class FileStoreLinks : public testing::TestWithParam<bool> {
 protected:
  FileStoreLinks() : store_(scratch_ / "root", {.use_openat2 = GetParam()}) {
    WriteTestFile(scratch_ / "root/in/k", "inside");
    WriteTestFile(scratch_ / "out/k", "outside");
  }

  // Creates a link in the root.
  void Link(const std::string& target, const std::string& name) {
    fs::create_symlink(target, scratch_ / ("root/" + name));
  }
  void ExpectRefused(const Status& status, const std::string& link) {
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(status.message()),
        HasSubstr("symbolic link " + (scratch_ / ("root/" + link)) + " -> "));
  }

  ScratchDirectory scratch_;
  FileStore store_;
};

INSTANTIATE_TEST_SUITE_P(Kernels, FileStoreLinks, testing::Bool(),
                         [](const auto& info) {
                           return info.param ? "openat2" : "components";
                         });

TEST_P(FileStoreLinks, NothingIsReadThroughALinkThatLeadsOut) {
  Link("../out", "dir");
  Link("../../out/k", "in/file");
  Link(scratch_ / "out", "absolute");
  Link("loop", "loop");
  const std::pair<const char*, const char*> kCases[] = {
      {"dir/k", "dir"},
      {"in/file", "in/file"},
      {"absolute/k", "absolute"},
      {"loop", "loop"}};
  char byte = 0;
  for (const auto& [key, link] : kCases) {
    SCOPED_TRACE(key);
    ExpectRefused(store_.Read(key).status(), link);
    ExpectRefused(store_.Stat(key).status(), link);
    ExpectRefused(store_.ReadInto(key, 0, {&byte, 1}), link);
  }
  EXPECT_THAT(Listing(store_, ""), ElementsAre("in/k:6"));
  EXPECT_THAT(Listing(store_, "dir/"), IsEmpty());
  EXPECT_THAT(Listing(store_, "absolute/k"), IsEmpty());
}

TEST_P(FileStoreLinks, NothingIsWrittenOrDeletedThroughALinkThatLeadsOut) {
  Link("../out", "dir");
  Link("../../out", "in/dir");
  for (const char* key : {"dir/k", "dir/new/k", "in/dir/k"}) {
    SCOPED_TRACE(key);
    const std::string link = key[0] == 'i' ? "in/dir" : "dir";
    ExpectRefused(store_.Write(key, "x"), link);
    ExpectRefused(store_.Write(key, "x", {.atomic = false}), link);
    ExpectRefused(store_.Create(key).status(), link);
    ExpectRefused(store_.Delete(key), link);
  }
  EXPECT_EQ(FilesBelow(scratch_ / "out"), std::set<std::string>{"k"});
  EXPECT_EQ(ReadTestFile(scratch_ / "out/k"), "outside");
}

TEST_P(FileStoreLinks, WritesReplaceALinkAndDeleteRemovesIt) {
  for (const bool atomic : {false, true}) {
    const std::string key = atomic ? "a" : "b";
    Link("../out/k", key);
    ASSERT_TRUE(store_.Write(key, "mine", {.atomic = atomic}).ok());
    EXPECT_FALSE(fs::is_symlink(scratch_ / ("root/" + key)));
    EXPECT_EQ(Contents(store_, key), "mine");
  }
  Link("../out/k", "c");
  ASSERT_TRUE(store_.Delete("c").ok());
  EXPECT_FALSE(fs::is_symlink(scratch_ / "root/c"));
  EXPECT_EQ(ReadTestFile(scratch_ / "out/k"), "outside");
}

TEST(FileStore, LinksInsideAreFollowedButNotWalked) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "d/k", "value");
  fs::create_symlink("d", scratch / "dir");
  fs::create_symlink("d/k", scratch / "file");
  fs::create_symlink("..", scratch / "d/up");
  FileStore store(scratch.path());
  EXPECT_EQ(Contents(store, "dir/k"), "value");
  EXPECT_EQ(Contents(store, "file"), "value");
  EXPECT_THAT(Listing(store, ""), ElementsAre("d/k:5", "file:5"));
}

TEST(FileStore, PermissionsAreReported) {
  if (::geteuid() == 0) {
    GTEST_SKIP() << "root may do everything; run as another user";
  }
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  ASSERT_TRUE(store.Write("d/k", "x", {.atomic = true}).ok());
  ASSERT_EQ(::chmod((scratch / "d/k").c_str(), 0), 0);
  EXPECT_EQ(FileStore(scratch.path()).Read("d/k").status().code(),
            StatusCode::kPermissionDenied);
  ASSERT_EQ(::chmod((scratch / "d").c_str(), 0500), 0);
  EXPECT_EQ(store.Write("d/l", "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(store.Delete("d/k").code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(::chmod((scratch / "d").c_str(), 0700), 0);
}

// The file size limit stops a write halfway, as a full disk would.
TEST(FileStore, AWriteThatStopsHalfWayLeavesNothing) {
  ScratchDirectory scratch;
  FileStore store(scratch.path());
  ASSERT_TRUE(store.Write("k", "old").ok());
  struct rlimit old_limit;
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  struct rlimit limit = old_limit;
  limit.rlim_cur = 100000;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string value(150000, 'x');
  const Status atomic = store.Write("k", value);
  const Status in_place = store.Write("l", value, {.atomic = false});
  Status finish;
  {
    auto writer = store.Create("m");
    const std::string_view pieces[] = {value};
    EXPECT_EQ((*writer)->WriteAt(0, pieces).code(),
              StatusCode::kResourceExhausted);
    finish = (*writer)->Finish(true);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &old_limit), 0);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_EQ(atomic.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(in_place.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(finish.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(finish.message()), HasSubstr("File too large"));
  EXPECT_EQ(ReadTestFile(scratch / "k"), "old");
  EXPECT_EQ(FilesBelow(scratch.path()), std::set<std::string>{"k"});
}

Status WriteEveryWay(Store& store) {
  const std::string_view pieces[] = {"first", "second"};
  HF_RETURN_IF_ERROR(store.Write("a/k", pieces));
  HF_RETURN_IF_ERROR(
      store.Write("a/new", pieces, {.atomic = true, .must_create = true}));
  HF_RETURN_IF_ERROR(store.Write("b/c/k", pieces, {.atomic = false}));
  HF_RETURN_IF_ERROR(store.Write("b/c/k", "again", {.atomic = false}));
  Result<std::unique_ptr<ObjectWriter>> writer = store.Create("d/k");
  HF_RETURN_IF_ERROR(writer.status());
  HF_RETURN_IF_ERROR((*writer)->WriteAt(0, pieces));
  HF_RETURN_IF_ERROR((*writer)->Finish(true));
  return store.SyncNames();
}

TEST(FileStore, EveryFailingCallIsReportedAndLeavesNoTemporaryFile) {
  size_t call_count = 1;
  const std::set<std::string> kWhole = {"a/k", "a/new", "b/c/k", "d/k"};
  for (size_t k = 1; k <= call_count; ++k) {
    ScratchDirectory scratch;
    CallLog log{.fail_at = k, .error = ENOSPC};
    FileStore store(scratch / "root", {.hook = log.Hook()});
    const Status status = WriteEveryWay(store);
    SCOPED_TRACE(log.calls[k - 1]);
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("No space left on device"));
    if (fs::exists(scratch / "root")) {
      for (const std::string& file : FilesBelow(scratch / "root")) {
        EXPECT_TRUE(kWhole.contains(file)) << file;
        EXPECT_THAT(ReadTestFile(scratch / ("root/" + file)),
                    testing::AnyOf("firstsecond", "again"));
      }
    }
    log.fail_at = 0;
    EXPECT_TRUE(WriteEveryWay(store).ok() || fs::exists(scratch / "root/a/new"))
        << "only must_create may refuse the second time";
    call_count = std::max(call_count, log.calls.size() / 2);
  }
  EXPECT_GT(call_count, 30u);
}

TEST(FileStore, EveryFailingCallOfAReadIsReported) {
  for (const int error : {EIO, EACCES}) {
    for (size_t k = 1; k <= 4; ++k) {
      ScratchDirectory scratch;
      WriteTestFile(scratch / "k", "value");
      CallLog log{.fail_at = k, .error = error};
      FileStore store(scratch.path(), {.hook = log.Hook()});
      EXPECT_EQ(
          store.Read("k").status().code(),
          error == EIO ? StatusCode::kDataLoss : StatusCode::kPermissionDenied);
      EXPECT_EQ(log.calls.size(), k);
    }
  }
}

TEST(FileStore, ShortOfDescriptorsItClosesItsOwn) {
  ScratchDirectory scratch;
  WriteTestFile(scratch / "a", "x");
  WriteTestFile(scratch / "b", "y");
  CallLog log{.error = EMFILE};
  FileStore store(scratch.path(), {.hook = log.Hook()});
  ASSERT_EQ(Contents(store, "a"), "x");
  log.fail_at = log.calls.size() + 1;
  EXPECT_EQ(Contents(store, "b"), "y");
  log.calls.clear();
  EXPECT_EQ(Contents(store, "a"), "x");
  EXPECT_THAT(log.Only("open"), ElementsAre("a"));
}

TEST(FileStore, SyncNamesSyncsEachDirectoryOnceDeepestFirst) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch / "p/root", {.hook = log.Hook()});
  for (const char* key : {"k", "a/b/c/1", "a/b/c/2", "a/d/1"}) {
    ASSERT_TRUE(store.Write(key, "x", {.atomic = false}).ok());
  }
  EXPECT_THAT(log.Only("fsync_directory"), IsEmpty());
  EXPECT_EQ(log.Only("fdatasync").size(), 4u);
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_THAT(log.Only("fsync_directory"),
              ElementsAre(scratch / "p/root/a/b/c", scratch / "p/root/a/b",
                          scratch / "p/root/a/d", scratch / "p/root/a",
                          scratch / "p/root/", scratch / "p", scratch.path()));
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_EQ(log.Only("fsync_directory").size(), 7u) << "nothing left to sync";
}

TEST(FileStore, AFailedSyncNamesIsDoneAgain) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch.path(), {.hook = log.Hook()});
  ASSERT_TRUE(store.Write("a/b/k", "x", {.atomic = false}).ok());
  log.calls.clear();
  log.error = EIO;
  log.fail_at = 4;  // open a/b, fsync a/b, open a, fsync a
  EXPECT_EQ(store.SyncNames().code(), StatusCode::kDataLoss);
  log.calls.clear();
  log.fail_at = 0;
  ASSERT_TRUE(store.SyncNames().ok());
  EXPECT_THAT(log.Only("fsync_directory"),
              ElementsAre(scratch / "a/b", scratch / "a", scratch / ""));
}

TEST(FileStore, SyncNamesSyncsManyDirectoriesAtOnce) {
  ScratchDirectory scratch;
  std::mutex mutex;
  std::vector<std::string> synced;
  FileStore store(scratch.path(),
                  {.hook = [&](std::string_view call, std::string_view path) {
                    if (call != "fsync_directory") return 0;
                    std::lock_guard lock(mutex);
                    synced.emplace_back(path);
                    const bool fails = path == scratch / "a/7";
                    return fails && synced.size() < 60 ? EIO : 0;
                  }});
  std::vector<std::string> want;
  for (int i = 0; i < 50; ++i) {
    const std::string directory = "a/" + std::to_string(i);
    ASSERT_TRUE(
        store.Write(directory + "/k", "x", {.sync = false, .atomic = false})
            .ok());
    want.push_back(scratch / directory);
  }
  EXPECT_EQ(store.SyncNames().code(), StatusCode::kDataLoss);
  synced.assign(60, "");
  ASSERT_TRUE(store.SyncNames().ok());
  synced.erase(synced.begin(), synced.begin() + 60);
  ASSERT_EQ(synced.size(), 52u);
  EXPECT_EQ(synced[50], scratch / "a");
  EXPECT_EQ(synced[51], scratch / "");
  synced.resize(50);
  EXPECT_THAT(synced, testing::UnorderedElementsAreArray(want));
}

TEST(FileStore, ASyncedAtomicWriteSyncsFileThenNameThenNewParents) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch / "root", {.hook = log.Hook()});
  ASSERT_TRUE(store.Write("a/k", "x").ok());
  std::vector<std::string> order;
  for (const std::string& call : log.calls) {
    const std::string name = call.substr(0, call.find(' '));
    if (name == "fdatasync" || name == "rename" || name == "fsync_directory") {
      order.push_back(call);
    }
  }
  EXPECT_THAT(order, ElementsAre("fdatasync " + (scratch / "root/a/k"),
                                 "rename " + (scratch / "root/a/k"),
                                 "fsync_directory " + (scratch / "root/a"),
                                 "fsync_directory " + (scratch / "root/"),
                                 "fsync_directory " + scratch.path()));
}

TEST(FileStore, UnsyncedWritesSyncNothing) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch.path(), {.hook = log.Hook()});
  ASSERT_TRUE(store.Write("a/k", "x", {.sync = false}).ok());
  ASSERT_TRUE(store.Write("a/l", "x", {.sync = false, .atomic = false}).ok());
  EXPECT_THAT(log.Only("fdatasync"), IsEmpty());
  EXPECT_THAT(log.Only("fsync_directory"), IsEmpty());
}

TEST(FileStore, InPlaceWritesNeedNoRename) {
  ScratchDirectory scratch;
  CallLog log;
  FileStore store(scratch.path(), {.hook = log.Hook()});
  ASSERT_TRUE(store.Write("k", "x", {.atomic = false}).ok());
  EXPECT_THAT(log.Only("rename"), IsEmpty());
}

TEST(FileStore, ListsManyDirectories) {
  ScratchDirectory scratch;
  constexpr int kDirectoryCount = 300;
  for (int i = 0; i < kDirectoryCount; ++i) {
    const std::string directory = scratch / ("p." + std::to_string(i));
    fs::create_directory(directory);
    std::ofstream(directory + "/.zarray") << "meta";
    std::ofstream(directory + "/0.0") << "x";
  }
  CallLog log;
  FileStore store(scratch.path(), {.hook = log.Hook()});
  const std::vector<std::string> listing = Listing(store, "");
  EXPECT_EQ(listing.size(), 2u * kDirectoryCount);
  EXPECT_TRUE(std::is_sorted(listing.begin(), listing.end()));
  // The listing opens each directory once, and no file.
  EXPECT_EQ(log.Only("open").size(), 1u + kDirectoryCount);
  log.calls.clear();
  EXPECT_THAT(Listing(store, "p.77/"),
              ElementsAre("p.77/.zarray:4", "p.77/0.0:1"));
  EXPECT_EQ(log.Only("open").size(), 1u) << "a prefix reads only its directory";
}

}  // namespace
}  // namespace holdfast
