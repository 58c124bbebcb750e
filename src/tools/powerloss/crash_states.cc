#include "tools/powerloss/crash_states.h"

#include <algorithm>

namespace holdfast {

using Kind = DiskChange::Kind;

namespace {

using Random = std::mt19937_64;
using Visit = std::function<void(const CrashState&, const DiskModel&)>;

constexpr uint64_t kSectorBytes = 512;

// Returns a random number below `bound`, or 0 if `bound` is 0.
uint64_t Below(Random& random, uint64_t bound) {
  return bound == 0 ? 0 : random() % bound;
}

// Cuts a write at a random multiple of `unit` bytes in its file.
DiskChange Torn(const DiskChange& change, uint64_t unit, Random& random) {
  DiskChange torn = change;
  const uint64_t end = change.offset + change.data.size();
  const uint64_t first = change.offset / unit;
  const uint64_t units = (end - 1) / unit - first;
  const uint64_t cut = (first + Below(random, units + 1)) * unit;
  torn.data.resize(cut > change.offset ? cut - change.offset : 0);
  return torn;
}

// Sets some or all sectors of a write to zero: they were allocated, but their
// bytes did not reach the disk.
DiskChange Holed(const DiskChange& change, Random& random) {
  DiskChange holed = change;
  const bool loses_all = random() % 2 == 0;
  for (size_t at = 0; at < holed.data.size(); at += kSectorBytes) {
    if (!loses_all && random() % 2 == 0) continue;
    const size_t size = std::min(kSectorBytes, holed.data.size() - at);
    holed.data.replace(at, size, size, '\0');
  }
  return holed;
}

// Returns what is left of a change, like DiskModel::Survivor.
using Left = std::function<const DiskChange*(size_t, const DiskChange&)>;

DiskState AfterAll(const DiskModel& model, const KeptFn& kept,
                   const Left& left) {
  return model.After([&](size_t i, const DiskChange& change) {
    // Call `left` even for kept changes, so that the random sequence stays the
    // same.
    const DiskChange* const survivor = left(i, change);
    return kept && kept(i) ? &change : survivor;
  });
}

DiskState LoseSome(const DiskModel& model, uint64_t seed, const KeptFn& kept) {
  Random random(seed);
  const uint64_t kept_percent = std::array{20, 50, 80, 95}[random() % 4];
  DiskChange left;
  return AfterAll(model, kept,
                  [&](size_t, const DiskChange& change) -> const DiskChange* {
                    if (Below(random, 100) < kept_percent) return &change;
                    if (change.kind != Kind::kWrite || change.data.empty())
                      return nullptr;
                    const uint64_t fate = random() % 3;
                    if (fate == 0) return nullptr;
                    left = fate == 1 ? Torn(change, kSectorBytes, random)
                                     : Holed(change, random);
                    return &left;
                  });
}

DiskState TearLast(const DiskModel& model, uint64_t unit, uint64_t seed,
                   const KeptFn& kept) {
  Random random(seed);
  DiskChange left;
  return AfterAll(
      model, kept,
      [&](size_t i, const DiskChange& change) -> const DiskChange* {
        const bool is_last = i + 1 == model.pending_count();
        if (!is_last || change.kind != Kind::kWrite || change.data.empty()) {
          return &change;
        }
        left = Torn(change, unit, random);
        return &left;
      });
}

void VisitPrefix(const DiskRecord& record, const DiskModel& model,
                 size_t prefix, const StateChoice& choice, const Visit& visit,
                 uint64_t& state_count) {
  const auto show = [&](Loss loss, uint64_t seed) {
    const CrashState crash{prefix, loss, seed};
    if (choice.wanted && !choice.wanted(crash)) return;
    visit(crash, model);
    ++state_count;
  };
  for (const Loss loss :
       {Loss::kNothing, Loss::kData, Loss::kNames, Loss::kUnsynced}) {
    show(loss, 0);
  }
  for (uint64_t seed = 0; seed < choice.seed_count; ++seed) {
    show(Loss::kSome, choice.first_seed + prefix * choice.seed_count + seed);
  }
  if (prefix == 0 || record.changes[prefix - 1].kind != Kind::kWrite) return;
  show(Loss::kTorn512, choice.first_seed + prefix);
  show(Loss::kTorn4096, choice.first_seed + prefix);
}

}  // namespace

std::string_view LossName(Loss loss) {
  constexpr std::string_view kNames[] = {
      "nothing lost",      "data lost",          "names lost",
      "all unsynced lost", "some unsynced lost", "torn at 512 bytes",
      "torn at 4096 bytes"};
  return kNames[static_cast<size_t>(loss)];
}

DiskState StateAfter(const DiskModel& model, Loss loss, uint64_t seed,
                     const KeptFn& kept) {
  switch (loss) {
    case Loss::kSome:
      return LoseSome(model, seed, kept);
    case Loss::kTorn512:
      return TearLast(model, 512, seed, kept);
    case Loss::kTorn4096:
      return TearLast(model, 4096, seed, kept);
    default:
      return AfterAll(
          model, kept,
          [&](size_t, const DiskChange& change) -> const DiskChange* {
            const bool is_lost =
                loss == Loss::kUnsynced ||
                loss == (change.is_data() ? Loss::kData : Loss::kNames);
            return is_lost ? nullptr : &change;
          });
  }
}

std::string Describe(const CrashState& crash, const DiskRecord& record) {
  constexpr std::string_view kKinds[] = {"create", "mkdir",  "write",
                                         "resize", "rename", "exchange",
                                         "link",   "remove", "sync"};
  std::string text = "after " + std::to_string(crash.prefix) + " of " +
                     std::to_string(record.changes.size()) + " changes";
  if (crash.prefix > 0) {
    const DiskChange& last = record.changes[crash.prefix - 1];
    text += " (" + std::string(kKinds[static_cast<size_t>(last.kind)]) + " " +
            last.name + ")";
  }
  return text + ", " + std::string(LossName(crash.loss)) + ", seed " +
         std::to_string(crash.seed);
}

uint64_t VisitCrashStates(const DiskRecord& record, const StateChoice& choice,
                          const Visit& visit) {
  DiskModel model(record.start);
  uint64_t state_count = 0;
  VisitPrefix(record, model, 0, choice, visit, state_count);
  for (size_t prefix = 1; prefix <= record.changes.size(); ++prefix) {
    model.Step(record.changes[prefix - 1]);
    VisitPrefix(record, model, prefix, choice, visit, state_count);
  }
  return state_count;
}

}  // namespace holdfast
