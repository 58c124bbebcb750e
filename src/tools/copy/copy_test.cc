// Tests copies between directories and buckets in memory.
// tests/remote/test_cli.py tests real servers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "holdfast/checkpoint.h"
#include "holdfast/detail/commit.h"
#include "holdfast/tools/remote.h"
#include "stores/cloud/read_only_bucket.h"
#include "stores/place/bucket_registry.h"
#include "tools/copy/copy_files.h"
#include "tools/copy/copy_plan.h"
#include "twins/fault_bucket.h"
#include "twins/memory_bucket.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Not;

using Files = std::map<std::string, std::string>;

// Replaces contents by sizes and hashes, so that a failure message fits on one
// screen.
Files Short(const Files& files) {
  Files result;
  for (const auto& [name, text] : files) {
    result[name] = std::to_string(text.size()) + " bytes, " +
                   std::to_string(std::hash<std::string>()(text));
  }
  return result;
}

class CopyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path().string() + "/remote_copy_test." +
            std::to_string(::getpid());
    fs::remove_all(root_);
    fs::create_directories(root_);
    UseBucket(MemoryBucketOptions::S3Like());
  }
  void TearDown() override { fs::remove_all(root_); }

  void UseBucket(MemoryBucketOptions options) {
    options.name = "b";
    memory_ = std::make_shared<MemoryBucket>(options);
    faults_ = std::make_shared<FaultBucket>(memory_);
    BucketRegistry::Default().Register(
        "mem", [this](const std::string&, const RemoteOptions&) {
          return Result<std::shared_ptr<Bucket>>(faults_);
        });
  }

  std::string Local(const std::string& name) const {
    return root_ + "/" + name;
  }

  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(Local(name)).parent_path());
    std::ofstream(Local(name), std::ios::binary) << text;
  }

  // Saves a checkpoint of several files. One of them is copied in several
  // pieces.
  std::string SaveAt(const std::string& name, float value = 1,
                     size_t element_count = 9 << 19) {
    std::vector<float> values(element_count, value);
    SaveOptions options;
    options.sync = false;
    options.compression = Compression::kNone;
    fs::create_directories(fs::path(Local(name)).parent_path());
    const auto saved =
        Save(Local(name),
             Tree::Dict(
                 {{"w", Array::FromBytes(DType::kFloat32,
                                         {static_cast<int64_t>(element_count)},
                                         values.data())},
                  {"step", 7}}),
             options);
    EXPECT_TRUE(saved.ok()) << saved.status().ToString();
    return Local(name);
  }

  static Files FilesAt(const std::string& place) {
    Files files;
    const auto listing = ListWholeTree(Place(place));
    EXPECT_TRUE(listing.ok()) << listing.status().ToString();
    if (!listing.ok()) return files;
    for (const ListedFile& file : listing->files) {
      const auto text = ReadListedFile(*listing, file);
      EXPECT_TRUE(text.ok()) << text.status().ToString();
      files[file.name] = text.ok() ? *text : "";
    }
    return files;
  }

  static CopyResult MustCopy(const std::string& source,
                             const std::string& target,
                             const CopyOptions& options = {}) {
    const auto copied = Copy(source, target, options);
    EXPECT_TRUE(copied.ok()) << copied.status().ToString();
    return copied.ok() ? *copied : CopyResult();
  }
  static Status CopyStatus(const std::string& source, const std::string& target,
                           const CopyOptions& options = {}) {
    return Copy(source, target, options).status();
  }

  // Returns options for a copy in one thread, so that requests come in a fixed
  // order.
  static CopyOptions OneThread() {
    CopyOptions options;
    options.run.threads = 1;
    return options;
  }

  std::string root_;
  std::shared_ptr<MemoryBucket> memory_;
  std::shared_ptr<FaultBucket> faults_;
};

// Claims to have files of the given sizes, but has no bytes.
class BoastingBucket final : public ReadOnlyBucket {
 public:
  using Sizes = std::map<std::string, uint64_t, std::less<>>;
  explicit BoastingBucket(Sizes sizes)
      : ReadOnlyBucket("boasters"), sizes_(std::move(sizes)) {}

