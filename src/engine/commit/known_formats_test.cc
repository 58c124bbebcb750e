#include "engine/commit/known_formats.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "engine/commit/layout.h"
#include "stores/storage/memory_store.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using namespace std::string_literals;

struct Sample {
  std::string_view id;
  // The requested path: a file, or (with a trailing slash) a directory.
  std::string path;
  // The bytes of the file, or of each of `others`, which are below the
  // directory.
  std::string bytes;
  std::vector<std::string> others = {};
};

std::string ZipOf(const std::string& member) {
  std::string bytes = "PK\x03\x04" + std::string(26, '\0');
  bytes[26] = static_cast<char>(member.size());
  return bytes + member + "data";
}

std::string TarOf(const std::string& member) {
  std::string bytes = member + std::string(512 - member.size(), '\0');
  return bytes.replace(257, 5, "ustar");
}

std::vector<Sample> FirstSamples() {
  return {
      {"safetensors", "a.ckpt", "\x02\0\0\0\0\0\0\0{}"s},
      {"npz", "a", ZipOf("w.npy")},
      {"npz", "b", ZipOf("step/data/w.npy")},
      {"npz", "empty.npz", "PK\x05\x06" + std::string(18, '\0')},
      {"torch", "a.bin", ZipOf("archive/data.pkl")},
      {"torch", "old.bin",
       "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8"
       "\x50\x19\x2e rest"},
      {"git-lfs", "model.safetensors",
       "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"},
      {"git-lfs", "graph.pb", "version https://git-lfs.github.com/spec/v1\n"},
      {"xet", "model.bin", "# xet version 0\nfilesize = 5\n"},
      {"git-annex", "model.bin", "/annex/objects/SHA256E-s5--00\n"},
      {"dvc", "model.pt.dvc", "outs:\n- md5: 00\n"},
      {"html", "model.pt", "\n <!DOCTYPE HTML><html><title>Sign in</title>"},
      {"xml", "model.pt", "<?xml version=\"1.0\"?><Error>AccessDenied"},
      {"dcp-without-metadata", "dcp/", "", {"__0_0.distcp", "__1_0.distcp"}},
      {"unpacked-torch", "m/", "", {"data.pkl", "version", "data/0"}},
      {"deepspeed", "d/", "", {"mp_rank_00_model_states.pt"}},
      {"deepspeed-root", "d/", "", {"global_step5/x.pt", "latest"}},
      {"hub-cache", "h/", "", {"refs/main", "snapshots/0f/model.safetensors"}},
      {"hub-cache-root", "h/", "", {"models--a--b/refs/main"}},
      {"tensorflow-model", "graph.pb", "\x0a\x05"},
      {"tensorflow-model", "t/", "", {"saved_model.pb", "variables/x"}},
      {"tensorflow-checkpoint", "checkpoint", "model_checkpoint_path: \"m\""},
      {"tensorflow-checkpoint", "m.data-00000-of-00001", "\x01\x02"},
      {"tensorflow-checkpoint", "t/", "", {"m.index", "m.data-00000-of-00001"}},
      {"torch-files", "r/", "", {"model_optim_rng.pt", "notes.txt"}},
      {"torch-files", "acc/", "", {"scheduler.bin", "fsdp_0/.metadata"}},
      {"checkpoints-below",
       "run/",
       "",
       {"a/b/x.safetensors", "c/model.pt", "d/e/f/x.npz"}},
      {"tar", "m.nemo", TarOf("./model_weights.ckpt")},
  };
}

