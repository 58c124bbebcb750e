// Tests torch.save files: golden files, and archives with false claims.
#include "holdfast/tools/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>

#include "formats/pickle/decimal.h"
#include "formats/pickle/legacy_file.h"
#include "formats/pickle/torch_archive.h"
#include "formats/pickle/torch_writer.h"
#include "formats/zip/zip_format.h"
#include "formats/zip/zip_reader.h"
#include "formats/zip/zip_writer.h"
#include "ground/base/coding.h"
#include "ground/tensor/copy.h"
#include "megatron_corpus.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

// ---- golden files

std::vector<std::string> CheckpointsWithCommonFile() {
  std::vector<std::string> names;
  for (const auto& entry :
       std::filesystem::directory_iterator(MegatronCorpusRoot())) {
    if (std::filesystem::exists(entry.path() / "ckpt/common.pt")) {
      names.push_back(entry.path().filename());
    }
  }
  return names;
}

TEST(TorchFileGolden, CommonStatesHaveTheRecordedValues) {
  const std::vector<std::string> names = CheckpointsWithCommonFile();
  EXPECT_GE(names.size(), 20u);
  for (const std::string& name : names) {
    const auto value = ReadTorchFile(
        ReadTestFile(MegatronCorpusRoot() + "/" + name + "/ckpt/common.pt"));
    ASSERT_TRUE(value.ok()) << name << value.status().ToString();
    EXPECT_EQ(nlohmann::json::parse(PickleValueToJson(*value)),
              MegatronCommonState(MegatronExpected(name)))
        << name;
  }
}

// Every file, parsed and written again, keeps its value. So does a file that
// was put into a list and taken out again; the second time, its bytes stay the
// same as well.
TEST(TorchFileGolden, EveryFileKeepsItsValue) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(MegatronCorpusRoot())) {
    if (entry.path().extension() != ".pt") continue;
    ++count;
    const std::string file = ReadTestFile(entry.path());
    const auto value = ReadTorchFile(file);
    ASSERT_TRUE(value.ok()) << entry.path() << value.status().ToString();
    const std::string json = PickleValueToJson(*value);
    const auto again = ReadTorchFile(*WriteTorchFile(*value));
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(PickleValueToJson(*again), json);
    const auto listed = pickle::WrapInList(file);
    ASSERT_TRUE(listed.ok());
    EXPECT_EQ(PickleValueToJson(*ReadTorchFile(*listed)), "[" + json + "]");
    const auto alone = pickle::UnwrapFromList(*listed);
    ASSERT_TRUE(alone.ok());
    EXPECT_EQ(PickleValueToJson(*ReadTorchFile(*alone)), json);
    EXPECT_EQ(*pickle::WrapInList(*alone), *listed);
  }
  EXPECT_GE(count, 57u);
}

// ---- tensors whose elements are written later

TEST(TensorFile, IsTheFileOfATensor) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBfloat16, DType::kUint16, DType::kBool}) {
    for (const Shape& shape : {Shape{}, Shape{0, 3}, Shape{2, 3, 1, 4}}) {
      const auto plan = pickle::PlanTensorFile(dtype, shape);
      ASSERT_TRUE(plan.ok());
      std::string elements(plan->data_bytes, '\0');
      for (size_t i = 0; i < elements.size(); ++i) {
        elements[i] = static_cast<char>(i % 2);
      }
      const size_t half = elements.size() / 2;
      const uint32_t crc = pickle::CombineZipCrc32(
          pickle::ZipCrc32(elements.substr(0, half)),
          pickle::ZipCrc32(elements.substr(half)), elements.size() - half);
      const std::string tail = pickle::TensorFileTail(*plan, crc);
      const std::string file = plan->head + elements + tail;
      EXPECT_EQ(file.size(), plan->byte_count());
      const Array array = Array::FromBytes(dtype, shape, elements.data());
      EXPECT_EQ(file, *WriteTorchFile(PickleValue::Tensor(array)));
      const auto read = ReadTorchFile(file);
      ASSERT_TRUE(read.ok()) << read.status().ToString();
      EXPECT_EQ(PickleValueToJson(*read),
                PickleValueToJson(PickleValue::Tensor(array)));
      const pickle::MemorySource source(file);
      const auto place = pickle::LocateTensor(source);
      ASSERT_TRUE(place.ok()) << place.status().ToString();
      EXPECT_EQ(place->dtype, dtype);
      EXPECT_EQ(place->shape, shape);
      EXPECT_EQ(place->offset, plan->head.size());
      EXPECT_EQ(place->offset % 64, 0u);
    }
  }
  EXPECT_THAT(pickle::PlanTensorFile(DType::kInt4, {1}).status().ToString(),
              HasSubstr("torch has no dtype int4"));
}

