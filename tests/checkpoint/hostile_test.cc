// Hostile and broken inputs through the public API: false sizes, names that
// lead elsewhere, links out of the checkpoint, directories in every wrong
// state. Each must give the documented code and a message that names the cause,
// without using memory or time that the input cannot justify.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/test_trees.h"
#include "formats/ocdbt/format/btree_node.h"
#include "formats/ocdbt/format/manifest.h"
#include "holdfast/tools/convert.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Sanitizers use memory of their own; the memory limits do not apply then.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr rlim_t kCpuSecondsMax = 10;
constexpr long kGrowthKibMax = 200 << 10;

// The outcome of a call in a separate process.
struct ChildResult {
  std::string text;  // what the function returned; empty if it did not
  int wait_status = 0;
  long growth_kib = 0;  // of the peak of resident memory
};

long PeakKib() {
  rusage usage;
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

// Runs `fn` with limits, writes the growth of the memory peak and the result to
// `fd`, and exits. It is noexcept, so that an exception that escapes the
// library ends the child.
[[noreturn]] void RunAndExit(int fd,
                             const std::function<std::string()>& fn) noexcept {
  const rlimit cpu{kCpuSecondsMax, kCpuSecondsMax};
  ::setrlimit(RLIMIT_CPU, &cpu);
  const rlimit data{rlim_t{2} << 30, rlim_t{2} << 30};
  if (!kSanitized) ::setrlimit(RLIMIT_DATA, &data);
  const long before = PeakKib();
  const std::string text = fn();
  const std::string message = std::to_string(PeakKib() - before) + " " + text;
  const ssize_t written = ::write(fd, message.data(), message.size());
  ::_exit(written == static_cast<ssize_t>(message.size()) ? 0 : 1);
}

// Runs `fn` in a child, so that a hang or excessive memory fails only one test.
ChildResult RunInChild(const std::function<std::string()>& fn) {
  int ends[2];
  EXPECT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) RunAndExit(ends[1], fn);
  ::close(ends[1]);
  std::string message;
  char part[4096];
  for (ssize_t n; (n = ::read(ends[0], part, sizeof part)) > 0;) {
    message.append(part, static_cast<size_t>(n));
  }
  ::close(ends[0]);
  ChildResult result;
  ::waitpid(child, &result.wait_status, 0);
  const size_t space = message.find(' ');
  if (space == std::string::npos) return result;
  result.growth_kib = std::stol(message.substr(0, space));
  result.text = message.substr(space + 1);
  return result;
}

std::string LoadText(const std::string& path) {
  const auto loaded = Load(path);
  return loaded.ok() ? "OK" : loaded.status().ToString();
}

// Returns the status of Load(path). Load, Verify and Open must use little
// memory and time, whatever they return.
std::string BoundedLoad(const std::string& path) {
  std::string load_text;
  const std::vector<std::function<std::string()>> calls = {
      [&] { return LoadText(path); },
      [&] { return Verify(path).status().ToString(); },
      [&] { return Open(path).status().ToString(); }};
  const char* const names[] = {"Load", "Verify", "Open"};
  for (size_t i = 0; i < calls.size(); ++i) {
    const ChildResult result = RunInChild(calls[i]);
    EXPECT_EQ(result.wait_status, 0)
        << names[i] << " of " << path << " ended by signal "
        << WTERMSIG(result.wait_status)
        << ": too slow, out of memory, or an exception";
    if (!kSanitized) {
      EXPECT_LT(result.growth_kib, kGrowthKibMax) << names[i];
    }
    if (i == 0) load_text = result.text;
  }
  return load_text;
}

std::string Zarray(const std::string& shape, const std::string& chunks,
                   const std::string& dtype = "|i1",
                   const std::string& compressor = "null") {
  return R"({"chunks":)" + chunks + R"(,"compressor":)" + compressor +
         R"(,"dtype":")" + dtype +
         R"(","fill_value":null,"filters":null,"order":"C","shape":)" + shape +
         R"(,"zarr_format":2})";
}

// Returns the text of a `_METADATA` with one parameter called `name`.
std::string TreeMetadataText(const std::string& name, bool use_ocdbt = false) {
  return R"({"tree_metadata": {"x": {"key_metadata": [{"key": ")" + name +
         R"(", "key_type": 2}], "value_metadata": {"value_type": )"
         R"("np.ndarray", "skip_deserialize": false}}}, "use_ocdbt": )" +
         (use_ocdbt ? "true" : "false") +
         R"(, "use_zarr3": false, )"
         R"("store_array_data_equal_to_fill_value": true})";
}

