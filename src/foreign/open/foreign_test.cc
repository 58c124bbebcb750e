// Files of the real libraries, files with false claims, and the output of
// holdfast's own targets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "foreign/extents/target_sidecar.h"
#include "foreign/npz/npz_target.h"
#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_target.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "ground/base/coding.h"
#include "holdfast/tools/torch_file.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

std::string GoldenForeign(const std::string& name) {
  return std::string(HOLDFAST_SOURCE_DIR) + "/tests/golden/foreign/" + name;
}

std::unique_ptr<Checkpoint> Opened(const std::string& path,
                                   const OpenOptions& options = {}) {
  auto opened = Open(path, options);
  EXPECT_TRUE(opened.ok()) << opened.status().ToString();
  return opened.ok() ? std::move(opened).value() : nullptr;
}

// Returns the bytes of the array that make.py wrote, in C order.
std::string GoldenBytes(const LeafInfo& leaf) {
  const size_t element_bytes = DTypeBytes(*leaf.dtype);
  const int64_t count = ElementCount(leaf.shape);
  std::string bytes;
  const bool is_packed = *leaf.dtype == DType::kFloat4E2m1fn;
  const int64_t byte_count = is_packed ? count / 2 : count * element_bytes;
  for (int64_t i = 0; i < byte_count; ++i) {
    const auto byte = static_cast<unsigned char>((7 * i + 3) % 251);
    if (*leaf.dtype == DType::kBool) {
      bytes += static_cast<char>(i % 2);
    } else if (is_packed) {
      bytes += static_cast<char>(byte & 0xf);
      bytes += static_cast<char>(byte >> 4);
    } else {
      bytes += static_cast<char>(byte);
    }
  }
  return bytes;
}

std::string BytesOfLeaf(const Checkpoint& checkpoint, size_t leaf) {
  const auto array = checkpoint.Read(leaf);
  EXPECT_TRUE(array.ok()) << array.status().ToString();
  if (!array.ok()) return "";
  return std::string(array->view().data, array->byte_count());
}

void ExpectGolden(const std::string& file, size_t wanted_count) {
  const auto checkpoint = Opened(GoldenForeign(file));
  ASSERT_NE(checkpoint, nullptr);
  size_t count = 0;
  for (size_t i = 0; i < checkpoint->leaves().size(); ++i) {
    const LeafInfo& leaf = checkpoint->leaves()[i];
    const bool is_patterned = leaf.name != "scalar" && leaf.name != "empty" &&
                              leaf.name != "text" && leaf.name != "time";
    if (!is_patterned) continue;
    ++count;
    EXPECT_EQ(BytesOfLeaf(*checkpoint, i), GoldenBytes(leaf))
        << file << " " << leaf.name;
  }
  EXPECT_EQ(count, wanted_count) << file;
}

TEST(ForeignGolden, EveryValueOfTheRealLibraries) {
  ExpectGolden("torch.safetensors", 20);
  ExpectGolden("numpy.safetensors", 13);
  ExpectGolden("stored.npz", 20);
  ExpectGolden("deflated.npz", 20);
}

TEST(ForeignGolden, WhatTheyAre) {
  const auto torch = Opened(GoldenForeign("torch.safetensors"));
  EXPECT_EQ(torch->info().format, "safetensors");
  EXPECT_EQ(torch->info().item_custom_metadata, R"({"format":"pt"})");
  const auto npz = Opened(GoldenForeign("deflated.npz"));
  EXPECT_EQ(npz->info().format, "npz");
  for (const auto& [name, what] :
       {std::pair("text", "\"<U3\""), std::pair("time", "\"<M8[ns]\"")}) {
    const LeafInfo& leaf = npz->leaves()[npz->Find(name).value()];
    EXPECT_TRUE(IsNotSupported(leaf));
    EXPECT_FALSE(leaf.dtype.has_value());
    EXPECT_THAT(leaf.problem.ToString(), HasSubstr(what));
  }
}

