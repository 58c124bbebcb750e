#include "tools/recipe/plan.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "engine/restore/leaf_request.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/tree/broken_lists.h"
#include "holdfast/tools/glob.h"
#include "tools/recipe/known_sizes.h"
#include "tools/recipe/leaf_infos.h"
#include "tools/recipe/name_match.h"

namespace holdfast {
namespace {

// The maximum number of leaves that a recipe may add, and the maximum size of
// all names.
constexpr size_t kAddedLeavesMax = size_t{1} << 18;
constexpr size_t kNameBytesMax = size_t{256} << 20;

using Values = std::vector<int64_t>;

struct MatchedLeaf {
  Values values;  // of the rule's from_names
  size_t leaf = 0;
};

std::string Quoted(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

// Records which rule takes each leaf of the source.
class TakenLeaves {
 public:
  explicit TakenLeaves(const std::vector<LeafInfo>& source)
      : source_(source), rules_(source.size(), 0) {}

  Status Take(size_t leaf, const RecipeRule& rule) {
    size_t& taken = rules_[leaf];
    if (taken == 0 || taken == kShared) {
      taken = rule.number;
      return Status();
    }
    return rule.Error("leaf " + Quoted(source_[leaf].name) +
                      " is taken by rule " + std::to_string(taken) +
                      (taken == rule.number ? " already" : ", too"));
  }
  // Records the use of a leaf that several rules may use.
  void Share(size_t leaf) {
    if (rules_[leaf] == 0) rules_[leaf] = kShared;
  }
  bool Has(size_t leaf) const { return rules_[leaf] != 0; }

 private:
  static constexpr size_t kShared = ~size_t{0};

  const std::vector<LeafInfo>& source_;
  std::vector<size_t> rules_;  // 0: not taken
};

class RecipePlanner {
 public:
  RecipePlanner(const std::vector<LeafInfo>& source, const RecipeRules& rules,
                std::map<std::string, int64_t> sizes)
      : source_(source),
        rules_(rules),
        sizes_(std::move(sizes)),
        taken_(source) {}

  Result<RecipePlan> Plan() {
    for (size_t i = 0; i < source_.size(); ++i) {
      if (by_name_.emplace(source_[i].name, i).second) continue;
      return InvalidArgumentError("two leaves of the source are named " +
                                  Quoted(source_[i].name));
    }
    for (const RecipeRule& rule : rules_.rules) {
      HF_RETURN_IF_ERROR(Apply(rule));
    }
    HF_RETURN_IF_ERROR(TakeRest());
    HF_RETURN_IF_ERROR(CheckTargetNames(plan_.infos, made_by_));
    std::vector<LeafKeys> keys;
    for (LeafInfo& leaf : plan_.infos) {
      leaf.key_kinds.resize(leaf.key.size());
      keys.push_back({&leaf.key, &leaf.key_kinds});
    }
    ReplaceBrokenLists(keys);
    return std::move(plan_);
  }

 private:
  Status Apply(const RecipeRule& rule) {
    switch (rule.kind) {
      case RecipeRule::Kind::kDrop:
        return ApplyDrop(rule);
      case RecipeRule::Kind::kMatch:
        return ApplyMatch(rule);
      case RecipeRule::Kind::kFrom:
        break;
    }
    return ApplyFrom(rule);
  }

  Status ApplyDrop(const RecipeRule& rule) {
    const NamePredicate is_dropped = SelectedByGlob(rule.pattern);
    for (size_t i = 0; i < source_.size(); ++i) {
      if (!is_dropped(source_[i].name)) continue;
      HF_RETURN_IF_ERROR(taken_.Take(i, rule));
    }
    return Status();
  }

  static Status TakesNone(const RecipeRule& rule) {
    if (rule.is_optional) return Status();
    return rule.Error(
        "it takes no leaf (want \"optional\": true where that "
        "may be)");
  }

  Status ApplyMatch(const RecipeRule& rule) {
    const Result<Regex> regex = Regex::Compile(rule.pattern);
    if (!regex.ok()) return rule.InContext(regex.status());
    bool takes_some = false;
    for (size_t i = 0; i < source_.size(); ++i) {
      const auto match = regex->FullMatch(source_[i].name);
      if (!match.ok()) return rule.InContext(match.status());
      if (!*match) continue;
      takes_some = true;
      HF_RETURN_IF_ERROR(taken_.Take(i, rule));
      HF_ASSIGN_OR_RETURN(const auto stack, StackOf(rule, {i}, {}));
      for (const std::string& to : rule.match_to) {
        const Result<std::string> name = regex->Expand(to, **match);
        if (!name.ok()) return rule.InContext(name.status());
        auto keys = SplitKeys(*name);
        if (!keys.ok()) return rule.InContext(keys.status());
        HF_RETURN_IF_ERROR(Add(rule, stack, {}, *std::move(keys)));
      }
    }
    return takes_some ? Status() : TakesNone(rule);
  }

  // ----- from ---------------------------------------------------------------

  Status ApplyFrom(const RecipeRule& rule) {
    HF_ASSIGN_OR_RETURN(std::vector<MatchedLeaf> matched,
                        Matches(rule, rule.from));
    for (const MatchedLeaf& match : matched) {
      HF_RETURN_IF_ERROR(taken_.Take(match.leaf, rule));
    }
    const NameTemplate* from = &rule.from;
    if (matched.empty() && rule.otherwise) {
      from = &*rule.otherwise;
      HF_ASSIGN_OR_RETURN(matched, Matches(rule, *from));
      for (const MatchedLeaf& match : matched) taken_.Share(match.leaf);
    }
    HF_RETURN_IF_ERROR(TakeLeftOut(rule));
    if (matched.empty()) return TakesNone(rule);
    std::sort(matched.begin(), matched.end(),
              [](const MatchedLeaf& a, const MatchedLeaf& b) {
                return a.values < b.values;
              });
    HF_ASSIGN_OR_RETURN(const Values counts, Counts(rule, *from, matched));
    return AddCombinations(rule, matched, counts);
  }

  Result<std::vector<MatchedLeaf>> Matches(const RecipeRule& rule,
                                           const NameTemplate& name) const {
    std::vector<MatchedLeaf> matched;
    if (rule.from_names.empty()) {
      const auto leaf = by_name_.find(NameOf(rule, name, {}));
      if (leaf != by_name_.end()) matched.push_back({{}, leaf->second});
      return matched;
    }
    const Result<NameMatcher> matcher = NameMatcher::Make(name, rule.names);
    if (!matcher.ok()) return rule.InContext(matcher.status());
    for (size_t i = 0; i < source_.size(); ++i) {
      auto values = matcher->Match(source_[i].name, rule.from_names);
      if (!values.ok()) return rule.InContext(values.status());
      if (*values) matched.push_back({**std::move(values), i});
    }
    return matched;
  }

  Status TakeLeftOut(const RecipeRule& rule) {
    for (const NameTemplate& name : rule.left_out) {
      HF_ASSIGN_OR_RETURN(const std::vector<MatchedLeaf> matched,
                          Matches(rule, name));
      for (const MatchedLeaf& match : matched) {
        HF_RETURN_IF_ERROR(taken_.Take(match.leaf, rule));
      }
    }
    return Status();
  }

  static std::string NameOf(const RecipeRule& rule, const NameTemplate& name,
                            const Values& values) {
    std::map<std::string, int64_t> by_name;
    for (size_t i = 0; i < values.size(); ++i) {
      by_name[rule.from_names[i]] = values[i];
    }
    return Joined(KeysOf(name, rule.names, by_name), ".");
  }

  // Returns the number of values of each placeholder. Fails unless every
  // combination of values exists. `matched` must be sorted.
  Result<Values> Counts(const RecipeRule& rule, const NameTemplate& from,
                        const std::vector<MatchedLeaf>& matched) const {
    Values counts(rule.from_names.size());
    for (size_t i = 0; i < counts.size(); ++i) {
      const auto texts = rule.names.find(rule.from_names[i]);
      if (texts != rule.names.end()) {
        counts[i] = static_cast<int64_t>(texts->second.size());
        continue;
      }
      for (const MatchedLeaf& match : matched) {
        // The clamp only avoids an overflow: values before such a large one are
        // missing, which fails below.
        const int64_t value = std::min(match.values[i], INT64_MAX - 1);
        counts[i] = std::max(counts[i], value + 1);
      }
    }
    Values want(counts.size(), 0);
    for (const MatchedLeaf& match : matched) {
      if (match.values != want) return Gap(rule, from, want);
      Next(want, counts);
    }
    const bool is_whole = want == Values(counts.size(), 0);
    if (!is_whole) return Gap(rule, from, want);
    return counts;
  }

  // Advances to the next combination of values.
  static void Next(Values& values, const Values& counts) {
    for (size_t i = values.size(); i-- > 0;) {
      if (++values[i] < counts[i]) return;
      values[i] = 0;
    }
  }

  static Status Gap(const RecipeRule& rule, const NameTemplate& from,
                    const Values& missing) {
    return rule.Error("leaf " + Quoted(NameOf(rule, from, missing)) +
                      " is missing (want every combination of {" +
                      Joined(rule.from_names, "}, {") + "}, from 0)");
  }

  // ----- targets ------------------------------------------------------------

  static bool Names(const std::vector<std::string>& names,
                    const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  }

  // Groups the matches into stacks, and adds the targets of all stacks, sorted
  // by the values of the placeholders of "to".
  Status AddCombinations(const RecipeRule& rule,
                         const std::vector<MatchedLeaf>& matched,
                         const Values& counts) {
    std::map<Values, std::vector<const MatchedLeaf*>> stacks;
    for (const MatchedLeaf& match : matched) {
      Values kept;
      for (size_t i = 0; i < counts.size(); ++i) {
        const bool is_stacked = Names(rule.stacked, rule.from_names[i]);
        kept.push_back(is_stacked ? 0 : match.values[i]);
      }
      stacks[std::move(kept)].push_back(&match);
    }
    std::vector<std::pair<std::string, int64_t>> stacked;
    for (size_t i = 0; i < counts.size(); ++i) {
      if (Names(rule.stacked, rule.from_names[i])) {
        stacked.emplace_back(rule.from_names[i], counts[i]);
      }
    }
    std::map<Values, MadeTarget> made;  // by the values of to_names
    for (const auto& [kept, members] : stacks) {
      HF_RETURN_IF_ERROR(MakeTargets(rule, kept, members, stacked, made));
    }
    for (auto& [values, target] : made) {
      std::map<std::string, int64_t> by_name;
      for (size_t i = 0; i < values.size(); ++i) {
        by_name[rule.to_names[i]] = values[i];
      }
      for (const NameTemplate& to : rule.to) {
        HF_RETURN_IF_ERROR(Add(rule, target.stack, target.split,
                               KeysOf(to, rule.names, by_name)));
      }
    }
    return Status();
  }

  struct MadeTarget {
    std::shared_ptr<const SourceStack> stack;
    Shape split;
  };

  // Makes the targets of one stack. `members` are sorted, which is C order of
  // `stacked`.
  Status MakeTargets(
      const RecipeRule& rule, const Values& kept,
      const std::vector<const MatchedLeaf*>& members,
      const std::vector<std::pair<std::string, int64_t>>& stacked,
      std::map<Values, MadeTarget>& made) {
    std::vector<size_t> leaves;
    for (const MatchedLeaf* member : members) leaves.push_back(member->leaf);
    HF_ASSIGN_OR_RETURN(std::shared_ptr<SourceStack> stack,
                        StackOf(rule, std::move(leaves), stacked));
    HF_RETURN_IF_ERROR(AddScales(rule, members, *stack));
    Values counts;
    for (const size_t atom : stack->map.split) {
      counts.push_back(stack->map.sizes[atom]);
    }
    Values split(counts.size(), 0);
    do {
      if (std::find(counts.begin(), counts.end(), 0) != counts.end()) break;
      Values values;
      for (const std::string& name : rule.to_names) {
        const auto at = std::find(rule.split.begin(), rule.split.end(), name);
        if (at != rule.split.end()) {
          values.push_back(split[at - rule.split.begin()]);
        } else {
          const auto from =
              std::find(rule.from_names.begin(), rule.from_names.end(), name);
          values.push_back(kept[from - rule.from_names.begin()]);
        }
      }
      made.emplace(std::move(values), MadeTarget{stack, Shape(split)});
      HF_RETURN_IF_ERROR(CheckCount(rule, made.size()));
      Next(split, counts);
    } while (split != Values(counts.size(), 0));
    return Status();
  }

  Status CheckCount(const RecipeRule& rule, size_t more) const {
    const size_t max = source_.size() + kAddedLeavesMax;
    if (plan_.infos.size() + more <= max && name_bytes_ <= kNameBytesMax) {
      return Status();
    }
    return rule.Error("it makes too many leaves (want at most " +
                      std::to_string(max) + " in all, with names of at most " +
                      std::to_string(kNameBytesMax) + " bytes)");
  }

  Result<std::shared_ptr<SourceStack>> StackOf(
      const RecipeRule& rule, std::vector<size_t> leaves,
      const std::vector<std::pair<std::string, int64_t>>& stacked) const {
    HF_RETURN_IF_ERROR(CheckAlike(rule, leaves));
    const LeafInfo& first = source_[leaves[0]];
    auto stack = std::make_shared<SourceStack>();
    stack->leaves = std::move(leaves);
    stack->has_elements = HasElements(first.kind) && first.dtype.has_value();
    if (!stack->has_elements) return stack;
    stack->source_dtype = *first.dtype;
    stack->dtype =
        rule.cast.value_or(rule.dequantize ? DType::kFloat32 : *first.dtype);
    HF_RETURN_IF_ERROR(CheckValues(rule, first, *stack));
    if (!rule.axes) {
      stack->map = IdentityMap(first.shape);
      return stack;
    }
    KnownAxes known{first.shape, stacked, {}, sizes_};
    for (const std::string& name : rule.split) {
      const auto texts = rule.names.find(name);
      const bool is_named = texts != rule.names.end();
      known.split.emplace_back(name, is_named ? texts->second.size() : -1);
    }
    auto map = ResolveAxes(*rule.axes, known);
    if (!map.ok()) {
      return rule.InContext(
          map.status().WithContext("leaf " + Quoted(first.name)));
    }
    stack->map = *std::move(map);
    return stack;
  }

  static Status CheckValues(const RecipeRule& rule, const LeafInfo& leaf,
                            const SourceStack& stack) {
    const bool is_complex =
        DTypeKindOf(stack.source_dtype) == DTypeKind::kComplex;
    if (is_complex && (rule.dequantize || stack.dtype == DType::kBool)) {
      return rule.Error("leaf " + Quoted(leaf.name) +
                        " is complex (want real "
                        "numbers for \"dequantize\", and for a cast to bool)");
    }
    return Status();
  }

  // Checks that stacked leaves have the same shape and dtype, and that a leaf
  // to be changed is an array.
  Status CheckAlike(const RecipeRule& rule,
                    const std::vector<size_t>& leaves) const {
    const bool changes = rule.axes || rule.cast || rule.dequantize;
    const LeafInfo& first = source_[leaves[0]];
    for (const size_t i : leaves) {
      const LeafInfo& leaf = source_[i];
      const bool is_array = HasElements(leaf.kind) && leaf.dtype.has_value();
      if (changes && !is_array) {
        if (!leaf.problem.ok()) return rule.InContext(leaf.problem);
        return rule.Error("leaf " + Quoted(leaf.name) + " is a " +
                          std::string(ValueKindName(leaf.kind)) +
                          " (want an array for \"axes\", \"cast\" and "
                          "\"dequantize\")");
      }
      if (changes && (leaf.shape.size() > kRankMax ||
                      std::any_of(leaf.shape.begin(), leaf.shape.end(),
                                  [](int64_t extent) { return extent < 0; }))) {
        return rule.Error("leaf " + Quoted(leaf.name) + " has the shape " +
                          ShapeToString(leaf.shape));
      }
      if (leaf.shape == first.shape && leaf.dtype == first.dtype) continue;
      return rule.Error("leaf " + Quoted(leaf.name) + " (got " +
                        TypeText(leaf) + ", want " + TypeText(first) +
                        " as leaf " + Quoted(first.name) + ")");
    }
    return Status();
  }

  static std::string TypeText(const LeafInfo& leaf) {
    return std::string(DTypeName(*leaf.dtype)) + ShapeToString(leaf.shape);
  }

  // ----- dequantize ---------------------------------------------------------

  Status AddScales(const RecipeRule& rule,
                   const std::vector<const MatchedLeaf*>& members,
                   SourceStack& stack) {
    if (!rule.dequantize) return Status();
    const Shape shape = stack.map.source_shape();
    ScaleArrays scales;
    for (const MatchedLeaf* member : members) {
      const std::string name =
          NameOf(rule, rule.dequantize->scale, member->values);
      const auto leaf = by_name_.find(name);
      if (leaf == by_name_.end()) {
        return rule.Error("its scale " + Quoted(name) + " is not there");
      }
      HF_RETURN_IF_ERROR(taken_.Take(leaf->second, rule));
      const LeafInfo& scale = source_[leaf->second];
      const Result<ScaleArrays> fits =
          FitScale(rule.dequantize->block, shape, scale);
      if (!fits.ok()) return rule.InContext(fits.status());
      if (!scales.leaves.empty() && fits->block != scales.block) {
        return rule.Error("its scale " + Quoted(name) +
                          " has another shape than the others");
      }
      scales.leaves.push_back(leaf->second);
      scales.block = fits->block;
      scales.is_single = fits->is_single;
    }
    stack.scales = std::move(scales);
    return Status();
  }

  static Result<ScaleArrays> FitScale(const Shape& block, const Shape& shape,
                                      const LeafInfo& scale) {
    if (!HasElements(scale.kind) || !scale.dtype ||
        DTypeKindOf(*scale.dtype) == DTypeKind::kComplex) {
      return InvalidArgumentError("its scale " + Quoted(scale.name) +
                                  " is not an array of real numbers");
    }
    ScaleArrays fits;
    fits.block = block;
    if (block.empty()) {
      fits.is_single = ElementCount(scale.shape) == 1;
      fits.block = shape;
      for (size_t d = 0; d < shape.size(); ++d) {
        const bool is_each = !fits.is_single && d < scale.shape.size() &&
                             scale.shape[d] == shape[d];
        fits.block[d] = is_each ? 1 : std::max<int64_t>(1, shape[d]);
      }
      if (fits.is_single) return fits;
    }
    Shape want;
    for (size_t d = 0; d < std::min(shape.size(), fits.block.size()); ++d) {
      want.push_back(shape[d] / fits.block[d] +
                     (shape[d] % fits.block[d] != 0));
    }
    if (fits.block.size() == shape.size() && scale.shape == want) return fits;
    return InvalidArgumentError(
        "its scale " + Quoted(scale.name) + " (got shape " +
        ShapeToString(scale.shape) + ", want one element for each block of " +
        ShapeToString(fits.block) + " of " + ShapeToString(shape) + ")");
  }

  // ----- leaves -------------------------------------------------------------

  Status Add(const RecipeRule& rule, std::shared_ptr<const SourceStack> stack,
             Shape split, std::vector<std::string> keys) {
    plan_.infos.push_back(
        TargetInfo(source_, *stack, rule.axes.has_value(), std::move(keys)));
    plan_.leaves.push_back({std::move(stack), std::move(split)});
    made_by_.push_back(&rule);
    name_bytes_ += plan_.infos.back().name.size();
    return CheckCount(rule, 0);
  }

  Status TakeRest() {
    if (rules_.rest == RecipeRules::Rest::kDrop) return Status();
    for (size_t i = 0; i < source_.size(); ++i) {
      if (taken_.Has(i)) continue;
      if (rules_.rest == RecipeRules::Rest::kError) return RestError(i);
      auto stack = std::make_shared<SourceStack>();
      const LeafInfo& leaf = source_[i];
      stack->leaves = {i};
      stack->has_elements = HasElements(leaf.kind) && leaf.dtype.has_value();
      if (stack->has_elements) {
        stack->source_dtype = stack->dtype = *leaf.dtype;
        stack->map = IdentityMap(leaf.shape);
      }
      plan_.infos.push_back(leaf);
      plan_.leaves.push_back({std::move(stack), {}});
      made_by_.push_back(nullptr);
    }
    return Status();
  }

  Status RestError(size_t leaf) const {
    size_t more = 0;
    for (size_t i = leaf + 1; i < source_.size(); ++i) {
      more += taken_.Has(i) ? 0 : 1;
    }
    return InvalidArgumentError(
        "no rule takes leaf " + Quoted(source_[leaf].name) +
        (more > 0 ? ", nor " + std::to_string(more) + " more" : "") +
        " (want a rule for it, a \"drop\", or \"rest\": \"keep\")");
  }

  const std::vector<LeafInfo>& source_;
  const RecipeRules& rules_;
  const std::map<std::string, int64_t> sizes_;
  std::unordered_map<std::string, size_t> by_name_;
  TakenLeaves taken_;
  RecipePlan plan_;
  std::vector<const RecipeRule*> made_by_;  // by info; null: kept
  size_t name_bytes_ = 0;
};

}  // namespace

Result<RecipePlan> PlanRecipe(const std::vector<LeafInfo>& source,
                              const RecipeRules& rules,
                              const RecipeOptions& options) {
  auto sizes = KnownSizes(rules, options);
  if (!sizes.ok()) return sizes.status();
  auto plan = RecipePlanner(source, rules, *std::move(sizes)).Plan();
  if (!plan.ok()) return plan.status().WithContext("recipe");
  return plan;
}

}  // namespace holdfast
