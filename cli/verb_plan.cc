// plan: shows what each process would hold, write and read, under a mesh and
// specs.

#include <algorithm>
#include <cstdio>

#include "cli/failures.h"
#include "cli/leaf_plan.h"
#include "cli/leaf_text.h"
#include "cli/select.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"

namespace holdfast::cli {
namespace {

struct PlanArgs : Args {
  bool long_listing = false;
  std::optional<Mesh> mesh;
  std::vector<SpecRule> spec_rules;  // as typed; the last matching rule counts
  int64_t process_count = 0;         // 0: one per device
  std::optional<int64_t> rank;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("long", long_listing);
    fn("mesh", mesh);
    fn("spec", spec_rules);
    fn("process_count", process_count);
    fn("rank", rank);
  }
};

// If there are more processes than this, they are listed only with --long.
constexpr size_t kRankLinesMax = 32;
constexpr int kProblemLinesMax = 10;

struct Totals {
  Totals(const LeafPlanner& planner, std::optional<int64_t> rank) {
    for (int64_t r = 0; r < planner.process_count(); ++r) {
      if (!rank || *rank == r) by_rank[r] = {};
    }
  }

  std::map<int64_t, RankLoad> by_rank;
  RankLoad all;

  void Add(const std::map<int64_t, RankLoad>& loads) {
    for (const auto& [rank, load] : loads) {
      by_rank[rank].Add(load);
      all.Add(load);
    }
  }
  // Returns the bytes that the busiest process writes, relative to the mean, or
  // 1 if nothing is written.
  double Balance() const {
    uint64_t most = 0;
    for (const auto& [rank, load] : by_rank) {
      most = std::max(most, load.write_bytes);
    }
    if (all.write_bytes == 0) return 1;
    return static_cast<double>(most) * static_cast<double>(by_rank.size()) /
           static_cast<double>(all.write_bytes);
  }
};

RankLoad SumOf(const PlannedLeaf& plan) {
  RankLoad sum;
  for (const auto& [rank, load] : plan.loads) sum.Add(load);
  return sum;
}

// Returns the bytes read per byte needed, or 1 if nothing is needed.
double Amplification(const RankLoad& load) {
  if (load.need_bytes == 0) return 1;
  return static_cast<double>(load.read_bytes) /
         static_cast<double>(load.need_bytes);
}

std::string TimesText(double times) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2fx", times);
  return text;
}

// Reports the leaves that do not fit, and counts them.
class Problems {
 public:
  explicit Problems(Env& env) : env_(env) {}

  void Add(const LeafInfo& leaf, const Status& problem) {
    if (++count_ > kProblemLinesMax) return;
    Fail(env_, problem.WithContext("leaf " + leaf.name));
  }
  int ExitCode() {
    if (count_ > kProblemLinesMax) {
      env_.err << "holdfast: and " << count_ - kProblemLinesMax << " more\n";
    }
    return count_ == 0 ? kExitFine : kExitUsage;
  }

 private:
  Env& env_;
  int count_ = 0;
};

// Prints leaves, devices and processes as tables.
class PlanTables {
 public:
  PlanTables(const LeafPlanner& planner, const PlanArgs& args, Env& env)
      : planner_(planner),
        args_(args),
        env_(env),
        totals_(planner, args.rank) {}

  void Add(const LeafInfo& leaf, const PlannedLeaf& plan) {
    totals_.Add(plan.loads);
    const RankLoad sum = SumOf(plan);
    const std::string name = PrintableText(leaf.name);
    leaves_.AddRow(
        {name, TypeText(leaf),
         plan.is_spread ? SpecText(plan.spec) : "process 0",
         ShapeText(plan.layout.shard_shape), ShapeText(plan.layout.write_shape),
         ShapeText(leaf.chunk_shape), std::to_string(plan.layout.replica_count),
         std::to_string(sum.chunk_count), HumanBytes(sum.need_bytes),
         TimesText(Amplification(sum))});
    if (!args_.long_listing) return;
    for (const PlannedDevice& device : plan.devices) {
      const DeviceShard& shard = device.share.shard;
      devices_.AddRow(
          {name, std::to_string(device.rank), std::to_string(shard.device_id),
           std::to_string(shard.replica_id), BoxText(shard.origin, shard.shape),
           device.share.write_origin
               ? BoxText(*device.share.write_origin, plan.layout.write_shape)
               : "-"});
    }
  }

