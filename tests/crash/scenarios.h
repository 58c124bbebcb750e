// The scenarios that are recorded and made to fail: saves, overwrites and
// deletes below one root, each with the allowed contents of every step before,
// during and after it.
//
// Thread-safety: one thread calls; some scenarios use several threads.
// Ownership: trees share their arrays.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "crash/crash_device.h"
#include "holdfast/holdfast.h"
#include "holdfast/orbax/orbax.h"
#include "holdfast/tools/tools.h"

namespace holdfast {

// The name of a step's content; "" means that the step does not exist.
struct StepFate {
  std::string before;
  std::string after;
  // After a crash the next call may leave the step; a later call removes it.
  bool may_stay = false;
  // A directory that exists under this name but is not a step.
  bool is_beside = false;
};

struct Scenario {
  std::string name;
  // Creates the initial state, durably.
  std::function<Status(const std::string& root)> prepare;
  // Makes the call under test. Can be repeated after a failure.
  std::function<Status(const std::string& root)> act;
  // All steps that may be listed at any moment, by name.
  std::map<std::string, StepFate> steps;
  // The tree that Load returns for each content that `steps` names.
  std::map<std::string, Tree> contents;
  // The first call of the next run; until then a step may be missing.
  std::function<Status(const std::string& root)> recover = {};
  // Holds the arrays that the call under test saves; null: the host does.
  CrashDevice* device = nullptr;
};

// Prints the scenario's name in googletest's messages.
inline void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

struct ScenarioOptions {
  int array_count = 100;
  int threads = 4;
  bool sync = true;
  CrashDevice* device = nullptr;  // as Scenario::device
};

// Returns a tree of many small arrays with many dtypes, whose values depend on
// the seed.
Tree ManyArrays(int array_count, uint32_t seed);

Scenario FirstSave(const ScenarioOptions& options);
// Saves step 3 next to steps 1 and 2, with four ranks that are threads.
Scenario SaveByRanks(const ScenarioOptions& options);
Scenario SaveAsDirectories(const ScenarioOptions& options);
// Overwrites step 2.
Scenario Overwrite(const ScenarioOptions& options);
// Saves step 3: two items, a file, and a file that the caller writes itself.
Scenario SaveOfItems(const ScenarioOptions& options);
// Saves step 2 next to step 1. Both are written at their final paths, with a
// marker as the last file.
Scenario SaveWithMarker(const ScenarioOptions& options);
Scenario OverwriteWithMarker(const ScenarioOptions& options);
// Saves step 2 next to step 1, on a thread of its own.
Scenario SaveAsync(const ScenarioOptions& options);
// Overwrites step 2 on a file system whose renames cannot exchange names.
Scenario OverwriteByRenames(const ScenarioOptions& options);
// Overwrites step 2 on a file system that cannot rename directories.
Scenario OverwriteByFiles(const ScenarioOptions& options);
// Saves step 3 next to steps 1 and 2, with a manager that keeps two steps.
Scenario SaveByManager(const ScenarioOptions& options);
// Deletes step 1 of two steps, with a manager.
Scenario DeleteStep(const ScenarioOptions& options);
// Prunes steps 1, 2 and 4 of the steps 1 to 5.
Scenario PruneSteps(const ScenarioOptions& options);
// Overwrites step 1 with a step whose arrays are in safetensors files.
Scenario SaveAsBoth(const ScenarioOptions& options);
// Saves step 3 next to step 2, with ranks that write the same safetensors
// files.
Scenario SaveAsBothByRanks(const ScenarioOptions& options);
// Makes step 2 a view that refers to step 1 by symbolic links.
Scenario ViewByLinks(const ScenarioOptions& options);
// Makes step 1 a view with checksums and copies of the files of a model, which
// is in the same directory.
Scenario ViewByCopies(const ScenarioOptions& options);
// Overwrites step 2 with a view that has hard links to step 1's files.
Scenario OverwriteByView(const ScenarioOptions& options);
// Overwrites step 2, a view of step 1, with a view of step 3.
Scenario OverwriteView(const ScenarioOptions& options);

// Makes a scenario whose arrays are on a device.
Scenario FromDevice(Scenario (*make)(const ScenarioOptions&),
                    ScenarioOptions options);

std::vector<Scenario> AllScenarios(const ScenarioOptions& options);

}  // namespace holdfast