std::vector<Sample> Samples() {
  std::vector<Sample> samples = FirstSamples();
  const std::vector<Sample> others = {
      {"gzip", "m.tar.gz", "\x1f\x8b\x08"},
      {"zstd", "m.zst", "\x28\xb5\x2f\xfd"},
      {"xz", "m.xz",
       "\xfd"
       "7zXZ\0"s},
      {"bzip2", "m.bz2", "BZh91AY"},
      {"lz4", "m.lz4", "\x04\x22\x4d\x18"},
      {"7z", "m.7z", "7z\xbc\xaf\x27\x1c"},
      {"7z", "m.rar", "Rar!\x1a\x07"},
      {"keras", "m.keras", ZipOf("config.json")},
      {"zip", "m.zip", ZipOf("readme.txt")},
      {"zip", "hf.zip", ZipOf("model/config.json")},
      {"hdf5", "m.h5", "\x89HDF\r\n\x1a\n"},
      {"hdf5", "k/", "", {"model.weights.h5"}},
      {"gguf", "m.gguf", "GGUF\x03\0\0\0"s},
      {"gguf", "g/", "", {"m-q4.gguf"}},
      {"npy", "w.npy", "\x93NUMPY\x01"},
      {"tflite", "m.tflite", "\x1c\0\0\0TFL3"s},
      {"executorch", "m.pte", "\x1c\0\0\0ET12"s},
      {"matlab", "m.mat", "MATLAB 5.0 MAT-file"},
      {"parquet", "d.parquet", "PAR1"},
      {"parquet", "d/", "", {"train-00000.parquet"}},
      {"sqlite", "d.db", "SQLite format 3"},
      {"mxnet", "m.params", "\x12\x01\0\0\0\0\0\0"s},
      {"onnx", "m.onnx", "\x08\x07\x12"},
      {"onnx", "o/", "", {"model.onnx"}},
      {"pickle", "m.pkl", "\x80\x04\x95."},
      {"pickle", "p/", "", {"params.pkl"}},
      {"joblib", "m.joblib", "\x78\x9c\x01"},
      {"flax-msgpack", "flax_model.msgpack", "\x81\xa6params\x80"},
      {"flax-msgpack", "f/", "", {"checkpoint_100"}},
      {"dcp-file", "__0_0.distcp", "\x01\x02"},
      {"orbax-file", "_sharding", "{}"},
      {"npz-files", "n/", "", {"a.npz", "b.npz"}},
      {"archives", "n/", "", {"model.tar.gz"}},
      {"partial", "m.part", "\x01\x02"},
      {"partial", "n/", "", {"0f3e.incomplete"}},
      {"configuration", "n/", "", {"config.json", "vocab.txt"}},
      {"empty-directory", "n/", ""},
      {"empty-file", "m.model", ""},
      {"zeros", "m.model", std::string(600, '\0')},
      {"json", "state.json", " {\"step\": 1}"},
      {"text", "m.model", "Entry not found"},
  };
  samples.insert(samples.end(), others.begin(), others.end());
  return samples;
}

class KnownFormatsTest : public testing::Test {
 protected:
  // Returns the requested path.
  std::string Write(const Sample& sample) {
    const std::string root = scratch_ / std::to_string(count_++);
    const std::string path = root + "/" + sample.path;
    fs::create_directories(fs::path(path).parent_path());
    if (!sample.path.ends_with('/')) {
      std::ofstream(path, std::ios::binary) << sample.bytes;
      return path;
    }
    for (const std::string& other : sample.others) {
      fs::create_directories(fs::path(path + other).parent_path());
      std::ofstream(path + other) << "x";
    }
    return path.substr(0, path.size() - 1);
  }

  ScratchDirectory scratch_;
  int count_ = 0;
};

const KnownFormat& RowOf(std::string_view id) {
  for (const KnownFormat& row : KnownFormats()) {
    if (row.id == id) return row;
  }
  ADD_FAILURE() << id;
  return KnownFormats()[0];
}

std::string UpToNames(std::string_view text) {
  return std::string(text.substr(0, text.find('%')));
}

TEST_F(KnownFormatsTest, SaysWhatEachIsAndWhatToDo) {
  for (const Sample& sample : Samples()) {
    const KnownFormat& row = RowOf(sample.id);
    const std::string path = Write(sample);
    const Status status = FindCheckpoint(Place(path), {}).status();
    const std::string message(status.message());
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << sample.path << message;
    if (row.is_read()) continue;
    EXPECT_THAT(message, HasSubstr(UpToNames(row.words))) << sample.path;
    EXPECT_THAT(message, HasSubstr(UpToNames(row.way_on))) << sample.path;
    if (row.words.find('%') == row.words.npos) continue;
    const std::string named =
        sample.others.empty() ? sample.bytes : sample.others[0];
    EXPECT_THAT(message, HasSubstr(named.substr(0, named.find('/'))));
  }
}