TEST(ForeignGolden, BoxesOfDeflatedArraysInAnyOrder) {
  for (const char* name : {"c.int16", "f.int16", "big.int16"}) {
    const auto npz = Opened(GoldenForeign("deflated.npz"));
    const size_t leaf = npz->Find(name).value();
    const std::string all = GoldenBytes(npz->leaves()[leaf]);
    for (const int64_t row : {2, 0, 1}) {
      const auto got = npz->ReadBox(leaf, {row, 1}, {1, 2});
      ASSERT_TRUE(got.ok()) << got.status().ToString();
      EXPECT_EQ(std::string(got->view().data, got->byte_count()),
                all.substr((row * 4 + 1) * 2, 4))
          << name << row;
    }
  }
}

TEST(ForeignGolden, ObjectsAreRefusedByName) {
  const auto npz = Opened(GoldenForeign("objects.npz"));
  EXPECT_THAT(npz->leaves()[npz->Find("objects").value()].problem.ToString(),
              HasSubstr("member \"objects.npy\""));
  EXPECT_TRUE(npz->Read(npz->Find("fine").value()).ok());
}

TEST(ForeignGolden, LoadGivesATreeByName) {
  const auto loaded = Load(GoldenForeign("numpy.safetensors"));
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->tree.Find("int8")->array().shape(), (Shape{2, 3, 2}));
  LoadOptions options;
  options.names = {"nothing"};
  EXPECT_EQ(Load(GoldenForeign("numpy.safetensors"), options).status().code(),
            StatusCode::kNotFound);
}