std::string Repeated(const std::string& text, size_t count) {
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

SaveOptions Unsynced() {
  SaveOptions options;
  options.sync = false;
  return options;
}

Tree OneArray(DType dtype = DType::kFloat32) {
  return Tree::Dict({{"w", Tree(RandomArray(dtype, {20, 20}, 1))}});
}

void SaveOrDie(const std::string& path, const SaveOptions& options) {
  const auto saved = Save(path, OneArray(), options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
}

void SaveDirectories(const std::string& path) {
  SaveOptions options = Unsynced();
  options.use_ocdbt = false;
  options.write_digests = false;  // only the check of links can refuse
  SaveOrDie(path, options);
}

size_t EntryCount(const std::string& directory) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(directory),
                                           fs::directory_iterator()));
}

// False sizes.

TEST(HostileSizes, HugeShapeInOneChunk) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "w/.zarray",
                Zarray("[1152921504606846976]", "[1152921504606846976]"));
  WriteTestFile(scratch / "w/0", "x");
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: leaf w: shape "),
                    HasSubstr("too large for memory")));
}

constexpr const char* kMegatronMetadata =
    R"({"sharded_backend": "zarr", "sharded_backend_version": 1,)"
    R"( "common_backend": "torch", "common_backend_version": 1})";

// Returns the findings of Verify, run with a child's time and memory limits.
std::string BoundedVerify(const std::string& path,
                          const OpenOptions& options = {}) {
  const ChildResult result = RunInChild([&] {
    const auto report = Verify(path, options);
    if (!report.ok()) return report.status().ToString();
    std::string text = std::to_string(report->chunk_count) + " chunks, " +
                       std::to_string(report->damages.size()) + " damages";
    for (const Damage& damage : report->damages) {
      text += "; " + damage.status.ToString();
    }
    return text;
  });
  EXPECT_EQ(result.wait_status, 0) << path;
  if (!kSanitized) {
    EXPECT_LT(result.growth_kib, kGrowthKibMax) << path;
  }
  return result.text;
}

TEST(HostileSizes, AHugeGridOfFewChunksIsVerifiedByWhatIsThere) {
  const ScratchDirectory scratch;
  for (const std::string fill : {"0", "null"}) {
    std::string text = Zarray("[4294967296,2]", "[1,2]");
    text.replace(text.find("\"fill_value\":null") + 13, 4, fill);
    for (const std::string root : {"bare/", "megatron/"}) {
      WriteTestFile(scratch / (root + "w/.zarray"), text);
      WriteTestFile(scratch / (root + "w/0.0"), "ab");
      WriteTestFile(scratch / (root + "w/4294967295.0"), "ab");
    }
    WriteTestFile(scratch / "megatron/metadata.json", kMegatronMetadata);
    OpenOptions options;
    for (const MissingChunks missing :
         {MissingChunks::kFill, MissingChunks::kRefuse}) {
      options.missing_chunks = missing;
      const bool is_fill = missing == MissingChunks::kFill;
      EXPECT_EQ(BoundedVerify(scratch / "bare", options),
                is_fill ? "2 chunks, 0 damages"
                        : "2 chunks, 1 damages; DATA_LOSS: 4294967294 of "
                          "4294967296 chunks are not there");
      const std::string megatron = BoundedVerify(scratch / "megatron", options);
      // The single damage is the missing common.pt.
      EXPECT_THAT(megatron, StartsWith(is_fill ? "2 chunks, 1 damages"
                                               : "2 chunks, 102 damages"));
      if (!is_fill) {
        EXPECT_THAT(megatron, HasSubstr("4294967194 more chunks"));
      }
    }
    EXPECT_THAT(BoundedVerify(scratch / "megatron"),
                StartsWith(fill == "0" ? "2 chunks, 1 damages"
                                       : "2 chunks, 102 damages"));
  }
}

TEST(HostileSizes, HugeShapeInMegatronsFormat) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "metadata.json", kMegatronMetadata);
  WriteTestFile(scratch / "w/.zarray",
                Zarray("[1152921504606846976,8]", "[4,8]", "<f8"));
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "),
                    HasSubstr("leaf w: shape (1152921504606846976, 8) is too "
                              "large for memory")));
}

