#include "tools/report/report_data.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <unordered_map>

#include "engine/restore/leaf_request.h"
#include "ground/json/text.h"
#include "holdfast/tools/module_tree.h"
#include "holdfast/version.h"

namespace holdfast {
namespace {

// A list of strings to which leaves refer by index.
class TextList {
 public:
  int Add(const std::string& text) {
    if (text.empty()) return -1;
    const auto [found, is_new] =
        numbers_.emplace(text, static_cast<int>(texts_.size()));
    if (is_new) texts_.push_back(text);
    return found->second;
  }
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  std::unordered_map<std::string, int> numbers_;
  std::vector<std::string> texts_;
};

class DataWriter {
 public:
  explicit DataWriter(const ReportData& data)
      : data_(data), tree_(MakeModuleTree(data.checkpoint->leaves())) {
    const size_t count = Leaves().size();
    if (data.stats != nullptr) {
      stats_.resize(count);
      for (const LeafStats& leaf : data.stats->leaves)
        stats_[leaf.leaf] = &leaf;
    }
    if (data.diff == nullptr) return;
    diffs_.resize(count);
    for (const LeafDiff& leaf : data.diff->leaves) {
      if (leaf.a) diffs_[*leaf.a] = &leaf;
    }
  }

  std::string Write() {
    out_ = "{";
    Field("version", Version());
    Info();
    Totals();
    Verified();
    Difference();
    Steps();
    Tree();
    MovedStrips();
    List("kinds", kinds_.texts());
    List("dtypes", dtypes_.texts());
    List("codecs", codecs_.texts());
    out_.back() = '}';
    EscapeMarkup();
    return std::move(out_);
  }

 private:
  const std::vector<LeafInfo>& Leaves() const {
    return data_.checkpoint->leaves();
  }

  void Text(std::string_view text) { AppendPythonJsonString(out_, text); }
  void Number(uint64_t number) { out_ += std::to_string(number); }
  void Real(double number) {
    if (!std::isfinite(number)) {
      out_ += "null";
      return;
    }
    char text[32];
    std::snprintf(text, sizeof text, "%.6g", number);
    out_ += text;
  }
  void Key(std::string_view key) {
    Text(key);
    out_ += ':';
  }
  void Field(std::string_view key, std::string_view text) {
    Key(key);
    Text(text);
    out_ += ',';
  }
  void Field(std::string_view key, uint64_t number) {
    Key(key);
    Number(number);
    out_ += ',';
  }
  void List(std::string_view key, const std::vector<std::string>& texts) {
    Key(key);
    out_ += '[';
    for (const std::string& text : texts) {
      if (&text != texts.data()) out_ += ',';
      Text(text);
    }
    out_ += "],";
  }

  // Escapes '<', because "</script" would end the script element even inside a
  // string.
  void EscapeMarkup() {
    std::string escaped;
    escaped.reserve(out_.size());
    for (const char c : out_) {
      if (c == '<') {
        escaped += "\\u003c";
      } else {
        escaped += c;
      }
    }
    out_ = std::move(escaped);
  }

  void Info() {
    const CheckpointInfo& info = data_.checkpoint->info();
    Field("path", info.path);
    Field("format", info.format);
    if (info.step) {
      Key("step");
      out_ += std::to_string(*info.step) + ",";
    }
    if (info.zarr_format != 0) Field("zarr", info.zarr_format);
    if (info.use_ocdbt) Field("ocdbt", 1);
    Time("committed", info.commit_timestamp_ns);
    List("sources", info.sources);
    List("notes", info.notes);
  }

  void Time(std::string_view key, const std::optional<int64_t>& ns) {
    if (!ns) return;
    Key(key);
    out_ += std::to_string(*ns / 1'000'000) + ",";  // JavaScript's ms
  }

  void Totals() {
    const ModuleNode& root = tree_.nodes[0];
    Field("leafCount", root.leaf_count);
    Field("parameters", root.parameter_count);
    Field("stored", root.stored_bytes);
    Field("decoded", root.decoded_bytes);
    Field("chunks", root.chunk_count);
  }

