#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <random>
#include <string>

#include "ground/base/status_macros.h"
#include "tiers/goodput/costs.h"
#include "tiers/manager/local_steps.h"
#include "tiers/parity/placement.h"

namespace holdfast {
namespace {

// The hosts that have lost their stored data, counted by parity group.
class Losses {
 public:
  static Result<Losses> Make(const GoodputModel& model,
                             const GoodputPolicy& policy) {
    std::vector<std::string> domains;
    for (int64_t host = 0; host < model.host_count; ++host) {
      domains.push_back(std::to_string(host / model.hosts_per_domain));
    }
    Losses losses;
    losses.parity_count_ = model.host_count == 1 ? 0 : policy.parity_shards;
    HF_ASSIGN_OR_RETURN(
        const GroupPlan plan,
        PlaceGroups(domains, policy.data_shards + losses.parity_count_,
                    losses.parity_count_));
    losses.group_of_host_.resize(model.host_count);
    for (size_t group = 0; group < plan.groups.size(); ++group) {
      for (const int64_t host : plan.groups[group]) {
        losses.group_of_host_[host] = group;
      }
    }
    losses.lost_counts_.resize(plan.groups.size());
    losses.is_lost_.resize(model.host_count);
    return losses;
  }

  void Lose(int64_t host) {
    if (is_lost_[host]) return;
    is_lost_[host] = true;
    lost_hosts_.push_back(host);
    most_ = std::max(most_, ++lost_counts_[group_of_host_[host]]);
  }
  void Clear() {
    for (const int64_t host : lost_hosts_) {
      is_lost_[host] = false;
      lost_counts_[group_of_host_[host]] = 0;
    }
    lost_hosts_.clear();
    most_ = 0;
  }
  bool any() const { return !lost_hosts_.empty(); }
  bool IsCovered() const { return most_ <= parity_count_; }

 private:
  int64_t parity_count_ = 0;
  std::vector<size_t> group_of_host_;
  std::vector<int64_t> lost_counts_;  // by group
  std::vector<bool> is_lost_;
  std::vector<int64_t> lost_hosts_;
  int64_t most_ = 0;  // the highest count of a group
};

class Simulation {
 public:
  Simulation(const GoodputModel& model, const GoodputPolicy& policy,
             Losses losses)
      : model_(model),
        policy_(policy),
        costs_(CostsOf(model, policy)),
        losses_(std::move(losses)),
        random_(model.seed) {}

  Result<GoodputResult> Run() {
    HF_RETURN_IF_ERROR(CheckPlayable(model_, costs_));
    while (now_ < model_.simulated_seconds) {
      TrainUntilAFailure();
      if (now_ >= model_.simulated_seconds || IsTooMuch()) break;
      ComeBack();
    }
    if (IsTooMuch()) return TooMuchToPlayError(model_, costs_);
    return Summary();
  }

 private:
  struct Drain {
    int64_t step;
    double done_at;
  };

  // Whether to stop. This limits the running time, whatever the model's numbers
  // are.
  bool IsTooMuch() const { return work_ > kGoodputWorkMax; }

  // Returns a random number >= 0 and < 1.
  double Uniform() { return static_cast<double>(random_() >> 11) * 0x1p-53; }

  // Returns a random time until the next event, for events that have this rate.
  double Draw(double per_second) {
    if (per_second <= 0) return model_.simulated_seconds * 2;
    return -std::log(Uniform() + 0x1p-54) / per_second;
  }

  // --- Training ---

  void TrainUntilAFailure() {
    const double end = std::min(now_ + Draw(costs_.failures_per_second()),
                                model_.simulated_seconds);
    while (now_ + costs_.period_seconds <= end && !IsTooMuch()) {
      now_ += costs_.period_seconds;
      blocked_seconds_ +=
          costs_.period_seconds -
          static_cast<double>(policy_.local_every) * model_.step_seconds;
      step_ += policy_.local_every;
      Save();
    }
    // Training after the last completed period is lost in any case.
    redone_seconds_ += end - now_;
    now_ = end;
    Settle();
    is_written_ = now_ >= saved_at_ + costs_.write_seconds;
  }

  void Save() {
    work_ += kGoodputEventWork;
    Settle();
    TierStep id;
    id.step = step_;
    kept_.push_back({id, false, false, 0});
    if (policy_.shared_every > 0 && step_ % policy_.shared_every == 0) {
      const double begin = std::max(
          now_ + costs_.write_seconds + costs_.protect_seconds, drained_at_);
      drained_at_ = begin + costs_.drain_seconds;
      drains_.push_back({step_, drained_at_});
    }
    saved_at_ = now_;
  }

  // Updates the state of the saved steps to the current time.
  void Settle() {
    if (!kept_.empty() && !kept_.back().is_protected &&
        now_ >= saved_at_ + costs_.write_seconds + costs_.protect_seconds) {
      kept_.back().is_protected = true;
    }
    while (!drains_.empty() && drains_.front().done_at <= now_) {
      shared_step_ = drains_.front().step;
      drains_.pop_front();
    }
    work_ += kept_.size();
    // All three lists are sorted, oldest first.
    auto drain = drains_.begin();
    for (KeptStep& kept : kept_) {
      while (drain != drains_.end() && drain->step < kept.step.step) ++drain;
      kept.is_in_use = drain != drains_.end() && drain->step == kept.step.step;
    }
    const std::vector<TierStep> removed = StepsToRemove(kept_, 1, 0);
    auto next = removed.begin();
    std::erase_if(kept_, [&](const KeptStep& kept) {
      if (next == removed.end() || !(kept.step == *next)) return false;
      ++next;
      return true;
    });
  }

