#include "engine/format/aggregate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <msgpack.hpp>

#include "engine/format/golden_for_test.h"
#include "ground/tree/flatten.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

using Packer = msgpack::packer<msgpack::sbuffer>;

template <typename Pack>
std::string Packed(const Pack& pack) {
  msgpack::sbuffer buffer;
  Packer packer(buffer);
  pack(packer);
  return {buffer.data(), buffer.size()};
}

void PackText(Packer& packer, std::string_view text) {
  packer.pack_str(text.size());
  packer.pack_str_body(text.data(), text.size());
}

void PackExt(Packer& packer, int8_t type, std::string_view payload) {
  packer.pack_ext(payload.size(), type);
  packer.pack_ext_body(payload.data(), payload.size());
}

std::string ArrayPayload(const Shape& shape, std::string_view dtype,
                         std::string_view bytes) {
  return Packed([&](Packer& packer) {
    packer.pack_array(3);
    packer.pack(std::vector<int64_t>(shape));
    PackText(packer, dtype);
    packer.pack_bin(bytes.size());
    packer.pack_bin_body(bytes.data(), bytes.size());
  });
}

std::string ArrayFile(const Shape& shape, std::string_view dtype,
                      std::string_view bytes) {
  return Packed([&](Packer& packer) {
    PackExt(packer, 1, ArrayPayload(shape, dtype, bytes));
  });
}

StatusCode CodeOf(std::string_view file) {
  return ParseAggregate(file).status().code();
}

TEST(Aggregate, ReadsWhatOrbaxWrote) {
  const auto tree = ParseAggregate(FormatGolden("legacy_053_rich/checkpoint"));
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(tree->Find("bytes")->leaf_kind(), LeafKind::kBytes);
  EXPECT_EQ(tree->Find("bytes")->text(), std::string("\x00\xFF"
                                                     "ab",
                                                     4));
  EXPECT_TRUE(tree->Find("cplx")->is_none());
  EXPECT_EQ(*tree->FindPath({"py", "big"}), Tree(int64_t{1} << 40));
  EXPECT_EQ(*tree->FindPath({"py", "neg"}), Tree(-70000));
  EXPECT_EQ(*tree->FindPath({"py", "t"}), Tree(true));
  EXPECT_EQ(*tree->FindPath({"np", "f32"}),
            Tree(Scalar::Of(DType::kFloat32, 1.5f, false)));
  EXPECT_EQ(*tree->FindPath({"np", "u64"}),
            Tree(Scalar::Of(DType::kUint64, uint64_t{1} << 63, false)));
  EXPECT_EQ(tree->Find("str")->text(), "text \xC3\xA9");
  const Tree* bfloat16 = tree->FindPath({"dt", "bfloat16"});
  EXPECT_EQ(bfloat16->array().dtype(), DType::kBfloat16);
  EXPECT_EQ(bfloat16->array().shape(), (Shape{2, 3}));
  EXPECT_EQ(bfloat16->array().view().data[0], '\x5D');
  EXPECT_EQ(tree->FindPath({"zero_d", "int64"})->array().shape(), Shape());
  EXPECT_EQ(tree->FindPath({"stored", "a"})->leaf_kind(), LeafKind::kReference);
}

TEST(Aggregate, ReferencesKeepTheirNames) {
  const auto tree = ParseAggregate(FormatGolden("legacy_053_mixed/checkpoint"));
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(*tree->FindPath({"opt", "0", "mu"}), Tree::Reference("opt.0.mu"));
  EXPECT_EQ(*tree->Find("step"), Tree(42));
  const std::string old =
      Packed([](Packer& packer) { PackText(packer, "AGGREGATED://params.w"); });
  EXPECT_EQ(*ParseAggregate(old), Tree::Reference("params.w"));
}

TEST(Aggregate, ReadsEveryExtension) {
  const std::string file = Packed([](Packer& packer) {
    packer.pack_array(3);
    PackExt(packer, 2, Packed([](Packer& inner) {
              inner.pack(std::vector<double>{1.5, -2});
            }));
    PackExt(packer, 3, ArrayPayload({}, "int16", "\xFD\xFF"));
    PackExt(packer, 4, Packed([](Packer& inner) {
              inner.pack_array(2);
              inner.pack(1);
              PackExt(inner, 4, Packed([](Packer& p) { p.pack_array(0); }));
            }));
  });
  const auto tree = ParseAggregate(file);
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(*tree, Tree::List({std::complex<double>(1.5, -2),
                               Scalar::Of<int16_t>(DType::kInt16, -3, false),
                               Tree::Tuple({1, Tree::Tuple()})}));
}

TEST(Aggregate, IntegersBeyondInt64AreUnsigned) {
  const auto tree =
      ParseAggregate(Packed([](Packer& packer) { packer.pack(UINT64_MAX); }));
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(*tree, Tree(Scalar::Of(DType::kUint64, UINT64_MAX, true)));
}

std::string ChunkedFile(const std::map<std::string, int64_t>& shape,
                        const std::vector<std::string>& keys) {
  return Packed([&](Packer& packer) {
    packer.pack_map(1);
    PackText(packer, "big");
    packer.pack_map(3);
    PackText(packer, "__msgpack_chunked_array__");
    packer.pack(true);
    PackText(packer, "shape");
    packer.pack(shape);
    PackText(packer, "chunks");
    packer.pack_map(keys.size());
    for (const std::string& key : keys) {
      PackText(packer, key);
      PackExt(packer, 1, ArrayPayload({2}, "uint8", key + key));
    }
  });
}