// ---- archives with false claims

std::string SmallZip(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  pickle::ZipWriter zip;
  for (const auto& [name, bytes] : entries) zip.Add(name, bytes);
  zip.Finish("a");
  return zip.TakeBytes();
}

std::string ReadingZip(const std::string& file) {
  const pickle::MemorySource source(file);
  const auto zip = pickle::ZipReader::Open(source);
  if (!zip.ok()) return zip.status().ToString();
  for (const pickle::ZipEntry& entry : zip->entries()) {
    const auto bytes = zip->Read(entry);
    if (!bytes.ok()) return bytes.status().ToString();
  }
  return "OK";
}

// Returns the first record with this signature.
char* RecordIn(std::string& file, uint32_t signature) {
  for (size_t i = 0; i + 4 <= file.size(); ++i) {
    if (LoadLittle<uint32_t>(&file[i]) == signature) return &file[i];
  }
  return nullptr;
}

struct ZipLie {
  std::string what;
  uint32_t record;
  std::function<void(char*)> change;
  std::string error;
};

template <typename T>
std::function<void(char*)> Put(size_t at, T value) {
  return [=](char* record) { StoreLittle<T>(record + at, value); };
}

std::vector<ZipLie> LiesAboutEntries() {
  return {
      {"compressed", pickle::kCentralSignature, Put<uint16_t>(10, 8),
       "entry \"a/x\" is compressed (method 8)"},
      {"compressed in its own header", pickle::kLocalSignature,
       Put<uint16_t>(8, 8), "entry \"a/x\" is compressed (method 8)"},
      {"encrypted", pickle::kCentralSignature, Put<uint16_t>(8, 1),
       "entry \"a/x\" is encrypted"},
      {"another CRC", pickle::kCentralSignature, Put<uint32_t>(16, 1),
       "entry \"a/x\" is damaged: its CRC-32 does not match"},
      {"two sizes", pickle::kCentralSignature, Put<uint32_t>(20, 1),
       "is stored, and yet has two sizes, 1 and 5"},
      {"a bomb", pickle::kCentralSignature,
       [](char* record) {
         StoreLittle<uint32_t>(record + 20, 0xfffffff0);
         StoreLittle<uint32_t>(record + 24, 0xfffffff0);
       },
       "overlaps the next part"},
      {"64-bit without the field", pickle::kCentralSignature,
       [](char* record) {
         StoreLittle<uint32_t>(record + 20, 0xffffffff);
         StoreLittle<uint32_t>(record + 24, 0xffffffff);
       },
       "overlaps the next part"},
      {"an offset of another entry", pickle::kCentralSignature,
       Put<uint32_t>(42, 128), "overlaps the next part"},
      {"an offset past the end", pickle::kCentralSignature,
       Put<uint32_t>(42, 0x7fffffff), "overlaps the next part"},
      {"an offset of nothing", pickle::kCentralSignature, Put<uint32_t>(42, 1),
       "entry \"a/x\" has no header at offset 1"},
  };
}

