#include "crash/scenarios.h"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/test_trees.h"
#include "crash/libc_calls.h"
#include "crash/model_times.h"
#include "ground/base/status_macros.h"
#include "holdfast/detail/commit.h"
#include "twins/local_ranks.h"

namespace holdfast {
namespace {

constexpr int64_t kRankCount = 4;

std::string NameOf(int i) { return "w" + std::to_string(1000 + i); }

SaveOptions OptionsOf(const ScenarioOptions& options) {
  SaveOptions save;
  save.run.threads = options.threads;
  save.sync = options.sync;
  save.overwrite = true;
  // Several data files, and chunks smaller than arrays.
  save.chunk_bytes = 2048;
  save.ocdbt_target_data_file_bytes = 24 << 10;
  return save;
}

SaveOptions Synced(ScenarioOptions options) {
  options.sync = true;
  return OptionsOf(options);
}

// Returns the tree with its arrays on the device, if there is one.
Result<Tree> Held(const Tree& tree, CrashDevice* device) {
  return device == nullptr ? tree : device->Hold(tree);
}

Status SaveHeld(const std::string& path, const Tree& tree,
                const ScenarioOptions& options, const SaveOptions& save) {
  HF_ASSIGN_OR_RETURN(const Tree held, Held(tree, options.device));
  return Save(path, held, save).status();
}

Tree ArraysOnly(int array_count, uint32_t seed) {
  const Tree all = ManyArrays(array_count, seed);
  Tree arrays = Tree::Dict();
  for (int i = 0; i < array_count; ++i) {
    arrays.Add(NameOf(i), *all.Find(NameOf(i)));
  }
  return arrays;
}

std::string At(const std::string& root, int step) {
  return root + "/" + std::to_string(step);
}

Status SaveSteps(const std::string& root, int array_count, int last_step) {
  for (int step = 1; step <= last_step; ++step) {
    HF_RETURN_IF_ERROR(Save(At(root, step), ManyArrays(array_count, step),
                            Synced({array_count}))
                           .status());
  }
  return Status();
}

// Returns a tree with the rows that `rank` holds of `array_count` arrays.
Tree RowsOf(int array_count, uint32_t seed, int64_t rank) {
  const auto traits =
      std::make_shared<const ArrayTraits>(ArrayTraits{"{}", "", {1, 300}});
  Tree tree = Tree::Dict();
  for (int i = 0; i < array_count; ++i) {
    std::vector<ArrayShard> shards;
    for (int64_t row = 0; row < kRankCount; ++row) {
      if (rank >= 0 && row != rank) continue;
      shards.push_back(
          {{row, 0},
           RandomArray(DType::kUint8, {1, 300}, seed * 10000 + i * 10 + row)});
    }
    tree.Add(NameOf(i),
             Tree::ShardedArray({kRankCount, 300}, std::move(shards), traits));
  }
  tree.Add("z", Tree(static_cast<int>(seed)));
  return tree;
}

Status SaveOnRanks(const std::string& path, uint32_t seed,
                   const ScenarioOptions& options, const SaveOptions& save) {
  // A rank that cannot make its tree would not take part in the save.
  std::vector<Tree> trees;
  for (int64_t rank = 0; rank < kRankCount; ++rank) {
    HF_ASSIGN_OR_RETURN(Tree tree, Held(RowsOf(options.array_count, seed, rank),
                                        options.device));
    trees.push_back(std::move(tree));
  }
  std::vector<Status> statuses(kRankCount);
  OnThreads(kRankCount, kPatienceSeconds, [&](ProcessGroup& group) {
    SaveOptions mine = save;
    mine.group = &group;
    statuses[group.rank()] = Save(path, trees[group.rank()], mine).status();
  });
  for (const Status& status : statuses) HF_RETURN_IF_ERROR(status);
  return Status();
}

// Writes a file as a user's program would, without a sync.
Status WriteByCaller(const std::string& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT, 0666);
  if (fd < 0) return UnavailableError("open " + path);
  const ssize_t written = ::write(fd, text.data(), text.size());
  ::close(fd);
  return written == static_cast<ssize_t>(text.size())
             ? Status()
             : UnavailableError("write " + path);
}

Result<std::unique_ptr<CheckpointManager>> OpenManager(const std::string& root,
                                                       bool sync) {
  CheckpointManagerOptions options;
  options.max_to_keep = 2;
  options.sync = sync;
  options.save_root_metadata = false;
  // Without background work, the moments of removals depend only on the calls.
  options.enable_async_checkpointing = false;
  return CheckpointManager::Make(root, options);
}

// Saves uncompressed steps, which a view can refer to.
Status SaveRaw(const std::string& root, int array_count,
               const std::vector<int>& steps) {
  SaveOptions save = Synced({array_count});
  save.compression = Compression::kNone;
  for (const int step : steps) {
    HF_RETURN_IF_ERROR(
        Save(At(root, step), ManyArrays(array_count, step), save).status());
  }
  SetModelTimes(root);
  return Status();
}

Status ViewOf(const std::string& source, const std::string& target,
              LinkKind link, const ScenarioOptions& options) {
  ViewOptions view;
  view.run.threads = options.threads;
  view.sync = options.sync;
  view.overwrite = true;
  view.link = link;
  view.checksums = link == LinkKind::kCopy;
  HF_ASSIGN_OR_RETURN(const ViewResult result, View(source, target, view));
  return result.referred_leaf_count > 0
             ? Status()
             : InternalError("the view refers to nothing");
}

}  // namespace