  const BucketTraits& traits() const override { return traits_; }
  std::string UrlOf(std::string_view key) const override {
    return "boast://b/" + std::string(key);
  }
  Result<ObjectEntry> Head(std::string_view key) override {
    const auto found = sizes_.find(key);
    if (found == sizes_.end()) return NotFoundError(UrlOf(key));
    return ObjectEntry{found->first, found->second, "1", 0};
  }
  std::vector<Result<GetResult>> Get(std::span<const GetRequest> requests,
                                     const CancelToken*) override {
    return std::vector<Result<GetResult>>(
        requests.size(), Result<GetResult>(OutOfRangeError("there is none")));
  }
  Result<ListPage> List(const ListRequest& request) override {
    return ListNames(request, "", sizes_,
                     [](const std::string& key, uint64_t byte_count) {
                       return ObjectEntry{key, byte_count, "1", 0};
                     });
  }
  int64_t ServerTimeNs() const override { return 0; }

 private:
  const BucketTraits traits_;
  const Sizes sizes_;
};

TEST_F(CopyTest, ThereAndBackIsTheSame) {
  for (const auto& options :
       {MemoryBucketOptions::S3Like(), MemoryBucketOptions::GcsLike()}) {
    UseBucket(options);
    fs::remove_all(root_);
    const std::string source = SaveAt("7");
    const CopyResult up = MustCopy(source, "mem://b/run/7");
    EXPECT_EQ(up.checkpoint_count, 1u);
    EXPECT_EQ(up.kept_file_count, 0u);
    EXPECT_EQ(Short(FilesAt("mem://b/run/7")), Short(FilesAt(source)));
    MustCopy("mem://b/run/7", Local("back"));
    EXPECT_EQ(Short(FilesAt(Local("back"))), Short(FilesAt(source)));
    EXPECT_FALSE(fs::exists(Local("back") + std::string(kCopySuffix)));
    EXPECT_TRUE(Verify(Local("back"), {}, {})->damages.empty());
  }
}

// Damages every file at its ends and in the middle, and removes files.
TEST_F(CopyTest, DamageIsNotCopied) {
  const std::string source = SaveAt("7");
  int damage_count = 0;
  for (const auto& [name, good] : FilesAt(source)) {
    if (name == "commit_success.txt") continue;
    const std::string path = source + "/" + name;
    for (const size_t at : {size_t{0}, good.size() / 2, good.size() - 1}) {
      // The nodes of the process's own database have no checksum in the list.
      if (name.starts_with("ocdbt.process_0/d/") && at >= 4 * (9 << 19)) {
        continue;
      }
      // A node's own checksum is checked only by readers.
      if (name.starts_with("d/") && at + 4 >= good.size()) continue;
      std::string damaged = good;
      damaged[at] ^= 1;
      std::ofstream(path, std::ios::binary) << damaged;
      for (const std::string& target :
           {Local("t/7"), std::string("mem://b/7")}) {
        const Status copied = CopyStatus(source, target);
        EXPECT_EQ(copied.code(), StatusCode::kDataLoss) << name << " " << at;
        ++damage_count;
      }
      EXPECT_FALSE(fs::exists(Local("t/7"))) << name << " " << at;
      CopyOptions as_it_is;
      as_it_is.check = false;
      MustCopy(source, Local("t/7"), as_it_is);
      fs::remove_all(Local("t"));
    }
    fs::remove(path);
    if (name != "_HOLDFAST_DIGESTS") {
      EXPECT_EQ(CopyStatus(source, Local("t/7")).code(), StatusCode::kDataLoss)
          << name;
    }
    fs::remove_all(Local("t"));
    std::ofstream(path, std::ios::binary) << good;
  }
  EXPECT_GT(damage_count, 30);
  MustCopy(source, Local("t/7"));
}

