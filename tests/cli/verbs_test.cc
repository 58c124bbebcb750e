// The verbs with a fake library: text, JSON, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/cli/fake_checkpoint.h"
#include "tests/cli/run_words.h"

namespace holdfast::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

class Verbs : public ::testing::Test {
 protected:
  void SetUp() override {
    ClearWorld();
    FakeCheckpoint c;
    c.info.format = "orbax";
    c.info.use_ocdbt = true;
    c.info.zarr_format = 2;
    c.info.step = 7;
    c.info.items = {{"state", "state"}};
    c.info.custom_metadata = R"({"note": "ü"})";
    c.info.commit_timestamp_ns = 1795201191302735606;
    c.leaves = {
        ArrayLeaf<int32_t>("params.w", DType::kInt32, {2, 3},
                           {1, 2, 3, 4, 5, 6}),
        ArrayLeaf<uint16_t>("params.b", DType::kBfloat16, {2},
                            {0x3f80, 0x4000}),
        ArrayLeaf<int64_t>("step", DType::kInt64, {}, {7}),
        ArrayLeaf<double>("loss", DType::kFloat64, {}, {NAN}),
        TextLeaf("name", ValueKind::kString, "hällo"),
        EmptyLeaf("opt.none", ValueKind::kNone),
        EmptyLeaf("opt.dict", ValueKind::kEmptyDict),
    };
    c.report.leaf_count = 7;
    c.report.chunk_count = 4;
    c.report.checksummed_chunk_count = 3;
    c.report.stats.decoded_bytes = 3 << 20;
    c.report.stats.total_seconds = 0.5;
    PutCheckpoint("/c", c);
  }
};