Tree ManyArrays(int array_count, uint32_t seed) {
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kBfloat16, DType::kInt8,
                               DType::kFloat64};
  Tree tree = Tree::Dict();
  for (int i = 0; i < array_count; ++i) {
    const Shape shape = {1 + i % 7, 1 + (i * 37) % 300};
    const Array array = RandomArray(kDTypes[i % 4], shape, seed * 1000 + i);
    tree.Add(NameOf(i), i % 3 == 0 ? Tree::JaxArray(array) : Tree(array));
  }
  tree.Add("z", Tree("text of " + std::to_string(seed)));
  return tree;
}

Scenario FirstSave(const ScenarioOptions& options) {
  const Tree tree = ManyArrays(options.array_count, 1);
  return {.name = "FirstSave",
          .prepare = [](const std::string&) { return Status(); },
          .act =
              [=](const std::string& root) {
                return SaveHeld(At(root, 1), tree, options, OptionsOf(options));
              },
          .steps = {{"1", {"", "one"}}},
          .contents = {{"one", tree}}};
}

Scenario SaveByRanks(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {.name = "SaveByRanks",
          .prepare =
              [=](const std::string& root) {
                return SaveOnRanks(At(root, 2), 2, {n}, Synced(options));
              },
          .act =
              [=](const std::string& root) {
                return SaveOnRanks(At(root, 3), 3, options, OptionsOf(options));
              },
          .steps = {{"2", {"two", "two"}}, {"3", {"", "three"}}},
          .contents = {{"two", RowsOf(n, 2, -1)}, {"three", RowsOf(n, 3, -1)}}};
}

Scenario SaveAsDirectories(const ScenarioOptions& options) {
  const int n = options.array_count / 3;
  return {
      .name = "SaveAsDirectories",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 1); },
      .act =
          [=](const std::string& root) {
            SaveOptions save = OptionsOf(options);
            save.use_ocdbt = false;
            return Save(At(root, 2), ManyArrays(n, 2), save).status();
          },
      .steps = {{"1", {"one", "one"}}, {"2", {"", "two"}}},
      .contents = {{"one", ManyArrays(n, 1)}, {"two", ManyArrays(n, 2)}}};
}

Scenario SaveAsBoth(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "SaveAsBoth",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 1); },
      .act =
          [=](const std::string& root) {
            SaveOptions save = OptionsOf(options);
            save.also = AlsoSafetensors(8 << 10);
            return Save(At(root, 1), ManyArrays(n, 2), save).status();
          },
      .steps = {{"1", {"one", "two"}}},
      .contents = {{"one", ManyArrays(n, 1)}, {"two", ManyArrays(n, 2)}}};
}

