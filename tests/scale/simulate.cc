// simulate: plans, writes and merges a checkpoint of many virtual ranks with
// the engine's own code on a store in memory, and reports the cost.
//
//   simulate [--ranks N] [--arrays N] [--shards N] [--plans N]
//            [--value-bytes N] [--parts real|quick|none [--shapes N]]
//
// Each array is spread over `--shards` neighboring ranks (default: all), with
// one device each, in a mesh of two replicas that write half a shard each.
// Arrays are assigned to groups of ranks in turn, like the stages of a
// pipeline. The steps are:
//
// plan   `--plans` ranks (default 3) each make their boxes, the tree, the save
//        plan and its checksums, in separate processes. The slowest counts.
// write  Every rank writes its part. With `quick`, ranks other than 0 put their
//        chunks into their databases without planning, and do not write their
//        array_metadatas; only the sizes of these are computed. `quick` is the
//        default if ranks x arrays is above 2 million. `none` stops after the
//        plans, for which `--shapes` is the number of distinct shapes.
// merge  Rank 0 merges the parts when all ranks have written.
// open   A rank opens the checkpoint for a restore, before it reads values.
//
// Exits with 1 when anything fails, or when the merge read a value.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "engine/format/directory_names.h"
#include "engine/format/part_file.h"
#include "engine/restore/item.h"
#include "engine/save/plan_checksums.h"
#include "engine/save/save_options.h"
#include "engine/save/value_sink.h"
#include "formats/zarr/format/chunk_key.h"
#include "ground/base/status_macros.h"
#include "ground/run/run.h"
#include "scale/virtual_ranks.h"
#include "stores/storage/memory_store.h"
#include "twins/counting_store.h"

namespace holdfast::testing {
namespace {

struct Setup {
  int64_t rank_count = 64;
  int64_t array_count = 200;
  int64_t shard_count = 0;  // per array; 0 means one per rank
  int64_t plan_count = 3;
  // More than the 1024 bytes that a database stores inline.
  int64_t value_bytes = 1028;
  int64_t shape_count = 1;
  std::string parts = "auto";  // real, quick, none

  int64_t group_count() const { return rank_count / shard_count; }
  bool quick() const {
    if (parts != "auto") return parts == "quick";
    return rank_count * array_count > 2'000'000;
  }
};

void Report(const char* what, double value, const char* unit) {
  std::printf("%-34s %14.6g %s\n", what, value, unit);
  std::fflush(stdout);
}

// Measures wall clock and processor time of this process since construction or
// the last report.
class Clock {
 public:
  void Report(const char* what, int64_t share_count = 1) {
    const double wall = wall_.Lap() / share_count;
    const std::clock_t now = std::clock();
    const double used =
        static_cast<double>(now - used_) / CLOCKS_PER_SEC / share_count;
    std::printf("%-34s %14.6g s, of a processor %.6g s\n", what, wall, used);
    std::fflush(stdout);
    Restart();
  }
  void Restart() {
    wall_.Lap();
    used_ = std::clock();
  }
  double used_seconds() const {
    return static_cast<double>(std::clock() - used_) / CLOCKS_PER_SEC;
  }

