// An item can be restored in any layout, bit for bit, whatever layout it was
// saved in. Uses random pairs of layouts, virtual ranks, and a store in memory.
//
// HOLDFAST_RESHARD_PAIRS: the number of pairs (default 1000).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <random>

#include "ground/base/status_macros.h"
#include "orbax/handlers/param_reader.h"
#include "scale/virtual_ranks.h"
#include "stores/storage/memory_store.h"
#include "twins/host_reader.h"

namespace holdfast::testing {
namespace {

int PairCount() {
  const char* text = std::getenv("HOLDFAST_RESHARD_PAIRS");
  return text == nullptr ? 1000 : std::atoi(text);
}

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  int64_t Below(int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random_);
  }
  bool Once(int64_t in) { return Below(in) == 0; }
  template <typename T>
  T Pick(const std::vector<T>& from) {
    return from[Below(from.size())];
  }
  template <typename T>
  void Shuffle(std::vector<T>* list) {
    std::shuffle(list->begin(), list->end(), random_);
  }

 private:
  std::mt19937 random_;
};

// Devices, and the process that each belongs to.
struct Cluster {
  std::vector<int64_t> device_ids;
  DeviceProcesses processes;
  int64_t process_count = 1;
};

Cluster DrawCluster(Draw& draw) {
  Cluster cluster;
  cluster.process_count = draw.Pick<int64_t>({1, 1, 2, 2, 3, 4, 5, 8});
  const int64_t device_count = draw.Pick<int64_t>({1, 2, 3, 4, 6, 8, 12, 16});
  const bool is_sparse = draw.Once(2);
  for (int64_t i = 0; i < device_count; ++i) {
    // Assigns devices to processes in blocks, which may leave some processes
    // without devices, or at random.
    const int64_t rank = draw.Once(3)
                             ? draw.Below(cluster.process_count)
                             : i * cluster.process_count / device_count;
    const int64_t id = is_sparse ? 2048 * rank + i : i;
    cluster.device_ids.push_back(id);
    cluster.processes.rank_by_device[id] = rank;
  }
  return cluster;
}

// Arranges all devices of the cluster in a grid.
Mesh DrawMesh(const Cluster& cluster, Draw& draw) {
  Mesh mesh;
  int64_t left = cluster.device_ids.size();
  while (left > 1 || draw.Once(8)) {
    std::vector<int64_t> divisors;
    for (int64_t n = 1; n <= left; ++n) {
      if (left % n == 0) divisors.push_back(n);
    }
    const int64_t extent = mesh.shape.size() == 3 ? left : draw.Pick(divisors);
    mesh.axis_names.push_back(std::string(1, 'a' + mesh.shape.size()));
    mesh.shape.push_back(extent);
    left /= extent;
    if (mesh.shape.size() == 4) break;
  }
  mesh.device_ids = cluster.device_ids;
  if (draw.Once(2)) draw.Shuffle(&mesh.device_ids);
  return mesh;
}

// Draws a sharding that divides the shape evenly, as JAX requires.
NamedSharding DrawSharding(const Mesh& mesh, const Shape& shape, Draw& draw) {
  NamedSharding sharding{mesh, {}};
  std::vector<size_t> axes(mesh.shape.size());
  for (size_t i = 0; i < axes.size(); ++i) axes[i] = i;
  draw.Shuffle(&axes);
  Shape left = shape;
  sharding.spec.resize(shape.size());
  for (const size_t axis : axes) {
    if (shape.empty() || draw.Once(4)) continue;
    const size_t d = draw.Below(shape.size());
    if (left[d] % mesh.shape[axis] != 0) continue;
    left[d] /= mesh.shape[axis];
    sharding.spec[d].push_back(mesh.axis_names[axis]);
  }
  while (!sharding.spec.empty() && sharding.spec.back().empty() &&
         draw.Once(2)) {
    sharding.spec.pop_back();
  }
  return sharding;
}

Shape DrawShape(Draw& draw) {
  Shape shape(draw.Pick<int64_t>({0, 1, 1, 2, 2, 2, 3, 3, 4}));
  for (int64_t& extent : shape) {
    extent = draw.Pick<int64_t>({1, 2, 3, 4, 5, 6, 8, 12, 16, 24});
  }
  return shape;
}

