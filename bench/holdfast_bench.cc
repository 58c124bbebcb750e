// holdfast_bench: measures each stage of the engine separately, with its
// throughput and the machine's memcpy in the same run, so that figures can be
// read as ratios.
//
//   holdfast_bench [--mib N | --arrays NAME] [--rounds N] [STAGE...]
//
// Stages: memcpy crc32c ocdbt_write ocdbt_read metadata_write metadata_parse,
// and CODEC_encode and CODEC_decode, where CODEC is planes, zstd or fast (as
// saves use them), or libzstd (the library's own calls, level 1). Each stage
// prints the median of its rounds in processor time, which other programs
// affect little.
//
// The bytes are normally distributed bf16 values, or the arrays of the files
// NAME.lines and NAME.data (trees.py, write_for_driver). Codecs get them in
// pieces of 8 MiB, as from saves; encoding stages print the ratio of stored to
// raw bytes.
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "engine/format/tree_metadata.h"
#include "formats/codec/codec.h"
#include "formats/ocdbt/bulk_writer.h"
#include "formats/ocdbt/database.h"
#include "ground/base/crc32c.h"
#include "stores/storage/memory_store.h"

namespace holdfast {
namespace {

double SecondsOf(const std::function<void()>& fn) {
  const auto start = std::clock();
  fn();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
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

// Returns bf16 values of N(0, 0.02), which compress like model weights.
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

// A piece that a save passes to a codec in one call.
struct Piece {
  std::string_view bytes;
  size_t item_bytes = 0;
};

void CutArray(std::string_view array, size_t item_bytes,
              std::vector<Piece>& pieces) {
  constexpr size_t kPieceBytes = size_t{8} << 20;
  for (size_t at = 0; at < array.size(); at += kPieceBytes) {
    pieces.push_back({array.substr(at, kPieceBytes), item_bytes});
  }
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) Die(NotFoundError("cannot open " + path));
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the pieces of the arrays that `lines` describes.
std::vector<Piece> PiecesOf(const std::string& lines, std::string_view data) {
  std::vector<Piece> pieces;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string name, dtype_name;
    size_t offset = 0, element_count = 1;
    words >> name >> dtype_name >> offset;
    for (size_t extent; words >> extent;) element_count *= extent;
    const auto dtype = DTypeFromName(dtype_name);
    if (!dtype) Die(InvalidArgumentError("unknown dtype " + dtype_name));
    const size_t item_bytes = DTypeBytes(*dtype);
    CutArray(data.substr(offset, element_count * item_bytes), item_bytes,
             pieces);
  }
  return pieces;
}

struct Options {
  size_t byte_count = size_t{64} << 20;
  std::string arrays;
  int round_count = 5;
  std::vector<std::string> stages;
};

class Bench {
 public:
  explicit Bench(Options options)
      : options_(std::move(options)),
        input_(options_.arrays.empty() ? Weights(options_.byte_count)
                                       : ReadFile(options_.arrays + ".data")) {
    if (options_.arrays.empty()) {
      CutArray(input_, 2, pieces_);
    } else {
      pieces_ = PiecesOf(ReadFile(options_.arrays + ".lines"), input_);
    }
  }