Scenario SaveAsBothByRanks(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {.name = "SaveAsBothByRanks",
          .prepare =
              [=](const std::string& root) {
                return SaveOnRanks(At(root, 2), 2, {n}, Synced(options));
              },
          .act =
              [=](const std::string& root) {
                SaveOptions save = OptionsOf(options);
                save.also = AlsoSafetensors(8 << 10);
                return SaveOnRanks(At(root, 3), 3, options, save);
              },
          .steps = {{"2", {"two", "two"}}, {"3", {"", "three"}}},
          .contents = {{"two", RowsOf(n, 2, -1)}, {"three", RowsOf(n, 3, -1)}}};
}

Scenario Overwrite(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "Overwrite",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 2); },
      .act =
          [=](const std::string& root) {
            return SaveHeld(At(root, 2), ManyArrays(n, 7), options,
                            OptionsOf(options));
          },
      .steps = {{"1", {"one", "one"}}, {"2", {"old", "new"}}},
      .contents = {{"one", ManyArrays(n, 1)},
                   {"old", ManyArrays(n, 2)},
                   {"new", ManyArrays(n, 7)}}};
}

Scenario SaveAsync(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "SaveAsync",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 1); },
      .act = [=](const std::string& root) -> Status {
        HF_ASSIGN_OR_RETURN(
            const auto saver,
            AsyncCheckpointer::Make(*MakePyTreeHandler({.sync = options.sync}),
                                    {}, {.sync = options.sync}));
        HF_ASSIGN_OR_RETURN(const Tree tree,
                            Held(ManyArrays(n, 2), options.device));
        HF_RETURN_IF_ERROR(
            saver->Save(At(root, 2), PyTreeSave(tree), {.force = true}));
        return saver->Close();
      },
      .steps = {{"1", {"one", "one"}}, {"2", {"", "two"}}},
      .contents = {{"one", ManyArrays(n, 1)}, {"two", ManyArrays(n, 2)}}};
}

Scenario OverwriteByRenames(const ScenarioOptions& options) {
  Scenario scenario = Overwrite(options);
  scenario.name = "OverwriteByRenames";
  scenario.act = [act = scenario.act](const std::string& root) {
    const ScopedRenames plain(Renames::kPlain);
    return act(root);
  };
  return scenario;
}

Scenario OverwriteByFiles(const ScenarioOptions& options) {
  ScenarioOptions fewer = options;
  fewer.array_count = (options.array_count + 3) / 4;
  Scenario scenario = Overwrite(fewer);
  scenario.name = "OverwriteByFiles";
  scenario.act = [act = scenario.act](const std::string& root) {
    const ScopedRenames of_files(Renames::kOfFiles);
    return act(root);
  };
  scenario.recover = [](const std::string& root) {
    const ScopedRenames of_files(Renames::kOfFiles);
    return CleanupTemporaryPaths(root, CommitMode::kMarkerFile).status();
  };
  return scenario;
}

Scenario SaveOfItems(const ScenarioOptions& options) {
  const int n = options.array_count / 4;
  const Tree state = ManyArrays(n, 3), extra = ManyArrays(5, 4);
  const auto act = [=](const std::string& root) -> Status {
    HF_ASSIGN_OR_RETURN(
        const auto save,
        PendingSave::Begin(At(root, 3),
                           {.overwrite = true, .sync = options.sync}));
    HF_RETURN_IF_ERROR(
        save->SaveItem("state", state, OptionsOf(options)).status());
    SaveOptions directories = OptionsOf(options);
    directories.use_ocdbt = false;
    HF_RETURN_IF_ERROR(
        save->SaveItem("other/extra", extra, directories).status());
    HF_RETURN_IF_ERROR(save->WriteFile("notes/metadata", "[1, 2]"));
    HF_RETURN_IF_ERROR(
        WriteByCaller(save->directory() + "/state/mine.txt", "mine"));
    return save->Commit({});
  };
  return {
      .name = "SaveOfItems",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 2); },
      .act = act,
      .steps = {{"1", {"one", "one"}},
                {"2", {"two", "two"}},
                {"3", {"", "items"}}},
      .contents = {{"one", ManyArrays(n, 1)},
                   {"two", ManyArrays(n, 2)},
                   {"items", Tree::Dict({{"notes", Tree("[1, 2]")},
                                         {"other/extra", extra},
                                         {"state", state}})}}};
}