TEST(HostileSizes, HugeChunkOfASmallArray) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "w/.zarray", Zarray("[4]", "[1125899906842624]"));
  WriteTestFile(scratch / "w/0", "abcd");
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "), HasSubstr("w")));
}

TEST(HostileSizes, HugeCompressedChunk) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "w/.zarray",
                Zarray("[1099511627776]", "[1099511627776]", "|i1",
                       R"({"id":"zstd","level":1})"));
  // A frame that claims 2^40 bytes.
  WriteTestFile(
      scratch / "w/0",
      std::string("\x28\xb5\x2f\xfd\xe0\0\0\0\0\0\1\0\0\x01\0\0", 16));
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: leaf w: chunk "), HasSubstr("w/0")));
}

TEST(HostileSizes, EndlessGridOfMissingChunks) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "w/.zarray", Zarray("[35184372088832]", "[1]"));
  EXPECT_THAT(BoundedLoad(scratch.path()), Not(StartsWith("OK")));
}

TEST(HostileSizes, HugeShards) {
  const ScratchDirectory scratch;
  WriteTestFile(
      scratch / "w/zarr.json",
      R"({"chunk_grid":{"configuration":{"chunk_shape":[1099511627776]},)"
      R"("name":"regular"},"chunk_key_encoding":{"name":"default"},)"
      R"("codecs":[{"configuration":{"chunk_shape":[1],"codecs":[)"
      R"({"configuration":{"endian":"little"},"name":"bytes"}],)"
      R"("index_codecs":[{"configuration":{"endian":"little"},)"
      R"("name":"bytes"},{"name":"crc32c"}],"index_location":"end"},)"
      R"("name":"sharding_indexed"}],"data_type":"int8","fill_value":0,)"
      R"("node_type":"array","shape":[1099511627776],"zarr_format":3})");
  WriteTestFile(scratch / "w/c/0", std::string(100, 'x'));
  EXPECT_THAT(BoundedLoad(scratch.path()), Not(StartsWith("OK")));
}

// Writes a database of one node, which has one extra entry next to the real
// ones.
void WriteDatabase(const std::string& path, const ocdbt::LeafEntry& chunk) {
  using namespace ocdbt;
  const std::string zarray = Zarray("[2000]", "[2000]");
  std::vector<LeafEntry> entries(2);
  entries[0].key = "w/.zarray";
  entries[0].SetInline(zarray);
  entries[1] = chunk;
  const DataFileTable files = {{"d/data", 0}};
  const Bytes node = *SealEnvelope(
      ObjectKind::kBtreeNode, EncodeLeafNodeBody("", entries, files).view(),
      {.zstd = false});
  WriteTestFile(path + "/d/data", node.view());
  Manifest manifest;
  manifest.files = files;
  ocdbt::Version version;
  version.generation = 1;
  version.commit_time_ns = 1;
  version.root = {0, 0, node.size()};
  version.statistics = {2, node.size(), chunk.value_byte_count};
  manifest.versions.push_back(version);
  const Bytes object =
      *SealEnvelope(ObjectKind::kManifest, EncodeManifestBody(manifest).view(),
                    {.zstd = false});
  WriteTestFile(path + "/manifest.ocdbt", object.view());
}

ocdbt::LeafEntry ChunkAt(const ocdbt::Reference& where) {
  ocdbt::LeafEntry entry;
  entry.key = "w/0";
  entry.SetIndirect(where);
  return entry;
}

TEST(HostileSizes, ValueBeyondTheEndOfItsFile) {
  const ScratchDirectory scratch;
  WriteDatabase(scratch.path(), ChunkAt({0, 0, uint64_t{1} << 50}));
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(HasSubstr("w"), HasSubstr("d/data"), Not(StartsWith("OK")),
                    Not(StartsWith("INTERNAL"))));
}

TEST(HostileSizes, ValueAtTheEndOfTheNumbers) {
  const ScratchDirectory scratch;
  WriteDatabase(scratch.path(), ChunkAt({0, (uint64_t{1} << 63) - 2001, 2000}));
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(HasSubstr("d/data"), Not(StartsWith("OK")),
                    Not(StartsWith("INTERNAL"))));
}