 private:
  Stopwatch wall_;
  std::clock_t used_ = std::clock();
};

// Returns a field of /proc/self/status, such as "VmHWM:", in bytes.
int64_t MemoryBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kib = 0;
  while (status >> word) {
    if (word == field) status >> kib;
  }
  return kib * 1024;
}

NamedSharding ShardingOfGroup(const Setup& setup, int64_t group) {
  NamedSharding sharding;
  const int64_t replica_count = setup.shard_count % 2 == 0 ? 2 : 1;
  sharding.mesh.axis_names = {"replica", "fsdp"};
  sharding.mesh.shape = {replica_count, setup.shard_count / replica_count};
  for (int64_t i = 0; i < setup.shard_count; ++i) {
    sharding.mesh.device_ids.push_back(group * setup.shard_count + i);
  }
  sharding.spec = {{"fsdp"}};
  return sharding;
}

std::string NameOf(int64_t array) {
  char name[64];
  std::snprintf(name, sizeof name, "layer_%06lld",
                static_cast<long long>(array / 4));
  // Names are in key order, so that leaf i is array i.
  constexpr const char* kParts[] = {"attention.output", "attention.query",
                                    "mlp.down", "mlp.up"};
  return std::string("params.") + name + "." + kParts[array % 4] + ".kernel";
}

// Adds a leaf at the keys of its name, in a tree of nested dicts.
void AddAt(Tree& tree, const std::string& name, Tree leaf) {
  const size_t dot = name.find('.');
  if (dot == std::string::npos) {
    tree.Add(name, std::move(leaf));
    return;
  }
  const std::string key = name.substr(0, dot);
  if (tree.keys().empty() || tree.keys().back() != key) {
    tree.Add(key, Tree::Dict());
  }
  AddAt(tree.mutable_child(tree.size() - 1), name.substr(dot + 1),
        std::move(leaf));
}

// Returns one array per shape, which the tree's arrays use in turn. All borrow
// the same elements.
std::vector<Array> Wholes(const Setup& setup) {
  const int64_t columns = setup.value_bytes / 4;
  const int64_t columns_max = columns + setup.shape_count - 1;
  const auto elements =
      std::make_shared<std::vector<float>>(setup.shard_count * columns_max);
  for (size_t i = 0; i < elements->size(); ++i) (*elements)[i] = i;
  std::vector<Array> wholes;
  for (int64_t i = 0; i < setup.shape_count; ++i) {
    const Shape shape = {setup.shard_count, columns + i};
    const ConstArrayView view{DType::kFloat32,
                              reinterpret_cast<const char*>(elements->data()),
                              shape, ContiguousStrides(shape, 4)};
    wholes.push_back(Array::Borrow(view, elements));
  }
  return wholes;
}

VirtualSave SaveOf(const Setup& setup) {
  VirtualSave save;
  save.process_count = setup.rank_count;
  save.options.compression = Compression::kNone;
  save.options.chunk_bytes = 0;
  save.options.run.threads = 1;
  return save;
}

Result<Tree> TreeOfRank(const Setup& setup, const std::vector<Array>& wholes,
                        int64_t rank) {
  std::vector<SpreadLeaves> groups;
  for (int64_t group = 0; group < setup.group_count(); ++group) {
    HF_ASSIGN_OR_RETURN(
        SpreadLeaves leaves,
        SpreadLeaves::OfRank(ShardingOfGroup(setup, group), {}, rank, {}));
    groups.push_back(std::move(leaves));
  }
  Tree tree = Tree::Dict();
  for (int64_t i = 0; i < setup.array_count; ++i) {
    HF_ASSIGN_OR_RETURN(
        Tree leaf, groups[i % groups.size()].Leaf(wholes[i % wholes.size()]));
    AddAt(tree, NameOf(i), std::move(leaf));
  }
  return tree;
}

struct PlanCost {
  double seconds = 0;
  double processor_seconds = 0;
  int64_t peak_bytes = 0;
  uint64_t value_count = 0;
  bool ok = false;
};

PlanCost PlanRank(const Setup& setup, int64_t rank) {
  const std::vector<Array> wholes = Wholes(setup);
  const VirtualSave save = SaveOf(setup);
  const int64_t before_bytes = MemoryBytes("VmRSS:");
  PlanCost cost;
  Stopwatch watch;
  const Clock clock;
  const auto tree = TreeOfRank(setup, wholes, rank);
  if (!tree.ok()) return cost;
  const auto plan = MakeSavePlan(*tree, save.options, PartOfRank(save, rank));
  if (!plan.ok()) return cost;
  const PlanChecksums checksums = ChecksumsOf(*plan);
  cost.seconds = watch.Lap();
  cost.processor_seconds = clock.used_seconds();
  cost.peak_bytes = MemoryBytes("VmHWM:") - before_bytes;
  cost.value_count = plan->value_count;
  cost.ok = checksums.leaf_count > 0;
  return cost;
}

// Plans for one rank in a separate process, whose memory use is then that of
// the plan, and returns the cost.
PlanCost PlanRankApart(const Setup& setup, int64_t rank) {
  int ends[2];
  PlanCost cost;
  if (pipe(ends) != 0) return cost;
  const pid_t child = fork();
  if (child == 0) {
    const PlanCost mine = PlanRank(setup, rank);
    const bool sent = write(ends[1], &mine, sizeof mine) == sizeof mine;
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &cost, sizeof cost) != sizeof cost) {
    cost.ok = false;
  }
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return cost;
}