// A file that consists of one chunk could not be read with an extra byte.
TEST_F(CopyTest, AChunkThatGrewIsNotCopied) {
  SaveOptions options;
  options.sync = false;
  options.use_ocdbt = false;
  const std::string source = Local("7");
  const std::vector<float> values(100, 1);
  ASSERT_TRUE(Save(source,
                   Tree::Dict({{"w", Array::FromBytes(DType::kFloat32, {100},
                                                      values.data())}}),
                   options)
                  .ok());
  std::ofstream(source + "/w/0", std::ios::binary | std::ios::app) << "x";
  for (const std::string& target : {Local("t/7"), std::string("mem://b/7")}) {
    EXPECT_EQ(CopyStatus(source, target).code(), StatusCode::kDataLoss);
  }
}

TEST_F(CopyTest, TheServerCopiesWithinABucket) {
  MustCopy(SaveAt("7"), "mem://b/7");
  faults_->ResetCounters();
  const CopyResult copied = MustCopy("mem://b/7", "mem://b/8");
  EXPECT_EQ(copied.server_file_count, copied.file_count);
  EXPECT_EQ(copied.server_byte_count, copied.byte_count);
  EXPECT_EQ(Short(FilesAt("mem://b/8")), Short(FilesAt("mem://b/7")));
}

TEST_F(CopyTest, AgainIsNothingToDo) {
  const std::string source = SaveAt("7");
  for (const std::string& target : {std::string("mem://b/7"), Local("t/7")}) {
    const CopyResult first = MustCopy(source, target);
    faults_->ResetCounters();
    const CopyResult again = MustCopy(source, target);
    EXPECT_EQ(again.kept_file_count, first.file_count);
    EXPECT_EQ(again.kept_byte_count, first.byte_count);
    EXPECT_EQ(faults_->counters().of(BucketRequest::kPut), 0u);
  }
}

TEST_F(CopyTest, AnotherCheckpointIsOnlyReplacedOnDemand) {
  const std::string old_one = SaveAt("old", 1, 1000);
  const std::string new_one = SaveAt("new", 2, 1000);
  CopyOptions overwrite;
  overwrite.overwrite = true;
  for (const std::string& target : {std::string("mem://b/7"), Local("t/7")}) {
    MustCopy(old_one, target);
    const Status refused = CopyStatus(new_one, target);
    EXPECT_EQ(refused.code(), StatusCode::kAlreadyExists);
    EXPECT_EQ(Short(FilesAt(target)), Short(FilesAt(old_one)));
    MustCopy(new_one, target, overwrite);
    EXPECT_EQ(Short(FilesAt(target)), Short(FilesAt(new_one)));
    EXPECT_TRUE(FilesAt(target + ".holdfast-replaced").empty());
  }
}

TEST_F(CopyTest, OverwritingIsForCheckpoints) {
  Write("home/letter.txt", "dear");
  CopyOptions overwrite;
  overwrite.overwrite = true;
  const std::string source = SaveAt("7", 1, 10);
  EXPECT_EQ(CopyStatus(source, Local("home"), overwrite).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fs::exists(Local("home/letter.txt")));
  MustCopy(Local("home"), "mem://b/home");
  EXPECT_EQ(CopyStatus(source, "mem://b/home", overwrite).code(),
            StatusCode::kFailedPrecondition);
  EXPECT_THAT(FilesAt("mem://b/home"), Contains(Key("letter.txt")));
}

// Orbax writes no marker on disk. In an object store only the marker makes a
// checkpoint committed.
TEST_F(CopyTest, AMarkerIsAddedInABucket) {
  const std::string source = SaveAt("7", 1, 10);
  fs::remove(source + "/commit_success.txt");
  MustCopy(source, "mem://b/7");
  EXPECT_THAT(FilesAt("mem://b/7"), Contains(Key("commit_success.txt")));
  EXPECT_EQ(MustCopy(source, "mem://b/7").kept_file_count,
            FilesAt(source).size());
  EXPECT_THAT(FilesAt(source), Not(Contains(Key("commit_success.txt"))));
}

