// Checks the data of the report's page: that they are escaped and small, and
// show every kind of leaf.
#include "holdfast/tools/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "checkpoint/test_trees.h"
#include "tools/report/report_data.h"
#include "twins/scratch_directory.h"

namespace holdfast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

// Returns the data that the page's script reads.
Json DataOf(const std::string& html) {
  const std::string open = "type=\"application/json\">";
  const size_t begin = html.find(open) + open.size();
  return Json::parse(html.substr(begin, html.find("</script>", begin) - begin));
}

class ReportTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  void SaveTree(const std::string& name, float first) {
    Array w = RandomArray(DType::kFloat32, {20, 30}, 1);
    auto* elements = reinterpret_cast<float*>(w.mutable_view().data);
    for (int i = 0; i < 600; ++i) elements[i] = static_cast<float>(i);
    elements[0] = first;
    const Tree tree = Tree::Dict(
        {{"m", Tree::Dict({{"w", Tree(std::move(w))},
                           {"</script><b>",
                            Tree(RandomArray(DType::kInt8, {4}, 2))}})},
         {"s", Tree("x")}});
    ASSERT_TRUE(Save(Path(name), tree).ok());
  }

  ScratchDirectory directory_;
};

// Returns the child with this key: [key, children] or [key, kind, ...].
const Json& Child(const Json& module, const std::string& key) {
  for (const Json& child : module[1]) {
    if (child[0] == key) return child;
  }
  ADD_FAILURE() << "no " << key;
  return module;
}

TEST_F(ReportTest, HasTheTreeItsLayoutAndItsNumbers) {
  SaveTree("1", std::numeric_limits<float>::quiet_NaN());
  ReportOptions options;
  options.verify = true;
  const auto report = MakeReport(Path("1"), options);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->leaf_count, 3u);
  EXPECT_EQ(report->damage_count, 0u);
  const Json data = DataOf(report->html);
  EXPECT_EQ(data["path"], Path("1"));
  EXPECT_EQ(data["parameters"], 604);
  EXPECT_EQ(data["verified"]["damages"].size(), 0u);
  const Json& w = Child(Child(data["tree"], "m"), "w");
  EXPECT_EQ(data["kinds"][w[1].get<size_t>()], "array");
  EXPECT_EQ(data["dtypes"][w[2].get<size_t>()], "float32");
  EXPECT_EQ(w[3], Json::parse("[20, 30]"));
  EXPECT_EQ(w[5], 2400);
  EXPECT_EQ(w[9][1], 1);  // NaN
  EXPECT_GT(w[9][7], 0);  // l2
  EXPECT_FALSE(w[9][9].get<std::string>().empty());
  EXPECT_EQ(w[10], 0);  // not compared
  EXPECT_EQ(Child(data["tree"], "s")[9], 0);

  options.statistics = false;
  options.verify = false;
  const Json bare = DataOf(MakeReport(Path("1"), options)->html);
  EXPECT_EQ(Child(Child(bare["tree"], "m"), "w")[9], 0);
  EXPECT_FALSE(bare.contains("verified"));
}

TEST_F(ReportTest, NamesCannotEndTheScript) {
  SaveTree("1", 0);
  const auto report = MakeReport(Path("1"));
  ASSERT_TRUE(report.ok());
  EXPECT_THAT(report->html, Not(HasSubstr("</script><b>")));
  (void)Child(Child(DataOf(report->html)["tree"], "m"), "</script><b>");
}

TEST_F(ReportTest, ShowsDifferencesAndSteps) {
  SaveTree("run/1", 1);
  SaveTree("run/2", 3);
  ReportOptions options;
  options.against = Path("run/1");
  const auto report = MakeReport(Path("run"), options);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->different_count, 1u);
  const Json data = DataOf(report->html);
  EXPECT_EQ(data["step"], 2);
  ASSERT_EQ(data["steps"].size(), 2u);
  EXPECT_EQ(data["steps"][0]["name"], "1");
  EXPECT_GT(data["steps"][0]["bytes"], 0);
  const Json& difference = Child(Child(data["tree"], "m"), "w")[10];
  EXPECT_EQ(difference[0], "values");
  EXPECT_EQ(difference[1], 2);
  EXPECT_NEAR(difference[2].get<double>(), 1.0 / 600, 1e-6);
}

TEST_F(ReportTest, ShowsWhatMovedFromStepToStep) {
  for (int step = 1; step <= 4; ++step) {
    // The first element of m.w is 5, 5, 10, 15.
    SaveTree("run/" + std::to_string(step),
             static_cast<float>(5 * std::max(1, step - 1)));
  }
  ReportOptions options;
  options.moved = true;
  options.cache = Path("cache");
  const auto report = MakeReport(Path("run"), options);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_EQ(report->cache_warning, "");
  const Json data = DataOf(report->html);
  EXPECT_EQ(data["moved"]["steps"], Json({"2", "3", "4"}));
  // The strips of the root, m, the leaves of m, and s.
  const Json& strips = data["moved"]["strips"];
  ASSERT_EQ(strips.size(), 5u);
  EXPECT_EQ(strips[0], strips[1]);
  std::string name = data["tree"][1][0][1][0][0];
  const std::string of_w = strips[name == "w" ? 2 : 3];
  EXPECT_EQ(of_w[0], '0');
  EXPECT_EQ(of_w[1], of_w[2]);  // a change of 5 in a norm of 8473
  EXPECT_EQ(of_w[1], MovedCharacter(5 / 8473.2));
  EXPECT_EQ(strips[name == "w" ? 3 : 2], "000");
  EXPECT_EQ(strips[4], "---");  // a string leaf
  // The cached numbers produce the same page.
  EXPECT_EQ(MakeReport(Path("run"), options)->html, report->html);
  EXPECT_EQ(MovedCharacter(1e-9), 'A');
  EXPECT_EQ(MovedCharacter(std::numeric_limits<double>::infinity()), 'z');
}

TEST_F(ReportTest, DamageIsShown) {
  SaveTree("1", 1);
  // Flips a byte of the database's largest file.
  std::filesystem::path largest;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(Path("1"))) {
    if (!entry.is_regular_file()) continue;
    if (largest.empty() || entry.file_size() > file_size(largest)) {
      largest = entry.path();
    }
  }
  std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(file_size(largest) / 2));
  file.put('\x5a');
  file.close();
  ReportOptions options;
  options.verify = true;
  const auto report = MakeReport(Path("1"), options);
  ASSERT_TRUE(report.ok()) << report.status().ToString();
  EXPECT_GT(report->damage_count, 0u);
  EXPECT_EQ(report->unreadable_count, 1u);
  EXPECT_GT(DataOf(report->html)["verified"]["damages"].size(), 0u);
  EXPECT_EQ(MakeReport(Path("none")).status().code(), StatusCode::kNotFound);
}

TEST(ReportBins, AreFromTheFirstToTheLast) {
  MagnitudeHistogram histogram;
  histogram.counts[MagnitudeHistogram::kZeroBin - 1] = 1;
  histogram.counts[MagnitudeHistogram::kZeroBin + 1] = 1000;
  int first = 0;
  const std::string bins = BinsText(histogram, first);
  EXPECT_EQ(first, -1);
  ASSERT_EQ(bins.size(), 3u);
  EXPECT_EQ(bins[1], '0');
  EXPECT_EQ(bins[2], 'z');
  EXPECT_GT(bins[0], 'A');
  EXPECT_LT(bins[0], 'M');
}

}  // namespace
}  // namespace holdfast
