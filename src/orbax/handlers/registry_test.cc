#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {
namespace {

struct Sparse {};

class NamedHandler : public PlaceholderHandler {
 public:
  explicit NamedHandler(std::string name) : name_(std::move(name)) {}
  std::string typestr() const override { return name_; }

 private:
  const std::string name_;
};

std::shared_ptr<TypeHandler> Named(const std::string& name) {
  return std::make_shared<NamedHandler>(name);
}

TEST(LeafType, NamesWhatALeafIs) {
  const Array array = Array::FromBytes(DType::kInt8, {1}, "a");
  const std::pair<Tree, std::string> cases[] = {
      {Tree(1), "int"},
      {Tree(true), "bool"},
      {Tree(1.5), "float"},
      {Tree(std::complex<double>(1, 2)), "complex"},
      {Tree(Scalar::Of<float>(DType::kFloat32, 1, false)), "np.number"},
      {Tree(array), "np.ndarray"},
      {Tree::JaxArray(array), "jax.Array"},
      {Tree("s"), "str"},
      {Tree::ByteString("b"), "bytes"},
      {Tree::Placeholder(), "placeholder"},
      {Tree::External("x"), "external"},
      {Tree::Reference("x"), "reference"},
      {Tree::None(), "NoneType"},
      {Tree::Dict(), "dict"},
      {Tree::List(), "list"},
      {Tree::Tuple(), "tuple"},
      {Tree::NamedTuple("m", "N"), "namedtuple"},
  };
  for (const auto& [leaf, name] : cases) {
    EXPECT_EQ(LeafType::OfLeaf(leaf).name, name);
  }
}

TEST(LeafType, AnObjectIsItsCppType) {
  const LeafType type = LeafType::OfLeaf(Tree::Object(Sparse()));
  EXPECT_EQ(type, LeafType::Of<Sparse>());
  EXPECT_EQ(type.name, "holdfast::(anonymous namespace)::Sparse");
  EXPECT_FALSE(type == LeafType::Of<int>());
}

TEST(Registry, HasTheStandardHandlers) {
  const auto registry = CreateTypeHandlerRegistry();
  const std::pair<const char*, const char*> rows[] = {
      {"int", "scalar"},
      {"bool", "scalar"},
      {"float", "scalar"},
      {"bytes", "scalar"},
      {"np.number", "scalar"},
      {"np.ndarray", "np.ndarray"},
      {"jax.Array", "jax.Array"},
      {"str", "string"},
      {"placeholder", "placeholder"},
  };
  for (const auto& [type, typestr] : rows) {
    const auto handler = registry->Get(LeafType{type});
    ASSERT_TRUE(handler.ok()) << type;
    EXPECT_EQ((*handler)->typestr(), typestr);
    EXPECT_TRUE(registry->Has(std::string_view(typestr)));
  }
  EXPECT_FALSE(registry->Has(LeafType{"complex"}));
  EXPECT_EQ(registry->Get(LeafType{"complex"}).status().ToString(),
            InvalidArgumentError(
                "Unknown type: \"complex\". Must register a TypeHandler.")
                .ToString());
  EXPECT_EQ(registry->Get("acme").status().ToString(),
            InvalidArgumentError(
                "Unknown type: \"acme\". Must register a TypeHandler.")
                .ToString());
}

TEST(Registry, RefusesWhatIsTakenUnlessToldToOverride) {
  TypeHandlerRegistry registry;
  ASSERT_TRUE(registry.Add({"a"}, Named("x")).ok());
  EXPECT_EQ(
      registry.Add({"a"}, Named("y")).ToString(),
      InvalidArgumentError("A TypeHandler for \"a\" is already registered.")
          .ToString());
  EXPECT_EQ(registry.Add({"b"}, Named("x")).ToString(),
            InvalidArgumentError("Type \"b\" has a `typestr` (\"x\") which "
                                 "collides with that of an existing "
                                 "TypeHandler.")
                .ToString());
  const auto other = Named("y");
  ASSERT_TRUE(registry.Add({"a"}, other, {}, true).ok());
  EXPECT_EQ(*registry.Get(LeafType{"a"}), other);
  EXPECT_EQ(*registry.Get("y"), other);
  // As in Orbax, the replaced handler keeps its typestr, for old checkpoints.
  EXPECT_TRUE(registry.Has("x"));
}

TEST(Registry, TheFirstMatchWins) {
  TypeHandlerRegistry registry;
  const auto all = Named("all"), one = Named("one");
  const auto matches_a = [](const LeafType& type) {
    return type.name.starts_with("a");
  };
  ASSERT_TRUE(registry.Add({"a1"}, all, matches_a).ok());
  EXPECT_EQ(
      registry.Add({"a2"}, one).ToString(),
      InvalidArgumentError("A TypeHandler for \"a2\" is already registered.")
          .ToString());
  ASSERT_TRUE(registry.Add({"b"}, one).ok());
  EXPECT_EQ(*registry.Get(LeafType{"a9"}), all);
  EXPECT_EQ(*registry.Get(LeafType{"b"}), one);
}

TEST(Registry, TheGlobalOneIsOneAndCanBeExtended) {
  EXPECT_EQ(GlobalTypeHandlerRegistry(), GlobalTypeHandlerRegistry());
  const LeafType type = LeafType::Of<Sparse>();
  EXPECT_FALSE(HasTypeHandler(type));
  const auto handler = Named("sparse");
  ASSERT_TRUE(RegisterTypeHandler(type, handler).ok());
  EXPECT_TRUE(HasTypeHandler(type));
  EXPECT_EQ(*GetTypeHandler(type), handler);
  EXPECT_FALSE(CreateTypeHandlerRegistry()->Has(type));
}

TEST(Registry, StandardHandlersTakeNewOptions) {
  const auto before = *GetTypeHandler({"np.ndarray"});
  const auto strings = *GetTypeHandler({"str"});
  RegisterStandardHandlersWithOptions({.metadata_key = "meta"});
  EXPECT_NE(*GetTypeHandler({"np.ndarray"}), before);
  EXPECT_EQ(*GetTypeHandler({"str"}), strings);
  EXPECT_EQ(*GetTypeHandler({"bool"}), *GetTypeHandler({"int"}));
  RegisterStandardHandlersWithOptions();
}

}  // namespace
}  // namespace holdfast
