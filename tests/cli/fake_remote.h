// Fakes of Copy and Diagnose: they return what a test has set, and record the
// requests.
//
// Thread-safety: one verb at a time. Ownership: static; tests reset it.
#pragma once

#include <string>

#include "holdfast/tools/remote.h"

namespace holdfast::testing {

struct FakeRemote {
  RemoteSettings settings;  // the last that SetRemoteSettings got
  std::string source;
  std::string target;
  CopyOptions copy;
  DiagnoseOptions diagnose;
  Status status;  // what both return; if ok, the results below
  CopyResult copied;
  Diagnosis found;
};
FakeRemote& TheRemote();

}  // namespace holdfast::testing
