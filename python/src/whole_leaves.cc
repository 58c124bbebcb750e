#include "whole_leaves.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "blocking.h"
#include "errors.h"
#include "numpy_arrays.h"
#include "tree_output.h"

namespace nb = nanobind;

namespace holdfast::python {
namespace {

class WholeReads {
 public:
  explicit WholeReads(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Adds a read of a complete leaf, and allocates its array. REQUIRES: the leaf
  // belongs to the checkpoint and has elements.
  Status Add(size_t leaf, std::optional<DType> dtype) {
    const LeafInfo& info = checkpoint_.leaves()[leaf];
    Result<Array> array =
        Array::Allocate(dtype.value_or(*info.dtype), info.shape);
    if (!array.ok()) return array.status().WithContext(info.name);
    requests_.push_back(
        {leaf, Shape(info.shape.size(), 0), array->mutable_view()});
    arrays_.push_back(*std::move(array));
    return Status();
  }

  Result<Stats> Run(const RunOptions& run) const {
    return checkpoint_.ReadInto(requests_, run);
  }

  size_t size() const { return arrays_.size(); }

  // Moves out the i-th array that was added.
  Array Take(size_t i) { return std::move(arrays_[i]); }

  const std::string& Name(size_t i) const {
    return checkpoint_.leaves()[requests_[i].leaf].name;
  }

 private:
  const Checkpoint& checkpoint_;
  std::vector<ReadRequest> requests_;
  std::vector<Array> arrays_;
};

bool HasElementsHere(const LeafInfo& info) {
  return info.kind == ValueKind::kArray || info.kind == ValueKind::kScalar;
}

void AddRequest(const Checkpoint& checkpoint, nb::handle request,
                WholeReads& reads) {
  const auto leaf = nb::cast<size_t>(request[0]);
  if (leaf >= checkpoint.leaves().size()) {
    throw StatusError(OutOfRangeError("leaf " + std::to_string(leaf)));
  }
  const LeafInfo& info = checkpoint.leaves()[leaf];
  Check(info.problem);
  if (!HasElementsHere(info)) {
    ThrowValueError("read_leaves: leaf " + info.name + " is not an array");
  }
  const nb::object dtype = request[1];
  std::optional<DType> wanted;
  if (!dtype.is_none()) {
    wanted = DTypeOfDescr(dtype);
    if (!wanted) ThrowValueError("read_leaves: unknown dtype");
  }
  Check(reads.Add(leaf, wanted));
}

class TreeLoader {
 public:
  explicit TreeLoader(const Checkpoint& checkpoint)
      : checkpoint_(checkpoint), reads_(checkpoint) {}

  nb::object Load(const RunOptions& run, nb::handle progress) {
    const Tree structure = RunForResult<Tree>(
        run, progress,
        [&](const RunOptions& options) { return Read(options); });
    return ToPython(structure, [&](size_t leaf) { return ValueOf(leaf); });
  }

 private:
  Result<Tree> Read(const RunOptions& run) {
    places_.resize(checkpoint_.leaves().size());
    for (size_t i = 0; i < places_.size(); ++i) {
      if (Status status = Add(i); !status.ok()) return status;
    }
    if (Result<Stats> stats = reads_.Run(run); !stats.ok()) {
      return stats.status();
    }
    return checkpoint_.Structure();
  }

  Status Add(size_t leaf) {
    const LeafInfo& info = checkpoint_.leaves()[leaf];
    if (!info.problem.ok()) return info.problem;
    if (HasElementsHere(info)) {
      places_[leaf] = reads_.size();
      return reads_.Add(leaf, {});
    }
    if (info.kind != ValueKind::kString) return Status();
    Result<std::string> text = checkpoint_.ReadText(leaf);
    if (!text.ok()) return text.status();
    places_[leaf] = texts_.size();
    texts_.push_back(*std::move(text));
    return Status();
  }

  nb::object ValueOf(size_t leaf) {
    const LeafInfo& info = checkpoint_.leaves()[leaf];
    if (info.kind == ValueKind::kString) {
      return ToPythonText(texts_[places_[leaf]]);
    }
    if (!HasElementsHere(info)) {
      throw StatusError(UnimplementedError(
          "leaf " + info.name + ": " + std::string(ValueKindName(info.kind))));
    }
    Array array = reads_.Take(places_[leaf]);
    if (info.kind == ValueKind::kArray) {
      return ToNumpy(std::move(array), info.name);
    }
    if (!array.shape().empty()) {
      throw StatusError(
          InvalidArgumentError("leaf " + info.name + ": a number with axes"));
    }
    Scalar scalar{array.dtype(), true, {}};
    std::copy_n(array.view().data, DTypeBytes(array.dtype()),
                scalar.bytes.begin());
    return ToPythonNumber(scalar, info.name);
  }

  const Checkpoint& checkpoint_;
  WholeReads reads_;
  std::vector<std::string> texts_;
  std::vector<size_t> places_;  // of each leaf, in reads_ or in texts_
};

}  // namespace

nb::list ReadLeaves(const Checkpoint& checkpoint, nb::handle requests,
                    const RunOptions& run, nb::handle progress) {
  WholeReads reads(checkpoint);
  for (const nb::handle request : nb::borrow<nb::iterable>(requests)) {
    AddRequest(checkpoint, request, reads);
  }
  RunForResult<Stats>(run, progress, [&](const RunOptions& options) {
    return reads.Run(options);
  });
  nb::list arrays;
  for (size_t i = 0; i < reads.size(); ++i) {
    arrays.append(ToNumpy(reads.Take(i), reads.Name(i)));
  }
  return arrays;
}

nb::object LoadTree(const Checkpoint& checkpoint, const RunOptions& run,
                    nb::handle progress) {
  return TreeLoader(checkpoint).Load(run, progress);
}

}  // namespace holdfast::python
