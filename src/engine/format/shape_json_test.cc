#include "engine/format/shape_json.h"

#include <gtest/gtest.h>

namespace holdfast {
namespace {

TEST(ShapeJson, ReadsWhatItWrites) {
  for (const Shape& shape : {Shape(), Shape{0}, Shape{2, 3, INT64_MAX}}) {
    std::string text;
    AppendJsonShape(text, shape);
    JsonScanner in(text);
    Shape again = {9};
    EXPECT_TRUE(ReadJsonShape(in, again).ok());
    EXPECT_EQ(again, shape);
  }
  std::string text;
  AppendJsonShape(text, {2, 3});
  EXPECT_EQ(text, "[2, 3]");
}

TEST(ShapeJson, RefusesWhatIsNoShape) {
  for (const char* text :
       {"[-1]", "[1.0]", "{}", "[null]", "[9223372036854775808]"}) {
    JsonScanner in(text);
    Shape shape;
    EXPECT_EQ(ReadJsonShape(in, shape).code(), StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace holdfast