TEST(Aggregate, JoinsChunkedArrays) {
  const auto tree =
      ParseAggregate(ChunkedFile({{"0", 2}, {"1", 3}}, {"1", "0", "2"}));
  ASSERT_TRUE(tree.ok()) << tree.status().ToString();
  EXPECT_EQ(*tree->Find("big"),
            Tree(Array::FromBytes(DType::kUint8, {2, 3}, "001122")));
}

TEST(Aggregate, RefusesBadChunks) {
  EXPECT_EQ(CodeOf(ChunkedFile({{"0", 7}}, {"0", "1", "2"})),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ChunkedFile({{"0", 6}}, {"0", "1", "3"})),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ChunkedFile({{"0", -6}}, {"0", "1", "2"})),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ChunkedFile({{"1", 6}}, {"0", "1", "2"})),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ChunkedFile({{"0", 0}}, {})), StatusCode::kDataLoss);
}

TEST(Aggregate, RefusesArraysThatDoNotFit) {
  EXPECT_TRUE(ParseAggregate(ArrayFile({2}, "int16", "abcd")).ok());
  EXPECT_EQ(CodeOf(ArrayFile({3}, "int16", "abcd")), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ArrayFile({2}, "int16", "abcde")), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ArrayFile({-2}, "int16", "abcd")), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ArrayFile({INT64_MAX, INT64_MAX}, "int16", "abcd")),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ArrayFile(Shape(kRankMax + 1, 1), "int8", "a")),
            StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(ArrayFile({1}, "str96", "abcd")),
            StatusCode::kUnimplemented);
  const Status status =
      ParseAggregate(ArrayFile({3}, "int16", "abcd")).status();
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("got 4 bytes for int16 of shape (3,)"));
}

TEST(Aggregate, RefusesHostileSizesWithoutTakingMemory) {
  EXPECT_EQ(CodeOf("\xDD\xFF\xFF\xFF\xFF"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf("\xDF\xFF\xFF\xFF\xFF"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf("\xC6\xFF\xFF\xFF\xFF"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf("\xC9\xFF\xFF\xFF\xFF\x01"), StatusCode::kDataLoss);
  EXPECT_EQ(CodeOf(std::string(100000, '\x91')), StatusCode::kDataLoss);
}

TEST(Aggregate, BoundsNestedTuples) {
  std::string payload = Packed([](Packer& packer) { packer.pack_array(0); });
  for (int i = 0; i < 200; ++i) {
    payload = Packed([&](Packer& packer) {
      packer.pack_array(1);
      PackExt(packer, 4, payload);
    });
  }
  EXPECT_EQ(CodeOf(payload), StatusCode::kDataLoss);
}

TEST(Aggregate, BoundsTuplesDirectlyInTuples) {
  std::string payload = "\x90";
  for (int i = 0; i < 200; ++i) {
    payload = Packed([&](Packer& packer) { PackExt(packer, 4, payload); });
  }
  const Status status = ParseAggregate(payload).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("too deep"));
}

TEST(Aggregate, RefusesOtherDamage) {
  const std::string cases[] = {
      "",
      "\xC1",
      "\x01\x01",
      Packed([](Packer& p) { p.pack(std::map<int, int>{{1, 2}}); }),
      Packed([](Packer& p) { PackText(p, "\xFF"); }),
      Packed([](Packer& p) {
        p.pack_map(2);
        for (int i = 0; i < 2; ++i) {
          PackText(p, "twice");
          p.pack(i);
        }
      }),
      Packed([](Packer& p) { PackExt(p, 2, "\x90"); }),
      Packed([](Packer& p) { PackExt(p, 4, "\x01"); }),
      Packed(
          [](Packer& p) { PackExt(p, 3, ArrayPayload({2}, "int8", "ab")); })};
  for (const std::string& file : cases) {
    EXPECT_EQ(CodeOf(file), StatusCode::kDataLoss)
        << testing::PrintToString(file);
  }
  EXPECT_EQ(CodeOf(Packed([](Packer& p) { PackExt(p, 9, "x"); })),
            StatusCode::kUnimplemented);
}

TEST(Aggregate, EveryCutIsRefused) {
  const std::string file = FormatGolden("legacy_053_mixed/checkpoint");
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(CodeOf(std::string_view(file).substr(0, size)),
              StatusCode::kDataLoss)
        << size;
  }
}

TEST(Aggregate, FlippedBytesNeverCrash) {
  const std::string good = FormatGolden("legacy_053_mixed/checkpoint");
  for (size_t i = 0; i < good.size(); ++i) {
    for (int value : {0x00, 0x7F, 0x80, 0x91, 0xC1, 0xC9, 0xDD, 0xDF, 0xFF}) {
      std::string bad = good;
      bad[i] = static_cast<char>(value);
      const auto tree = ParseAggregate(bad);
      if (tree.ok()) {
        EXPECT_TRUE(Flatten(*tree).ok());
      } else {
        EXPECT_THAT(
            tree.status().code(),
            testing::AnyOf(StatusCode::kDataLoss, StatusCode::kUnimplemented));
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