std::vector<ZipLie> LiesAboutHeaders() {
  return {
      {"another name in its own header", pickle::kLocalSignature,
       Put<char>(30, 'b'), "has another name in its own header"},
      {"a longer name in its own header", pickle::kLocalSignature,
       Put<uint16_t>(26, 0xffff), "has another name in its own header"},
      {"more padding than there is", pickle::kLocalSignature,
       Put<uint16_t>(28, 0xffff), "reaches into the next part"},
      {"a longer name", pickle::kCentralSignature, Put<uint16_t>(28, 0xffff),
       "its directory is cut"},
      {"no directory", pickle::kCentralSignature, Put<uint32_t>(0, 0),
       "its directory is damaged at byte 0"},
      {"fewer entries", pickle::kEndSignature,
       [](char* record) {
         StoreLittle<uint16_t>(record + 8, 1);
         StoreLittle<uint16_t>(record + 10, 1);
       },
       "bytes after its last entry"},
      {"more entries", pickle::kEndSignature,
       [](char* record) {
         StoreLittle<uint16_t>(record + 8, 0xfff0);
         StoreLittle<uint16_t>(record + 10, 0xfff0);
       },
       "more than its directory can hold"},
      {"another disk", pickle::kEndSignature, Put<uint16_t>(4, 1),
       "one of several disks"},
      {"a directory past the end", pickle::kEndSignature,
       Put<uint32_t>(16, 0x7fffffff), "does not fit"},
      {"a huge directory", pickle::kEndSignature, Put<uint32_t>(12, 0x7fffffff),
       "does not fit"},
      {"64-bit, without its record", pickle::kEndSignature,
       [](char* record) {
         StoreLittle<uint32_t>(record + 16, 0xffffffff);
         StoreLittle<uint32_t>(record - 20, 0);
       },
       "its 64-bit end record is missing"},
      {"64-bit, somewhere else", pickle::kEndSignature,
       [](char* record) {
         StoreLittle<uint32_t>(record + 16, 0xffffffff);
         StoreLittle<uint64_t>(record - 12, 1ULL << 62);
       },
       "which it cannot be"},
      {"64-bit, of no size", pickle::kEndSignature,
       [](char* record) {
         StoreLittle<uint32_t>(record + 16, 0xffffffff);
         StoreLittle<uint64_t>(record - 20 - 8, ~0ULL);
       },
       "does not fit"},
      {"no end", pickle::kEndSignature, Put<uint32_t>(0, 0),
       "it has no end record"},
  };
}

TEST(ZipLies, AreRefused) {
  std::vector<ZipLie> lies = LiesAboutEntries();
  for (ZipLie& lie : LiesAboutHeaders()) lies.push_back(std::move(lie));
  ASSERT_EQ(ReadingZip(SmallZip({{"a/x", "hello"}, {"a/y", "world"}})), "OK");
  for (const ZipLie& lie : lies) {
    std::string file = SmallZip({{"a/x", "hello"}, {"a/y", "world"}});
    char* const record = RecordIn(file, lie.record);
    ASSERT_NE(record, nullptr);
    lie.change(record);
    EXPECT_THAT(ReadingZip(file), HasSubstr(lie.error)) << lie.what;
  }
  EXPECT_THAT(ReadingZip(SmallZip({{"a/x", "hello"}, {"a/x", "world"}})),
              HasSubstr("entry \"a/x\" appears twice"));
}

std::string ReadingTorch(
    const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto value = ReadTorchFile(SmallZip(entries));
  return value.ok() ? PickleValueToJson(*value) : value.status().ToString();
}

TEST(TorchFileLies, AreRefused) {
  const std::string pickle = "K\1.";
  EXPECT_EQ(ReadingTorch({{"a/data.pkl", pickle}}), "1");
  EXPECT_EQ(ReadingTorch({{"a/data.pkl", pickle}, {"a/byteorder", "little"}}),
            "1");
  EXPECT_THAT(ReadingTorch({{"a/data.pkl", pickle}, {"a/byteorder", "big"}}),
              HasSubstr("written on a big-endian machine"));
  EXPECT_THAT(ReadingTorch({{"a/data.pkl", pickle}, {"a/byteorder", "pdp"}}),
              HasSubstr("neither little nor big"));
  EXPECT_THAT(ReadingTorch({{"a/x", "1"}}), HasSubstr("it has no data.pkl"));
  EXPECT_THAT(ReadingTorch({{"a/data.pkl", pickle}, {"b/data.pkl", pickle}}),
              HasSubstr("two pickles"));
  EXPECT_THAT(ReadingTorch({{"a/data.pkl", pickle}, {"a/constants.pkl", ""}}),
              HasSubstr("TorchScript"));
  EXPECT_THAT(ReadTorchFile("not a zip").status().ToString(),
              HasSubstr("not a zip archive"));
}