  void Verified() {
    if (data_.verified == nullptr) return;
    const VerifyReport& report = *data_.verified;
    Key("verified");
    out_ += '{';
    Field("chunks", report.chunk_count);
    Field("checked", report.checksummed_chunk_count);
    List("notes", report.notes);
    std::vector<std::string> damages;
    for (const Damage& damage : report.damages) {
      damages.push_back((damage.leaf.empty() ? "" : damage.leaf + ": ") +
                        damage.status.ToString());
    }
    List("damages", damages);
    std::vector<std::string> not_supported;
    for (const Damage& found : report.not_supported) {
      not_supported.push_back((found.leaf.empty() ? "" : found.leaf + ": ") +
                              std::string(found.status.message()));
    }
    List("notSupported", not_supported);
    out_.back() = '}';
    out_ += ',';
  }

  void Difference() {
    if (data_.diff == nullptr) return;
    Field("against", data_.against);
    std::vector<std::string> only_there;
    for (const LeafDiff& leaf : data_.diff->leaves) {
      if (leaf.verdict == DiffVerdict::kOnlyInB)
        only_there.push_back(leaf.name);
    }
    List("onlyThere", only_there);
    Field("same", data_.diff->same_count);
  }

  void Steps() {
    if (data_.steps.empty()) return;
    Key("steps");
    out_ += '[';
    for (const StepInfo& step : data_.steps) {
      out_ += '{';
      Field("name", step.name);
      Field("bytes", step.bytes);
      Time("committed", step.commit_timestamp_ns);
      if (!step.committed) Field("whyNot", step.why_not);
      if (!step.damage.empty()) Field("damage", step.damage);
      Metrics(step.metrics);
      out_.back() = '}';
      out_ += ',';
    }
    out_.back() = ']';
    out_ += ',';
  }

  // Writes the numeric metrics of a step.
  void Metrics(const std::string& text) {
    const auto parsed = ParseJsonText(text);
    if (!parsed.ok() || !parsed->is_object()) return;
    Key("metrics");
    out_ += '{';
    for (const auto& [name, value] : parsed->items()) {
      if (!value.is_number()) continue;
      Key(name);
      Real(value.get<double>());
      out_ += ',';
    }
    if (out_.back() == ',') out_.pop_back();
    out_ += "},";
  }

  void Tree() {
    Key("tree");
    Module(tree_.nodes[0]);
    out_ += ',';
  }

  void MovedStrips() {
    if (data_.moved == nullptr) return;
    std::vector<std::string> strips;
    AddStrips(0, strips);
    Key("moved");
    out_ += '{';
    List("steps", data_.moved->steps);
    List("strips", strips);
    out_.back() = '}';
    out_ += ',';
  }

  void AddStrips(size_t node, std::vector<std::string>& strips) const {
    strips.push_back(data_.moved->strips[node]);
    for (const size_t child : tree_.nodes[node].children) {
      AddStrips(child, strips);
    }
  }

  void Module(const ModuleNode& node) {
    out_ += '[';
    Text(node.key);
    out_ += ",[";
    for (const size_t child : node.children) {
      if (tree_.nodes[child].leaf) {
        Leaf(tree_.nodes[child].key, *tree_.nodes[child].leaf);
      } else {
        Module(tree_.nodes[child]);
      }
      out_ += ',';
    }
    if (out_.back() == ',') out_.pop_back();
    out_ += "]]";
  }

  void AppendShape(const Shape& shape) {
    out_ += '[';
    for (const int64_t extent : shape) out_ += std::to_string(extent) + ",";
    if (out_.back() == ',') out_.pop_back();
    out_ += ']';
  }

