#include "orbax/handlers/handler_test_util.h"

namespace holdfast {
namespace {

using testing::HasSubstr;

NamedSharding Rows(int64_t devices) {
  return {{{"x"}, {devices}, {}, {}}, {{"x"}}};
}

ArrayRestoreArgs As(Sharding sharding) {
  ArrayRestoreArgs args;
  args.sharding = std::move(sharding);
  return args;
}

// Returns a complete array as one jax.Array leaf.
Tree Whole(const Tree& leaf, const std::string& sharding_json) {
  ArrayTraits traits;
  traits.sharding_json = sharding_json;
  return Tree::JaxArray(leaf.array(),
                        std::make_shared<const ArrayTraits>(std::move(traits)));
}

class ArrayHandlerTest : public testing::TestWithParam<StoredAs> {
 protected:
  ParamInfo Info(const std::string& name) const {
    return InfoOf(scratch_.path(), name, GetParam());
  }
  std::string Error(const ParamInfo& info, const AnyRestoreArgs& args) {
    return std::string(
        handler_.Deserialize(std::vector{info}, std::vector{args})
            .status()
            .message());
  }

  const ScratchDirectory scratch_;
  ArrayHandler handler_;
};

INSTANTIATE_TEST_SUITE_P(StoredAs, ArrayHandlerTest,
                         testing::Values(StoredAs{true, false},
                                         StoredAs{false, true}),
                         [](const auto& info) { return info.param.Name(); });

TEST_P(ArrayHandlerTest, ComesBackInTheShardingThatWasRecorded) {
  const Tree value = Tree::JaxArray(RandomArray(DType::kFloat32, {8, 3}, 1));
  Write(handler_, {value}, {Info("a")});
  EXPECT_EQ(Read(handler_, {Info("a")}, {ArrayRestoreArgs()}),
            (std::vector<Tree>{value}));
  EXPECT_EQ(Read(handler_, {Info("a")}, {RestoreArgs()}),
            (std::vector<Tree>{value}));
}

TEST_P(ArrayHandlerTest, IsCutAsTheArgsSay) {
  const Array array = RandomArray(DType::kInt32, {8, 3}, 2);
  Write(handler_, {Tree::JaxArray(array)}, {Info("a")});
  const Tree rows = Read(handler_, {Info("a")}, {As(Rows(4))})[0];
  ASSERT_EQ(rows.shards().size(), 4u);
  EXPECT_EQ(rows.array_shape(), (Shape{8, 3}));
  EXPECT_EQ(rows.sharding_json(), ShardingToJson(Rows(4)));
  EXPECT_EQ(rows.array_traits().write_shape, (Shape{2, 3}));
  for (int64_t i = 0; i < 4; ++i) {
    const ArrayShard& shard = rows.shards()[i];
    EXPECT_EQ(shard.origin, (Shape{2 * i, 0}));
    EXPECT_EQ(Tree(shard.array),
              Tree(Array::FromBytes(DType::kInt32, {2, 3},
                                    array.view().data + 24 * i)));
  }
  ArrayRestoreArgs by_mesh;
  by_mesh.mesh = Rows(4).mesh;
  by_mesh.mesh_axes = Rows(4).spec;
  EXPECT_EQ(Read(handler_, {Info("a")}, {by_mesh})[0], rows);
}

TEST_P(ArrayHandlerTest, ReplicasShareOneBox) {
  const Array array = RandomArray(DType::kInt32, {8}, 2);
  Write(handler_, {Tree::JaxArray(array)}, {Info("a")});
  NamedSharding two = Rows(2);
  two.mesh.axis_names = {"x", "replica"};
  two.mesh.shape = {2, 3};
  EXPECT_EQ(Read(handler_, {Info("a")}, {As(two)})[0].shards().size(), 2u);
  two.spec = {};
  const Tree whole = Read(handler_, {Info("a")}, {As(two)})[0];
  EXPECT_TRUE(whole.shards().empty());
  EXPECT_EQ(whole, Whole(Tree(array), ShardingToJson(two)));
}

TEST_P(ArrayHandlerTest, ShardsThatAreSavedComeBack) {
  const Array array = RandomArray(DType::kInt32, {8, 3}, 3);
  Write(handler_, {Tree::JaxArray(array)}, {Info("a")});
  const Tree rows = Read(handler_, {Info("a")}, {As(Rows(4))})[0];
  Write(handler_, {rows}, {Info("b")});
  EXPECT_EQ(Read(handler_, {Info("b")}, {ArrayRestoreArgs()})[0], rows);
  const auto metadata = handler_.Metadata(std::vector{Info("b"), Info("a")});
  ASSERT_TRUE(metadata.ok()) << metadata.status().ToString();
  const auto& b = std::get<ArrayMetadata>((*metadata)[0]);
  EXPECT_EQ(ShardingToJson(*b.sharding), ShardingToJson(Rows(4)));
  EXPECT_EQ(b.storage->chunk_shape, (Shape{2, 3}));
  const auto& a = std::get<ArrayMetadata>((*metadata)[1]);
  EXPECT_EQ(a.sharding, Sharding(SingleDeviceSharding{"cpu:0"}));
}

TEST_P(ArrayHandlerTest, AnotherShapePadsWithZerosOrTruncatesAtTheEnd) {
  Write(handler_, {Tree::JaxArray(Int32s({2, 3}, {1, 2, 3, 4, 5, 6}))},
        {Info("a")});
  ArrayRestoreArgs args = As(Rows(4));
  args.global_shape = Shape{4, 2};
  args.strict = false;
  args.dtype = DType::kInt64;
  const Tree padded = Read(handler_, {Info("a")}, {args})[0];
  EXPECT_EQ(padded.array_dtype(), DType::kInt64);
  std::vector<int64_t> elements;
  for (const ArrayShard& shard : padded.shards()) {
    const auto* data =
        reinterpret_cast<const int64_t*>(shard.array.view().data);
    elements.insert(elements.end(), data, data + 2);
  }
  EXPECT_EQ(elements, (std::vector<int64_t>{1, 2, 4, 5, 0, 0, 0, 0}));
}

TEST_P(ArrayHandlerTest, RefusesInOrbaxsWords) {
  Write(handler_, {Tree::JaxArray(Int32s({8}, {1, 2, 3, 4, 5, 6, 7, 8}))},
        {Info("a")});
  EXPECT_EQ(handler_.Deserialize(std::vector{Info("a")}, {}).status().message(),
            "Must provide ArrayRestoreArgs to restore as jax.Array.");
  ArrayRestoreArgs args = As(SingleDeviceSharding());
  args.shape = Shape{16};
  EXPECT_EQ(Error(Info("a"), args),
            "Requested shape: (16,) is not compatible with the stored shape: "
            "(8,). Truncating/padding is disabled. To enable it, set "
            "`strict=False` in `ArrayRestoreArgs` for any array in v0 API or "
            "`enable_padding_and_truncation=True` in `ArrayOptions.Loading` in "
            "v1 API.");
  args.global_shape = Shape{8};
  EXPECT_EQ(Error(Info("a"), args),
            "If `shape` and `global_shape` are both provided, they must "
            "match.");
  EXPECT_THAT(Error(Info("a"), As(Rows(3))), HasSubstr("partitioned 3 times"));
  std::vector<ParamInfo> mixed = {Info("a"), Info("a")};
  mixed[1].is_ocdbt_checkpoint = !mixed[1].is_ocdbt_checkpoint;
  const std::vector<AnyRestoreArgs> two = {As(Rows(2)), As(Rows(2))};
  EXPECT_THAT(handler_.Deserialize(mixed, two).status().message(),
              HasSubstr("OCDBT settings for parameter a don't match those for "
                        "the rest of parameters"));
}

TEST_P(ArrayHandlerTest, WithoutARecordTheShardingMustBeGiven) {
  ArrayHandler handler({.enable_write_sharding_file = false});
  const Tree value = Tree::JaxArray(Int32s({2}, {1, 2}));
  Write(handler, {value}, {Info("a")});
  EXPECT_EQ(Error(Info("a"), ArrayRestoreArgs()),
            "Sharding of jax.Array cannot be None. Provide `mesh` and "
            "`mesh_axes` OR `sharding`");
  const auto metadata = handler.Metadata(std::vector{Info("a")});
  EXPECT_EQ(std::get<ArrayMetadata>(metadata->front()).sharding, std::nullopt);
  Write(handler_, {value}, {Info("b")});
  EXPECT_THAT(Error(Info("a"), ArrayRestoreArgs()),
              HasSubstr("JSON Pointer \"/YQ==\" is not in "));
  EXPECT_EQ(handler.Metadata(std::vector{Info("a")}).status().code(),
            StatusCode::kNotFound);
}

TEST_P(ArrayHandlerTest, KeysOfRandomNumbersKeepTheirKind) {
  ArrayTraits traits;
  traits.prng_impl = "rbg";
  const Tree key = Tree::JaxArray(RandomArray(DType::kUint32, {4}, 9),
                                  std::make_shared<const ArrayTraits>(traits));
  Write(handler_, {key}, {Info("key")});
  EXPECT_EQ(Read(handler_, {Info("key")}, {ArrayRestoreArgs()})[0], key);
}

TEST_P(ArrayHandlerTest, BytesInFlightStayBelowTheBound) {
  std::vector<Tree> values;
  std::vector<ParamInfo> infos;
  std::vector<AnyRestoreArgs> args;
  for (int i = 0; i < 5; ++i) {
    values.push_back(Tree::JaxArray(RandomArray(DType::kInt8, {100}, i)));
    infos.push_back(Info("a" + std::to_string(i)));
    infos.back().byte_limiter = *LimitInFlightBytes::Make(250);
    args.push_back(ArrayRestoreArgs());
  }
  Write(handler_, values, infos);
  EXPECT_EQ(Read(handler_, infos, args), values);
  for (ParamInfo& info : infos) {
    info.byte_limiter = *LimitInFlightBytes::Make(100);
  }
  EXPECT_EQ(handler_.Deserialize(infos, args).status().message(),
            "Requested more bytes than we reserved space for: 100 > 100");
  EXPECT_EQ(SerializeNow(handler_, values, infos).message(),
            "Requested more bytes than we reserved space for: 100 > 100");
}

TEST_P(ArrayHandlerTest, OnlyThisProcessCanWrite) {
  const Tree value = Tree::JaxArray(Int32s({2}, {1, 2}));
  ArrayHandler other({.primary_host = 1});
  EXPECT_EQ(SerializeNow(other, {value}, {Info("a")}).code(),
            StatusCode::kInvalidArgument);
  ArrayHandler any({.primary_host = std::nullopt, .replica_id = std::nullopt});
  EXPECT_TRUE(SerializeNow(any, {value}, {Info("a")}).ok());
  EXPECT_EQ(
      SerializeNow(handler_, {Tree(Int32s({1}, {1}))}, {Info("a")}).message(),
      "param a: a leaf of type \"np.ndarray\" is not a jax.Array");
}

TEST(SingleReplicaArrayHandler, ChecksItsArgsAndReads) {
  const ScratchDirectory scratch;
  SingleReplicaArrayHandler handler;
  const Tree value = Tree::JaxArray(Int32s({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
  const std::vector<ParamInfo> infos = {InfoOf(scratch.path(), "a")};
  Write(handler, {value}, infos);
  const auto error = [&](const AnyRestoreArgs& args) {
    return std::string(
        handler.Deserialize(infos, std::vector{args}).status().message());
  };
  EXPECT_EQ(handler.Deserialize(infos, {}).status().message(),
            "Must provide SingleReplicaArrayRestoreArgs to restore as "
            "jax.Array.");
  EXPECT_EQ(error(As(Rows(2))),
            "Must provide `SingleReplicaArrayRestoreArgs`, but got "
            "ArrayRestoreArgs.");
  SingleReplicaArrayRestoreArgs args;
  EXPECT_EQ(error(args),
            "Must provide `sharding` to restore with "
            "`SingleReplicaArrayHandler`.");
  args.sharding = SingleDeviceSharding();
  EXPECT_EQ(error(args),
            "The provided sharding is not a NamedSharding. Please use "
            "NamedSharding instead.");
  args.sharding = NamedSharding{{{"r", "x"}, {1, 2}, {}, {}}, {{"x"}}};
  EXPECT_EQ(error(args),
            "All devices are in the primary replica. There are no non-primary "
            "replicas to broadcast to.");
  args.sharding = NamedSharding{{{"r", "x"}, {2, 4}, {}, {}}, {{"x"}}};
  EXPECT_EQ(Read(handler, infos, {args})[0].shards().size(), 4u);
}

}  // namespace
}  // namespace holdfast
