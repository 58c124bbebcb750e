// The predicate of a bad step, as a text: `nan(params.*) or metric(loss) > 9`.
//
//   or := and { "or" and }     and := not { "and" not }
//   not := "not" not | "(" or ")" | term
//   term := NAME "(" argument ")" [ op NUMBER ]
//   op := ">" | ">=" | "<" | "<=" | "==" | "!="
//
// An argument is a glob over names of leaves (holdfast/tools/glob.h), or the
// name of a metric; in quotes, or up to its parenthesis. The functions are of
// all elements of all leaves that the glob selects, as if they were one tensor:
// nan, inf (how many; without a comparison: whether any), zeros (their share),
// l2, max, min, mean, absmax (of the finite elements); and metric.
//
// A term whose value is not there is neither true nor false. It decides nothing
// where the others do: `false and` it is false, `true or` it is true. Terms are
// asked from the left, and none that decides nothing.
//
// Thread-safety: a value. Errors: InvalidArgument with the column.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

enum class TermKind : uint8_t {
  kNan,
  kInf,
  kZeros,
  kL2,
  kMax,
  kMin,
  kMean,
  kAbsMax,
  kMetric,
};

enum class CompareOp : uint8_t {
  kAbove,
  kAtLeast,
  kBelow,
  kAtMost,
  kEqual,
  kUnequal,
};

struct PredicateTerm {
  TermKind kind = TermKind::kNan;
  std::string argument;
  CompareOp op = CompareOp::kAbove;
  double number = 0;

  std::string Name() const;  // "nan(params.*)"
};

class Predicate {
 public:
  static Result<Predicate> Parse(std::string_view text);

  // The value of a term of a step; nullopt: it has none.
  using ValueOf = std::function<Result<std::optional<double>>(size_t term)>;
  // nullopt: it can be judged neither way.
  Result<std::optional<bool>> Evaluate(const ValueOf& value_of) const;

  const std::vector<PredicateTerm>& terms() const { return terms_; }

 private:
  friend class PredicateParser;
  enum class NodeKind : uint8_t { kTerm, kNot, kAnd, kOr };
  struct Node {
    NodeKind kind = NodeKind::kTerm;
    size_t term = 0;
    std::vector<size_t> children;
  };

  Result<std::optional<bool>> EvaluateNode(size_t node,
                                           const ValueOf& value_of) const;

  std::vector<PredicateTerm> terms_;
  std::vector<Node> nodes_;
  size_t root_ = 0;
};

}  // namespace holdfast