Array DrawArray(const Shape& shape, Draw& draw) {
  const DType dtype =
      draw.Pick<DType>({DType::kInt8, DType::kBfloat16, DType::kFloat32,
                        DType::kFloat64, DType::kComplex128});
  std::string bytes(ElementCount(shape) * DTypeBytes(dtype), '\0');
  // Includes constant runs, which compress well.
  const bool is_noise = !draw.Once(4);
  for (char& byte : bytes) byte = is_noise ? draw.Below(256) : 7;
  return Array::FromBytes(dtype, shape, bytes.data());
}

// An array and how it is saved.
struct Subject {
  enum class Kind { kSpread, kWhole, kDeferred };
  std::string name;
  Array whole;
  Kind kind = Kind::kSpread;
  NamedSharding sharding;
};

std::vector<Subject> DrawSubjects(const Cluster& cluster, Draw& draw) {
  std::vector<Subject> subjects;
  const int64_t count = 1 + draw.Below(4);
  for (int64_t i = 0; i < count; ++i) {
    Subject subject;
    subject.name = "w" + std::to_string(i);
    subject.whole = DrawArray(DrawShape(draw), draw);
    if (draw.Once(6)) subject.kind = Subject::Kind::kWhole;
    if (draw.Once(6)) subject.kind = Subject::Kind::kDeferred;
    subject.sharding =
        DrawSharding(DrawMesh(cluster, draw), subject.whole.shape(), draw);
    subjects.push_back(std::move(subject));
  }
  return subjects;
}

ReplicaOptions DrawReplicaOptions(Draw& draw) {
  ReplicaOptions options;
  options.use_replica_parallel = !draw.Once(4);
  if (draw.Once(3)) options.min_slice_bytes = draw.Below(64);
  if (draw.Once(3)) options.max_replicas = draw.Below(5);
  return options;
}

SaveOptions DrawSaveOptions(const std::vector<Subject>& subjects, Draw& draw) {
  SaveOptions options;
  options.run.threads = 1;
  options.zarr_format = draw.Pick<int>({2, 3});
  options.use_ocdbt = !draw.Once(4);
  options.compression =
      draw.Pick<Compression>({Compression::kPlanes, Compression::kZstd,
                              Compression::kFast, Compression::kNone});
  options.chunk_bytes = draw.Pick<uint64_t>({0, 16, 64, 512, 8 << 20});
  options.write_digests = !draw.Once(4);
  for (const Subject& subject : subjects) {
    if (!draw.Once(5)) continue;
    options.save_args[subject.name].chunk_byte_size = 16 + draw.Below(200);
  }
  return options;
}

Result<Tree> TreeOfRank(const std::vector<Subject>& subjects,
                        const Cluster& cluster, int64_t rank,
                        const ReplicaOptions& options) {
  Tree tree = Tree::Dict();
  for (const Subject& subject : subjects) {
    if (subject.kind == Subject::Kind::kWhole) {
      tree.Add(subject.name, subject.whole);
      continue;
    }
    if (subject.kind == Subject::Kind::kDeferred) {
      tree.Add(subject.name, Tree::DeferredArray(
                                 subject.whole.dtype(), subject.whole.shape(),
                                 std::make_shared<HostReader>(subject.whole)));
      continue;
    }
    HF_ASSIGN_OR_RETURN(SpreadLeaves leaves,
                        SpreadLeaves::OfRank(subject.sharding,
                                             cluster.processes, rank, options));
    HF_ASSIGN_OR_RETURN(Tree leaf, leaves.Leaf(subject.whole));
    tree.Add(subject.name, std::move(leaf));
  }
  return tree;
}

Status SaveAll(const std::vector<Subject>& subjects, const Cluster& cluster,
               Draw& draw, Store& store) {
  VirtualSave save{DrawSaveOptions(subjects, draw), cluster.process_count};
  const ReplicaOptions replica_options = DrawReplicaOptions(draw);
  std::vector<int64_t> order;
  for (int64_t rank = 0; rank < cluster.process_count; ++rank) {
    order.push_back(rank);
  }
  draw.Shuffle(&order);
  for (const int64_t rank : order) {
    HF_ASSIGN_OR_RETURN(const Tree tree,
                        TreeOfRank(subjects, cluster, rank, replica_options));
    HF_RETURN_IF_ERROR(SaveRank(save, rank, tree, store));
  }
  return Finish(save, store).status();
}

// Draws the stored shape, or a shape with longer or shorter dimensions.
Shape DrawRestoreShape(const Shape& stored, Draw& draw) {
  Shape shape = stored;
  if (!draw.Once(3)) return shape;
  for (int64_t& extent : shape) {
    if (draw.Once(2)) extent = 1 + draw.Below(2 * extent + 4);
  }
  return shape;
}

