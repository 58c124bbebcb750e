// A fake library for the verbs: Open, Verify, DigestLeaf and ListSteps of
// checkpoints that a test puts in memory. It is linked instead of the real
// functions.
//
// Thread-safety: Put and Clear before the verb runs; reads may be concurrent.
// Ownership: the fake world is static; tests clear it.
#pragma once

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "holdfast/checkpoint.h"
#include "holdfast/steps/steps.h"
#include "holdfast/tools/convert.h"
#include "holdfast/tools/report.h"
#include "holdfast/tools/view.h"
#include "holdfast/tools/watch.h"

namespace holdfast::testing {

struct FakeLeaf {
  LeafInfo info;
  std::string bytes;                // elements in C order, or text
  Status status;                    // what reading it returns
  std::function<void()> on_digest;  // called before its digest is computed
};

struct FakeCheckpoint {
  CheckpointInfo info;
  std::vector<FakeLeaf> leaves;
  VerifyReport report;
  Status verify_status;  // if ok, Verify returns the report
};

// Records the calls that the verbs made.
struct FakeCalls {
  OpenOptions open;
  int threads = -1;
  uint64_t memory_bytes = 0;
  std::vector<std::pair<Shape, Shape>> boxes;  // origin, shape of each ReadBox
  int read_count = 0;                          // complete leaves
  ConvertOptions convert;
  std::string convert_target;
  ViewOptions view;
  ReportOptions report;
};

void ClearWorld();
FakeCalls& Calls();
void PutCheckpoint(const std::string& path, FakeCheckpoint checkpoint);
void PutSteps(const std::string& root, std::vector<StepInfo> steps);
// Progress that Verify reports before it returns.
void PutProgress(std::vector<Progress> progress);

// Returns a leaf with plausible metadata; `values` are its elements.
template <typename T>
FakeLeaf ArrayLeaf(const std::string& name, DType dtype, Shape shape,
                   const std::vector<T>& values);
FakeLeaf RawLeaf(const std::string& name, DType dtype, Shape shape,
                 std::string bytes);
FakeLeaf TextLeaf(const std::string& name, ValueKind kind, std::string text);
FakeLeaf EmptyLeaf(const std::string& name, ValueKind kind);

template <typename T>
FakeLeaf ArrayLeaf(const std::string& name, DType dtype, Shape shape,
                   const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return RawLeaf(name, dtype, std::move(shape), std::move(bytes));
}

}  // namespace holdfast::testing
