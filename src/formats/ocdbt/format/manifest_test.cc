#include "formats/ocdbt/format/manifest.h"

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "formats/ocdbt/format/commit_time_test_util.h"
#include "formats/ocdbt/format/hex_test_util.h"

namespace holdfast::ocdbt {
namespace {

// Returns a manifest of arity 2 with newest generation 9. Its slots are height
// 1: 5 ... 8 and height 2: 1 ... 4.
Manifest History() {
  Manifest manifest;
  manifest.config.version_tree_arity_log2 = 1;
  manifest.config.compression.zstd = false;
  manifest.files = {{"d/a", 0}, {"d/b", 0}};
  manifest.versions = {{9, 0, {1, 0, 40}, {1, 40, 0}, kTimeNs + 9}};
  manifest.version_nodes = {{4, {0, 3, 50}, 4, kTimeNs + 1, 2},
                            {8, {1, 4, 50}, 4, kTimeNs + 5, 1}};
  return manifest;
}

Result<Manifest> ManifestRoundTrip(const Manifest& manifest) {
  const auto object =
      SealEnvelope(ObjectKind::kManifest, EncodeManifestBody(manifest).view(),
                   manifest.config.compression);
  return DecodeManifest(*object, "");
}

std::string ManifestError(const std::function<void(Manifest&)>& damage) {
  Manifest manifest = History();
  damage(manifest);
  const auto decoded = ManifestRoundTrip(manifest);
  if (decoded.ok()) return "OK";
  EXPECT_EQ(decoded.status().code(), StatusCode::kDataLoss);
  std::string text(decoded.status().message());
  text = text.substr(0, text.find("; at byte"));
  const std::string context = "Error decoding manifest: ";
  EXPECT_TRUE(text.starts_with(context)) << text;
  return text.substr(context.size());
}

TEST(ManifestTest, SmallestManifestHasDocumentedBytes) {
  const Bytes object = BytesFromHex(
      "0cdb3a2a 6100000000000000 00 00"
      "c4ca4238a0b923820dcc509a6f75849b 00 64 80808004 04 00"
      "01 22 00"
      "642f3862313931336230336534393238303962383939333930613534393363613532"
      "01 01 00 00 00 20 01 20 00 00cac471fe9c9717 00 4e2f425d");
  const auto manifest = DecodeManifest(object, "");
  ASSERT_TRUE(manifest.ok()) << manifest.status().ToString();
  EXPECT_EQ(manifest->config.max_decoded_node_bytes, 8388608u);
  ASSERT_EQ(manifest->files.size(), 1u);
  EXPECT_EQ(manifest->files[0].path, "d/8b1913b03e492809b899390a5493ca52");
  ASSERT_EQ(manifest->versions.size(), 1u);
  EXPECT_EQ(manifest->versions[0],
            (Version{1, 0, {0, 0, 32}, {1, 32, 0}, 1700000001000000000}));
  EXPECT_TRUE(manifest->version_nodes.empty());

  const auto again =
      SealEnvelope(ObjectKind::kManifest, EncodeManifestBody(*manifest).view(),
                   manifest->config.compression);
  EXPECT_EQ(again->view(), object.view());
}

TEST(ManifestTest, EmptyVersionHasDocumentedBytes) {
  Manifest manifest;
  manifest.config.compression.zstd = false;
  manifest.files = {DataFile()};
  manifest.versions = {{1,
                        0,
                        {0, Reference::kMissing, Reference::kMissing},
                        {},
                        1700000001000000000}};
  const std::string body = EncodeManifestBody(manifest).ToString();
  EXPECT_EQ(body.substr(16 + 1 + 1 + 4 + 1 + 1),
            FromHex("01 00 00 01 01 00 00"
                    "ffffffffffffffffff01 ffffffffffffffffff01"
                    "00 00 00 00cac471fe9c9717 00"));
  const auto decoded = ManifestRoundTrip(manifest);
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_TRUE(decoded->versions[0].root.missing());
}

TEST(ManifestTest, NumberedManifestHasOnlyTheConfig) {
  Manifest manifest;
  manifest.config.manifest_kind = ManifestKind::kNumbered;
  EXPECT_EQ(EncodeManifestBody(manifest).size(), 28u);
  const auto decoded = ManifestRoundTrip(manifest);
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->config, manifest.config);
  EXPECT_TRUE(decoded->versions.empty());
}

TEST(ManifestTest, HistoryRoundTrips) {
  const auto decoded = ManifestRoundTrip(History());
  ASSERT_TRUE(decoded.ok()) << decoded.status().ToString();
  EXPECT_EQ(decoded->config, History().config);
  EXPECT_EQ(decoded->versions, History().versions);
  EXPECT_EQ(decoded->version_nodes, History().version_nodes);
}

TEST(ManifestTest, PathsStartWithDirectory) {
  const auto object = SealEnvelope(ObjectKind::kManifest,
                                   EncodeManifestBody(History()).view(), {});
  const auto decoded = DecodeManifest(*object, "dir/");
  ASSERT_TRUE(decoded.ok());
  EXPECT_EQ(decoded->files[0].path, "dir/d/a");
  EXPECT_EQ(decoded->files[0].base(), "dir/");
}

TEST(ManifestTest, SlotsAreThoseOfTheFormat) {
  const auto slots = VersionNodeSlots(9, 1);
  ASSERT_EQ(slots.size(), 2u);
  EXPECT_EQ(slots[0].first_generation, 5u);
  EXPECT_EQ(slots[0].last_generation, 8u);
  EXPECT_EQ(slots[1].first_generation, 1u);
  EXPECT_EQ(slots[1].last_generation, 4u);
  EXPECT_TRUE(VersionNodeSlots(16, 4).empty());
  EXPECT_EQ(VersionNodeSlots(17, 4).size(), 1u);
  // Slots of the largest generations do not overflow.
  for (int arity_log2 = 1; arity_log2 <= 16; ++arity_log2) {
    const auto all = VersionNodeSlots(~uint64_t{0}, arity_log2);
    EXPECT_EQ(all.back().first_generation, 1u);
    EXPECT_EQ(all.back().height, static_cast<int>(all.size()));
  }
}

TEST(ManifestTest, RefusesDamagedReferences) {
  const std::pair<std::string, std::function<void(Manifest&)>> cases[] = {
      {"entry_height[1] outside valid range [1, 62]",
       [](auto& m) { m.version_nodes[1].height = 0; }},
      {"entry_height[0] outside valid range [1, 62]",
       [](auto& m) { m.version_nodes[0].height = 63; }},
      {"generation_number[0] must be non-zero",
       [](auto& m) { m.version_nodes[0].generation = 0; }},
      {"generation_number[0]=6 is not a multiple of 4",
       [](auto& m) { m.version_nodes[0].generation = 6; }},
      {"generation_number[1]=4 <= generation_number[0]=4",
       [](auto& m) { m.version_nodes[1].generation = 4; }},
      {"entry_height[1]=2 >= entry_height[0]=2",
       [](auto& m) { m.version_nodes[1].height = 2; }},
      {"commit_time[1]=2023-11-14T22:13:20.000000001+00:00 <= "
       "commit_time[0]=2023-11-14T22:13:20.000000001+00:00",
       [](auto& m) { m.version_nodes[1].commit_time_ns = kTimeNs + 1; }},
      {"version_tree_nodes.back().commit_time="
       "2023-11-14T22:13:20.000000009+00:00 >= versions.front().commit_time="
       "2023-11-14T22:13:20.000000009+00:00",
       [](auto& m) { m.version_nodes[1].commit_time_ns = kTimeNs + 9; }},
      {"generation_number[0]=4 is outside expected range [5, 8] for height 1",
       [](auto& m) { m.version_nodes = {{4, {0, 0, 9}, 2, kTimeNs, 1}}; }},
      {"num_generations[1]=5 for generation_number[1]=8 is outside valid "
       "range [1, 4]",
       [](auto& m) { m.version_nodes[1].generation_count = 5; }},
      {"num_generations[0]=0 for generation_number[0]=4 is outside valid "
       "range [1, 4]",
       [](auto& m) { m.version_nodes[0].generation_count = 0; }},
      {"Unexpected child with generation_number[0]=8 and entry_height[0]=3 "
       "given last generation_number=9",
       [](auto& m) { m.version_nodes = {{8, {0, 0, 9}, 8, kTimeNs, 3}}; }},
      {"Stored num_children=63 exceeds maximum of 62",
       [](auto& m) { m.version_nodes.resize(63); }},
  };
  for (const auto& [want, damage] : cases)
    EXPECT_EQ(ManifestError(damage), want);
}

TEST(ManifestTest, SlotsMayBeEmpty) {
  EXPECT_EQ(ManifestError([](auto& m) { m.version_nodes.clear(); }), "OK");
  EXPECT_EQ(ManifestError([](auto& m) { m.version_nodes.pop_back(); }), "OK");
}

}  // namespace
}  // namespace holdfast::ocdbt