TEST(ForeignVerify, FindsAChangedByteWhereThereIsAChecksum) {
  for (const char* name : {"stored.npz", "deflated.npz"}) {
    std::ifstream in(GoldenForeign(name), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    const auto whole = Verify(GoldenForeign(name));
    ASSERT_TRUE(whole.ok());
    EXPECT_TRUE(whole->damages.empty());
    EXPECT_EQ(whole->not_supported.size(), 2u);
    EXPECT_FALSE(whole->ok());
    EXPECT_GT(whole->checksummed_chunk_count, 20u);
    ScratchDirectory scratch;
    bytes[bytes.find("c.float64.npy") + 200] ^= 1;
    std::ofstream(scratch / "x.npz", std::ios::binary) << bytes;
    const auto report = Verify(scratch / "x.npz");
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    EXPECT_FALSE(report->damages.empty()) << name;
  }
  const auto report = Verify(GoldenForeign("torch.safetensors"));
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
  EXPECT_EQ(report->notes.size(), 1u);
}

// If one byte of a member is changed, no part of the member is returned. Other
// members are returned, and a caller that requests no checks gets everything.
TEST(ForeignVerify, NpzMembersAreCheckedBeforeAnyPartIsRead) {
  for (const char* file : {"stored.npz", "deflated.npz"}) {
    std::ifstream in(GoldenForeign(file), std::ios::binary);
    std::string bytes((std::istreambuf_iterator<char>(in)), {});
    ScratchDirectory scratch;
    const size_t header = bytes.find("c.float64.npy");
    // Changes a byte after three quarters of the member, before the next
    // member.
    const size_t end = bytes.find("PK\x03\x04", header);
    bytes[end - (end - header) / 4] ^= 1;
    std::ofstream(scratch / "x.npz", std::ios::binary) << bytes;
    const auto npz = Opened(scratch / "x.npz");
    const size_t damaged = npz->Find("c.float64").value();
    const Shape& shape = npz->leaves()[damaged].shape;
    const Shape zero(shape.size(), 0);
    const auto first = npz->ReadBox(damaged, zero, Shape(shape.size(), 1));
    EXPECT_EQ(first.status().code(), StatusCode::kDataLoss) << file;
    EXPECT_THAT(first.status().ToString(), HasSubstr("c.float64.npy"));
    EXPECT_EQ(npz->Read(damaged).status().code(), StatusCode::kDataLoss);
    EXPECT_TRUE(npz->Read(npz->Find("c.float32").value()).ok()) << file;
    OpenOptions unchecked;
    unchecked.verify = false;
    const auto open = Open(scratch / "x.npz", unchecked);
    ASSERT_TRUE(open.ok());
    const auto given = (*open)->ReadBox(damaged, zero, Shape(shape.size(), 1));
    EXPECT_TRUE(given.ok()) << given.status().ToString();
  }
}

std::string SafetensorsBytes(const std::string& json, const std::string& data) {
  std::string bytes;
  PutU64Little(bytes, json.size());
  return bytes + json + data;
}

std::string U8(const std::string& name, int begin, int end) {
  return "\"" + name + R"(":{"dtype":"U8","shape":[)" +
         std::to_string(end - begin) + R"(],"data_offsets":[)" +
         std::to_string(begin) + "," + std::to_string(end) + "]}";
}

void WriteText(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TEST(SafetensorsIndex, RefusesIndexesThatLie) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})", ""},
      {R"({"weight_map":{"a":"1.safetensors"}})", ""},  // the other is unused
      {"{", "not a JSON document"},
      {"[]", "not a JSON object"},
      {R"({"metadata":{}})", "no weight_map"},
      {R"({"weight_map":{"a":1}})", "is not a string"},
      {R"({"weight_map":{"a":"../x"}})", "does not name a file next to it"},
      {R"({"weight_map":{"a":"/etc/passwd"}})",
       "does not name a file next to it"},
      {R"({"weight_map":{"a":"gone.safetensors"}})", "there is no such file"},
      {R"({"weight_map":{"a":"2.safetensors"}})", "tensor \"b\" is in it"},
      {R"({"weight_map":{"a":"1.safetensors","c":"1.safetensors"}})",
       "tensor \"c\" is not in 1.safetensors"},
      {R"({"weight_map":{"a":"1.safetensors","a":"2.safetensors"}})",
       "\"a\" is there twice"},
  };
  ScratchDirectory scratch;
  WriteText(scratch / "1.safetensors",
            SafetensorsBytes("{" + U8("a", 0, 2) + "}", "xy"));
  WriteText(scratch / "2.safetensors",
            SafetensorsBytes("{" + U8("b", 0, 3) + "}", "abc"));
  for (const auto& [index, message] : rows) {
    WriteText(scratch / "model.safetensors.index.json", index);
    const auto opened = Open(scratch.path());
    EXPECT_EQ(opened.ok(), std::string(message).empty())
        << index << opened.status().ToString();
    EXPECT_THAT(opened.status().ToString(), HasSubstr(message)) << index;
  }
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Writes a torch.save file with a dict of uint8 tensors.
void WriteTorch(const std::string& path,
                const std::map<std::string, std::string>& tensors) {
  std::vector<PickleValue::Pair> pairs;
  for (const auto& [name, bytes] : tensors) {
    const Shape shape = {static_cast<int64_t>(bytes.size())};
    pairs.emplace_back(PickleValue::String(name),
                       PickleValue::Tensor(Array::FromBytes(
                           DType::kUint8, shape, bytes.data())));
  }
  WriteText(path, *WriteTorchFile(PickleValue::Dict(std::move(pairs))));
}

constexpr const char* kTorchIndex = "pytorch_model.bin.index.json";

TEST(TorchIndex, ItsFilesAreOneCheckpoint) {
  ScratchDirectory scratch;
  WriteTorch(scratch / "pytorch_model-1.bin", {{"h.0.w", "xy"}});
  WriteTorch(scratch / "pytorch_model-2.bin", {{"h.1.w", "abc"}, {"b", "d"}});
  WriteText(scratch / "config.json", "{}");
  WriteText(scratch / kTorchIndex,
            R"({"metadata": {"total_size": 6}, "weight_map": {)"
            R"("h.0.w": "pytorch_model-1.bin", "b": "pytorch_model-2.bin",)"
            R"("h.1.w": "pytorch_model-2.bin"}})");
  for (const std::string& path : {scratch.path(), scratch / kTorchIndex}) {
    const auto checkpoint = Opened(path);
    ASSERT_NE(checkpoint, nullptr);
    EXPECT_EQ(checkpoint->info().format, "torch");
    EXPECT_EQ(checkpoint->info().path, scratch.path());
    std::map<std::string, std::string> found;
    for (size_t i = 0; i < checkpoint->leaves().size(); ++i) {
      found[checkpoint->leaves()[i].name] = BytesOfLeaf(*checkpoint, i);
    }
    EXPECT_EQ(found, (std::map<std::string, std::string>{
                         {"b", "d"}, {"h.0.w", "xy"}, {"h.1.w", "abc"}}));
  }
  const auto report = Verify(scratch.path());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_TRUE(report->damages.empty());
  EXPECT_TRUE(report->notes.empty());
  EXPECT_EQ(report->checksummed_chunk_count, 3u);
}

