// Uses Orbax's PyTreeCheckpointHandler from C++: saves the weights of a small
// model in bfloat16, restores them sharded over two devices, and restores them
// again under other names.
//
//   example_pytree_handler DIRECTORY
#include <holdfast/holdfast.h>
#include <holdfast/orbax/orbax.h>

#include <cstdio>
#include <string>
#include <vector>

namespace {

using holdfast::ArrayRestoreArgs;
using holdfast::DType;
using holdfast::RestoreArgs;
using holdfast::Status;
using holdfast::Tree;

holdfast::Array Weights() {
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7};
  return holdfast::Array::Of(values, {4, 2}).value();
}

Status Save(holdfast::PyTreeCheckpointHandler& handler,
            const std::string& directory) {
  holdfast::PyTreeSaveArgs args;
  args.item = Tree::Dict(
      {{"params", Tree::Dict({{"dense0", Weights()}})}, {"step", Tree(7)}});
  args.save_args["params.dense0"].dtype = DType::kBfloat16;
  args.custom_metadata = R"({"note": "an example"})";
  if (const Status saved = handler.Save(directory, args); !saved.ok()) {
    return saved;
  }
  return handler.Finalize(directory);
}

// Restores the weights as float32 again: rows 0 and 1 to one device, rows 2 and
// 3 to another.
Status RestoreSharded(holdfast::PyTreeCheckpointHandler& handler,
                      const std::string& directory) {
  ArrayRestoreArgs rows;
  rows.dtype = DType::kFloat32;
  rows.sharding = holdfast::NamedSharding{{{"x"}, {2}, {}, {}}, {{"x"}}};
  holdfast::PyTreeRestoreArgs args;
  args.restore_args = holdfast::RestoreArgsMap{{"params.dense0", rows}};
  const auto state = handler.Restore(directory, args);
  if (!state.ok()) return state.status();
  for (const auto& shard : state->FindPath({"params", "dense0"})->shards()) {
    const auto values = shard.array.As<float>();
    if (!values.ok()) return values.status();
    std::printf("rows from %d: %s of shape %s, first element %.0f\n",
                static_cast<int>(shard.origin[0]),
                std::string(DTypeName(shard.array.dtype())).c_str(),
                holdfast::ShapeToString(shard.array.shape()).c_str(),
                (*values)[0]);
  }
  return Status();
}

// Renames "params/denseN" to "net/N", and sets the step to 0 again.
Status RestoreRenamed(holdfast::PyTreeCheckpointHandler& handler,
                      const std::string& directory) {
  holdfast::PyTreeRestoreArgs args;
  args.item =
      Tree::Dict({{"net", Tree::Dict({{"0", Tree(0)}})}, {"step", Tree(0)}});
  args.restore_args =
      holdfast::RestoreArgsMap{{"net.0", RestoreArgs{.dtype = DType::kFloat32}},
                               {"step", RestoreArgs{}}};
  args.transforms = holdfast::Transforms{
      {R"(net/(\d+))",
       holdfast::Transform{.original_key = R"(params/dense\1)"}},
      {"step", holdfast::Transform{.use_fallback = true}}};
  const auto state = handler.Restore(directory, args);
  if (!state.ok()) return state.status();
  std::printf("renamed: %s, step %d\n",
              *state->FindPath({"net", "0"}) == Tree(Weights())
                  ? "the same weights"
                  : "other weights",
              static_cast<int>(state->Find("step")->scalar().As<int64_t>()));
  return Status();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
    return 2;
  }
  const auto handler =
      holdfast::PyTreeCheckpointHandler::Make({.use_zarr3 = true});
  Status status = handler.status();
  if (status.ok()) status = Save(**handler, argv[1]);
  if (status.ok()) status = RestoreSharded(**handler, argv[1]);
  if (status.ok()) status = RestoreRenamed(**handler, argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