Status SimulatePlans(const Setup& setup) {
  PlanCost worst;
  for (int64_t i = 0; i < setup.plan_count; ++i) {
    const int64_t rank = setup.plan_count == 1 ? 0
                                               : i * (setup.rank_count - 1) /
                                                     (setup.plan_count - 1);
    const PlanCost cost = PlanRankApart(setup, rank);
    if (!cost.ok) {
      return InternalError("rank " + std::to_string(rank) + " made no plan");
    }
    worst.seconds = std::max(worst.seconds, cost.seconds);
    worst.processor_seconds =
        std::max(worst.processor_seconds, cost.processor_seconds);
    worst.peak_bytes = std::max(worst.peak_bytes, cost.peak_bytes);
  }
  Report("plan, slowest rank", worst.seconds, "s");
  Report("plan, slowest rank, processor", worst.processor_seconds, "s");
  Report("plan, peak memory of a rank", worst.peak_bytes / 1e6, "MB");
  return Status();
}

// Writes what SaveRank leaves for a rank other than the first, except its
// array_metadatas.
Status WriteQuickPart(const Setup& setup, const VirtualSave& save,
                      const SavePlan& plan, const PlanChecksums& checksums,
                      const Array& whole, int64_t rank, Store& store) {
  const int64_t group = rank / setup.shard_count;
  const int64_t chunk = rank % setup.shard_count;
  std::vector<const PlannedArray*> mine;
  for (const PlannedArray& array : plan.arrays) {
    if (static_cast<int64_t>(array.leaf) % setup.group_count() == group) {
      mine.push_back(&array);
    }
  }
  const SaveOptions options = WithSources(save.options);
  ValueSinkOptions sink_options;
  sink_options.value_count = mine.size();
  sink_options.sync = false;
  sink_options.target_data_file_bytes = options.ocdbt_target_data_file_bytes;
  sink_options.commit_time_ns = options.now_ns();
  sink_options.random_hex = options.random_hex;
  sink_options.process = {std::to_string(rank), false};
  sink_options.must_merge = false;
  PartFile part;
  part.rank = rank;
  part.save_id = kVirtualSaveId;
  part.plan = checksums;
  if (!mine.empty()) {
    part.database = ProcessPrefix(sink_options);
    HF_ASSIGN_OR_RETURN(const auto sink, MakeValueSink(&store, sink_options));
    for (size_t i = 0; i < mine.size(); ++i) {
      EncodedChunk value;
      value.byte_count = setup.value_bytes;
      value.pieces = {std::string_view(whole.view().data, value.byte_count)};
      const ArrayLayout& layout = *mine[i]->layout->array;
      HF_RETURN_IF_ERROR(
          sink->Put(i,
                    zarr::ChunkKey(mine[i]->name + "/", layout.format.metadata,
                                   {chunk, 0}),
                    std::move(value), layout.known_by, nullptr));
    }
    HF_RETURN_IF_ERROR(sink->Finish(part.digests));
    HF_ASSIGN_OR_RETURN(const Bytes manifest,
                        store.Read(part.database + std::string(kManifestFile)));
    part.manifest_checksum = ManifestChecksum(manifest.view());
  }
  return store.Write(PartFileName(rank), SerializePartFile(part));
}