TEST(TorchIndex, DamageNamesItsFile) {
  ScratchDirectory scratch;
  WriteTorch(scratch / "1.bin", {{"a", "xy"}});
  const std::string value(64, 'v');
  WriteTorch(scratch / "2.bin", {{"b", value}});
  WriteText(scratch / kTorchIndex,
            R"({"weight_map": {"a": "1.bin", "b": "2.bin"}})");
  std::string text = ReadText(scratch / "2.bin");
  text[text.find(value) + 9] ^= 1;
  WriteText(scratch / "2.bin", text);
  const auto report = Verify(scratch.path());
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  ASSERT_EQ(report->damages.size(), 1u);
  EXPECT_THAT(report->damages[0].file, testing::StartsWith("2.bin/"));
  EXPECT_FALSE(Load(scratch.path()).ok());
}

TEST(TorchIndex, LiesAreRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"weight_map":{"a":"1.bin","b":"2.bin"}})", ""},
      {"{", "not a JSON document"},
      {R"({"weight_map":{"a":"../x"}})", "does not name a file next to it"},
      {R"({"weight_map":{"a":"gone.bin"}})", "there is no such file"},
      {R"({"weight_map":{"a":"2.bin"}})", "tensor \"b\" is in it"},
      {R"({"weight_map":{"a":"1.bin","c":"1.bin"}})",
       "tensor \"c\" is not in 1.bin"},
      {R"({"weight_map":{"a":"1.bin","b":"1.bin","x":"2.bin"}})",
       "2.bin: tensor \"b\" is in it, but the index has it in 1.bin"},
  };
  ScratchDirectory scratch;
  WriteTorch(scratch / "1.bin", {{"a", "xy"}});
  WriteTorch(scratch / "2.bin", {{"b", "abc"}});
  for (const auto& [index, message] : rows) {
    WriteText(scratch / kTorchIndex, index);
    const auto opened = Open(scratch.path());
    EXPECT_EQ(opened.ok(), std::string(message).empty())
        << index << opened.status().ToString();
    EXPECT_THAT(opened.status().ToString(), HasSubstr(message)) << index;
  }
}

TEST(TorchIndex, SafetensorsBesideItAreReadInstead) {
  ScratchDirectory scratch;
  WriteTorch(scratch / "1.bin", {{"a", "xy"}});
  WriteText(scratch / kTorchIndex, R"({"weight_map": {"a": "1.bin"}})");
  WriteText(scratch / "model.safetensors",
            SafetensorsBytes("{" + U8("a", 0, 2) + "}", "xy"));
  EXPECT_EQ(Opened(scratch.path())->info().format, "safetensors");
  EXPECT_EQ(Opened(scratch / kTorchIndex)->info().format, "torch");
}

TEST(SafetensorsDirectory, OneTensorInTwoFilesIsRefused) {
  ScratchDirectory scratch;
  WriteText(scratch / "1.safetensors",
            SafetensorsBytes("{" + U8("a", 0, 2) + "}", "xy"));
  WriteText(scratch / "2.safetensors",
            SafetensorsBytes("{" + U8("a", 0, 3) + "}", "abc"));
  EXPECT_THAT(Open(scratch.path()).status().ToString(),
              HasSubstr("tensor \"a\" is also in 1.safetensors"));
}

TEST(Safetensors, AnyByteOfABoolButZeroIsTrue) {
  ScratchDirectory scratch;
  WriteText(scratch / "x.safetensors",
            SafetensorsBytes(
                R"({"a":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]}})",
                std::string("\x00\x01\x02\xff", 4)));
  const auto checkpoint = Opened(scratch / "x.safetensors");
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(BytesOfLeaf(*checkpoint, 0), std::string("\0\1\1\1", 4));
  const auto column = checkpoint->ReadBox(0, {0, 1}, {2, 1});
  ASSERT_TRUE(column.ok()) << column.status().ToString();
  EXPECT_EQ(std::string(column->view().data, 2), "\1\1");
}