  void Print() {
    leaves_.Print(TableStyleOf(args_, env_), env_.out);
    if (args_.long_listing) {
      env_.out << '\n';
      devices_.Print(TableStyleOf(args_, env_), env_.out);
    }
    env_.out << '\n';
    PrintRanks();
    if (args_.quiet) return;
    env_.out << Counted(planner_.device_count(), "device", "devices") << ", "
             << Counted(planner_.process_count(), "process", "processes")
             << ", written " << HumanBytes(totals_.all.write_bytes)
             << ", the busiest " << TimesText(totals_.Balance())
             << " the mean; read " << HumanBytes(totals_.all.read_bytes)
             << " for " << HumanBytes(totals_.all.need_bytes) << " needed, "
             << TimesText(Amplification(totals_.all)) << '\n';
  }

 private:
  void PrintRanks() {
    TextTable table({{"PROCESS", Align::kRight},
                     {"WRITES", Align::kRight},
                     {"NEEDS", Align::kRight},
                     {"READS", Align::kRight},
                     {"CHUNKS", Align::kRight}});
    size_t line_count = 0;
    for (const auto& [rank, load] : totals_.by_rank) {
      if (++line_count > kRankLinesMax && !args_.long_listing) break;
      table.AddRow({std::to_string(rank), HumanBytes(load.write_bytes),
                    HumanBytes(load.need_bytes), HumanBytes(load.read_bytes),
                    std::to_string(load.chunk_count)});
    }
    table.Print(TableStyleOf(args_, env_), env_.out);
    if (line_count > kRankLinesMax && !args_.long_listing && !args_.quiet) {
      env_.out << "and " << totals_.by_rank.size() - kRankLinesMax
               << " more processes (--long)\n";
    }
  }

  const LeafPlanner& planner_;
  const PlanArgs& args_;
  Env& env_;
  Totals totals_;
  TextTable leaves_{{{"NAME", Align::kLeft, Fit::kShortenName},
                     {"TYPE", Align::kLeft, Fit::kDrop},
                     {"SPEC", Align::kLeft, Fit::kDrop},
                     {"SHARD"},
                     {"WRITE", Align::kLeft, Fit::kDrop},
                     {"CHUNK", Align::kLeft, Fit::kDrop},
                     {"REPLICAS", Align::kRight, Fit::kDrop},
                     {"CHUNKS", Align::kRight, Fit::kDrop},
                     {"NEEDS", Align::kRight},
                     {"READS", Align::kRight}}};
  TextTable devices_{{{"NAME", Align::kLeft, Fit::kShortenName},
                      {"PROCESS", Align::kRight},
                      {"DEVICE", Align::kRight},
                      {"REPLICA", Align::kRight, Fit::kDrop},
                      {"HOLDS"},
                      {"WRITES", Align::kLeft, Fit::kDrop}}};
};

void WriteSpec(const PlannedLeaf& plan, JsonWriter* json) {
  if (!plan.is_spread) {
    json->NullField("spec");
    return;
  }
  json->Key("spec");
  json->BeginArray();
  for (const std::vector<std::string>& entry : plan.spec) {
    json->BeginArray();
    for (const std::string& axis : entry) json->String(axis);
    json->EndArray();
  }
  json->EndArray();
}

void WriteLoads(const std::map<int64_t, RankLoad>& loads, JsonWriter* json) {
  json->Key("processes");
  json->BeginArray();
  for (const auto& [rank, load] : loads) {
    json->BeginObject();
    json->Field("process", rank);
    json->Field("write_bytes", load.write_bytes);
    json->Field("need_bytes", load.need_bytes);
    json->Field("read_bytes", load.read_bytes);
    json->Field("chunk_count", load.chunk_count);
    json->EndObject();
  }
  json->EndArray();
}