  // --- Failures and restarts ---

  void Fail() {
    ++failure_count_;
    work_ += kGoodputEventWork;
    const double all = costs_.failures_per_second();
    if (Uniform() * all < costs_.domain_failures_per_second) {
      const int64_t domain_count =
          (model_.host_count + model_.hosts_per_domain - 1) /
          model_.hosts_per_domain;
      const int64_t first = PickOne(domain_count) * model_.hosts_per_domain;
      const int64_t end =
          std::min(first + model_.hosts_per_domain, model_.host_count);
      for (int64_t host = first; host < end; ++host) losses_.Lose(host);
      work_ += static_cast<uint64_t>(end - first);
      return;
    }
    const int64_t host = PickOne(model_.host_count);
    if (Uniform() < model_.lost_share) losses_.Lose(host);
  }
  int64_t PickOne(int64_t count) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(count));
  }

  // Loses hosts, and restarts until a restart completes before the next
  // failure.
  void ComeBack() {
    Fail();
    drains_.clear();
    drained_at_ = 0;
    while (!IsTooMuch()) {
      const std::optional<int64_t> local = LocalStep();
      const double restore = RestoreSeconds(local);
      const double needed = model_.restart_seconds + restore;
      const double next = Draw(costs_.failures_per_second());
      if (next < needed && now_ + next < model_.simulated_seconds) {
        now_ += next;
        restart_seconds_ += next;
        Fail();
        continue;
      }
      now_ += needed;
      restart_seconds_ += model_.restart_seconds;
      restore_seconds_ += restore;
      Resume(local);
      return;
    }
  }

  // Returns the local step that can be restored. Decides as the manager does: a
  // step that is on all hosts needs no parity, and a group may lose as many
  // members of a protected step as it has parity shards.
  std::optional<int64_t> LocalStep() const {
    for (auto it = kept_.rbegin(); it != kept_.rend(); ++it) {
      if (it->is_protected ? losses_.IsCovered()
                           : is_written_ && !losses_.any()) {
        return it->step.step;
      }
    }
    return std::nullopt;
  }

  double RestoreSeconds(const std::optional<int64_t>& local) const {
    if (!local) {
      return shared_step_ > 0 ? costs_.shared_restore_seconds : 0;
    }
    return losses_.any() ? costs_.parity_restore_seconds
                         : costs_.local_restore_seconds;
  }

  void Resume(const std::optional<int64_t>& local) {
    int64_t resumed = shared_step_;
    if (local) {
      resumed = *local;
      ++(losses_.any() ? parity_count_ : local_count_);
    } else {
      ++(shared_step_ > 0 ? shared_count_ : nothing_count_);
    }
    // These complete periods are repeated.
    redone_seconds_ +=
        static_cast<double>(step_ - resumed) * model_.step_seconds;
    step_ = resumed;
    std::erase_if(kept_, [&](const KeptStep& kept) {
      return !local || kept.step.step != resumed;
    });
    for (KeptStep& kept : kept_) kept.is_protected = true;
    losses_.Clear();
  }

  GoodputResult Summary() const {
    GoodputResult result;
    const double all = now_;
    result.goodput = static_cast<double>(step_) * model_.step_seconds / all;
    result.blocked_share = blocked_seconds_ / all;
    result.redone_share = redone_seconds_ / all;
    result.restart_share = restart_seconds_ / all;
    result.restore_share = restore_seconds_ / all;
    result.failure_count = failure_count_;
    result.local_count = local_count_;
    result.parity_count = parity_count_;
    result.shared_count = shared_count_;
    result.nothing_count = nothing_count_;
    result.host_bytes = costs_.host_bytes;
    result.peer_bytes_per_step = static_cast<double>(policy_.parity_shards) *
                                 costs_.member_bytes /
                                 static_cast<double>(policy_.local_every);
    return result;
  }

  const GoodputModel& model_;
  const GoodputPolicy& policy_;
  const GoodputCosts costs_;
  Losses losses_;
  std::mt19937_64 random_;

  uint64_t work_ = 0;  // in the units of kGoodputWorkMax
  double now_ = 0;
  int64_t step_ = 0;
  std::vector<KeptStep> kept_;  // on the local tier; oldest first
  double saved_at_ = 0;
  bool is_written_ = false;  // whether the newest step was, at the failure
  std::deque<Drain> drains_;
  double drained_at_ = 0;
  int64_t shared_step_ = 0;  // the newest in the shared tier; 0: none

  double blocked_seconds_ = 0;
  double redone_seconds_ = 0;
  double restart_seconds_ = 0;
  double restore_seconds_ = 0;
  uint64_t failure_count_ = 0;
  uint64_t local_count_ = 0;
  uint64_t parity_count_ = 0;
  uint64_t shared_count_ = 0;
  uint64_t nothing_count_ = 0;
};

}  // namespace

Result<GoodputResult> SimulateGoodput(const GoodputModel& model,
                                      const GoodputPolicy& policy) {
  HF_RETURN_IF_ERROR(CheckGoodput(model, policy));
  HF_ASSIGN_OR_RETURN(Losses losses, Losses::Make(model, policy));
  return Simulation(model, policy, std::move(losses)).Run();
}

}  // namespace holdfast