TEST(SafetensorsDirectory, FollowsLinksAsModelHubsMakeThem) {
  ScratchDirectory scratch;
  std::filesystem::create_directories(scratch / "blobs");
  std::filesystem::create_directories(scratch / "snapshot");
  WriteText(scratch / "blobs/123",
            SafetensorsBytes("{" + U8("a", 0, 2) + "}", "xy"));
  std::filesystem::create_symlink("../blobs/123",
                                  scratch / "snapshot/model.safetensors");
  const auto checkpoint = Opened(scratch / "snapshot");
  ASSERT_NE(checkpoint, nullptr);
  EXPECT_EQ(BytesOfLeaf(*checkpoint, 0), "xy");
}

// A plan with every dtype and every kind.
struct MadePlan {
  TargetPlan plan;
  std::vector<std::string> values;  // elements, or the text, by leaf
};

MadePlan MakePlan() {
  MadePlan made;
  const auto add = [&](TargetLeaf leaf, std::string value) {
    for (const std::string& key : leaf.key) {
      leaf.name += (leaf.name.empty() ? "" : ".") + key;
    }
    leaf.key_kinds.resize(leaf.key.size());
    if (leaf.kind != ValueKind::kArray) leaf.text = value;
    made.plan.leaves.push_back(std::move(leaf));
    made.values.push_back(std::move(value));
  };
  for (int i = 0; i < kDTypeCount; ++i) {
    TargetLeaf leaf;
    leaf.dtype = static_cast<DType>(i);
    leaf.key = {"params", std::string(DTypeName(leaf.dtype))};
    leaf.shape = {5, 3};
    std::string value(15 * DTypeBytes(leaf.dtype), '\0');
    for (size_t b = 0; b < value.size(); ++b) {
      value[b] = static_cast<char>((b * 5 + i) & 1);
    }
    add(std::move(leaf), std::move(value));
  }
  TargetLeaf scalar;
  scalar.kind = ValueKind::kScalar;
  scalar.dtype = DType::kInt64;
  scalar.key = {"step"};
  add(scalar, std::string("\7\0\0\0\0\0\0\0", 8));
  TargetLeaf text;
  text.kind = ValueKind::kString;
  text.key = {"name"};
  add(text, "short");
  text.key = {"long"};
  add(text, std::string(10000, 'l'));
  TargetLeaf none;
  none.kind = ValueKind::kNone;
  none.key = {"nothing"};
  add(none, "");
  TargetLeaf empty;
  empty.key = {"list", "0"};
  empty.key_kinds = {KeyKind::kName, KeyKind::kIndex};
  empty.shape = {0, 3};
  empty.value_type = "np.ndarray";
  add(empty, "");
  TargetLeaf numbered;
  numbered.kind = ValueKind::kNone;
  numbered.key = {"state", "7", "m"};
  numbered.key_kinds = {KeyKind::kName, KeyKind::kInteger, KeyKind::kName};
  add(numbered, "");
  made.plan.source_info.item_custom_metadata = R"({"a":{"b":1}})";
  made.plan.options.sync = false;
  return made;
}