  int Run() {
    Add("memcpy",
        [this] { std::memcpy(output_.data(), input_.data(), input_.size()); });
    Add("crc32c", [this] { sink_ += Crc32c(input_); });
    AddCodec("zstd", ZstdParams{});
    AddCodec("fast", BloscParams{"lz4", 5, 2});
    AddCodec("planes", BloscParams{"zstd", 1, 1, 0, 0, true});
    AddLibzstd();
    AddOcdbt();
    AddMetadata();
    output_.resize(input_.size());
    std::printf("%-16s %10s %10s %10s\n", "stage", "ms", "GB/s", "stored");
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
  // Encodes or decodes the bytes of one piece; returns the output's byte count.
  using PieceFn = std::function<size_t(const Piece&, std::string_view in,
                                       std::span<char> out)>;
  struct Encoded {
    std::string storage;
    size_t byte_count = 0;  // stored bytes; 0: not encoded yet
  };
  using Stored = std::vector<Encoded>;  // one per piece

  struct Stage {
    std::function<void()> fn;
    size_t byte_count;
    const Stored* stored = nullptr;  // the encoded pieces
  };

  void Add(const std::string& name, std::function<void()> fn,
           size_t byte_count = 0) {
    stages_.push_back(
        {name, {std::move(fn), byte_count ? byte_count : input_.size()}});
  }

  void Print(const std::string& name, const Stage& stage) {
    std::vector<double> seconds;
    stage.fn();  // touches the memory; not timed
    for (int i = 0; i < options_.round_count; ++i) {
      seconds.push_back(SecondsOf(stage.fn));
    }
    std::sort(seconds.begin(), seconds.end());
    const double median = seconds[seconds.size() / 2];
    std::printf("%-16s %10.2f %10.2f", name.c_str(), 1e3 * median,
                stage.byte_count / median / 1e9);
    if (stage.stored != nullptr) {
      size_t stored_bytes = 0;
      for (const Encoded& each : *stage.stored) stored_bytes += each.byte_count;
      std::printf(" %10.5f", static_cast<double>(stored_bytes) /
                                 static_cast<double>(stage.byte_count));
    }
    std::printf("\n");
  }

  // `bytes_max` returns the most bytes that encoding a piece can take.
  void AddPieces(const std::string& name,
                 std::function<size_t(const Piece&)> bytes_max, PieceFn encode,
                 PieceFn decode) {
    size_t raw_bytes = 0;
    for (const Piece& piece : pieces_) raw_bytes += piece.bytes.size();
    auto stored = std::make_shared<Stored>(pieces_.size());
    auto encode_all = [this, stored, bytes_max, encode] {
      for (size_t i = 0; i < pieces_.size(); ++i) {
        Encoded& each = (*stored)[i];
        if (each.byte_count == 0) each.storage.resize(bytes_max(pieces_[i]));
        each.byte_count = encode(pieces_[i], pieces_[i].bytes, each.storage);
      }
    };
    auto decode_all = [this, stored, encode_all, decode] {
      if (stored->front().byte_count == 0) encode_all();
      for (size_t i = 0; i < pieces_.size(); ++i) {
        const std::string_view raw = pieces_[i].bytes;
        const Encoded& each = (*stored)[i];
        decode(pieces_[i], {each.storage.data(), each.byte_count},
               {output_.data() + (raw.data() - input_.data()), raw.size()});
      }
    };
    stages_.push_back(
        {name + "_encode", {encode_all, raw_bytes, stored.get()}});
    stages_.push_back({name + "_decode", {decode_all, raw_bytes}});
  }

  void AddCodec(const std::string& name, const BytesCodecParams& params) {
    std::map<size_t, std::shared_ptr<const BytesCodec>> codecs;  // by item size
    for (const Piece& piece : pieces_) {
      codecs[piece.item_bytes] =
          Value(MakeBytesCodec(params, piece.item_bytes));
    }
    AddPieces(
        name,
        [codecs](const Piece& piece) {
          return codecs.at(piece.item_bytes)
              ->EncodedBytesMax(piece.bytes.size());
        },
        [this, codecs](const Piece& piece, std::string_view in,
                       std::span<char> out) {
          return Value(codecs.at(piece.item_bytes)->Encode(in, out, context_));
        },
        [this, codecs](const Piece& piece, std::string_view in,
                       std::span<char> out) {
          Must(codecs.at(piece.item_bytes)->Decode(in, out, context_));
          return out.size();
        });
  }

  void AddLibzstd() {
    const std::shared_ptr<ZSTD_CCtx> compressor(ZSTD_createCCtx(),
                                                ZSTD_freeCCtx);
    const std::shared_ptr<ZSTD_DCtx> decompressor(ZSTD_createDCtx(),
                                                  ZSTD_freeDCtx);
    AddPieces(
        "libzstd",
        [](const Piece& piece) {
          return ZSTD_compressBound(piece.bytes.size());
        },
        [compressor](const Piece&, std::string_view in, std::span<char> out) {
          return ZSTD_compressCCtx(compressor.get(), out.data(), out.size(),
                                   in.data(), in.size(), 1);
        },
        [decompressor](const Piece&, std::string_view in, std::span<char> out) {
          return ZSTD_decompressDCtx(decompressor.get(), out.data(), out.size(),
                                     in.data(), in.size());
        });
  }

  static EncodedChunk ChunkOf(std::string_view text) {
    EncodedChunk chunk;
    chunk.pieces.push_back(text);
    chunk.byte_count = text.size();
    return chunk;
  }

  // Writes the chunks of 20,000 arrays of 256 bytes.
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
  std::vector<Piece> pieces_;  // of input_; never empty
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
    } else if (arg == "--arrays" && i + 1 < argc) {
      options.arrays = argv[++i];
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