TEST_F(CopyTest, UnfinishedStepsStayBehind) {
  SaveAt("run/1", 1, 10);
  SaveAt("run/2", 1, 10);
  fs::rename(Local("run/2"), Local("run/2.orbax-checkpoint-tmp"));
  // An unfinished view contains links.
  fs::create_symlink(Local("elsewhere"), Local("run/2.orbax-checkpoint-tmp/l"));
  const CopyResult copied = MustCopy(Local("run"), "mem://b/run");
  EXPECT_EQ(copied.checkpoint_count, 1u);
  for (const auto& [name, text] : FilesAt("mem://b/run")) {
    EXPECT_TRUE(name.starts_with("1/")) << name;
  }
}

TEST_F(CopyTest, NewStepsOfARootAreAdded) {
  SaveAt("run/1", 1, 10);
  Write("run/notes.txt", "n");
  MustCopy(Local("run"), "mem://b/run");
  SaveAt("run/2", 2, 10);
  const CopyResult copied = MustCopy(Local("run"), "mem://b/run");
  EXPECT_EQ(copied.kept_file_count, FilesAt(Local("run/1")).size() + 1);
  EXPECT_EQ(Short(FilesAt("mem://b/run")), Short(FilesAt(Local("run"))));
  MustCopy("mem://b/run", Local("back"));
  EXPECT_EQ(Short(FilesAt(Local("back"))), Short(FilesAt(Local("run"))));
}

uint32_t ModeOf(const std::string& path) {
  return static_cast<uint32_t>(fs::status(path).permissions()) & 0777;
}

// Users who may not read the source, or the file that a copy replaces, may not
// read the copy either.
TEST_F(CopyTest, ACopyIsNoWiderThanItsSourceOrWhatItReplaces) {
  SaveAt("run/0", 0, 9);
  SaveAt("run/1", 1, 9);
  Write("run/open.txt", "open");
  Write("run/closed.txt", "closed");
  fs::permissions(Local("run/closed.txt"), fs::perms(0600));
  for (const auto& entry : fs::recursive_directory_iterator(Local("run/1"))) {
    fs::permissions(entry, fs::perms(entry.is_directory() ? 0700 : 0600));
  }
  fs::permissions(Local("run/1"), fs::perms(0700));
  fs::permissions(Local("run"), fs::perms(0750));
  MustCopy(Local("run"), Local("copy"));
  EXPECT_EQ(ModeOf(Local("copy")) & 0027, 0u);
  EXPECT_EQ(ModeOf(Local("copy/0")), ModeOf(Local("run/0")));
  EXPECT_EQ(ModeOf(Local("copy/0/_METADATA")),
            ModeOf(Local("run/0/_METADATA")));
  EXPECT_EQ(ModeOf(Local("copy/open.txt")), ModeOf(Local("run/open.txt")));
  EXPECT_EQ(ModeOf(Local("copy/closed.txt")), 0600u);
  const auto expect_closed = [&](const std::string& path) {
    EXPECT_EQ(ModeOf(path), 0700u);
    for (const auto& entry : fs::recursive_directory_iterator(path)) {
      EXPECT_EQ(ModeOf(entry.path()) & 0077, 0u) << entry.path();
    }
  };
  expect_closed(Local("copy/1"));
  // A readable file replaces a private one.
  MustCopy(Local("run/0"), Local("copy/1"), {.overwrite = true});
  expect_closed(Local("copy/1"));
  MustCopy(Local("run/open.txt"), Local("copy/closed.txt"),
           {.overwrite = true});
  EXPECT_EQ(ModeOf(Local("copy/closed.txt")), 0600u);
  EXPECT_FALSE(fs::exists(Local("copy/.holdfast-copy-closed")));
}

TEST_F(CopyTest, SingleFiles) {
  Write("a.bin", std::string(20 << 20, 'x'));
  MustCopy(Local("a.bin"), "mem://b/d/a.bin");
  MustCopy("mem://b/d/a.bin", Local("b.bin"));
  EXPECT_EQ(Short(FilesAt(Local("b.bin"))), Short(FilesAt(Local("a.bin"))));
  Write("c.bin", "other");
  EXPECT_EQ(CopyStatus(Local("c.bin"), "mem://b/d/a.bin").code(),
            StatusCode::kAlreadyExists);
  CopyOptions overwrite;
  overwrite.overwrite = true;
  MustCopy(Local("c.bin"), "mem://b/d/a.bin", overwrite);
  EXPECT_EQ(FilesAt("mem://b/d/a.bin"), (Files{{"", "other"}}));
}