// Writes the plan in pieces of at most `bytes_max`. After `resume_at` pieces,
// the second target begins with `resume` and restores those pieces.
void WritePlan(FormatTarget& first, FormatTarget& second, const MadePlan& made,
               const std::string& directory, uint64_t bytes_max,
               size_t resume_at) {
  ASSERT_TRUE(first.Begin(made.plan, directory, false).ok());
  struct Done {
    size_t leaf;
    Box box;
    std::string mark;
  };
  std::vector<Done> done;
  FormatTarget* target = &first;
  for (size_t i = 0; i < made.plan.leaves.size(); ++i) {
    const TargetLeaf& leaf = made.plan.leaves[i];
    const Shape strides = ContiguousStrides(leaf.shape, DTypeBytes(leaf.dtype));
    for (const Box& box : first.PiecesOf(i, bytes_max)) {
      if (done.size() == resume_at) {
        ASSERT_TRUE(first.SyncData().ok());
        ASSERT_TRUE(second.Begin(made.plan, directory, true).ok());
        for (const Done& old : done) {
          ASSERT_TRUE(second.Restore(old.leaf, old.box, old.mark).ok());
        }
        target = &second;
      }
      uint64_t offset = 0;
      for (size_t d = 0; d < strides.size(); ++d) {
        offset += box.origin[d] * strides[d];
      }
      const std::string elements = made.values[i].substr(
          offset, ElementCount(box.shape) * DTypeBytes(leaf.dtype));
      EXPECT_LE(elements.size(), std::max<uint64_t>(bytes_max, 16));
      const auto mark = target->Write(i, box, elements);
      ASSERT_TRUE(mark.ok()) << mark.status().ToString();
      done.push_back({i, box, *mark});
    }
  }
  const Status finished = target->Finish();
  ASSERT_TRUE(finished.ok()) << finished.ToString();
}

void ExpectPlan(const std::string& path, const MadePlan& made) {
  const auto checkpoint = Opened(path);
  ASSERT_NE(checkpoint, nullptr);
  ASSERT_EQ(checkpoint->leaves().size(), made.plan.leaves.size());
  for (size_t i = 0; i < made.plan.leaves.size(); ++i) {
    const LeafInfo& got = checkpoint->leaves()[i];
    const TargetLeaf& want = made.plan.leaves[i];
    EXPECT_EQ(got.name, want.name);
    EXPECT_EQ(got.key, want.key);
    EXPECT_EQ(got.key_kinds, want.key_kinds);
    EXPECT_EQ(got.kind, want.kind) << want.name;
    EXPECT_EQ(got.value_type, want.value_type);
    if (got.kind == ValueKind::kString) {
      EXPECT_EQ(checkpoint->ReadText(i).value(), made.values[i]);
    }
    if (got.kind != ValueKind::kArray && got.kind != ValueKind::kScalar) {
      continue;
    }
    EXPECT_EQ(got.dtype, want.dtype) << want.name;
    EXPECT_EQ(got.shape, want.shape) << want.name;
    EXPECT_EQ(BytesOfLeaf(*checkpoint, i), made.values[i]) << want.name;
  }
  EXPECT_EQ(checkpoint->info().item_custom_metadata, R"({"a":{"b":1}})");
  const auto report = Verify(path);
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
}

TEST(ForeignTargets, EveryDtypeAndKindComesBack) {
  const MadePlan made = MakePlan();
  for (const size_t resume_at : {size_t{1000000}, size_t{7}}) {
    ScratchDirectory scratch;
    WritePlan(*MakeSafetensorsTarget(), *MakeSafetensorsTarget(), made,
              scratch.path(), 20, resume_at);
    ExpectPlan(scratch / "model.safetensors", made);
    WritePlan(*MakeNpzTarget(), *MakeNpzTarget(), made, scratch.path(), 20,
              resume_at);
    ExpectPlan(scratch / "arrays.npz", made);
  }
}

TEST(ForeignTargets, ShardsAndTheirIndex) {
  MadePlan made = MakePlan();
  made.plan.options.shard_bytes_max = 200;
  ScratchDirectory scratch;
  const auto target = MakeSafetensorsTarget();
  WritePlan(*target, *MakeSafetensorsTarget(), made, scratch.path(), 1 << 20,
            1000000);
  EXPECT_EQ(target->OneFile(), "");
  EXPECT_TRUE(
      std::filesystem::exists(scratch / "model.safetensors.index.json"));
  ExpectPlan(scratch.path(), made);
}