TEST(TensorLies, AreRefused) {
  using namespace std::string_literals;
  const std::string storage =
      "ctorch\nFloatStorage\nX\1\0\0\0"s + "0X\3\0\0\0cpuK\4"s;
  const auto reading = [](const std::string& pickle) {
    return ReadingTorch(
        {{"a/data.pkl", pickle}, {"a/data/0", std::string(16, '\0')}});
  };
  const std::string head =
      "\x80\x02"
      "ctorch._utils\n_rebuild_tensor_v2\n((X\7\0\0\0"
      "storage"s;
  const auto tensor = [&](const std::string& rest) {
    return reading(head + storage + "tQ" + rest + "\x89NtR.");
  };
  EXPECT_THAT(tensor("K\0K\4\x85K\1\x85"s), HasSubstr("\"shape\":[4]"));
  EXPECT_THAT(tensor("K\1K\4\x85K\1\x85"),
              HasSubstr("reaches past the end of its storage \"0\""));
  EXPECT_THAT(tensor("K\0K\3\x85K\2\x85"s), HasSubstr("reaches past the end"));
  EXPECT_THAT(tensor("K\0J\xff\xff\xff\x7f\x85K\1\x85"s),
              HasSubstr("reaches past the end"));
  EXPECT_THAT(tensor("K\0K\4\x85J\xff\xff\xff\xff\x85"s),
              HasSubstr("with a stride of -1"));
  EXPECT_THAT(tensor("K\0J\xff\xff\xff\xff\x85K\1\x85"s),
              HasSubstr("has a size of -1"));
  EXPECT_THAT(tensor("J\xff\xff\xff\xffK\4\x85K\1\x85"),
              HasSubstr("starts at element -1"));
  EXPECT_THAT(tensor("K\0K\4K\1\x86K\1\x85"s),
              HasSubstr("has 2 sizes and 1 strides"));
  EXPECT_THAT(tensor("K\0K\2K\2K\2\x87K\1K\1K\1\x87"s),
              HasSubstr("\"shape\":[2,2,2]"));
  // All elements share one place. Such a view is allowed, but must not be
  // larger than its file justifies.
  EXPECT_THAT(tensor("K\0J\0\0\0\x10\x85K\0\x85"s),
              HasSubstr("it holds the same parts again and again"));
  EXPECT_THAT(
      tensor("K\0\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f\x8a\x08\xff\xff\xff"
             "\xff\xff\xff\xff\x7f\x86K\0K\0\x86"s),
      HasSubstr("too many elements"));
  EXPECT_THAT(reading(head + "ctorch\nFloatStorage\nX\1\0\0\0"s +
                      "7X\3\0\0\0cpuK\4tQK\0K\4\x85K\1\x85\x89NtR."s),
              HasSubstr("storage \"7\" is not in it"));
  EXPECT_THAT(reading(head + "ctorch\nFloatStorage\nX\1\0\0\0"s +
                      "0X\3\0\0\0cpuK\5tQK\0K\4\x85K\1\x85\x89NtR."s),
              HasSubstr("has 16 bytes, and its pickle says 20"));
  EXPECT_THAT(reading(head + "cmodel\nStorage\nX\1\0\0\0"s +
                      "0X\3\0\0\0cpuK\4tQK\0K\4\x85K\1\x85\x89NtR."s),
              HasSubstr("a storage has no type"));
  EXPECT_THAT(reading("X\7\0\0\0storageQ."s),
              HasSubstr("a persistent id does not name a storage"));
  EXPECT_THAT(reading("ctorch._utils\n_rebuild_other_tensor\n(tR."),
              HasSubstr("torch._utils._rebuild_other_tensor, which holdfast "
                        "does not run"));
}

TEST(TorchTensors, ABareStorageIsATensorOfOneAxis) {
  using namespace std::string_literals;
  EXPECT_THAT(ReadingTorch({{"a/data.pkl",
                             "\x80\x02(X\7\0\0\0storagectorch\nShortStorage\nX"
                             "\1\0\0\0"s +
                                 "0X\3\0\0\0cpuK\2tQ."s},
                            {"a/data/0", "\1\0\2\0"s}}),
              HasSubstr("\"dtype\":\"int16\",\"hex\":\"01000200\""));
}

// A sparse tensor becomes a record of tensors, from which torch.load would make
// the sparse tensor.
TEST(TorchTensors, ASparseOneIsARecord) {
  EXPECT_THAT(ReadingTorch({{"a/data.pkl",
                             "ctorch._utils\n_rebuild_sparse_tensor\n(ctorch"
                             ".serialization\n_get_layout\n(S'torch.sparse"
                             "_coo'\ntRI1\ntR."}}),
              HasSubstr("[\"torch.sparse_coo\"]"));
}

// ---- numbers