TEST_F(Verbs, LsAlignsAndTotals) {
  const Ran ran = RunWords({"ls", "/c", "params", "name"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out,
            "NAME      KIND    TYPE         CHUNKS  STORED  DECODED  CODEC\n"
            "params.w  array   int32[2,3]        1    12 B     24 B  zstd\n"
            "params.b  array   bfloat16[2]       1     2 B      4 B  zstd\n"
            "name      string  -                 -     6 B      6 B  -\n"
            "3 leaves, 8 parameters, 2 chunks, stored 20 B, decoded 34 B\n");
}

TEST_F(Verbs, LsSortsAndShowsMore) {
  const Ran sized = RunWords({"ls", "--quiet", "--sort=size", "/c"});
  EXPECT_EQ(sized.out.substr(0, 8), "params.w");
  EXPECT_THAT(sized.out, Not(HasSubstr("NAME")));
  const Ran named = RunWords({"ls", "-q", "--sort=name", "/c"});
  EXPECT_EQ(named.out.substr(0, 4), "loss");
  EXPECT_THAT(RunWords({"ls", "-l", "/c"}).out, HasSubstr("[2,3]"));
}

TEST_F(Verbs, LsJsonReadsBack) {
  const Ran ran = RunWords({"ls", "--json", "/c"});
  const Json json = Json::parse(ran.out);
  ASSERT_EQ(json["leaves"].size(), 7u);
  EXPECT_EQ(json["leaf_count"], 7);
  EXPECT_EQ(json["leaves"][0]["key"], Json({"params", "w"}));
  EXPECT_EQ(json["leaves"][0]["chunk_shape"], Json({2, 3}));
  EXPECT_TRUE(json["leaves"][4]["dtype"].is_null());
}

TEST_F(Verbs, ListingsTellOfLeavesThatAreDamaged) {
  FakeCheckpoint c;
  c.leaves = {EmptyLeaf("lost", ValueKind::kArray),
              EmptyLeaf("odd", ValueKind::kArray)};
  c.leaves[0].info.problem = DataLossError("leaf lost: .zarray: got 1, want 2");
  c.leaves[1].info.problem = FailedPreconditionError("leaf odd: no reader");
  PutCheckpoint("/bad", c);
  for (const char* verb : {"ls", "tree", "info"}) {
    const Ran ran = RunWords({verb, "/bad"});
    EXPECT_EQ(ran.code, 1) << verb;
    EXPECT_EQ(ran.err, "holdfast: leaf lost: .zarray: got 1, want 2\n");
  }
  const auto json =
      nlohmann::json::parse(RunWords({"ls", "--json", "/bad"}).out);
  EXPECT_EQ(json["leaves"][0]["error"],
            "DATA_LOSS: leaf lost: .zarray: got 1, want 2");
  EXPECT_EQ(RunWords({"ls", "/bad", "odd"}).code, 0);
}

TEST_F(Verbs, LsTellsOfPatternsThatSelectNothing) {
  const Ran ran = RunWords({"ls", "/c", "nope*"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_EQ(ran.err,
            "holdfast: no leaf matches 'nope*' (did you mean none?)\n");
}

TEST_F(Verbs, FailuresHaveTheirExitCodes) {
  EXPECT_EQ(RunWords({"ls", "/nowhere"}).code, 3);
  EXPECT_EQ(RunWords({"steps", "/nowhere"}).code, 3);
  EXPECT_EQ(RunWords({"ls"}).code, 2);
  EXPECT_EQ(RunWords({}).code, 2);
  EXPECT_EQ(RunWords({"help", "nothing"}).code, 2);
  const Ran ran = RunWords({"lss"});
  EXPECT_EQ(ran.err,
            "holdfast: unknown verb 'lss' (did you mean ls?)\n"
            "hint: holdfast --help lists the verbs\n");
  EXPECT_EQ(RunWords({"--version"}).out.substr(0, 9), "holdfast ");
}

TEST_F(Verbs, FailsWhenOutputCannotBeWritten) {
  const Ran ran = RunWords(
      {"ls", "/c"}, [](cli::Env& env) { env.out.setstate(std::ios::badbit); });
  EXPECT_EQ(ran.code, 3);
}

TEST_F(Verbs, OpenOptionsReachTheLibrary) {
  EXPECT_EQ(
      RunWords({"info", "--step=9", "--item", "state", "--no-verify", "/c"})
          .code,
      0);
  EXPECT_EQ(Calls().open.step, 9);
  EXPECT_EQ(Calls().open.item, "state");
  EXPECT_FALSE(Calls().open.verify);
  RunWords({"verify", "--missing=fill", "-j2", "--memory=1M", "/c"});
  EXPECT_EQ(Calls().open.missing_chunks, MissingChunks::kFill);
  EXPECT_EQ(Calls().threads, 2);
  EXPECT_EQ(Calls().memory_bytes, 1u << 20);
}

TEST_F(Verbs, TreeDrawsBoxes) {
  EXPECT_EQ(RunWords({"tree", "/c"}).out,
            "/c\n"
            "├── params  (8 parameters, 28 B)\n"
            "│   ├── w  int32[2,3] 24 B\n"
            "│   └── b  bfloat16[2] 4 B\n"
            "├── step  int64\n"
            "├── loss  float64\n"
            "├── name  string\n"
            "└── opt  (0 B)\n"
            "    ├── none  none\n"
            "    └── dict  empty_dict\n"
            "7 leaves, 8 parameters, 4 chunks, stored 28 B, decoded 50 B\n");
}

TEST_F(Verbs, TreeStopsAtADepthAndSpeaksAscii) {
  const Ran ran = RunWords({"tree", "--depth=1", "-q", "/c"},
                           [](cli::Env& env) { env.utf8 = false; });
  EXPECT_EQ(ran.out,
            "|-- params  (2 leaves, 8 parameters, 28 B)\n"
            "|-- step  int64\n"
            "|-- loss  float64\n"
            "|-- name  string\n"
            "`-- opt  (2 leaves, 0 B)\n");
}

TEST_F(Verbs, TreeJsonNests) {
  const Json json = Json::parse(RunWords({"tree", "--json", "/c"}).out);
  EXPECT_EQ(json["children"][0]["key"], "params");
  EXPECT_EQ(json["children"][0]["children"][1]["leaf"]["dtype"], "bfloat16");
  EXPECT_EQ(json["children"][0]["below"]["leaf_count"], 2);
  const Json flat =
      Json::parse(RunWords({"tree", "--json", "--depth=1", "/c"}).out);
  EXPECT_FALSE(flat["children"][0].contains("children"));
}

TEST_F(Verbs, TreeBearsDeepKeys) {
  FakeCheckpoint c;
  c.leaves = {EmptyLeaf("x", ValueKind::kNone)};
  c.leaves[0].info.key.assign(3000, "k");
  PutCheckpoint("/deep", c);
  EXPECT_EQ(RunWords({"tree", "/deep"}).code, 0);
  EXPECT_TRUE(Json::accept(RunWords({"tree", "--json", "/deep"}).out));
}

TEST_F(Verbs, NamesCannotCommandTheTerminal) {
  FakeCheckpoint c;
  c.leaves = {EmptyLeaf("\x1b[2Jx", ValueKind::kNone)};
  PutCheckpoint("/evil", c);
  for (const char* verb : {"ls", "tree", "digest"}) {
    EXPECT_THAT(RunWords({verb, "/evil"}).out, Not(HasSubstr("\x1b")));
  }
}

TEST_F(Verbs, InfoSummarises) {
  const Ran ran = RunWords({"info", "/c"});
  EXPECT_THAT(ran.out, HasSubstr("layout      ocdbt, zarr v2\n"));
  EXPECT_THAT(ran.out, HasSubstr("committed   2026-11-20T18:59:51.302Z\n"));
  EXPECT_THAT(ran.out, HasSubstr("ratio       1.79\n"));
  EXPECT_THAT(ran.out, HasSubstr("dtypes      bfloat16              1 leaf"));
  const Json json = Json::parse(RunWords({"info", "--json", "/c"}).out);
  EXPECT_EQ(json["custom_metadata"]["note"], "ü");
  EXPECT_EQ(json["dtypes"]["int32"]["decoded_bytes"], 24);
  EXPECT_EQ(json["commit_timestamp_ns"], 1795201191302735606);
  EXPECT_TRUE(json["init_timestamp"].is_null());
}

TEST_F(Verbs, CatPrintsValues) {
  EXPECT_EQ(RunWords({"cat", "/c", "params.w"}).out, "[[1 2 3]\n [4 5 6]]\n");
  EXPECT_EQ(RunWords({"cat", "/c", "params.b"}).out, "[1. 2.]\n");
  EXPECT_EQ(RunWords({"cat", "/c", "step"}).out, "7\n");
  EXPECT_EQ(RunWords({"cat", "/c", "loss"}).out, "nan\n");
  EXPECT_EQ(RunWords({"cat", "/c", "name"}).out, "hällo\n");
  EXPECT_EQ(RunWords({"cat", "/c", "opt.none"}).out, "None\n");
  EXPECT_EQ(RunWords({"cat", "/c", "opt.dict"}).out, "{}\n");
}

TEST_F(Verbs, CatReadsOnlyTheBoxOfASlice) {
  EXPECT_EQ(RunWords({"cat", "/c", "params.w[::-1, 1]"}).out, "[5 2]\n");
  ASSERT_EQ(Calls().boxes.size(), 1u);
  EXPECT_EQ(Calls().boxes[0], std::pair(Shape({0, 1}), Shape({2, 1})));
  EXPECT_EQ(Calls().read_count, 0);
  EXPECT_EQ(RunWords({"cat", "/c", "params.w[1, 2]"}).out, "6\n");
  EXPECT_EQ(RunWords({"cat", "/c", "params.w[2:]"}).out, "[]\n");
  EXPECT_EQ(Calls().boxes.size(), 2u);
}

TEST_F(Verbs, CatTriesTheWholeArgumentAsANameFirst) {
  FakeCheckpoint c;
  c.leaves = {ArrayLeaf<int8_t>("w[0]", DType::kInt8, {2}, {8, 9}),
              ArrayLeaf<int8_t>("w", DType::kInt8, {2}, {1, 2})};
  PutCheckpoint("/b", c);
  EXPECT_EQ(RunWords({"cat", "/b", "w[0]"}).out, "[8 9]\n");
  EXPECT_EQ(RunWords({"cat", "/b", "w[0][1]"}).out, "9\n");
  EXPECT_EQ(RunWords({"cat", "/b", "w[1]"}).out, "2\n");
}

TEST_F(Verbs, CatNeedsNoNameForASingleLeaf) {
  FakeCheckpoint c;
  c.leaves = {ArrayLeaf<int8_t>("checkpoint", DType::kInt8, {2}, {8, 9})};
  PutCheckpoint("/one", c);
  EXPECT_EQ(RunWords({"cat", "/one"}).out, "[8 9]\n");
  EXPECT_EQ(RunWords({"cat", "/one", "[1]"}).out, "9\n");
  EXPECT_EQ(RunWords({"cat", "/c"}).code, 2);
}

TEST_F(Verbs, CatRefusals) {
  const Ran missing = RunWords({"cat", "/c", "params.x[0]"});
  EXPECT_EQ(missing.code, 3);
  EXPECT_THAT(missing.err, HasSubstr("\"params.x\" is not in /c"));
  EXPECT_THAT(missing.err, HasSubstr("hint: holdfast ls /c lists the names"));
  EXPECT_EQ(RunWords({"cat", "/c", "params.w[9]"}).code, 2);
  EXPECT_EQ(RunWords({"cat", "/c", "params.w[None]"}).code, 2);
  EXPECT_EQ(RunWords({"cat", "/c", "name[0]"}).code, 2);
  EXPECT_EQ(RunWords({"cat", "--npy", "/c", "name"}).code, 2);
  EXPECT_EQ(RunWords({"cat", "--npy", "--raw", "/c", "step"}).code, 2);
  for (const char* flag : {"--raw", "--npy"}) {
    const Ran ran = RunWords({"cat", flag, "/c", "params.w"},
                             [](cli::Env& env) { env.out_is_terminal = true; });
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(Verbs, CatWritesBytes) {
  EXPECT_EQ(RunWords({"cat", "--raw", "/c", "params.b"}).out,
            std::string("\x80\x3f\x00\x40", 4));
  EXPECT_EQ(RunWords({"cat", "--raw", "/c", "name"}).out, "hällo");
  EXPECT_EQ(RunWords({"cat", "--raw", "/c", "opt.none"}).out, "");
  const std::string npy = RunWords({"cat", "--npy", "/c", "params.b[1:]"}).out;
  EXPECT_THAT(npy, HasSubstr("'<V2', 'fortran_order': False, 'shape': (1,)"));
  EXPECT_EQ(npy.substr(npy.size() - 3), std::string("\n\x00\x40", 3));
}

// With little memory, cat reads slabs that end on chunk boundaries, and prints
// the same bytes.
TEST_F(Verbs, CatStreamsInSlabs) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i);
  FakeCheckpoint c;
  c.leaves = {RawLeaf("w", DType::kUint8, {1, 25, 4}, bytes)};
  c.leaves[0].info.chunk_shape = {1, 5, 4};
  PutCheckpoint("/s", c);
  EXPECT_EQ(RunWords({"cat", "--raw", "--memory=32", "/s", "w"}).out, bytes);
  ASSERT_EQ(Calls().boxes.size(), 5u);
  EXPECT_EQ(Calls().boxes[1], std::pair(Shape({0, 5, 0}), Shape({1, 5, 4})));
  Calls() = {};
  const std::string reversed =
      RunWords({"cat", "--raw", "--memory=1", "/s", "w[0,::-5,0]"}).out;
  EXPECT_EQ(reversed, std::string({96, 76, 56, 36, 16}));
  EXPECT_EQ(Calls().boxes.size(), 5u);
}

TEST_F(Verbs, CatSummarisesAboveAThousand) {
  std::vector<int32_t> values(2000);
  for (int i = 0; i < 2000; ++i) values[i] = i;
  FakeCheckpoint c;
  c.leaves = {ArrayLeaf<int32_t>("w", DType::kInt32, {2, 1000}, values)};
  PutCheckpoint("/big", c);
  EXPECT_EQ(RunWords({"cat", "/big", "w"}).out,
            "[[   0    1    2 ...  997  998  999]\n"
            " [1000 1001 1002 ... 1997 1998 1999]]\n");
  EXPECT_EQ(RunWords({"cat", "/big", "w[0, ::-1]"}).out.substr(0, 18),
            "[999 998 997 996 9");
  EXPECT_THAT(RunWords({"cat", "--full", "/big", "w"}).out,
              Not(HasSubstr("...")));
}

// Reads only the corners of an array that is too large to read completely.
TEST_F(Verbs, CatReadsCornersOfHugeArrays) {
  std::string bytes(40 << 20, '\0');
  bytes.back() = 9;
  FakeCheckpoint c;
  c.leaves = {RawLeaf("w", DType::kUint8, {2, 20 << 20}, bytes)};
  PutCheckpoint("/huge", c);
  EXPECT_EQ(RunWords({"cat", "/huge", "w"}).out,
            "[[0 0 0 ... 0 0 0]\n [0 0 0 ... 0 0 9]]\n");
  EXPECT_EQ(Calls().read_count, 0);
  ASSERT_EQ(Calls().boxes.size(), 2u);
  EXPECT_EQ(Calls().boxes[1],
            std::pair(Shape({0, (20 << 20) - 3}), Shape({2, 3})));
}

TEST_F(Verbs, CatJson) {
  const Json json =
      Json::parse(RunWords({"cat", "--json", "/c", "params.w[1]"}).out);
  EXPECT_EQ(json["value"], Json({4, 5, 6}));
  EXPECT_EQ(json["shape"], Json({3}));
  EXPECT_EQ(Json::parse(RunWords({"cat", "--json", "/c", "name"}).out)["value"],
            "hällo");
  EXPECT_EQ(Json::parse(RunWords({"cat", "--json", "/c", "loss"}).out)["value"],
            "NaN");
}

TEST_F(Verbs, DigestPrintsAsSha256sum) {
  const Ran ran = RunWords({"digest", "-j3", "/c", "params"});
  EXPECT_EQ(ran.code, 0);
  ASSERT_EQ(ran.out.size(), 2 * (64 + 2 + 8 + 1));
  EXPECT_EQ(ran.out.substr(64, 11), "  params.w\n");
}

TEST_F(Verbs, DigestJsonIsExact) {
  const Json json = Json::parse(RunWords({"digest", "--json", "/c"}).out);
  EXPECT_EQ(json.size(), 3u);
  EXPECT_EQ(json["path"], "/c");
  EXPECT_EQ(json["format"], "orbax");
  ASSERT_EQ(json["leaves"].size(), 7u);
  const Json& w = json["leaves"][0];
  EXPECT_EQ(w.size(), 6u);
  EXPECT_EQ(w["name"], "params.w");
  EXPECT_EQ(w["key"], Json({"params", "w"}));
  EXPECT_EQ(w["kind"], "array");
  EXPECT_EQ(w["dtype"], "int32");
  EXPECT_EQ(w["shape"], Json({2, 3}));
  EXPECT_EQ(w["sha256"].get<std::string>().size(), 64u);
  EXPECT_EQ(json["leaves"][2]["value"], 7);
  EXPECT_EQ(json["leaves"][2]["shape"], Json::array());
  EXPECT_EQ(json["leaves"][3]["value"], "NaN");
  EXPECT_EQ(json["leaves"][4]["value"], "hällo");
  EXPECT_TRUE(json["leaves"][4]["shape"].is_null());
  EXPECT_TRUE(json["leaves"][5]["dtype"].is_null());
}

TEST_F(Verbs, DigestNamesDamagedLeavesAndGoesOn) {
  FakeCheckpoint c;
  for (int i = 0; i < 50; ++i) {
    c.leaves.push_back(RawLeaf("w" + std::to_string(i), DType::kUint8, {9},
                               std::string(9, static_cast<char>(i))));
  }
  c.leaves[20].status = DataLossError("w20: chunk 0: crc32c differs");
  PutCheckpoint("/d", c);
  // With less memory than one leaf needs, digest reads one leaf at a time.
  const Ran ran = RunWords({"digest", "--memory=8", "-j8", "/d"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_EQ(ran.err, "holdfast: w20: chunk 0: crc32c differs\n");
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 49);
  const Ran json = RunWords({"digest", "--json", "/d"});
  EXPECT_EQ(json.code, 1);
  const Json parsed = Json::parse(json.out);
  EXPECT_TRUE(parsed["leaves"][20]["sha256"].is_null());
  EXPECT_EQ(parsed["leaves"][20]["error"],
            "DATA_LOSS: w20: chunk 0: crc32c differs");
}

TEST_F(Verbs, InterruptedVerbsExit130WithoutHalfAList) {
  std::atomic<bool> cancel{false};
  const auto interrupt = [&](cli::Env& env) { env.cancel = &cancel; };
  FakeCheckpoint c;
  c.leaves = {EmptyLeaf("a", ValueKind::kNone),
              EmptyLeaf("b", ValueKind::kNone)};
  c.leaves[0].on_digest = [&] { cancel = true; };
  PutCheckpoint("/stopped", c);
  const Ran digest = RunWords({"digest", "-j1", "/stopped"}, interrupt);
  EXPECT_EQ(digest.code, 130);
  EXPECT_EQ(digest.out, "");
  EXPECT_EQ(RunWords({"verify", "/c"}, interrupt).code, 130);
}

TEST_F(Verbs, VerifySaysOk) {
  const Ran ran = RunWords({"verify", "/c"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_EQ(ran.out,
            "ok: 7 leaves, 4 chunks, 3.0 MiB in 0.50 s (3 of 4 chunks "
            "checksummed)\n");
  EXPECT_EQ(RunWords({"verify", "-q", "/c"}).out, "");
}

TEST_F(Verbs, VerifyNamesDamage) {
  FakeCheckpoint c;
  c.report.leaf_count = 2;
  c.report.damages = {
      {"params.w", "d/1a", 4096, DataLossError("crc32c differs")},
      {"", "_METADATA", std::nullopt, DataLossError("not JSON")}};
  c.report.notes = {"1 chunk carries no checksum"};
  PutCheckpoint("/d", c);
  const Ran ran = RunWords({"verify", "/d"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out,
              HasSubstr("damaged: params.w: d/1a at 4096: crc32c differs\n"
                        "damaged: _METADATA: not JSON\n"
                        "note: 1 chunk carries no checksum\n"
                        "2 damages in 2 leaves"));
  const Ran json = RunWords({"verify", "--json", "/d"});
  EXPECT_EQ(json.code, 1);
  const Json parsed = Json::parse(json.out);
  EXPECT_EQ(parsed["ok"], false);
  EXPECT_EQ(parsed["damages"][0]["offset"], 4096);
  EXPECT_EQ(parsed["damages"][0]["code"], "DATA_LOSS");
  EXPECT_TRUE(parsed["damages"][1]["offset"].is_null());
}

// If parts are not supported, verify reports neither damage nor success.
TEST_F(Verbs, VerifyTellsWhatIsNotSupported) {
  FakeCheckpoint c;
  c.report.leaf_count = 2;
  c.report.not_supported = {
      {"h", "", std::nullopt, UnimplementedError("complex32")}};
  PutCheckpoint("/d", c);
  const Ran ran = RunWords({"verify", "/d"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.out, HasSubstr("not supported: h: complex32\n"
                                 "1 not supported in 2 leaves"));
  EXPECT_THAT(ran.out, Not(HasSubstr("damage")));
  const Json json = Json::parse(RunWords({"verify", "--json", "/d"}).out);
  EXPECT_EQ(json["ok"], false);
  EXPECT_TRUE(json["damages"].empty());
  EXPECT_EQ(json["not_supported"][0]["leaf"], "h");
  EXPECT_EQ(json["not_supported"][0]["code"], "UNIMPLEMENTED");
  c.report.damages = {{"w", "d/1a", 7, DataLossError("crc32c differs")}};
  PutCheckpoint("/d", c);
  EXPECT_EQ(RunWords({"verify", "/d"}).code, 1);
}

TEST_F(Verbs, LeavesThatAreNotSupportedAreListedSo) {
  FakeCheckpoint c;
  FakeLeaf leaf;
  leaf.info.name = "h";
  leaf.info.problem = UnimplementedError("leaf h: complex32");
  c.leaves = {leaf};
  PutCheckpoint("/d", c);
  for (const char* verb : {"ls", "tree", "info"}) {
    const Ran ran = RunWords({verb, "/d"});
    EXPECT_EQ(ran.code, 3) << verb;
    EXPECT_THAT(ran.err, HasSubstr("not supported: leaf h: complex32"));
  }
  EXPECT_THAT(RunWords({"ls", "/d"}).out, HasSubstr("not supported"));
}

TEST_F(Verbs, VerifyOfARootGoesDownToTheFirstSoundStep) {
  FakeCheckpoint sound;
  sound.report.leaf_count = 1;
  FakeCheckpoint damaged = sound;
  damaged.report.damages = {{"w", "d/1a", 7, DataLossError("crc32c differs")}};
  std::vector<StepInfo> steps;
  for (int64_t step = 1; step <= 4; ++step) {
    const std::string name = std::to_string(step);
    steps.push_back({.name = name, .step = step, .committed = true});
    // Step 4 does not exist.
    if (step < 4) PutCheckpoint("/r/" + name, step == 3 ? damaged : sound);
  }
  PutSteps("/r", steps);
  const Ran ran = RunWords({"verify", "/r"});
  EXPECT_EQ(ran.code, 1);
  EXPECT_THAT(ran.out, HasSubstr("damaged: 4: "));
  EXPECT_THAT(ran.out, HasSubstr("damaged: 3: w: d/1a at 7: crc32c differs\n"));
  EXPECT_THAT(ran.out, HasSubstr("ok: 2: 1 leaf"));
  EXPECT_THAT(ran.out, HasSubstr("newest step that verifies: 2\n"));
  EXPECT_THAT(ran.out, Not(HasSubstr("ok: 1: ")));
  EXPECT_THAT(RunWords({"verify", "--all", "/r"}).out, HasSubstr("ok: 1: "));
  const Json json = Json::parse(RunWords({"verify", "--json", "/r"}).out);
  EXPECT_EQ(json["newest_ok"], 2);
  ASSERT_EQ(json["steps"].size(), 3u);
  EXPECT_EQ(json["steps"][1]["damages"][0]["offset"], 7);
  PutCheckpoint("/r/4", sound);
  EXPECT_EQ(RunWords({"verify", "/r"}).code, 0);
  EXPECT_EQ(RunWords({"verify", "-q", "/r"}).out, "");
  EXPECT_EQ(RunWords({"verify", "--all", "/r"}).code, 1);
  EXPECT_EQ(RunWords({"verify", "--all", "/c"}).code, 2);
}

TEST_F(Verbs, VerifyOfARootEndsWhereTheMachineFails) {
  FakeCheckpoint fails;
  fails.verify_status = ResourceExhaustedError("read /r/2/d/0: too many files");
  PutCheckpoint("/r/1", FakeCheckpoint());
  PutCheckpoint("/r/2", fails);
  PutSteps("/r", {{.name = "1", .step = 1, .committed = true},
                  {.name = "2", .step = 2, .committed = true}});
  for (const char* const path : {"/r", "/r/2"}) {
    const Ran ran = RunWords({"verify", path});
    EXPECT_EQ(ran.code, 3);
    EXPECT_EQ(ran.out, "");
    EXPECT_EQ(ran.err, "holdfast: read /r/2/d/0: too many files\n");
  }
}

TEST_F(Verbs, VerifyDrawsProgressOnTerminalsOnly) {
  PutProgress({{"verify", 1, 4}, {"verify", 2, 4}});
  double seconds = 0;
  const auto terminal = [&](cli::Env& env) {
    env.err_is_terminal = true;
    env.now_seconds = [&] { return seconds += 2; };
  };
  const Ran shown = RunWords({"verify", "/c"}, terminal);
  EXPECT_THAT(shown.err, HasSubstr("50%"));
  EXPECT_TRUE(shown.err.ends_with("\r\x1b[K"));
  EXPECT_EQ(RunWords({"verify", "--progress=never", "/c"}, terminal).err, "");
  EXPECT_EQ(RunWords({"verify", "/c"}).err, "");
}

TEST_F(Verbs, ColorsOnlyWhereWanted) {
  const auto terminal = [](cli::Env& env) { env.out_is_terminal = true; };
  EXPECT_THAT(RunWords({"tree", "/c"}, terminal).out, HasSubstr("\x1b[1;34m"));
  EXPECT_THAT(RunWords({"tree", "--color=never", "/c"}, terminal).out,
              Not(HasSubstr("\x1b")));
  EXPECT_THAT(RunWords({"tree", "--color=always", "/c"}).out,
              HasSubstr("\x1b"));
  EXPECT_THAT(RunWords({"tree", "/c"},
                       [](cli::Env& env) {
                         env.out_is_terminal = true;
                         env.no_color = true;
                       })
                  .out,
              Not(HasSubstr("\x1b")));
}

TEST_F(Verbs, StepsTable) {
  PutSteps("/root", {{.name = "7",
                      .step = 7,
                      .path = "/root/7",
                      .committed = true,
                      .commit_timestamp_ns = 0,
                      .bytes = 2048,
                      .items = {"metrics", "state"},
                      .metrics = R"({"loss": 0.5, "acc": 0.25})"},
                     {.name = "8.orbax-checkpoint-tmp",
                      .path = "/root/8.orbax-checkpoint-tmp",
                      .why_not = "temporary directory"}});
  const Ran ran = RunWords({"steps", "/root"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out,
              HasSubstr("7  1970-01-01T00:00:00.000Z  2.0 KiB  metrics,state  "
                        "acc=0.25 loss=0.5  committed\n"));
  EXPECT_THAT(ran.out, HasSubstr("no: temporary directory\n"));
  const Json json = Json::parse(RunWords({"steps", "--json", "/root"}).out);
  EXPECT_EQ(json["steps"][0]["metrics"]["loss"], 0.5);
  EXPECT_EQ(json["steps"][0]["step"], 7);
  EXPECT_TRUE(json["steps"][1]["step"].is_null());
  EXPECT_EQ(json["steps"][1]["why_not"], "temporary directory");
}

TEST_F(Verbs, WatchShowsTheRanksOfLiveSaves) {
  Ran ran = RunWords({"watch", "--once", "/ckpt"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, HasSubstr("/ckpt/7\n"));
  EXPECT_THAT(ran.out, HasSubstr("meet: write"));
  EXPECT_THAT(ran.out, HasSubstr("1.0 MiB of 4.0 MiB"));
  EXPECT_THAT(ran.out, HasSubstr("others have waited for it for 5 s"));
  ran = RunWords({"watch", "--once", "--json", "/ckpt"});
  const auto json = nlohmann::json::parse(ran.out);
  ASSERT_EQ(json.at("saves").size(), 1u);
  EXPECT_EQ(json["saves"][0]["ranks"][1]["expected_seconds"], 3);
  EXPECT_EQ(json["saves"][0]["ranks"][0]["expected_seconds"], nullptr);
  EXPECT_EQ(RunWords({"watch", "--once", "/none"}).out,
            "no save is under way\n");
}

TEST_F(Verbs, TraceIsWrittenAlsoWhenTheVerbFails) {
  const std::string file = ::testing::TempDir() + "/holdfast_trace.json";
  (void)RunWords({"verify", "--trace", file, "/none"});
  std::ifstream text(file);
  EXPECT_TRUE(Json::parse(text).at("traceEvents").is_array());
  EXPECT_EQ(RunWords({"ls", "--trace", file, "/c"}).code, 2);
}

TEST_F(Verbs, ReportWritesAPage) {
  const std::string file = ::testing::TempDir() + "/holdfast_report.html";
  Ran ran = RunWords({"report", "-o", file, "--against=/d", "/c"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(Calls().report.against, "/d");
  EXPECT_TRUE(Calls().report.statistics);
  EXPECT_FALSE(Calls().report.verify);
  EXPECT_THAT(ran.out, HasSubstr("ok: 3 leaves in " + file));
  EXPECT_THAT(ran.out, HasSubstr("2 different"));
  std::stringstream page;
  page << std::ifstream(file).rdbuf();
  EXPECT_EQ(page.str(), "<!doctype html>");

  ran = RunWords({"report", "-o-", "--verify", "--no-statistics", "/c"});
  EXPECT_EQ(ran.code, 1);  // damaged
  EXPECT_EQ(ran.out, "<!doctype html>");
  EXPECT_FALSE(Calls().report.statistics);
  ran = RunWords({"report", "--json", "-o", file, "/c"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("\"leaf_count\": 3"));
  ran = RunWords({"report", "-o", "/nowhere/r.html", "/c"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_THAT(ran.err, HasSubstr("cannot write /nowhere/r.html"));
}

}  // namespace
}  // namespace holdfast::testing
