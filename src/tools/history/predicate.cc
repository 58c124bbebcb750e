#include "tools/history/predicate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast {
namespace {

constexpr int kNestingMax = 64;

struct TermName {
  std::string_view name;
  TermKind kind;
};
constexpr TermName kTermNames[] = {
    {"nan", TermKind::kNan},       {"inf", TermKind::kInf},
    {"zeros", TermKind::kZeros},   {"l2", TermKind::kL2},
    {"max", TermKind::kMax},       {"min", TermKind::kMin},
    {"mean", TermKind::kMean},     {"absmax", TermKind::kAbsMax},
    {"metric", TermKind::kMetric},
};

struct OpName {
  std::string_view name;
  CompareOp op;
};
// Longer operators come first, because the first that matches is taken.
constexpr OpName kOpNames[] = {
    {">=", CompareOp::kAtLeast}, {"<=", CompareOp::kAtMost},
    {"==", CompareOp::kEqual},   {"!=", CompareOp::kUnequal},
    {">", CompareOp::kAbove},    {"<", CompareOp::kBelow},
};

std::string KnownFunctions() {
  std::vector<std::string> names;
  for (const TermName& known : kTermNames) names.emplace_back(known.name);
  return Joined(names, ", ");
}

bool IsWordCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
         (c >= '0' && c <= '9');
}

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\n'; }

bool Compare(double value, CompareOp op, double number) {
  switch (op) {
    case CompareOp::kAbove:
      return value > number;
    case CompareOp::kAtLeast:
      return value >= number;
    case CompareOp::kBelow:
      return value < number;
    case CompareOp::kAtMost:
      return value <= number;
    case CompareOp::kEqual:
      return value == number;
    case CompareOp::kUnequal:
      return value != number;
  }
  return false;
}

}  // namespace

class PredicateParser {
 public:
  explicit PredicateParser(std::string_view text) : text_(text) {}

  Result<Predicate> Parse() {
    HF_ASSIGN_OR_RETURN(made_.root_, Or());
    SkipSpaces();
    if (at_ < text_.size()) return Wrong("want \"and\", \"or\" or the end");
    return std::move(made_);
  }

 private:
  using Node = Predicate::Node;
  using NodeKind = Predicate::NodeKind;

  Status WrongAt(size_t at, const std::string& why) const {
    return InvalidArgumentError("predicate \"" + std::string(text_) +
                                "\": column " + std::to_string(at + 1) + ": " +
                                why);
  }
  Status Wrong(const std::string& why) const { return WrongAt(at_, why); }