TEST(ForeignTargets, PlainArraysNeedNoSidecar) {
  MadePlan made;
  TargetLeaf leaf;
  leaf.name = "model.w";
  leaf.key = {"model.w"};
  leaf.key_kinds = {KeyKind::kName};
  leaf.dtype = DType::kFloat32;
  leaf.shape = {2};
  made.plan.leaves.push_back(leaf);
  made.plan.options.sync = false;
  made.values.push_back("12345678");
  EXPECT_FALSE(NeedsSidecar(made.plan, "safetensors"));
  ScratchDirectory scratch;
  WritePlan(*MakeSafetensorsTarget(), *MakeSafetensorsTarget(), made,
            scratch.path(), 20, 1000000);
  std::ifstream in(scratch / "model.safetensors", std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  // The bytes that safetensors.numpy.save({"model.w": ...}) writes.
  EXPECT_EQ(bytes.substr(8),
            "{\"model.w\":{\"dtype\":\"F32\",\"shape\":[2],"
            "\"data_offsets\":[0,8]}}    12345678");
}

TEST(TreeSidecar, TextComesBack) {
  const MadePlan made = MakePlan();
  std::vector<std::string> stored;
  for (const TargetLeaf& leaf : made.plan.leaves) {
    stored.push_back(leaf.kind == ValueKind::kArray ? leaf.name : "");
  }
  TreeSidecar sidecar = SidecarOf(made.plan, stored);
  sidecar.leaves[0].sharding_json = "{\"a\": 1}";
  sidecar.leaves[1].sharding_json = "{\"a\": 1}";
  sidecar.leaves[2].write_shape = Shape{5, 1};
  sidecar.leaves[3].prng_impl = "threefry2x32";
  sidecar.items = {{"state", "state"}};
  const auto again = ParseSidecar(SidecarText(sidecar));
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(*again, sidecar);
}

TEST(TreeSidecar, RefusesWhatIsNoSidecar) {
  for (const char* text :
       {"", "[]", "{}", R"({"version":2,"leaves":[]})", R"({"version":1})",
        R"({"version":1,"leaves":[1]})", R"({"version":1,"leaves":[{}]})",
        R"({"version":1,"leaves":[{"key":["a"],"kind":"x"}]})",
        R"({"version":1,"leaves":[{"key":["a"]}]})",
        R"({"version":1,"leaves":[{"key":["a"],"dtype":"int8","shape":[-1],)"
        R"("stored":"a"}]})",
        R"({"version":1,"leaves":[{"key":["a"],"kind":"bytes","hex":"0"}]})",
        R"({"version":1,"leaves":[{"key":["a"],"kind":"none","sharding":0}]})",
        R"({"version":1,"leaves":[{"key":["a"],"kind":"scalar",)"
        R"("dtype":"int64","shape":[],"hex":"00"}]})"}) {
    EXPECT_EQ(ParseSidecar(text).status().code(), StatusCode::kDataLoss)
        << text;
  }
}

TEST(TreeSidecar, ThatContradictsTheTensorsSaysHowToReadThem) {
  ScratchDirectory scratch;
  const auto write = [&](const std::string& sidecar) {
    std::string quoted;
    for (const char c : sidecar) {
      if (c == '"') quoted += '\\';
      quoted += c;
    }
    WriteText(scratch / "x.safetensors",
              SafetensorsBytes("{\"__metadata__\":{\"holdfast.tree\":\"" +
                                   quoted + "\"}," + U8("a", 0, 4) + "}",
                               "wxyz"));
  };
  const auto leaf = [](const std::string& fields) {
    return R"({"version":1,"leaves":[{"key":["a"],)" + fields + "}]}";
  };
  const char* bad[] = {
      R"("stored":"b","dtype":"uint8","shape":[4])",
      R"("stored":"a","dtype":"uint8","shape":[3])",
      R"("stored":"a","dtype":"float32","shape":[1])",
      R"("kind":"none")",
  };
  for (const char* fields : bad) {
    write(leaf(fields));
    const auto opened = Open(scratch / "x.safetensors");
    EXPECT_EQ(opened.status().code(), StatusCode::kFailedPrecondition)
        << fields;
    EXPECT_THAT(opened.status().ToString(), HasSubstr("--no-sidecar"));
    const auto plain =
        Opened(scratch / "x.safetensors", {.use_sidecar = false});
    EXPECT_EQ(BytesOfLeaf(*plain, 0), "wxyz");
  }
  write(leaf(R"("stored":"a","dtype":"float8_e4m3fn","shape":[4])"));
  EXPECT_EQ(Opened(scratch / "x.safetensors")->leaves()[0].dtype,
            DType::kFloat8E4m3fn);
  write(leaf(R"("kind":"string","stored":"a")"));
  EXPECT_EQ(Opened(scratch / "x.safetensors")->ReadText(0).value(), "wxyz");
}

TEST(FindForeignFormat, TellsByContent) {
  ScratchDirectory scratch;
  const auto kind = [&](const std::string& path) {
    const auto format = FindForeignFormat(Place(path));
    return format.ok() ? *format : ForeignFormat::kNone;
  };
  EXPECT_EQ(kind(scratch / "missing"), ForeignFormat::kNone);
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kNone);
  std::filesystem::copy(GoldenForeign("numpy.safetensors"), scratch / "a");
  std::filesystem::copy(GoldenForeign("stored.npz"), scratch / "b");
  EXPECT_EQ(kind(scratch / "a"), ForeignFormat::kSafetensors);
  EXPECT_EQ(kind(scratch / "b"), ForeignFormat::kNpz);
  WriteText(scratch / "metadata.json", "{\"step\": 7}");
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kNone);
  WriteText(scratch / ".metadata", "x");
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kDcp);
  WriteText(scratch / "metadata.json", R"({"sharded_backend":"zarr"})");
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kMegatronZarr);
  WriteText(scratch / "metadata.json", R"({"sharded_backend":"torch_dist"})");
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kTorchDist);
  WriteText(scratch / "metadata.json", R"({"sharded_backend":"fsdp"})");
  EXPECT_FALSE(FindForeignFormat(Place(scratch.path())).ok());
  WriteText(scratch / "_METADATA", "{}");
  EXPECT_EQ(kind(scratch.path()), ForeignFormat::kNone);
}