// Returns the elements that a restore of `box` must give: the stored values,
// and zeros outside the stored shape.
Array Expected(const Array& stored, const Box& box) {
  const size_t element_bytes = DTypeBytes(stored.dtype());
  std::string bytes(ElementCount(box.shape) * element_bytes, '\0');
  Shape at(box.shape.size(), 0);
  for (int64_t i = 0; i < ElementCount(box.shape); ++i) {
    int64_t element = 0;
    bool is_inside = true;
    for (size_t d = 0; d < at.size(); ++d) {
      const int64_t place = box.origin[d] + at[d];
      is_inside &= place < stored.shape()[d];
      element = element * stored.shape()[d] + place;
    }
    if (is_inside) {
      std::memcpy(&bytes[i * element_bytes],
                  stored.view().data + element * element_bytes, element_bytes);
    }
    for (size_t d = at.size(); d-- > 0;) {
      if (++at[d] < box.shape[d]) break;
      at[d] = 0;
    }
  }
  return Array::FromBytes(stored.dtype(), box.shape, bytes.data());
}

// The shape and sharding in which an array is restored.
struct Wish {
  Shape shape;
  NamedSharding sharding;
};

// Does the work of one rank: opens the item, and reads each of the rank's boxes
// once.
void RestoreRank(const std::vector<Subject>& subjects,
                 const std::vector<Wish>& wishes, const Cluster& cluster,
                 int64_t rank, std::shared_ptr<Store> store) {
  ItemPlace place;
  place.directory = Place("memory");
  place.kind = ItemKind::kPytree;
  place.store = std::move(store);
  auto item = Item::Open(place, {});
  ASSERT_TRUE(item.ok()) << item.status().ToString();
  const ParamArrays params = ParamArrays::Of(std::move(item).value());
  ASSERT_EQ(params.size(), subjects.size());
  std::vector<BoxRead> reads;
  for (size_t i = 0; i < subjects.size(); ++i) {
    ASSERT_EQ(params.leaf(i).info.name, subjects[i].name);
    const auto planner =
        ShardPlanner::OfRank(wishes[i].sharding, cluster.processes, rank);
    const auto boxes = planner->Boxes(wishes[i].shape);
    ASSERT_TRUE(boxes.ok()) << boxes.status().ToString();
    const size_t first = reads.size();
    for (const DeviceShard& shard : *boxes) {
      const Box box{shard.origin, shard.shape};
      const auto is_same = [&](const BoxRead& read) { return read.box == box; };
      if (std::none_of(reads.begin() + first, reads.end(), is_same)) {
        reads.push_back({i, box, std::nullopt});
      }
    }
  }
  const auto arrays = ReadBoxes(params, reads);
  ASSERT_TRUE(arrays.ok()) << arrays.status().ToString();
  for (size_t i = 0; i < reads.size(); ++i) {
    const Array want = Expected(subjects[reads[i].param].whole, reads[i].box);
    const Array& got = (*arrays)[i];
    ASSERT_EQ(got.dtype(), want.dtype());
    ASSERT_EQ(got.shape(), want.shape());
    ASSERT_EQ(std::string_view(got.view().data, got.byte_count()),
              std::string_view(want.view().data, want.byte_count()))
        << subjects[reads[i].param].name << BoxToString(reads[i].box);
  }
}

void CheckPair(uint32_t seed) {
  Draw draw(seed);
  const Cluster from = DrawCluster(draw);
  const std::vector<Subject> subjects = DrawSubjects(from, draw);
  auto store = std::make_shared<MemoryStore>();
  const Status saved = SaveAll(subjects, from, draw, *store);
  ASSERT_TRUE(saved.ok()) << saved.ToString();
  const Cluster to = DrawCluster(draw);
  std::vector<Wish> wishes;
  for (const Subject& subject : subjects) {
    const Shape shape = DrawRestoreShape(subject.whole.shape(), draw);
    wishes.push_back({shape, DrawSharding(DrawMesh(to, draw), shape, draw)});
  }
  for (int64_t rank = 0; rank < to.process_count; ++rank) {
    RestoreRank(subjects, wishes, to, rank, store);
    if (::testing::Test::HasFatalFailure()) return;
  }
}

TEST(Reshard, AnyLayoutRestoresAnyOther) {
  for (int seed = 0; seed < PairCount(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    CheckPair(seed);
    ASSERT_FALSE(HasFailure());
  }
}

}  // namespace
}  // namespace holdfast::testing