  void Leaf(const std::string& key, size_t number) {
    const LeafInfo& leaf = Leaves()[number];
    out_ += '[';
    Text(key);
    out_ +=
        ',' + std::to_string(kinds_.Add(std::string(ValueKindName(leaf.kind))));
    const std::string dtype =
        leaf.dtype ? std::string(DTypeName(*leaf.dtype)) : "";
    out_ += ',' + std::to_string(dtypes_.Add(dtype)) + ',';
    AppendShape(leaf.shape);
    out_ += ',' + std::to_string(leaf.stored_bytes) + ',' +
            std::to_string(leaf.decoded_bytes) + ',' +
            std::to_string(leaf.chunk_count) + ',';
    AppendShape(leaf.chunk_shape);
    out_ += ',' + std::to_string(codecs_.Add(leaf.codecs)) + ',';
    Statistics(leaf, number);
    out_ += ',';
    LeafDifference(number);
    out_ += ']';
  }

  void Statistics(const LeafInfo& info, size_t number) {
    const LeafStats* leaf = stats_.empty() ? nullptr : stats_[number];
    const Status& problem = leaf == nullptr ? info.problem : leaf->problem;
    if (!problem.ok()) return Text(problem.ToString());
    if (leaf == nullptr) {
      out_ += '0';
      return;
    }
    out_ += '[' + std::to_string(leaf->zero_count) + ',' +
            std::to_string(leaf->nan_count) + ',' +
            std::to_string(leaf->infinity_count());
    const double none = std::nan("");
    for (const double number_of : {leaf->min ? AsDouble(*leaf->min) : none,
                                   leaf->max ? AsDouble(*leaf->max) : none,
                                   leaf->mean, leaf->std, leaf->l2_norm}) {
      out_ += ',';
      Real(number_of);
    }
    int first_bin = 0;
    const std::string bins =
        leaf->histogram ? BinsText(*leaf->histogram, first_bin) : "";
    out_ += ',' + std::to_string(first_bin) + ',';
    Text(bins);
    out_ += ']';
  }

  static double AsDouble(const Scalar& scalar) {
    if (scalar.dtype == DType::kInt64) {
      return static_cast<double>(scalar.As<int64_t>());
    }
    if (scalar.dtype == DType::kUint64) {
      return static_cast<double>(scalar.As<uint64_t>());
    }
    return scalar.As<double>();
  }

  void LeafDifference(size_t number) {
    const LeafDiff* leaf = diffs_.empty() ? nullptr : diffs_[number];
    if (leaf == nullptr || leaf->verdict == DiffVerdict::kSame) {
      out_ += '0';
      return;
    }
    out_ += '[';
    Text(DiffVerdictName(leaf->verdict));
    out_ += ',';
    Real(leaf->max_abs_error);
    out_ += ',';
    Real(leaf->element_count == 0
             ? std::nan("")
             : static_cast<double>(leaf->different_count) /
                   static_cast<double>(leaf->element_count));
    out_ += ']';
  }

  const ReportData& data_;
  const ModuleTree tree_;
  std::vector<const LeafStats*> stats_;  // by leaf; may be empty
  std::vector<const LeafDiff*> diffs_;   // by leaf; may be empty
  TextList kinds_, dtypes_, codecs_;
  std::string out_;
};

}  // namespace

std::string BinsText(const MagnitudeHistogram& histogram, int& first_bin) {
  const auto& counts = histogram.counts;
  size_t first = 0, end = counts.size();
  while (first < end && counts[first] == 0) ++first;
  while (end > first && counts[end - 1] == 0) --end;
  first_bin = static_cast<int>(first) - MagnitudeHistogram::kZeroBin;
  uint64_t most = 0;
  for (const uint64_t count : counts) most = std::max(most, count);
  std::string text;
  for (size_t i = first; i < end; ++i) {
    if (counts[i] == 0) {
      text += '0';
      continue;
    }
    const double share = std::log1p(static_cast<double>(counts[i])) /
                         std::log1p(static_cast<double>(most));
    text += static_cast<char>('A' + std::lround(share * ('z' - 'A')));
  }
  return text;
}

std::string ReportJson(const ReportData& data) {
  return DataWriter(data).Write();
}

}  // namespace holdfast