TEST(HostileSizes, NodeThatClaimsAMillionEntries) {
  using namespace ocdbt;
  const ScratchDirectory scratch;
  WriteDatabase(scratch.path(), ChunkAt({0, 0, 2000}));
  // Height 0, no files, 2^20 entries, and nothing after them.
  const std::string body("\0\0\0\x80\x80\x40", 6);
  const Bytes node =
      *SealEnvelope(ObjectKind::kBtreeNode, body, {.zstd = false});
  const std::string old = ReadTestFile(scratch / "d/data");
  WriteTestFile(scratch / "d/data", node.ToString() + old.substr(node.size()));
  EXPECT_THAT(BoundedLoad(scratch.path()), StartsWith("DATA_LOSS: "));
}

TEST(HostileSizes, DeepTreeMetadata) {
  for (const char* open : {"[", R"({"a":)"}) {
    const ScratchDirectory scratch;
    WriteTestFile(scratch / "_METADATA",
                  R"({"tree_metadata": )" + Repeated(open, 100'000));
    EXPECT_THAT(BoundedLoad(scratch.path()),
                AllOf(StartsWith("DATA_LOSS: "), HasSubstr("_METADATA")));
  }
}

TEST(HostileSizes, DeepUnknownMemberIsNoStackOverflow) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "_METADATA", R"({"tree_metadata": {}, "more": )" +
                                           Repeated("[", 100'000) +
                                           Repeated("]", 100'000) + "}");
  EXPECT_THAT(BoundedLoad(scratch.path()), StartsWith("DATA_LOSS: "));
}

TEST(HostileSizes, DeepKeyPath) {
  const ScratchDirectory scratch;
  const std::string keys =
      Repeated(R"({"key": "a", "key_type": 2}, )", 100'000) +
      R"({"key": "a", "key_type": 2})";
  WriteTestFile(scratch / "_METADATA",
                R"({"tree_metadata": {"x": {"key_metadata": [)" + keys +
                    R"(], "value_metadata": {"value_type": "None", )"
                    R"("skip_deserialize": true}}}})");
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "), HasSubstr("_METADATA")));
}

TEST(HostileSizes, HugeWriteShape) {
  const ScratchDirectory scratch;
  const std::string extents = Repeated("1, ", 1'000'000) + "1";
  WriteTestFile(scratch / "_METADATA",
                R"({"tree_metadata": {"x": {"key_metadata": [{"key": "w", )"
                R"("key_type": 2}], "value_metadata": {"value_type": )"
                R"("jax.Array", "skip_deserialize": false, "write_shape": [)" +
                    extents + "]}}}}");
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "), HasSubstr("_METADATA")));
}

TEST(HostileSizes, MsgpackThatClaimsFourBillionMembers) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "checkpoint", "\xdf\xff\xff\xff\xff");
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "), HasSubstr("checkpoint")));
}

TEST(HostileSizes, DeepMsgpack) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "checkpoint", std::string(100'000, '\x91'));
  EXPECT_THAT(BoundedLoad(scratch.path()),
              AllOf(StartsWith("DATA_LOSS: "), HasSubstr("checkpoint")));
}

// Names that lead elsewhere.

TEST(HostileNames, ParameterNamesStayInside) {
  for (const char* name : {"..", "../secret", "a/../../secret", "/etc", "a//b",
                           ".", "a\\u0000b"}) {
    const ScratchDirectory scratch;
    WriteTestFile(scratch / "checkpoint/_METADATA", TreeMetadataText(name));
    WriteTestFile(scratch / "secret/.zarray", Zarray("[1]", "[1]"));
    WriteTestFile(scratch / "secret/0", "s");
    WriteTestFile(scratch / ".zarray", Zarray("[1]", "[1]"));
    WriteTestFile(scratch / "0", "s");
    EXPECT_THAT(BoundedLoad(scratch / "checkpoint"),
                AllOf(StartsWith("INVALID_ARGUMENT: leaf "), HasSubstr("key")))
        << name;
  }
}

TEST(HostileNames, SaveRefusesNamesThatBecomePaths) {
  const ScratchDirectory scratch;
  SaveOptions options = Unsynced();
  options.use_ocdbt = false;
  for (const std::string& name :
       {std::string(".."), std::string("../x"), std::string("/etc"),
        std::string("a/./b"), std::string("a\0b", 3), std::string("_METADATA"),
        std::string("_METADATA/x")}) {
    const Tree tree = Tree::Dict({{name, Tree(1)}});
    const auto saved = Save(scratch / "checkpoint", tree, options);
    EXPECT_EQ(saved.status().code(), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(EntryCount(scratch.path()), 0u) << name;
  }
}

TEST(HostileNames, DataFilePathsStayInside) {
  for (const char* relative : {"../secret", "/etc/passwd", "d/../../secret"}) {
    const ScratchDirectory scratch;
    const std::string path = scratch / "checkpoint";
    WriteTestFile(scratch / "secret", std::string(2000, 's'));
    WriteDatabase(path, ChunkAt({0, 0, 2000}));
    ocdbt::Manifest manifest;
    manifest.files = {{relative, 0}};
    ocdbt::Version version;
    version.generation = 1;
    version.commit_time_ns = 1;
    version.root = {0, 0, 2000};
    version.statistics = {2, 2000, 2000};
    manifest.versions.push_back(version);
    WriteTestFile(path + "/manifest.ocdbt",
                  ocdbt::SealEnvelope(ocdbt::ObjectKind::kManifest,
                                      EncodeManifestBody(manifest).view(),
                                      {.zstd = false})
                      ->view());
    EXPECT_THAT(BoundedLoad(path), AllOf(StartsWith("INVALID_ARGUMENT: "),
                                         HasSubstr("Invalid key: \"")))
        << relative;
  }
}

TEST(HostileNames, NulInPathsGiven) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "a", "what is before the NUL");
  const std::string path = scratch / std::string("a\0b", 3);
  const StatusCode want = StatusCode::kInvalidArgument;
  EXPECT_EQ(Load(path).status().code(), want);
  EXPECT_EQ(Verify(path).status().code(), want);
  EXPECT_EQ(Save(path, OneArray()).status().code(), want);
  EXPECT_EQ(Load("").status().code(), want);
}

// Symbolic links.

// Moves `file` out of the checkpoint and leaves a link to it.
void MoveOutAndLink(const ScratchDirectory& scratch, const std::string& file) {
  const std::string outside = scratch / "outside";
  fs::rename(scratch / ("checkpoint/" + file), outside);
  fs::create_symlink(outside, scratch / ("checkpoint/" + file));
}

TEST(HostileLinks, FilesOutsideAreNotRead) {
  for (const char* file : {"w/.zarray", "w/0.0", "w"}) {
    const ScratchDirectory scratch;
    SaveDirectories(scratch / "checkpoint");
    MoveOutAndLink(scratch, file);
    EXPECT_THAT(BoundedLoad(scratch / "checkpoint"),
                AllOf(StartsWith("INVALID_ARGUMENT: leaf w"),
                      HasSubstr("symbolic link"), HasSubstr("outside")))
        << file;
  }
}

TEST(HostileLinks, TreeMetadataOutsideIsNotRead) {
  const ScratchDirectory scratch;
  SaveDirectories(scratch / "checkpoint");
  MoveOutAndLink(scratch, "_METADATA");
  EXPECT_THAT(BoundedLoad(scratch / "checkpoint"),
              AllOf(Not(StartsWith("OK")), HasSubstr("_METADATA")));
}

TEST(HostileLinks, DataFilesAndManifestOutsideAreNotRead) {
  for (const char* file : {"manifest.ocdbt", "d", "ocdbt.process_0"}) {
    const ScratchDirectory scratch;
    SaveOptions options = Unsynced();
    options.write_digests = false;
    SaveOrDie(scratch / "checkpoint", options);
    MoveOutAndLink(scratch, file);
    EXPECT_THAT(BoundedLoad(scratch / "checkpoint"), Not(StartsWith("OK")))
        << file;
  }
}

TEST(HostileLinks, LinkedStepOfARootIsFollowed) {
  const ScratchDirectory scratch;
  SaveOrDie(scratch / "elsewhere/old", Unsynced());
  fs::create_directories(scratch / "root");
  fs::create_directory_symlink(scratch / "elsewhere/old", scratch / "root/7");
  const auto loaded = Load(scratch / "root");
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_TRUE(loaded->tree == OneArray());
  EXPECT_EQ((*Open(scratch / "root"))->info().step, 7);
}

TEST(HostileLinks, OverwriteDoesNotFollowALink) {
  const ScratchDirectory scratch;
  SaveOrDie(scratch / "real", Unsynced());
  fs::create_directory_symlink(scratch / "real", scratch / "link");
  SaveOptions options = Unsynced();
  options.overwrite = true;
  const Status status = Save(scratch / "link", OneArray(), options).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(fs::is_symlink(scratch / "link"));
  EXPECT_TRUE(Load(scratch / "real").ok());
}

// Unsupported parts are named.

TEST(HostileMetadata, UnknownCodecsAndDTypesAreNamed) {
  const struct {
    std::string zarray;
    const char* name;
  } cases[] = {
      {Zarray("[4]", "[4]", "|i1", R"({"id":"lzma","preset":1})"), "lzma"},
      {Zarray("[4]", "[4]", "|i1", R"({"id":"bz2","level":1})"), "bz2"},
      {Zarray("[4]", "[4]", "<U5"), "<U5"},
      {Zarray("[4]", "[4]", "<M8[ns]"), "<M8[ns]"},
      {Zarray("[4]", "[4]", "posit16"), "posit16"},
  };
  for (const auto& [zarray, name] : cases) {
    const ScratchDirectory scratch;
    WriteTestFile(scratch / "w/.zarray", zarray);
    WriteTestFile(scratch / "w/0", "abcd");
    EXPECT_THAT(BoundedLoad(scratch.path()),
                AllOf(StartsWith("UNIMPLEMENTED: leaf w: "), HasSubstr(name)));
  }
}

TEST(HostileMetadata, UnknownZarr3CodecIsNamed) {
  const ScratchDirectory scratch;
  WriteTestFile(
      scratch / "w/zarr.json",
      R"({"chunk_grid":{"configuration":{"chunk_shape":[4]},"name":"regular"},)"
      R"("chunk_key_encoding":{"name":"default"},"codecs":[{"name":"bytes"},)"
      R"({"name":"pcodec","configuration":{}}],"data_type":"int8",)"
      R"("fill_value":0,"node_type":"array","shape":[4],"zarr_format":3})");
  WriteTestFile(scratch / "w/c/0", "abcd");
  EXPECT_THAT(
      BoundedLoad(scratch.path()),
      AllOf(StartsWith("UNIMPLEMENTED: leaf w: "), HasSubstr("pcodec")));
}

// Directories in every wrong state.

TEST(HostilePlaces, NothingThere) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "absent";
  EXPECT_EQ(LoadText(path), "NOT_FOUND: Checkpoint at " + path + " not found.");
}