TEST_F(CopyTest, WhatMakesNoSenseIsRefused) {
  SaveAt("7", 1, 10);
  EXPECT_EQ(CopyStatus(Local("7"), Local("7")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyStatus(Local("7"), Local("7/state")).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CopyStatus(Local("none"), "mem://b/7").code(),
            StatusCode::kNotFound);
  EXPECT_EQ(CopyStatus("mem://b/none", Local("x")).code(),
            StatusCode::kNotFound);
  Write("plain/a", "a");
  CopyOptions verify;
  verify.verify = true;
  EXPECT_EQ(CopyStatus(Local("plain"), "mem://b/p", verify).code(),
            StatusCode::kFailedPrecondition);
}

TEST_F(CopyTest, VerifyReadsTheCopy) {
  CopyOptions verify;
  verify.verify = true;
  const std::string source = SaveAt("7", 1, 1000);
  EXPECT_TRUE(MustCopy(source, Local("t/7"), verify).is_verified);
  // Damage the source before the copy.
  for (const auto& entry : fs::recursive_directory_iterator(source)) {
    if (entry.path().filename() != "_METADATA") continue;
    std::ofstream(entry.path(), std::ios::app) << " ";
  }
  const Status status = CopyStatus(source, Local("t/8"), verify);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
}

// The copy dies at each request in turn. The target then holds no checkpoint or
// a complete one, and the same call continues.
TEST_F(CopyTest, ADeathAtAnyRequestLeavesNothingThatLooksFinished) {
  const std::string source = SaveAt("7", 1, 9 << 19);
  const Files wanted = FilesAt(source);
  bool has_gone_on = false;
  bool has_died = true;
  for (uint64_t k = 1; has_died; ++k) {
    SCOPED_TRACE(k);
    UseBucket(MemoryBucketOptions::S3Like());
    faults_->SetFaults({.fail_at = k, .dies = true});
    const Status status = CopyStatus(source, "mem://b/7", OneThread());
    has_died = faults_->died();
    faults_->SetFaults({});
    const Files left = FilesAt("mem://b/7");
    if (left.contains("commit_success.txt")) {
      for (const auto& [name, text] : wanted) EXPECT_EQ(left.at(name), text);
    } else {
      EXPECT_FALSE(status.ok());
    }
    const CopyResult copied = MustCopy(source, "mem://b/7", OneThread());
    has_gone_on = has_gone_on || (copied.kept_file_count > 0 &&
                                  copied.kept_file_count < copied.file_count);
    EXPECT_EQ(Short(FilesAt("mem://b/7")), Short(wanted));
    ASSERT_LT(k, 1000u);
  }
  EXPECT_TRUE(has_gone_on);
}

// The old checkpoint is complete under one of its two names at all times.
TEST_F(CopyTest, ADeathWhileOverwritingKeepsTheOldOne) {
  const std::string old_one = SaveAt("old", 1, 100);
  const std::string new_one = SaveAt("new", 2, 100);
  const Files old_files = FilesAt(old_one);
  const Files new_files = FilesAt(new_one);
  const auto holds = [](const Files& there, const Files& wanted) {
    for (const auto& [name, text] : wanted) {
      const auto found = there.find(name);
      if (found == there.end() || found->second != text) return false;
    }
    return true;
  };
  CopyOptions overwrite = OneThread();
  overwrite.overwrite = true;
  bool has_died = true;
  for (uint64_t k = 1; has_died; ++k) {
    SCOPED_TRACE(k);
    UseBucket(MemoryBucketOptions::GcsLike());
    MustCopy(old_one, "mem://b/7");
    faults_->SetFaults({.fail_at = k, .dies = true});
    (void)CopyStatus(new_one, "mem://b/7", overwrite);
    has_died = faults_->died();
    faults_->SetFaults({});
    const Files here = FilesAt("mem://b/7");
    const Files aside = FilesAt("mem://b/7.holdfast-replaced");
    EXPECT_TRUE(holds(here, old_files) || holds(aside, old_files) ||
                holds(here, new_files));
    MustCopy(new_one, "mem://b/7", overwrite);
    EXPECT_EQ(Short(FilesAt("mem://b/7")), Short(new_files));
    EXPECT_TRUE(FilesAt("mem://b/7.holdfast-replaced").empty());
    ASSERT_LT(k, 1000u);
  }
}

TEST_F(CopyTest, ADeadCopyToADirectoryHasNoName) {
  MustCopy(SaveAt("7", 1, 9 << 19), "mem://b/7");
  const Files wanted = FilesAt(Local("7"));
  bool has_died = true;
  bool has_gone_on = false;
  for (uint64_t k = 1; has_died; ++k) {
    SCOPED_TRACE(k);
    fs::remove_all(Local("t"));
    faults_->SetFaults({.fail_at = k, .dies = true});
    const Status status = CopyStatus("mem://b/7", Local("t/7"), OneThread());
    has_died = faults_->died();
    faults_->SetFaults({});
    EXPECT_EQ(fs::exists(Local("t/7")), status.ok());
    const CopyResult copied = MustCopy("mem://b/7", Local("t/7"), OneThread());
    has_gone_on = has_gone_on || (copied.kept_file_count > 0 &&
                                  copied.kept_file_count < copied.file_count);
    EXPECT_EQ(Short(FilesAt(Local("t/7"))), Short(wanted));
    ASSERT_LT(k, 1000u);
  }
  EXPECT_TRUE(has_gone_on);
}

TEST_F(CopyTest, ASourceThatChangesIsNoMix) {
  MustCopy(SaveAt("7", 1, 9 << 19), "mem://b/7");
  int get_count = 0;
  faults_->SetHook([&](BucketRequest kind, std::string_view key) {
    const bool is_data = key.find("/d/") != std::string_view::npos;
    if (kind == BucketRequest::kGet && is_data && ++get_count == 2) {
      memory_->Damage(key, 0);
    }
    return Status();
  });
  const Status status = CopyStatus("mem://b/7", Local("t/7"), OneThread());
  faults_->SetHook({});
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << status.ToString();
  EXPECT_FALSE(fs::exists(Local("t/7")));
}

// The bucket cannot be listed, like a web server.
TEST_F(CopyTest, DigestsNameTheFilesWhereNothingIsListed) {
  const std::string source = SaveAt("7", 1, 1000);
  MemoryBucketOptions options = MemoryBucketOptions::S3Like();
  options.traits.can_list = false;
  UseBucket(options);
  for (const auto& [name, text] : FilesAt(source)) {
    const std::string_view piece = text;
    ASSERT_TRUE(memory_->Put("ckpt/7/" + name, {&piece, 1}).ok());
  }
  MustCopy("mem://b/ckpt/7", Local("t/7"));
  EXPECT_EQ(Short(FilesAt(Local("t/7"))), Short(FilesAt(source)));
  MustCopy("mem://b/ckpt/7/_CHECKPOINT_METADATA", Local("one"));
  EXPECT_THAT(CopyStatus("mem://b/ckpt", Local("x")).ToString(),
              HasSubstr("_HOLDFAST_DIGESTS"));
}

TEST_F(CopyTest, CancelLeavesNothingWithAName) {
  std::atomic<bool> cancel = true;
  CopyOptions options;
  options.run.cancel = &cancel;
  EXPECT_EQ(CopyStatus(SaveAt("7", 1, 1000), Local("t/7"), options).code(),
            StatusCode::kCancelled);
  EXPECT_FALSE(fs::exists(Local("t/7")));
}

// A size that a server claims must not cause an allocation before bytes arrive.
TEST_F(CopyTest, SizesAreAServersWord) {
  const auto boast = [](BoastingBucket::Sizes sizes) {
    const auto bucket = std::make_shared<BoastingBucket>(std::move(sizes));
    BucketRegistry::Default().Register(
        "boast", [bucket](const std::string&, const RemoteOptions&) {
          return Result<std::shared_ptr<Bucket>>(bucket);
        });
  };
  constexpr uint64_t kHuge = uint64_t{1} << 62;
  boast({{"m/model.safetensors", kHuge}});
  EXPECT_EQ(Copy("boast://b/m", Local("m")).status().code(),
            StatusCode::kOutOfRange);
  EXPECT_FALSE(fs::exists(Local("m/model.safetensors")));
  boast({{"m/a", kHuge}, {"m/b", kHuge}, {"m/c", kHuge}});
  EXPECT_THAT(Copy("boast://b/m", Local("m")).status().ToString(),
              HasSubstr("more than any store holds"));
}

TEST_F(CopyTest, OnlyFilesAreListedWhereNothingElseIsWanted) {
  Write("a/file", "text");
  Write("a/below/file", "text");
  fs::create_symlink(Local("a/file"), Local("a/link"));
  fs::create_directory_symlink(Local(""), Local("a/up"));
  fs::create_symlink(Local("nowhere"), Local("a/dangling"));
  ASSERT_EQ(::mkfifo(Local("a/pipe").c_str(), 0600), 0);
  const auto listing = ListWholeTree(Place(Local("a")), LinkPolicy::kOnlyFiles);
  ASSERT_TRUE(listing.ok()) << listing.status().ToString();
  std::vector<std::string> names;
  for (const ListedFile& file : listing->files) names.push_back(file.name);
  EXPECT_THAT(names, ::testing::ElementsAre("below/file", "file", "link"));
}

TEST_F(CopyTest, LinksThatLeadOutAreRefused) {
  const std::string source = SaveAt("ckpt", 1, 100);
  Write("secret/file", "nobody copies this");
  const auto refusal = [&](const fs::path& target, const std::string& why) {
    const std::string link = source + "/linked";
    fs::remove(link);
    fs::create_symlink(target, link);
    const Status status = CopyStatus(source, Local("copy"));
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition)
        << status.ToString();
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr(link), HasSubstr(why)));
    EXPECT_FALSE(fs::exists(Local("copy")));
    EXPECT_EQ(CopyStatus(source, "mem://b/copy").code(),
              StatusCode::kFailedPrecondition);
  };
  refusal(Local("secret/file"), "leads out");
  refusal("../secret/file", "leads out");
  refusal(Local("secret"), "leads out");
  refusal(source + "/d", "leads to a directory");
  // A path that only begins with the source's path is outside the source.
  Write("ckpt-2/file", "nor this");
  refusal(Local("ckpt-2/file"), "leads out");
}

