// Conversions to a foreign format and back: equal values, what is kept when one
// is cut off, and what is never replaced.
#include "convert/format_convert.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "checkpoint/test_trees.h"
#include "convert/work_directory.h"
#include "interop/safetensors.h"
#include "interop/safetensors_target.h"
#include "storage/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

std::string BytesOf(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

std::unique_ptr<Checkpoint> OpenAny(const std::string& path) {
  auto opened =
      path.ends_with(".safetensors") ? OpenSafetensors(path, true) : Open(path);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

// One line a leaf: all that a conversion keeps.
std::vector<std::string> LinesOf(const Checkpoint& checkpoint) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < checkpoint.leaves().size(); ++i) {
    const LeafInfo& leaf = checkpoint.leaves()[i];
    std::string line = leaf.name + " " + std::string(ValueKindName(leaf.kind));
    for (size_t k = 0; k < leaf.key.size(); ++k) {
      line += (leaf.key_is_sequence[k] ? " #" : " ") + leaf.key[k];
    }
    if (leaf.dtype) line += " " + std::string(DTypeName(*leaf.dtype));
    line += ShapeToString(leaf.shape) + leaf.value_type + leaf.prng_impl +
            leaf.sharding_json;
    const auto digest = DigestLeaf(checkpoint, i);
    line += digest.ok() ? *digest : digest.status().ToString();
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// A source with some MiB, so that there are many pieces.
Tree LargeTree() {
  Tree tree = AllKindsTree();
  for (int i = 0; i < 6; ++i) {
    tree.Add("w" + std::to_string(i),
             Tree(RandomArray(DType::kFloat32, {64, 1000}, 300 + i)));
  }
  return tree;
}

// Writes safetensors, and does wrong when it is told to.
struct Faults {
  std::atomic<int> writes_left{1 << 30};  // then they fail
  std::atomic<int> sync_count{0};
  bool flips_bit = false;
};

class FaultyTarget : public FormatTarget {
 public:
  explicit FaultyTarget(Faults* faults) : faults_(faults) {}
  Status Begin(const TargetPlan& plan, const std::string& directory,
               bool resume) override {
    return base_->Begin(plan, directory, resume);
  }
  std::string OneFile() const override { return base_->OneFile(); }
  std::vector<Box> PiecesOf(size_t leaf, uint64_t bytes_max) const override {
    return base_->PiecesOf(leaf, bytes_max);
  }
  uint64_t FilePosition(size_t leaf) const override {
    return base_->FilePosition(leaf);
  }
  Result<std::string> Write(size_t leaf, const Box& box,
                            std::string_view elements) override {
    if (--faults_->writes_left < 0) {
      return ResourceExhaustedError("injected: the disk is full");
    }
    std::string own(elements);
    if (faults_->flips_bit) own[0] ^= 1;
    return base_->Write(leaf, box, own);
  }
  Status Restore(size_t leaf, const Box& box, std::string_view mark) override {
    return base_->Restore(leaf, box, mark);
  }
  Status SyncData() override {
    ++faults_->sync_count;
    return base_->SyncData();
  }
  Status Finish() override { return base_->Finish(); }

 private:
  Faults* faults_;
  std::unique_ptr<FormatTarget> base_ = MakeSafetensorsTarget();
};

FormatAccess FaultyAccess(Faults* faults) {
  return {Format::kSafetensors, std::make_unique<FaultyTarget>(faults),
          [](const std::string& path) { return OpenSafetensors(path, true); }};
}

class FormatConvert : public ::testing::Test {
 protected:
  FormatConvert() {
    source_path_ = scratch_.path() + "/source";
    SaveOptions save;
    save.sync = false;
    save.chunk_bytes_target = 20000;
    EXPECT_TRUE(Save(source_path_, LargeTree(), save).ok());
    source_ = OpenAny(source_path_);
    options_.sync = false;
    options_.format = Format::kSafetensors;
    options_.run.thread_count = 2;
    options_.run.in_flight_bytes_max = 100000;
    options_.part_bytes = 50000;
  }

  std::string PathOf(const std::string& name) const {
    return scratch_.path() + "/" + name;
  }

  Result<ConvertResult> ConvertTo(const std::string& name,
                                  Faults* faults = nullptr) {
    Faults none;
    return ConvertToFormat(*source_, FilesHash(source_path_), PathOf(name),
                           options_,
                           FaultyAccess(faults != nullptr ? faults : &none));
  }

  ScratchDirectory scratch_;
  std::string source_path_;
  std::unique_ptr<Checkpoint> source_;
  ConvertOptions options_;
};

TEST_F(FormatConvert, ThereAndBack) {
  const auto there = Convert(source_path_, PathOf("a.safetensors"), options_);
  ASSERT_TRUE(there.ok()) << there.status().ToString();
  EXPECT_EQ(there->leaf_count, source_->leaves().size());
  EXPECT_EQ(there->checked_bytes, there->decoded_bytes);
  EXPECT_LE(there->waiting_bytes_peak, 50000u);
  EXPECT_FALSE(fs::exists(PathOf("a.safetensors.holdfast-convert-tmp")));
  const auto foreign = OpenAny(PathOf("a.safetensors"));
  EXPECT_EQ(LinesOf(*foreign), LinesOf(*source_));
  for (const Format format : {Format::kOrbax, Format::kOrbaxV1}) {
    ConvertOptions back;
    back.sync = false;
    back.format = format;
    const std::string target = PathOf(std::string(FormatName(format)));
    const auto again = ConvertFrom(*foreign, target, back);
    ASSERT_TRUE(again.ok()) << again.status().ToString();
    EXPECT_EQ(LinesOf(*OpenAny(target)), LinesOf(*source_));
    EXPECT_TRUE(Verify(target)->damages.empty());
  }
}

TEST_F(FormatConvert, RulesAndReport) {
  options_.map.renames = {{"w(\\d)", "weights/\\1"}};
  options_.map.drop = {"arrays", "list"};
  options_.map.casts = {{"w0", DType::kFloat64}};
  for (const auto& [format, name] :
       {std::pair(Format::kSafetensors, "a.safetensors"),
        std::pair(Format::kOrbax, "orbax")}) {
    options_.format = format;
    const auto done = Convert(source_path_, PathOf(name), options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    const auto target = OpenAny(PathOf(name));
    const size_t cast = *target->Find("weights.0");
    EXPECT_EQ(target->leaves()[cast].dtype, DType::kFloat64);
    EXPECT_EQ(*DigestLeaf(*target, *target->Find("weights.3")),
              *DigestLeaf(*source_, *source_->Find("w3")));
    EXPECT_FALSE(target->Find("list.0").ok());
    const std::string text = ConvertReportText(done->report);
    EXPECT_THAT(text, HasSubstr("w0 -> weights.0: renamed; cast to float64\n"));
    EXPECT_THAT(text, HasSubstr("list.0: left out\n"));
    EXPECT_THAT(ConvertReportJson(done->report),
                HasSubstr(R"({"leaf":"w1","new_name":"weights.1",)"
                          R"("what":"renamed"})"));
  }
}

TEST_F(FormatConvert, NeverHalfATarget) {
  std::ofstream(PathOf("a.safetensors")) << "no checkpoint";
  EXPECT_EQ(ConvertTo("a.safetensors").status().code(),
            StatusCode::kAlreadyExists);
  options_.overwrite = true;
  EXPECT_EQ(ConvertTo("a.safetensors").status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(BytesOf(PathOf("a.safetensors")), "no checkpoint");
  fs::remove(PathOf("a.safetensors"));
  ASSERT_TRUE(ConvertTo("a.safetensors").ok());
  const std::string bytes = BytesOf(PathOf("a.safetensors"));
  Faults faults;
  faults.flips_bit = true;
  const Status wrong = ConvertTo("b.safetensors", &faults).status();
  EXPECT_EQ(wrong.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("are not those of the source"));
  EXPECT_FALSE(fs::exists(PathOf("b.safetensors")));
  EXPECT_FALSE(fs::exists(PathOf("b.safetensors.holdfast-convert-tmp")));
}

// Whatever write fails: the next run goes on, and the file is as if nothing had
// been.
TEST_F(FormatConvert, GoesOnAfterAnyFailure) {
  Faults none;
  ASSERT_TRUE(ConvertTo("whole.safetensors", &none).ok());
  EXPECT_GT(none.sync_count, 20);
  const int write_count = (1 << 30) - none.writes_left;
  const std::string want = BytesOf(PathOf("whole.safetensors"));
  int resumed_count = 0;
  for (int k = 0; k < write_count; k += 7) {
    const std::string name = "cut" + std::to_string(k) + ".safetensors";
    Faults faults;
    faults.writes_left = k;
    EXPECT_EQ(ConvertTo(name, &faults).status().code(),
              StatusCode::kResourceExhausted);
    EXPECT_FALSE(fs::exists(PathOf(name)));
    Faults later;
    const auto done = ConvertTo(name, &later);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->report.is_resumed, k > 0) << k;
    EXPECT_EQ((1 << 30) - later.writes_left, write_count - k);
    resumed_count += done->report.is_resumed;
    EXPECT_EQ(BytesOf(PathOf(name)), want) << k;
    EXPECT_FALSE(fs::exists(PathOf(name + ".holdfast-convert-tmp")));
    fs::remove(PathOf(name));
  }
  EXPECT_GT(resumed_count, 5);
}

TEST_F(FormatConvert, BeginsAnewWhenItMust) {
  const auto cut = [&] {
    Faults faults;
    faults.writes_left = 20;
    EXPECT_FALSE(ConvertTo("t.safetensors", &faults).ok());
    EXPECT_TRUE(fs::exists(PathOf("t.safetensors.holdfast-convert-tmp")));
  };
  const auto again = [&] {
    const auto done = ConvertTo("t.safetensors");
    EXPECT_TRUE(done.ok()) << done.status().ToString();
    fs::remove(PathOf("t.safetensors"));
    EXPECT_FALSE(done->report.is_resumed);
    EXPECT_EQ(done->report.kept_bytes, 0u);
    return done->report.resume_text;
  };
  cut();
  options_.map.casts = {{"w1", DType::kFloat16}};
  EXPECT_EQ(again(), "began anew: an earlier conversion had other options");
  cut();
  options_.restart = true;
  EXPECT_EQ(again(), "began anew: as it was asked to");
  options_.restart = false;
  cut();
  fs::resize_file(PathOf("t.safetensors.holdfast-convert-tmp/journal"), 20);
  EXPECT_EQ(again(),
            "began anew: the journal of an earlier conversion is damaged");
  cut();
  fs::remove(PathOf("t.safetensors.holdfast-convert-tmp/journal"));
  EXPECT_EQ(again(), "began anew: an earlier conversion left no journal");
  cut();
  fs::last_write_time(source_path_ + "/_METADATA", fs::file_time_type::min());
  EXPECT_THAT(again(), HasSubstr("has changed"));
}

TEST_F(FormatConvert, OneConversionAtATime) {
  const auto work =
      WorkDirectory::Begin(PathOf("t.safetensors"), {1, 2}, {.sync = false});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(ConvertTo("t.safetensors").status().code(),
            StatusCode::kAlreadyExists);
}

// Runs `body` in a process that SIGKILL ends at the progress call number
// `kill_at`. False: it came to its end before.
bool IsKilled(int kill_at, ConvertOptions options,
              const std::function<Status(const ConvertOptions&)>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> count{0};
    options.run.progress = [&](const Progress&) {
      if (++count >= kill_at) ::kill(::getpid(), SIGKILL);
    };
    ::_exit(body(options).ok() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status)) {
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
  return WIFSIGNALED(status);
}

// Kills that come one after the other, each a bit later, until one comes too
// late; the result must be that of a run nobody killed.
TEST_F(FormatConvert, KillsOfAForeignTarget) {
  ASSERT_TRUE(ConvertTo("whole.safetensors").ok());
  const std::string want = BytesOf(PathOf("whole.safetensors"));
  for (const int step : {3, 11, 40}) {
    const std::string name = PathOf(std::to_string(step) + ".safetensors");
    int kill_count = 0;
    while (IsKilled(step * ++kill_count, options_, [&](const auto& options) {
      return Convert(source_path_, name, options).status();
    })) {
      ASSERT_LT(kill_count, 1000);
      EXPECT_FALSE(fs::exists(name));
    }
    EXPECT_GT(kill_count, 2);
    EXPECT_EQ(BytesOf(name), want);
    EXPECT_FALSE(fs::exists(name + ".holdfast-convert-tmp"));
  }
}

TEST_F(FormatConvert, KillsOfAnOrbaxTarget) {
  const auto want = LinesOf(*source_);
  options_.chunk_bytes_target = 15000;
  uint64_t kept_bytes = 0;
  for (int round = 0; round < 6; ++round) {
    options_.format = round % 2 == 0 ? Format::kOrbax : Format::kOrbaxV1;
    options_.use_ocdbt = round % 3 != 0;
    options_.part_bytes = 100000 << (round % 3);
    const std::string name = PathOf("o" + std::to_string(round));
    int kill_count = 0;
    while (IsKilled(8 * ++kill_count, options_, [&](const auto& options) {
      return Convert(source_path_, name, options).status();
    })) {
      ASSERT_LT(kill_count, 1000);
      if (fs::exists(name)) break;  // killed while it was checked
    }
    EXPECT_GT(kill_count, 2);
    EXPECT_EQ(LinesOf(*OpenAny(name)), want);
    EXPECT_TRUE(Verify(name)->damages.empty());
    EXPECT_FALSE(fs::exists(name + ".orbax-checkpoint-tmp"));
    // Once more, cut by a cancel, to see what was kept.
    std::atomic<bool> cancel = false;
    ConvertOptions cut = options_;
    cut.run.cancel = &cancel;
    cut.run.progress = [&](const Progress& progress) {
      if (progress.done_bytes > progress.total_bytes / 2) cancel = true;
    };
    EXPECT_EQ(Convert(source_path_, name + "c", cut).status().code(),
              StatusCode::kCancelled);
    const auto done = Convert(source_path_, name + "c", options_);
    ASSERT_TRUE(done.ok()) << done.status().ToString();
    EXPECT_EQ(done->checked_bytes, done->decoded_bytes - (8 + 8 + 1));
    kept_bytes += done->report.kept_bytes;
    EXPECT_EQ(LinesOf(*OpenAny(name + "c")), want);
  }
  EXPECT_GT(kept_bytes, 0u);
}

}  // namespace
}  // namespace holdfast