TEST(HostilePlaces, NoCheckpointSaysWhatWasLookedFor) {
  const ScratchDirectory scratch;
  const std::string start =
      "NOT_FOUND: No structure could be identified for the checkpoint at " +
      scratch.path();
  EXPECT_THAT(LoadText(scratch.path()),
              StartsWith(start + ": it is an empty directory"));
  EXPECT_EQ(Verify(scratch.path()).status().code(), StatusCode::kNotFound);
  WriteTestFile(scratch / "notes.txt", "hello");
  EXPECT_THAT(LoadText(scratch.path()),
              AllOf(StartsWith(start), HasSubstr("_METADATA"),
                    HasSubstr("manifest.ocdbt"), HasSubstr(".zarray"),
                    HasSubstr("zarr.json"), HasSubstr("step")));
  EXPECT_EQ(Verify(scratch.path()).status().code(), StatusCode::kNotFound);
}

TEST(HostilePlaces, TemporaryDirectoryInOrbaxWords) {
  const ScratchDirectory scratch;
  SaveOrDie(scratch / "7", Unsynced());
  for (const char* name :
       {"8.orbax-checkpoint-tmp", "8.orbax-checkpoint-tmp-1712345678"}) {
    const std::string path = scratch / name;
    fs::copy(scratch / "7", path, fs::copy_options::recursive);
    EXPECT_EQ(LoadText(path),
              "FAILED_PRECONDITION: Found incomplete "
              "checkpoint at " +
                  path + ".");
  }
  // The root still opens its newest committed step.
  EXPECT_EQ((*Open(scratch.path()))->info().step, 7);
}