Status WriteParts(const Setup& setup, const VirtualSave& save, Store& store) {
  const std::vector<Array> wholes = Wholes(setup);
  HF_ASSIGN_OR_RETURN(const Tree first, TreeOfRank(setup, wholes, 0));
  Clock clock;
  HF_RETURN_IF_ERROR(SaveRank(save, 0, first, store));
  clock.Report("write, rank 0");
  HF_ASSIGN_OR_RETURN(const SavePlan plan,
                      MakeSavePlan(first, save.options, PartOfRank(save, 0)));
  const PlanChecksums checksums = ChecksumsOf(plan);
  clock.Restart();
  for (int64_t rank = 1; rank < setup.rank_count; ++rank) {
    if (setup.quick()) {
      HF_RETURN_IF_ERROR(
          WriteQuickPart(setup, save, plan, checksums, wholes[0], rank, store));
      continue;
    }
    HF_ASSIGN_OR_RETURN(const Tree tree, TreeOfRank(setup, wholes, rank));
    HF_RETURN_IF_ERROR(SaveRank(save, rank, tree, store));
  }
  clock.Report(setup.quick() ? "write, mean of others (quick)"
                             : "plan and write, mean of others",
               std::max<int64_t>(setup.rank_count - 1, 1));
  return Status();
}

// The sizes of the store's contents, by purpose.
struct Weights {
  uint64_t file_count = 0;
  uint64_t total_bytes = 0;
  uint64_t process_bytes = 0;  // databases of the processes, values included
  uint64_t root_bytes = 0;     // the merged database
  uint64_t part_bytes = 0;
  uint64_t array_metadatas_bytes = 0;
  uint64_t array_metadatas_count = 0;
  uint64_t sharding_bytes = 0;
  uint64_t tree_bytes = 0;
  uint64_t digest_bytes = 0;
};

Result<Weights> Weigh(Store& store) {
  Weights weights;
  HF_RETURN_IF_ERROR(
      store.List("", [&](std::string_view key, const ObjectInfo& info) {
        const uint64_t bytes = info.byte_count;
        ++weights.file_count;
        weights.total_bytes += bytes;
        if (key.starts_with(kProcessDirectoryPrefix)) {
          weights.process_bytes += bytes;
        } else if (key.starts_with("_HOLDFAST_PART_")) {
          weights.part_bytes += bytes;
        } else if (key.starts_with(kArrayMetadatasDirectory)) {
          weights.array_metadatas_bytes += bytes;
          ++weights.array_metadatas_count;
        } else if (key == kShardingFile) {
          weights.sharding_bytes += bytes;
        } else if (key == kTreeMetadataFile) {
          weights.tree_bytes += bytes;
        } else if (key == kDigestFile) {
          weights.digest_bytes += bytes;
        } else {
          weights.root_bytes += bytes;
        }
        return Status();
      }));
  return weights;
}

void ReportWeights(const Setup& setup, const Weights& parts,
                   const Weights& weights, uint64_t value_bytes) {
  Report("values", value_bytes / 1e6, "MB");
  Report("process databases, but for values",
         (weights.process_bytes - value_bytes) / 1e6, "MB");
  Report("merged database", weights.root_bytes / 1e6, "MB");
  Report("parts, removed by the merge", parts.part_bytes / 1e6, "MB");
  Report("_METADATA", weights.tree_bytes / 1e6, "MB");
  Report("_sharding", weights.sharding_bytes / 1e6, "MB");
  Report("_HOLDFAST_DIGESTS", weights.digest_bytes / 1e6, "MB");
  const double each = static_cast<double>(weights.array_metadatas_bytes) /
                      weights.array_metadatas_count;
  Report("array_metadatas of all ranks", each * setup.rank_count / 1e6, "MB");
  Report("files",
         weights.file_count + setup.rank_count - weights.array_metadatas_count,
         "");
}

Status OpenMerged(std::shared_ptr<Store> store, CountingStore& counting) {
  ItemPlace place;
  place.directory = Place("memory");
  place.kind = ItemKind::kPytree;
  place.store = std::move(store);
  counting.ResetCounters();
  Clock clock;
  HF_ASSIGN_OR_RETURN(const auto item, Item::Open(place, {}));
  clock.Report("open");
  Report("open, bytes read", counting.counters().read_bytes / 1e6, "MB");
  for (const StoredLeaf& leaf : item->leaves()) {
    HF_RETURN_IF_ERROR(leaf.problem);
  }
  return Status();
}

