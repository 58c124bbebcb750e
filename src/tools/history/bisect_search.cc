#include "tools/history/bisect_search.h"

#include "ground/base/status_macros.h"

namespace holdfast {
namespace {

class Search {
 public:
  using Kind = SearchResult::Kind;

  Search(size_t count, const std::function<Result<StepVerdict>(size_t)>& probe)
      : probe_(probe), is_asked_(count) {}

  Result<SearchResult> Run() {
    HF_ASSIGN_OR_RETURN(const Kind ends, LookAtEnds());
    if (ends != Kind::kFound) return SearchResult{ends, good_, bad_};
    for (auto next = NearestToMiddle(); next; next = NearestToMiddle()) {
      HF_ASSIGN_OR_RETURN(const StepVerdict verdict, Ask(*next));
      if (verdict == StepVerdict::kGood) good_ = *next;
      if (verdict == StepVerdict::kBad) bad_ = *next;
    }
    return SearchResult{Kind::kFound, good_, bad_};
  }

 private:
  Result<StepVerdict> Ask(size_t i) {
    is_asked_[i] = true;
    return probe_(i);
  }

  // Probes both ends of the range. If the step at an end is skipped, its
  // neighbor becomes the end.
  Result<Kind> LookAtEnds() {
    size_t end = is_asked_.size();
    StepVerdict verdict = StepVerdict::kSkip;
    while (verdict == StepVerdict::kSkip) {
      if (end == 0) return Kind::kAllSkipped;
      HF_ASSIGN_OR_RETURN(verdict, Ask(--end));
    }
    good_ = bad_ = end;
    if (verdict == StepVerdict::kGood) return Kind::kNewestIsGood;
    for (size_t i = 0; i < end; ++i) {
      HF_ASSIGN_OR_RETURN(verdict, Ask(i));
      if (verdict == StepVerdict::kSkip) continue;
      (verdict == StepVerdict::kGood ? good_ : bad_) = i;
      return verdict == StepVerdict::kGood ? Kind::kFound : Kind::kOldestIsBad;
    }
    return end == 0 ? Kind::kOldestIsBad : Kind::kNoGood;
  }

  // Returns the step nearest to the middle between good and bad that was not
  // probed yet. Probed steps between them were skipped.
  std::optional<size_t> NearestToMiddle() const {
    const size_t middle = good_ + (bad_ - good_) / 2;
    for (size_t away = 0; away <= bad_ - good_; ++away) {
      const size_t above = middle + away;
      if (above > good_ && above < bad_ && !is_asked_[above]) return above;
      if (away > middle) continue;
      const size_t below = middle - away;
      if (below > good_ && below < bad_ && !is_asked_[below]) return below;
    }
    return std::nullopt;
  }

  const std::function<Result<StepVerdict>(size_t)>& probe_;
  std::vector<bool> is_asked_;
  size_t good_ = 0;
  size_t bad_ = 0;
};

}  // namespace

Result<SearchResult> SearchFirstBad(
    size_t count, const std::function<Result<StepVerdict>(size_t)>& probe) {
  return Search(count, probe).Run();
}

}  // namespace holdfast