TEST(HostilePlaces, MissingTreeMetadataIsExplained) {
  for (const bool use_ocdbt : {true, false}) {
    const ScratchDirectory scratch;
    SaveOptions options = Unsynced();
    options.use_ocdbt = use_ocdbt;
    const std::string path = scratch / "checkpoint";
    SaveOrDie(path, options);
    fs::remove(path + "/_METADATA");
    EXPECT_THAT(LoadText(path),
                StartsWith("NOT_FOUND: Metadata file (named _METADATA) does "
                           "not exist at " +
                           path))
        << "use_ocdbt " << use_ocdbt;
  }
}

TEST(HostilePlaces, FileInsteadOfDirectory) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "file", "hello");
  EXPECT_THAT(LoadText(scratch / "file"),
              AllOf(StartsWith("NOT_FOUND: Checkpoint at "),
                    HasSubstr("cannot be read: it is a text that begins "
                              "with \"hello\"")));
  EXPECT_THAT(LoadText(scratch / "file/below"), StartsWith("NOT_FOUND: "));
}

TEST(HostilePlaces, UnreadableDirectory) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads everything";
  const ScratchDirectory scratch;
  SaveOrDie(scratch / "checkpoint", Unsynced());
  fs::permissions(scratch / "checkpoint", fs::perms::none);
  EXPECT_THAT(LoadText(scratch / "checkpoint"),
              AllOf(StartsWith("PERMISSION_DENIED: "),
                    HasSubstr(scratch / "checkpoint")));
  fs::permissions(scratch / "checkpoint", fs::perms::owner_all);
}