Status Simulate(const Setup& setup) {
  HF_RETURN_IF_ERROR(SimulatePlans(setup));
  if (setup.parts == "none") return Status();
  const VirtualSave save = SaveOf(setup);
  MemoryStore memory;
  auto counting = std::make_shared<CountingStore>(&memory);
  HF_RETURN_IF_ERROR(WriteParts(setup, save, *counting));
  HF_ASSIGN_OR_RETURN(const Weights parts, Weigh(memory));
  const uint64_t value_count = setup.array_count * setup.shard_count;
  const uint64_t value_bytes = value_count * setup.value_bytes;
  counting->ResetCounters();
  Clock clock;
  HF_RETURN_IF_ERROR(Finish(save, *counting).status());
  clock.Report("merge");
  Report("merge, chunks", value_count, "");
  const StoreCounters counters = counting->counters();
  Report("merge, reads", counters.read_calls, "");
  Report("merge, bytes read", counters.read_bytes / 1e6, "MB");
  HF_ASSIGN_OR_RETURN(const Weights weights, Weigh(memory));
  ReportWeights(setup, parts, weights, value_bytes);
  HF_RETURN_IF_ERROR(OpenMerged(counting, *counting));
  Report("peak memory of the simulation", MemoryBytes("VmHWM:") / 1e6, "MB");
  // A merge may read the parts, and the bytes of the databases that are not
  // values. It reads manifests twice.
  const uint64_t other_bytes =
      parts.part_bytes + 2 * (parts.process_bytes - value_bytes);
  if (counters.read_bytes <= other_bytes) return Status();
  return InternalError(
      "the merge has read values: " + std::to_string(counters.read_bytes) +
      " bytes, of " + std::to_string(other_bytes) + " that are none");
}

std::optional<Setup> ParseSetup(int argc, char** argv) {
  Setup setup;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const int64_t value = std::atoll(argv[i + 1]);
    if (flag == "--ranks") {
      setup.rank_count = value;
    } else if (flag == "--arrays") {
      setup.array_count = value;
    } else if (flag == "--shards") {
      setup.shard_count = value;
    } else if (flag == "--plans") {
      setup.plan_count = value;
    } else if (flag == "--value-bytes") {
      setup.value_bytes = value;
    } else if (flag == "--shapes") {
      setup.shape_count = value;
    } else if (flag == "--parts") {
      setup.parts = argv[i + 1];
    } else {
      return std::nullopt;
    }
  }
  if (setup.shard_count == 0) setup.shard_count = setup.rank_count;
  if (argc % 2 == 0 || setup.rank_count < 1 || setup.array_count < 1 ||
      setup.plan_count < 1 || setup.shard_count < 1 ||
      setup.value_bytes <= 1024 || setup.value_bytes % 4 != 0 ||
      setup.rank_count % setup.shard_count != 0 || setup.shape_count < 1 ||
      (setup.shape_count > 1 && setup.parts != "none")) {
    return std::nullopt;
  }
  return setup;
}

int Main(int argc, char** argv) {
  const std::optional<Setup> setup = ParseSetup(argc, argv);
  if (!setup) {
    std::fprintf(stderr,
                 "usage: simulate [--ranks N] [--arrays N] [--shards N] "
                 "[--plans N] [--value-bytes N] "
                 "[--parts real|quick|none [--shapes N]]\n"
                 "N from 1; shards divide ranks; values of more than 1024 "
                 "bytes, whole floats\n");
    return 2;
  }
  std::printf("%lld ranks, %lld arrays, each over %lld ranks\n",
              static_cast<long long>(setup->rank_count),
              static_cast<long long>(setup->array_count),
              static_cast<long long>(setup->shard_count));
  const Status status = Simulate(*setup);
  if (status.ok()) return 0;
  std::fprintf(stderr, "simulate: %s\n", status.ToString().c_str());
  return 1;
}

}  // namespace
}  // namespace holdfast::testing

int main(int argc, char** argv) { return holdfast::testing::Main(argc, argv); }