  void SkipSpaces() {
    while (at_ < text_.size() && IsSpace(text_[at_])) ++at_;
  }
  bool Take(std::string_view token) {
    SkipSpaces();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  std::string_view Word() {
    SkipSpaces();
    size_t end = at_;
    while (end < text_.size() && IsWordCharacter(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool TakeWord(std::string_view word) {
    if (Word() != word) return false;
    at_ += word.size();
    return true;
  }

  size_t Add(Node node) {
    made_.nodes_.push_back(std::move(node));
    return made_.nodes_.size() - 1;
  }

  template <typename Part>
  Result<size_t> Chain(NodeKind kind, std::string_view word, Part part) {
    HF_ASSIGN_OR_RETURN(const size_t first, part());
    Node chain{kind, 0, {first}};
    while (TakeWord(word)) {
      HF_ASSIGN_OR_RETURN(const size_t next, part());
      chain.children.push_back(next);
    }
    return chain.children.size() == 1 ? first : Add(std::move(chain));
  }
  Result<size_t> Or() {
    return Chain(NodeKind::kOr, "or", [&] { return And(); });
  }
  Result<size_t> And() {
    return Chain(NodeKind::kAnd, "and", [&] { return Not(); });
  }

  Result<size_t> Not() {
    if (++depth_ > kNestingMax) return Wrong("it is nested too deeply");
    HF_ASSIGN_OR_RETURN(const size_t node, NotInside());
    --depth_;
    return node;
  }
  Result<size_t> NotInside() {
    if (TakeWord("not")) {
      HF_ASSIGN_OR_RETURN(const size_t child, Not());
      return Add({NodeKind::kNot, 0, {child}});
    }
    if (!Take("(")) return Term();
    const size_t open = at_ - 1;
    HF_ASSIGN_OR_RETURN(const size_t inside, Or());
    if (!Take(")")) return WrongAt(open, "this parenthesis is not closed");
    return inside;
  }

  Result<size_t> Term() {
    const std::string_view word = Word();
    const size_t start = at_;
    if (word.empty()) return Wrong("want a function, \"not\" or \"(\"");
    const auto known =
        std::find_if(std::begin(kTermNames), std::end(kTermNames),
                     [&](const TermName& name) { return name.name == word; });
    if (known == std::end(kTermNames)) {
      return Wrong("unknown function \"" + std::string(word) +
                   "\"; known are " + KnownFunctions());
    }
    at_ += word.size();
    PredicateTerm term;
    term.kind = known->kind;
    HF_ASSIGN_OR_RETURN(term.argument, Argument(word));
    HF_ASSIGN_OR_RETURN(const bool is_compared, Comparison(term));
    if (!is_compared && term.kind != TermKind::kNan &&
        term.kind != TermKind::kInf) {
      return WrongAt(start, term.Name() +
                                " is a number: compare it (>, >=, <, <=, ==, "
                                "!=)");
    }
    made_.terms_.push_back(std::move(term));
    return Add({NodeKind::kTerm, made_.terms_.size() - 1, {}});
  }

  Result<std::string> Argument(std::string_view function) {
    if (!Take("(")) return Wrong("want \"(\" after " + std::string(function));
    const size_t open = at_ - 1;
    SkipSpaces();
    std::string argument;
    if (at_ < text_.size() && (text_[at_] == '"' || text_[at_] == '\'')) {
      const size_t end = text_.find(text_[at_], at_ + 1);
      if (end == text_.npos) return Wrong("this quote is not closed");
      argument = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
      if (!Take(")")) return Wrong("want \")\"");
    } else {
      const size_t end = text_.find(')', at_);
      if (end == text_.npos) {
        return WrongAt(open, "this parenthesis is not closed");
      }
      argument = TrimSpaces(text_.substr(at_, end - at_));
      at_ = end + 1;
    }
    if (argument.empty()) {
      return WrongAt(open, std::string(function) + " of what?");
    }
    return argument;
  }

  // Parses the comparison after a term. Returns false for a term without one.
  Result<bool> Comparison(PredicateTerm& term) {
    for (const OpName& op : kOpNames) {
      if (!Take(op.name)) continue;
      term.op = op.op;
      SkipSpaces();
      size_t end = at_;
      while (end < text_.size() && !IsSpace(text_[end]) && text_[end] != ')') {
        ++end;
      }
      const auto number = ParseNumber<double>(text_.substr(at_, end - at_));
      if (!number || std::isnan(*number)) return Wrong("want a number");
      term.number = *number;
      at_ = end;
      return true;
    }
    if (Take("=")) {
      --at_;
      return Wrong("\"=\" compares nothing; want \"==\"");
    }
    return false;
  }

  const std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
  Predicate made_;
};

std::string PredicateTerm::Name() const {
  for (const TermName& known : kTermNames) {
    if (known.kind == kind) {
      return std::string(known.name) + "(" + argument + ")";
    }
  }
  return argument;
}

Result<Predicate> Predicate::Parse(std::string_view text) {
  return PredicateParser(text).Parse();
}

Result<std::optional<bool>> Predicate::Evaluate(const ValueOf& value_of) const {
  return EvaluateNode(root_, value_of);
}

Result<std::optional<bool>> Predicate::EvaluateNode(
    size_t node, const ValueOf& value_of) const {
  const Node& at = nodes_[node];
  if (at.kind == NodeKind::kTerm) {
    const PredicateTerm& term = terms_[at.term];
    HF_ASSIGN_OR_RETURN(const std::optional<double> value, value_of(at.term));
    if (!value) return std::optional<bool>();
    return std::optional(Compare(*value, term.op, term.number));
  }
  if (at.kind == NodeKind::kNot) {
    HF_ASSIGN_OR_RETURN(std::optional<bool> inside,
                        EvaluateNode(at.children[0], value_of));
    if (inside) inside = !*inside;
    return inside;
  }
  // An operand with this value decides the result: false for "and", true for
  // "or".
  const bool decides = at.kind == NodeKind::kOr;
  std::optional<bool> all = !decides;
  for (const size_t child : at.children) {
    HF_ASSIGN_OR_RETURN(const std::optional<bool> one,
                        EvaluateNode(child, value_of));
    if (one == decides) return one;
    if (!one) all.reset();
  }
  return all;
}

}  // namespace holdfast