Scenario SaveWithMarker(const ScenarioOptions& options) {
  Scenario scenario = OverwriteWithMarker(options);
  scenario.name = "SaveWithMarker";
  const Tree tree = scenario.contents.at("new");
  scenario.act = [=](const std::string& root) {
    SaveOptions save = OptionsOf(options);
    save.commit_mode = CommitMode::kMarkerFile;
    return Save(At(root, 3), tree, save).status();
  };
  scenario.steps = {
      {"1", {"one", "one"}}, {"2", {"old", "old"}}, {"3", {"", "new"}}};
  scenario.recover = {};
  return scenario;
}

Scenario OverwriteWithMarker(const ScenarioOptions& options) {
  Scenario scenario = Overwrite(options);
  scenario.name = "OverwriteWithMarker";
  const int n = options.array_count;
  scenario.prepare = [=](const std::string& root) -> Status {
    SaveOptions save = Synced({n});
    save.commit_mode = CommitMode::kMarkerFile;
    for (const int step : {1, 2}) {
      HF_RETURN_IF_ERROR(
          Save(At(root, step), ManyArrays(n, step), save).status());
    }
    return Status();
  };
  const Tree tree = scenario.contents.at("new");
  scenario.act = [=](const std::string& root) {
    SaveOptions save = OptionsOf(options);
    save.commit_mode = CommitMode::kMarkerFile;
    return Save(At(root, 2), tree, save).status();
  };
  scenario.recover = [](const std::string& root) {
    return CleanupTemporaryPaths(root, CommitMode::kMarkerFile).status();
  };
  return scenario;
}

Scenario DeleteStep(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "DeleteStep",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 2); },
      .act = [](const std::string& root) -> Status {
        HF_ASSIGN_OR_RETURN(const auto manager, OpenManager(root, true));
        // An earlier attempt may have deleted the step before it failed.
        const Status deleted = manager->Delete(1);
        const Status closed = manager->Close();
        if (deleted.code() == StatusCode::kNotFound) return closed;
        return deleted.ok() ? closed : deleted;
      },
      .steps = {{"1", {"one", ""}}, {"2", {"two", "two"}}},
      .contents = {{"one", ManyArrays(n, 1)}, {"two", ManyArrays(n, 2)}}};
}

Scenario SaveByManager(const ScenarioOptions& options) {
  const int n = options.array_count / 2;
  const auto save = [=](const std::string& root, int step,
                        bool sync) -> Status {
    HF_ASSIGN_OR_RETURN(const auto manager, OpenManager(root, sync));
    const Status saved =
        manager->Save(step, StandardSave(ArraysOnly(n, step))).status();
    const Status closed = manager->Close();
    // An earlier attempt may have failed after its commit.
    if (saved.code() == StatusCode::kAlreadyExists) return closed;
    return saved.ok() ? closed : saved;
  };
  Scenario scenario = {
      .name = "SaveByManager",
      .prepare = [=](const std::string& root) -> Status {
        HF_RETURN_IF_ERROR(save(root, 1, true));
        return save(root, 2, true);
      },
      .act =
          [=](const std::string& root) { return save(root, 3, options.sync); },
      .steps = {{"1", {"1", "", true}}, {"2", {"2", "2"}}, {"3", {"", "3"}}},
      .contents = {}};
  for (int step = 1; step <= 3; ++step) {
    scenario.contents[std::to_string(step)] = ArraysOnly(n, step);
  }
  return scenario;
}

Scenario PruneSteps(const ScenarioOptions& options) {
  const int n = options.array_count / 4;
  Scenario scenario = {
      .name = "PruneSteps",
      .prepare = [=](const std::string& root) { return SaveSteps(root, n, 5); },
      .act = [](const std::string& root) -> Status {
        PruneOptions prune;
        prune.keep.push_back({"step 3", {CustomSteps{{3}}}});
        HF_ASSIGN_OR_RETURN(const PrunePlan plan, PlanPrune(root, prune));
        HF_RETURN_IF_ERROR(Prune(root, plan).status());
        return EmptyTrash(root).status();
      },
      .steps = {{"1", {"1", ""}},
                {"2", {"2", ""}},
                {"3", {"3", "3"}},
                {"4", {"4", ""}},
                {"5", {"5", "5"}}},
      .contents = {}};
  for (int step = 1; step <= 5; ++step) {
    scenario.contents[std::to_string(step)] = ManyArrays(n, step);
  }
  return scenario;
}

