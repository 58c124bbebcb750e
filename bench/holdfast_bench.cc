// holdfast_bench: each stage of the engine on its own, with throughput and the
// machine's memcpy in the same run, so that figures can be read as ratios.
//
//   holdfast_bench [--mib N] [--rounds N] [STAGE...]
//
// Stages: memcpy crc32c zstd_encode zstd_decode fast_encode fast_decode
// ocdbt_write ocdbt_read metadata_write metadata_parse. Each prints the median
// of its rounds.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "checkpoint/format/tree_metadata.h"
#include "codec/codec.h"
#include "ocdbt/bulk_writer.h"
#include "ocdbt/database.h"
#include "storage/memory_store.h"

namespace holdfast {
namespace {

double SecondsOf(const std::function<void()>& fn) {
  const auto start = std::chrono::steady_clock::now();
  fn();
  const auto stop = std::chrono::steady_clock::now();
  return std::chrono::duration<double>(stop - start).count();
}

[[noreturn]] void Die(const Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  std::exit(1);
}

template <typename T>
T Value(Result<T> result) {
  if (!result.ok()) Die(result.status());
  return std::move(result).value();
}

void Must(const Status& status) {
  if (!status.ok()) Die(status);
}

// bf16 of N(0, 0.02): what model weights look like to a codec.
std::string Weights(size_t byte_count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.02f);
  std::string text(byte_count, '\0');
  for (size_t i = 0; i + 2 <= byte_count; i += 2) {
    const float value = normal(random);
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    std::memcpy(text.data() + i, reinterpret_cast<char*>(&bits) + 2, 2);
  }
  return text;
}

struct Options {
  size_t byte_count = size_t{64} << 20;
  int round_count = 5;
  std::vector<std::string> stages;
};

class Bench {
 public:
  explicit Bench(Options options)
      : options_(std::move(options)), input_(Weights(options_.byte_count)) {}

  int Run() {
    Add("memcpy",
        [this] { std::memcpy(output_.data(), input_.data(), input_.size()); });
    Add("crc32c", [this] { sink_ += Crc32c(input_); });
    AddCodec("zstd", ZstdParams{});
    AddCodec("fast", BloscParams{"lz4", 5, 2, 0, 2});
    AddCodec("planes", BloscParams{"zstd", 1, 1, 0, 2, true});
    AddOcdbt();
    AddMetadata();
    output_.resize(input_.size());
    std::printf("%-16s %10s %10s\n", "stage", "ms", "GB/s");
    for (const auto& [name, stage] : stages_) {
      const bool wanted =
          options_.stages.empty() ||
          std::find(options_.stages.begin(), options_.stages.end(), name) !=
              options_.stages.end();
      if (wanted) Print(name, stage);
    }
    return 0;
  }

 private:
  struct Stage {
    std::function<void()> fn;
    size_t byte_count;
  };

  void Add(const std::string& name, std::function<void()> fn,
           size_t byte_count = 0) {
    stages_.push_back(
        {name, {std::move(fn), byte_count ? byte_count : input_.size()}});
  }

  void Print(const std::string& name, const Stage& stage) {
    std::vector<double> seconds;
    for (int i = 0; i < options_.round_count; ++i) {
      seconds.push_back(SecondsOf(stage.fn));
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf("%-16s %10.2f %10.2f\n", name.c_str(), 1e3 * median,
                stage.byte_count / median / 1e9);
  }

  void AddCodec(const std::string& name, const BytesCodecParams& params) {
    auto codec = Value(MakeBytesCodec(params, 2));
    auto encoded = std::make_shared<std::string>(
        codec->EncodedBytesMax(input_.size()), '\0');
    auto size = std::make_shared<size_t>(
        Value(codec->Encode(input_, *encoded, context_)));
    Add(name + "_encode", [this, codec, encoded, size] {
      *size = Value(codec->Encode(input_, *encoded, context_));
    });
    Add(name + "_decode", [this, codec, encoded, size] {
      Must(codec->Decode({encoded->data(), *size}, output_, context_));
    });
  }

  static EncodedChunk ChunkOf(std::string_view text) {
    EncodedChunk chunk;
    chunk.pieces.push_back(text);
    chunk.byte_count = text.size();
    return chunk;
  }

  // 20,000 arrays of 256 bytes, as a small-leaf checkpoint has them.
  void WriteDatabase(MemoryStore& store) {
    ocdbt::BulkWriteOptions options;
    options.sync = false;
    auto writer = Value(ocdbt::BulkWriter::Create(&store, "", options));
    const std::string_view values(input_);
    for (size_t i = 0; i < kLeafCount; ++i) {
      char name[32];
      std::snprintf(name, sizeof name, "p%05zu/", i);
      Must(writer->Put(2 * i, std::string(name) + ".zarray",
                       ChunkOf(values.substr(0, 165))));
      Must(writer->Put(2 * i + 1, std::string(name) + "0",
                       ChunkOf(values.substr(i % 1000, 270))));
    }
    Value(writer->Finish());
  }

  void AddOcdbt() {
    Add(
        "ocdbt_write",
        [this] {
          MemoryStore store;
          WriteDatabase(store);
        },
        kLeafCount * 435);
    Add(
        "ocdbt_read",
        [this] {
          if (!database_store_) {
            database_store_ = std::make_unique<MemoryStore>();
            WriteDatabase(*database_store_);
          }
          auto database =
              Value(ocdbt::Database::Open(database_store_.get(), ""));
          Must(database->ForEach("", "", "",
                                 [this](std::string_view key, const auto&) {
                                   sink_ += key.size();
                                   return Status();
                                 }));
        },
        kLeafCount * 435);
  }

  void AddMetadata() {
    TreeMetadata metadata;
    for (size_t i = 0; i < kLeafCount; ++i) {
      TreeMetadataEntry entry;
      entry.path = {{"params"}, {"p" + std::to_string(i)}};
      entry.value_type = "np.ndarray";
      metadata.entries.push_back(std::move(entry));
    }
    auto shared = std::make_shared<TreeMetadata>(std::move(metadata));
    auto text = std::make_shared<std::string>(SerializeTreeMetadata(*shared));
    Add(
        "metadata_write",
        [this, shared] { sink_ += SerializeTreeMetadata(*shared).size(); },
        text->size());
    Add(
        "metadata_parse",
        [this, text] {
          sink_ += Value(ParseTreeMetadata(*text)).entries.size();
        },
        text->size());
  }

  static constexpr size_t kLeafCount = 20'000;

  const Options options_;
  const std::string input_;
  std::string output_;
  CodecContext context_;
  std::vector<std::pair<std::string, Stage>> stages_;
  std::unique_ptr<MemoryStore> database_store_;
  uint64_t sink_ = 0;  // keeps results alive
};

Options ParseArgs(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--mib" && i + 1 < argc) {
      options.byte_count = std::strtoull(argv[++i], nullptr, 10) << 20;
    } else if (arg == "--rounds" && i + 1 < argc) {
      options.round_count = std::atoi(argv[++i]);
    } else {
      options.stages.push_back(arg);
    }
  }
  return options;
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  return holdfast::Bench(holdfast::ParseArgs(argc, argv)).Run();
}