void WriteDevices(const std::vector<PlannedDevice>& devices, JsonWriter* json) {
  json->Key("devices");
  json->BeginArray();
  for (const PlannedDevice& device : devices) {
    const DeviceShard& shard = device.share.shard;
    json->BeginObject();
    json->Field("device", shard.device_id);
    json->Field("process", device.rank);
    json->Field("replica", shard.replica_id);
    json->ShapeField("origin", shard.origin);
    if (device.share.write_origin) {
      json->ShapeField("write_origin", *device.share.write_origin);
    } else {
      json->NullField("write_origin");
    }
    json->EndObject();
  }
  json->EndArray();
}

void WritePlannedLeaf(const LeafInfo& leaf, const PlannedLeaf& plan,
                      JsonWriter* json) {
  json->BeginObject();
  json->Field("name", leaf.name);
  json->Field("dtype", DTypeName(*leaf.dtype));
  json->ShapeField("shape", leaf.shape);
  json->ShapeField("chunk_shape", leaf.chunk_shape);
  if (plan.problem.ok()) {
    WriteSpec(plan, json);
    json->ShapeField("shard_shape", plan.layout.shard_shape);
    json->ShapeField("write_shape", plan.layout.write_shape);
    json->Field("replica_count", plan.layout.replica_count);
    json->Field("writer_count", plan.layout.writer_count);
    WriteDevices(plan.devices, json);
    WriteLoads(plan.loads, json);
  } else {
    json->Field("error", plan.problem.message());
  }
  json->EndObject();
}

int PrintPlanText(const LeafPlanner& planner, const PlanArgs& args, Env& env) {
  Problems problems(env);
  PlanTables tables(planner, args, env);
  for (size_t i = 0; i < planner.leaves().size() && !env.cancelled(); ++i) {
    const LeafInfo& leaf = *planner.leaves()[i];
    const PlannedLeaf plan = planner.Plan(i);
    if (plan.problem.ok()) {
      tables.Add(leaf, plan);
    } else {
      problems.Add(leaf, plan.problem);
    }
  }
  tables.Print();
  return problems.ExitCode();
}

int PrintPlanJson(const LeafPlanner& planner, const PlanArgs& args, Env& env) {
  Problems problems(env);
  Totals totals(planner, args.rank);
  JsonWriter json(env.out);
  json.BeginObject();
  json.Field("path", args.operands[0]);
  json.Field("device_count", planner.device_count());
  json.Field("process_count", planner.process_count());
  json.Key("leaves");
  json.BeginArray();
  for (size_t i = 0; i < planner.leaves().size() && !env.cancelled(); ++i) {
    const LeafInfo& leaf = *planner.leaves()[i];
    const PlannedLeaf plan = planner.Plan(i);
    WritePlannedLeaf(leaf, plan, &json);
    totals.Add(plan.loads);
    if (!plan.problem.ok()) problems.Add(leaf, plan.problem);
  }
  json.EndArray();
  WriteLoads(totals.by_rank, &json);
  json.Field("write_balance", totals.Balance());
  json.Field("read_amplification", Amplification(totals.all));
  json.EndObject();
  env.out << '\n';
  return problems.ExitCode();
}

int RunPlan(const PlanArgs& args, Env& env) {
  if (!args.mesh && !args.spec_rules.empty()) {
    return FailUsage(env, "--spec needs --mesh");
  }
  const auto opened = Open(args.operands[0], args.open);
  if (!opened.ok()) return Fail(env, opened.status());
  const std::vector<LeafInfo>& all = (*opened)->leaves();
  const auto selected = SelectLeaves(all, std::span(args.operands).subspan(1),
                                     PatternKindOf(args));
  if (!selected.ok()) return Fail(env, selected.status());
  std::vector<const LeafInfo*> leaves;
  for (const size_t i : *selected) {
    if (IsPlannable(all[i])) leaves.push_back(&all[i]);
  }
  const auto planner = LeafPlanner::Make(
      std::move(leaves),
      {args.mesh, args.spec_rules, args.process_count, args.rank});
  if (!planner.ok()) return Fail(env, planner.status());
  return args.json ? PrintPlanJson(*planner, args, env)
                   : PrintPlanText(*planner, args, env);
}

}  // namespace

int RunPlan(const Words& words, Env& env) {
  return RunFilled<PlanArgs>(words, env, RunPlan);
}

}  // namespace holdfast::cli