// Such a checkpoint must not be read as plain arrays, which would silently omit
// its common state.
TEST(FindForeignFormat, MegatronsCheckpointWithoutItsHeadIsDamaged) {
  ScratchDirectory scratch;
  WriteText(scratch / "common.pt", "x");
  std::filesystem::create_directory(scratch / "w");
  WriteText(scratch / "w/.zarray", "{}");
  EXPECT_EQ(Open(scratch.path()).status().code(), StatusCode::kDataLoss);
  WriteText(scratch / "metadata.json", R"({"sharded_backend":"za)");
  const auto opened = Open(scratch.path());
  EXPECT_EQ(opened.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(opened.status().ToString(), HasSubstr("metadata.json: it is"));
  WriteText(scratch / "metadata.json", R"({"sharded_backend":"zarr"})");
  EXPECT_TRUE(Open(scratch.path()).ok());
}

TEST(FindForeignPlace, FollowsMegatronsTracker) {
  ScratchDirectory scratch;
  const auto path_of = [&](std::optional<int64_t> step) {
    const auto place = FindForeignPlace(Place(scratch.path()), {.step = step});
    return place.ok() ? place->place.path().substr(scratch.path().size())
                      : place.status().ToString();
  };
  for (const char* name : {"iter_0000100", "iter_0000200", "release"}) {
    std::filesystem::create_directory(scratch / name);
    WriteText(scratch / name + "/metadata.json",
              R"({"sharded_backend":"zarr"})");
  }
  EXPECT_EQ(path_of(std::nullopt), "");
  WriteText(scratch / "latest_checkpointed_iteration.txt", "100\n");
  EXPECT_EQ(path_of(std::nullopt), "/iter_0000100");
  EXPECT_EQ(path_of(200), "/iter_0000200");
  EXPECT_EQ(path_of(300), "");
  WriteText(scratch / "latest_checkpointed_iteration.txt", "release");
  EXPECT_EQ(path_of(std::nullopt), "/release");
  for (const char* text : {"", "-1", "1/../..", "99999999999999999999"}) {
    WriteText(scratch / "latest_checkpointed_iteration.txt", text);
    EXPECT_THAT(path_of(std::nullopt),
                HasSubstr("want the number of an iteration"));
  }
}

}  // namespace
}  // namespace holdfast