TEST_F(KnownFormatsTest, EverySignHasASample) {
  std::set<std::string_view> files, directories;
  for (const Sample& sample : Samples()) {
    (sample.path.ends_with('/') ? directories : files).insert(sample.id);
  }
  for (const KnownFormat& row : KnownFormats()) {
    EXPECT_EQ(row.has_file_sign(), files.contains(row.id)) << row.id;
    const bool is_refused_elsewhere = row.id == "ocdbt-parts";
    EXPECT_EQ(row.has_directory_sign() && !is_refused_elsewhere,
              directories.contains(row.id))
        << row.id;
  }
}

TEST_F(KnownFormatsTest, FilesAreToldByWhatTheyHold) {
  MemoryStore store;
  for (const Sample& sample : Samples()) {
    if (sample.path.ends_with('/')) continue;
    ASSERT_TRUE(store.Write(sample.path, sample.bytes).ok());
    const auto start = StartOfFile(store, sample.path, sample.path);
    ASSERT_TRUE(start.ok());
    const KnownFormat* const row = FormatOfStart(*start);
    ASSERT_NE(row, nullptr) << sample.path;
    EXPECT_EQ(row->id, sample.id) << sample.path;
  }
  ASSERT_TRUE(store.Write("unknown", "\x01\xff\x02").ok());
  EXPECT_EQ(FormatOfStart(*StartOfFile(store, "unknown", "unknown")), nullptr);
}

TEST_F(KnownFormatsTest, UnknownThingsGetTheListOfWhatIsRead) {
  const std::string read = FormatsThatAreRead();
  EXPECT_EQ(read,
            "Orbax's checkpoints, OCDBT databases, zarr arrays, safetensors, "
            "torch.save files, numpy npz files, torch's distributed "
            "checkpoints (DCP) and Megatron's torch_dist and zarr");
  const Sample file = {"", "m.model", "\x01\xff\x02"};
  EXPECT_THAT(FindCheckpoint(Place(Write(file)), {}).status().message(),
              HasSubstr("holdfast reads " + read));
  const Sample directory = {"", "m/", "", {"a.txt", "b.txt", "c", "d", "e"}};
  EXPECT_THAT(FindCheckpoint(Place(Write(directory)), {}).status().message(),
              testing::AllOf(HasSubstr("it holds a.txt, b.txt, c and 2 more"),
                             HasSubstr("holdfast reads " + read)));
}

TEST_F(KnownFormatsTest, ALinkToNothing) {
  fs::create_symlink("999", scratch_ / "latest");
  const Status status = FindCheckpoint(Place(scratch_ / "latest"), {}).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("it is a link to 999"));
}

// Each part of the item holds only some chunks.
TEST_F(KnownFormatsTest, UnmergedPartsAreNeverRead) {
  for (const char* item : {"", "default/"}) {
    const std::string below(item);
    const std::string path =
        Write({"ocdbt-parts",
               "7/",
               "",
               {below + "ocdbt.process_0/manifest.ocdbt",
                below + "ocdbt.process_1/manifest.ocdbt"}});
    const Status status = FindCheckpoint(Place(path), {}).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("ocdbt.process_0"));
    EXPECT_THAT(status.message(), HasSubstr("holdfast rescue"));
  }
}

TEST_F(KnownFormatsTest, ReadersSayWhatTheyWereGiven) {
  MemoryStore store;
  ASSERT_TRUE(store.Write("w", "version https://git-lfs.github.com/").ok());
  ASSERT_TRUE(store.Write("z", ZipOf("archive/data.pkl")).ok());
  const Status status = DataLossError("w: too short");
  EXPECT_THAT(WithWhatFileIs(status, store, "w", "torch").message(),
              HasSubstr("w: too short; it is a Git LFS pointer"));
  EXPECT_THAT(WithWhatFileIs(status, store, "z", "safetensors").message(),
              HasSubstr("it is one of the torch.save files"));
  EXPECT_EQ(WithWhatFileIs(status, store, "z", "torch").message(),
            status.message());
  ASSERT_TRUE(store.Write("z.part", ZipOf("archive/data.pkl")).ok());
  EXPECT_THAT(WithWhatFileIs(status, store, "z.part", "torch").message(),
              HasSubstr("it is an unfinished download"));
  EXPECT_EQ(WithWhatFileIs(status, store, "z", "").message(), status.message());
}

}  // namespace
}  // namespace holdfast