// Runs Verify in a process that may open only `more_count` more files. Returns
// "damages N" if it finished, or the error.
std::string VerifyWithDescriptors(const std::string& path, rlim_t more_count) {
  const int first_free = ::open("/dev/null", O_RDONLY);
  ::close(first_free);
  const rlim_t most = static_cast<rlim_t>(first_free) + more_count;
  const rlimit limit{most, most};
  ::setrlimit(RLIMIT_NOFILE, &limit);
  RunOptions run;
  run.threads = 2;
  const auto report = Verify(path, {}, run);
  return report.ok() ? "damages " + std::to_string(report->damages.size())
                     : report.status().ToString();
}

TEST(HostileMachine, ManyLeavesVerifyWithFewDescriptors) {
  const ScratchDirectory scratch;
  Tree tree = Tree::Dict();
  for (int i = 0; i < 600; ++i) {
    tree.Add("leaf" + std::to_string(i),
             Tree(RandomArray(DType::kUint8, {8}, static_cast<uint32_t>(i))));
  }
  SaveOptions options = Unsynced();
  options.use_ocdbt = false;
  const auto saved = Save(scratch / "orbax", tree, options);
  ASSERT_TRUE(saved.ok()) << saved.status().ToString();
  ConvertOptions convert;
  convert.format = Format::kMegatronZarr;
  convert.sync = false;
  const auto converted =
      Convert(scratch / "orbax", scratch / "megatron", convert);
  ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  for (const char* const name : {"orbax", "megatron"}) {
    const ChildResult result =
        RunInChild([&] { return VerifyWithDescriptors(scratch / name, 40); });
    EXPECT_EQ(result.text, "damages 0") << name;
  }
}

TEST(HostileMachine, TooFewDescriptorsAreNoDamage) {
  const ScratchDirectory scratch;
  for (const bool use_ocdbt : {true, false}) {
    SaveOptions options = Unsynced();
    options.use_ocdbt = use_ocdbt;
    SaveOrDie(scratch / (use_ocdbt ? "ocdbt" : "directories"), options);
  }
  std::vector<std::string> names = {"ocdbt", "directories"};
  for (const Format format : {Format::kMegatronZarr, Format::kSafetensors,
                              Format::kNpz, Format::kDcp}) {
    ConvertOptions convert;
    convert.format = format;
    convert.sync = false;
    names.emplace_back(FormatName(format));
    if (format == Format::kSafetensors || format == Format::kNpz) {
      names.back() = "w." + names.back();
    }
    const auto converted =
        Convert(scratch / "ocdbt", scratch / names.back(), convert);
    ASSERT_TRUE(converted.ok()) << converted.status().ToString();
  }
  for (const std::string& name : names) {
    std::string text;
    for (rlim_t count = 0; count < 20 && text != "damages 0"; ++count) {
      text = RunInChild([&] {
               return VerifyWithDescriptors(scratch / name, count);
             }).text;
      EXPECT_THAT(
          text, AnyOf(Eq("damages 0"), AllOf(StartsWith("RESOURCE_EXHAUSTED: "),
                                             HasSubstr("Too many open files"))))
          << name << " with " << count;
      if (count == 0) {
        EXPECT_NE(text, "damages 0") << name;
      }
    }
    EXPECT_EQ(text, "damages 0") << name;
  }
}