Scenario ViewByLinks(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "ViewByLinks",
      .prepare = [=](const std::string& root) { return SaveRaw(root, n, {1}); },
      .act =
          [=](const std::string& root) {
            return ViewOf(At(root, 1), At(root, 2), LinkKind::kSymbolic,
                          options);
          },
      .steps = {{"1", {"one", "one"}}, {"2", {"", "one"}}},
      .contents = {{"one", ManyArrays(n, 1)}}};
}

Scenario ViewByCopies(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {
      .name = "ViewByCopies",
      .prepare = [=](const std::string& root) -> Status {
        ConvertOptions convert;
        convert.format = Format::kSafetensors;
        convert.shard_bytes_max = 1 << 10;
        HF_RETURN_IF_ERROR(SaveRaw(root, n, {9}));
        HF_RETURN_IF_ERROR(
            Convert(At(root, 9), root + "/model", convert).status());
        std::filesystem::remove_all(At(root, 9));
        HF_RETURN_IF_ERROR(WriteByCaller(root + "/model/config.json", "{}"));
        SetModelTimes(root);
        return Status();
      },
      .act =
          [=](const std::string& root) {
            return ViewOf(root + "/model", At(root, 1), LinkKind::kCopy,
                          options);
          },
      .steps = {{"1", {"", "one"}},
                {"model", {"one", "one", false, /*is_beside=*/true}}},
      .contents = {{"one", ManyArrays(n, 9)}}};
}

Scenario OverwriteByView(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {.name = "OverwriteByView",
          .prepare =
              [=](const std::string& root) { return SaveRaw(root, n, {1, 2}); },
          .act =
              [=](const std::string& root) {
                return ViewOf(At(root, 1), At(root, 2), LinkKind::kHard,
                              options);
              },
          .steps = {{"1", {"one", "one"}}, {"2", {"two", "one"}}},
          .contents = {{"one", ManyArrays(n, 1)}, {"two", ManyArrays(n, 2)}}};
}

Scenario OverwriteView(const ScenarioOptions& options) {
  const int n = options.array_count;
  return {.name = "OverwriteView",
          .prepare = [=](const std::string& root) -> Status {
            HF_RETURN_IF_ERROR(SaveRaw(root, n, {1, 3}));
            return ViewOf(At(root, 1), At(root, 2), LinkKind::kSymbolic,
                          {.threads = 1});
          },
          .act =
              [=](const std::string& root) {
                return ViewOf(At(root, 3), At(root, 2), LinkKind::kSymbolic,
                              options);
              },
          .steps = {{"1", {"one", "one"}},
                    {"2", {"one", "three"}},
                    {"3", {"three", "three"}}},
          .contents = {{"one", ManyArrays(n, 1)}, {"three", ManyArrays(n, 3)}}};
}

Scenario FromDevice(Scenario (*make)(const ScenarioOptions&),
                    ScenarioOptions options) {
  static CrashDevice device;
  options.device = &device;
  Scenario scenario = make(options);
  scenario.name += "FromDevice";
  scenario.device = &device;
  return scenario;
}

std::vector<Scenario> AllScenarios(const ScenarioOptions& options) {
  return {FirstSave(options),
          SaveByRanks(options),
          SaveAsDirectories(options),
          Overwrite(options),
          SaveOfItems(options),
          SaveWithMarker(options),
          OverwriteWithMarker(options),
          OverwriteByRenames(options),
          OverwriteByFiles(options),
          SaveByManager(options),
          DeleteStep(options),
          PruneSteps(options),
          SaveAsBoth(options),
          SaveAsBothByRanks(options),
          ViewByLinks(options),
          ViewByCopies(options),
          OverwriteByView(options),
          OverwriteView(options),
          FromDevice(FirstSave, options),
          FromDevice(Overwrite, options),
          FromDevice(SaveAsync, options)};
}

}  // namespace holdfast
