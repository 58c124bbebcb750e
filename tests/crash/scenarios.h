// The scenarios that are recorded and failed: saves, overwrites, deletes below
// one root, each with what every step may hold before, in the midst of it, and
// after it.
//
// Thread-safety: one thread calls; some of them work with several.
// Ownership: trees share their arrays.
#pragma once

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "holdfast/holdfast.h"
#include "holdfast/orbax/orbax.h"
#include "holdfast/tools/tools.h"

namespace holdfast {

// The name of a step's content; "": the step is not there.
struct StepFate {
  std::string before;
  std::string after;
  // After a crash the next call may leave it as before: it goes later.
  bool may_stay = false;
  // It is there under this name without being a step.
  bool is_beside = false;
};

struct Scenario {
  std::string name;
  // Makes what is there before, durably.
  std::function<Status(const std::string& root)> prepare;
  // The watched call. Can be called again after it has failed.
  std::function<Status(const std::string& root)> act;
  // By name, all steps that may ever be listed.
  std::map<std::string, StepFate> steps;
  // The tree that Load gives for each content that `steps` names.
  std::map<std::string, Tree> contents;
  // The first call of the next run, where a step may be missing until then.
  std::function<Status(const std::string& root)> recover = {};
};

// For messages of the tests.
inline void PrintTo(const Scenario& scenario, std::ostream* out) {
  *out << scenario.name;
}

struct ScenarioOptions {
  int array_count = 100;
  int thread_count = 4;
  bool sync = true;
};

// A tree of so many small arrays of many types, other values for other seeds.
Tree ManyArrays(int array_count, uint32_t seed);

Scenario FirstSave(const ScenarioOptions& options);
// Step 3 beside 1 and 2, by four ranks that are threads.
Scenario SaveByRanks(const ScenarioOptions& options);
Scenario SaveAsDirectories(const ScenarioOptions& options);
// Overwrites step 2.
Scenario Overwrite(const ScenarioOptions& options);
// Step 3: two items, a file, and one that the caller puts there.
Scenario SaveOfItems(const ScenarioOptions& options);
// Step 2 beside 1, both at their final paths, with a marker as the last file.
Scenario SaveWithMarker(const ScenarioOptions& options);
Scenario OverwriteWithMarker(const ScenarioOptions& options);
// Overwrites step 2, where no rename exchanges names.
Scenario OverwriteByRenames(const ScenarioOptions& options);
// Overwrites step 2, where no directory can be renamed.
Scenario OverwriteByFiles(const ScenarioOptions& options);
// Step 3 beside 1 and 2, by a manager that keeps two.
Scenario SaveByManager(const ScenarioOptions& options);
// Step 1 of 2, by a manager.
Scenario DeleteStep(const ScenarioOptions& options);
// Steps 1, 2 and 4 of 1 to 5.
Scenario PruneSteps(const ScenarioOptions& options);
// Step 1 is overwritten by one whose arrays lie in safetensors files.
Scenario SaveAsBoth(const ScenarioOptions& options);
// Step 3 beside 2, by ranks that write the same safetensors files.
Scenario SaveAsBothByRanks(const ScenarioOptions& options);
// Step 2, which refers to step 1 by symbolic links.
Scenario ViewByLinks(const ScenarioOptions& options);
// Step 1, with copies of the files of a model beside it, and checksums.
Scenario ViewByCopies(const ScenarioOptions& options);
// Overwrites step 2, by one that has hard links to step 1's files.
Scenario OverwriteByView(const ScenarioOptions& options);
// Step 2, a view of step 1, by one of step 3.
Scenario OverwriteView(const ScenarioOptions& options);

std::vector<Scenario> AllScenarios(const ScenarioOptions& options);

}  // namespace holdfast