TEST(DecimalText, IsThatOfPython) {
  for (const int64_t value :
       {int64_t{0}, int64_t{-1}, int64_t{255}, int64_t{-256},
        std::numeric_limits<int64_t>::max(),
        std::numeric_limits<int64_t>::min()}) {
    EXPECT_EQ(pickle::DecimalOfBytes(PickleValue::Int(value).int_bytes()),
              std::to_string(value));
    const auto back = pickle::BytesOfDecimal(std::to_string(value));
    EXPECT_EQ(PickleValue::IntOfBytes(*back).int_value(), value);
  }
  const std::string big = "-170141183460469231731687303715884105728";
  EXPECT_EQ(pickle::DecimalOfBytes(std::string(15, '\0') + '\x80'), big);
  EXPECT_EQ(
      PickleValueToJson(PickleValue::IntOfBytes(*pickle::BytesOfDecimal(big))),
      big);
}

TEST(PythonFloatText, IsThatOfPython) {
  const std::vector<std::pair<double, std::string>> cases = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.0, "1.0"},
      {0.1, "0.1"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e300, "1.5e+300"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {5e-324, "5e-324"},
      {123456.789, "123456.789"},
      {1.7976931348623157e308, "1.7976931348623157e+308"}};
  for (const auto& [value, text] : cases) {
    EXPECT_EQ(pickle::PythonFloat(value), text);
  }
}

TEST(PickleJson, IsCanonical) {
  const auto text = [](const char* utf8) { return PickleValue::String(utf8); };
  EXPECT_EQ(
      PickleValueToJson(PickleValue::Dict(
          {{text("b"), PickleValue::Int(1)},
           {text("a\xc3\xa9\xf0\x9f\x98\x80\x7f\n\""), PickleValue::None()}})),
      "{\"a\\u00e9\\ud83d\\ude00\\u007f\\n\\\"\":null,\"b\":1}");
  EXPECT_EQ(
      PickleValueToJson(PickleValue::Dict({{text("$b"), PickleValue::Int(1)}})),
      "{\"$dict\":[[\"$b\",1]]}");
  EXPECT_EQ(PickleValueToJson(PickleValue::Items(
                PickleKind::kSet, {PickleValue::Int(2), PickleValue::Int(1)})),
            "{\"$set\":[1,2]}");
  EXPECT_EQ(PickleValueToJson(
                PickleValue::Float(std::numeric_limits<double>::infinity())),
            "{\"$float\":\"inf\"}");
}

// ---- files from before torch 1.6

// A file of a gigabyte that begins with `start`. It counts the bytes that are
// read.
class LargeSource : public pickle::ByteSource {
 public:
  explicit LargeSource(std::string start) : start_(std::move(start)) {}
  uint64_t size() const override { return uint64_t{1} << 30; }
  Status Read(uint64_t offset, std::span<char> target) const override {
    read_bytes_ += target.size();
    std::fill(target.begin(), target.end(), '\0');
    for (size_t i = 0; i < target.size() && offset + i < start_.size(); ++i) {
      target[i] = start_[offset + i];
    }
    return Status();
  }
  uint64_t read_bytes() const { return read_bytes_; }

 private:
  const std::string start_;
  mutable uint64_t read_bytes_ = 0;
};

// Returns the magic, and the pickles of the protocol version and of
// {"little_endian": True}.
std::string LegacyHead() {
  std::string head(pickle::kLegacyMagic);
  head += std::string("\x80\x02M\xe9\x03.", 6);
  head += std::string("\x80\x02}X\x0d\0\0\0little_endian\x88s.", 24);
  return head;
}

TEST(LegacyFile, DamageIsFoundWithoutReadingAllOfIt) {
  const LargeSource source(LegacyHead() + "\x80\x02\xff");
  const auto opened = pickle::OpenLegacyFile(source);
  EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);
  EXPECT_LE(source.read_bytes(), uint64_t{1} << 20);
}

TEST(LegacyFile, PicklesMayBeLongerThanWhatIsReadFirst) {
  const std::string text(3 << 20, 't');
  std::string length(4, '\0');
  StoreLittle(length.data(), static_cast<uint32_t>(text.size()));
  const LargeSource source(LegacyHead() + "\x80\x02X" + length + text +
                           ".\x80\x02].");
  const auto opened = pickle::OpenLegacyFile(source);
  ASSERT_TRUE(opened.ok()) << opened.status().ToString();
  EXPECT_EQ(opened->program.node(opened->program.root).text, text);
  EXPECT_LE(source.read_bytes(), uint64_t{8} << 20);
}

}  // namespace
}  // namespace holdfast