TEST_F(CopyTest, LinksWithinAndTheSourceItselfAreFollowed) {
  const std::string source = SaveAt("ckpt", 1, 100);
  fs::create_symlink("commit_success.txt", source + "/linked");
  fs::create_directory_symlink(source, Local("named"));
  MustCopy(Local("named"), Local("copy"));
  EXPECT_EQ(FilesAt(Local("copy")), FilesAt(source));
  EXPECT_FALSE(fs::is_symlink(Local("copy/linked")));
}

TEST_F(CopyTest, LinksAreFollowedWhenAskedTo) {
  const std::string source = SaveAt("ckpt", 1, 100);
  Write("elsewhere/a/file", "wanted");
  fs::create_symlink(Local("elsewhere/a/file"), source + "/linked");
  fs::create_directory_symlink("../elsewhere", source + "/more");
  CopyOptions options;
  options.follow_links = true;
  MustCopy(source, Local("copy"), options);
  const Files files = FilesAt(Local("copy"));
  EXPECT_EQ(files.at("linked"), "wanted");
  EXPECT_EQ(files.at("more/a/file"), "wanted");
}

TEST_F(CopyTest, AFileThatBecameALinkIsNotRead) {
  Write("tree/a", "1");
  Write("secret", "2");
  const auto listing = ListWholeTree(Place(Local("tree")));
  ASSERT_TRUE(listing.ok());
  fs::remove(Local("tree/a"));
  fs::create_symlink(Local("secret"), Local("tree/a"));
  EXPECT_EQ(ReadListedFile(*listing, listing->files[0]).status().code(),
            StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace holdfast
