// The predicate of a bad step, given as text:
// `nan(params.*) or metric(loss) > 9`.
//
//   or := and { "or" and }     and := not { "and" not }
//   not := "not" not | "(" or ")" | term
//   term := NAME "(" argument ")" [ op NUMBER ]
//   op := ">" | ">=" | "<" | "<=" | "==" | "!="
//
// An argument is a glob over the names of leaves (holdfast/tools/glob.h), or
// the name of a metric; it is quoted, or ends at its closing parenthesis. All
// functions except `metric` cover all elements of all leaves that the glob
// selects, as if these were one tensor: nan and inf (their count, or without a
// comparison whether there are any), zeros (their share), and l2, max, min,
// mean, absmax (of the finite elements).
//
// A term without a value is unknown: neither true nor false. `false and
// unknown` is false, and `true or unknown` is true. Terms are evaluated from
// the left, and terms that cannot change the result are not evaluated.
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

  // Returns the value of a term for a step, or nullopt if it has none.
  using ValueOf = std::function<Result<std::optional<double>>(size_t term)>;
  // Returns nullopt if the values do not decide whether the step is bad.
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