// Destinations.

TEST(HostileDestinations, ExistingOneIsKept) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "checkpoint";
  SaveOrDie(path, Unsynced());
  const auto saved = Save(path, Tree::Dict({{"v", Tree(1)}}), Unsynced());
  EXPECT_EQ(saved.status().ToString(),
            "ALREADY_EXISTS: Destination " + path + " already exists.");
  EXPECT_TRUE(Load(path)->tree == OneArray());
  EXPECT_EQ(EntryCount(scratch.path()), 1u);
}

TEST(HostileDestinations, OverwriteIsForCheckpointsAlone) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "home/thesis.tex", "precious");
  WriteTestFile(scratch / "file", "precious");
  SaveOptions options = Unsynced();
  options.overwrite = true;
  const Status home = Save(scratch / "home", OneArray(), options).status();
  EXPECT_EQ(home.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(home.message()),
              HasSubstr("neither a checkpoint nor an empty directory"));
  EXPECT_EQ(ReadTestFile(scratch / "home/thesis.tex"), "precious");
  const Status file = Save(scratch / "file", OneArray(), options).status();
  EXPECT_EQ(file.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadTestFile(scratch / "file"), "precious");
  fs::create_directory(scratch / "empty");
  EXPECT_TRUE(Save(scratch / "empty", OneArray(), options).ok());
}

TEST(HostileDestinations, MissingParentsAreMade) {
  const ScratchDirectory scratch;
  SaveOrDie(scratch / "a/b/c/checkpoint", Unsynced());
  EXPECT_TRUE(Load(scratch / "a/b/c/checkpoint").ok());
}

TEST(HostileDestinations, ParentThatIsAFile) {
  const ScratchDirectory scratch;
  WriteTestFile(scratch / "file", "hello");
  for (const char* path : {"file/checkpoint", "file/a/checkpoint"}) {
    const Status status = Save(scratch / path, OneArray(), Unsynced()).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()),
                HasSubstr((scratch / "file") + " is a file"));
  }
  EXPECT_EQ(EntryCount(scratch.path()), 1u);
}

// A file system of one MiB for one test.
class TinyDisk : public testing::TestWithParam<SaveOptions> {
 protected:
  void SetUp() override {
    fs::create_directory(path_);
    is_mounted_ =
        ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=1m,mode=0700") == 0;
    if (!is_mounted_) GTEST_SKIP() << "mounting needs privileges";
  }
  void TearDown() override {
    if (!is_mounted_) return;
    EXPECT_EQ(::umount2(path_.c_str(), MNT_DETACH), 0);
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "disk";
  bool is_mounted_ = false;
};

TEST_P(TinyDisk, FullDiskLeavesNothingBehind) {
  const std::string path = path_ + "/checkpoint";
  SaveOrDie(path, Unsynced());
  const Tree large =
      Tree::Dict({{"large", Tree(RandomArray(DType::kUint8, {3 << 20}, 3))},
                  {"more", Tree(RandomArray(DType::kUint8, {3 << 20}, 4))}});
  SaveOptions options = GetParam();
  options.overwrite = true;
  const Status over = Save(path, large, options).status();
  EXPECT_EQ(over.code(), StatusCode::kResourceExhausted) << over.ToString();
  EXPECT_TRUE(Load(path)->tree == OneArray());
  const Status fresh = Save(path_ + "/other", large, options).status();
  EXPECT_EQ(fresh.code(), StatusCode::kResourceExhausted) << fresh.ToString();
  EXPECT_EQ(EntryCount(path_), 1u);
  EXPECT_TRUE(Save(path, OneArray(DType::kInt8), options).ok());
}

SaveOptions With(bool use_ocdbt, Compression compression, bool sync) {
  SaveOptions options;
  options.use_ocdbt = use_ocdbt;
  options.compression = compression;
  options.sync = sync;
  return options;
}

INSTANTIATE_TEST_SUITE_P(Layouts, TinyDisk,
                         testing::Values(With(true, Compression::kZstd, false),
                                         With(true, Compression::kNone, true),
                                         With(false, Compression::kZstd, true),
                                         With(true, Compression::kPlanes, true),
                                         With(false, Compression::kFast,
                                              false)));

}  // namespace
}  // namespace holdfast
