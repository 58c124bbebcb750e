// A model whose tensors are in several files. The files are found with the
// index that Hugging Face writes next to them, model.safetensors.index.json or
// pytorch_model.bin.index.json: `{"metadata": {...}, "weight_map": {tensor:
// file}}`. Without an index, they are found by their names, such as
// "model-00001-of-00003.safetensors".
//
// Thread-safety: one thread at a time. Errors: DataLoss for an index that is
// damaged or does not fit the files, and for a set with a missing file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/status.h"
#include "stores/place/place.h"

namespace holdfast {

struct WeightIndex {
  std::map<std::string, std::string> file_of;   // files next to the index
  std::map<std::string, std::string> metadata;  // the index's string values

  std::set<std::string> Files() const;
};

// Reads the index in `file`. Errors name `file`.
Result<WeightIndex> ReadWeightIndex(const Place& file);

// Turns the NotFound of a file that an index names into DataLoss, because a set
// that lacks one of its files is damaged.
Status OfIndexedFiles(const Status& status);

// Returns the name of the directory's index: `usual`, or else the only file
// that ends with `suffix`. Empty if there is no index. FailedPrecondition if
// there are several.
Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual);

// Returns the names that are missing from the numbered sets in `names`, in
// order, at most `count_max`. A set begins with 0 if it has a 0, otherwise with
// 1.
//
// "shard-00002-model-00001-of-00003.safetensors" is one process's part of the
// first of three files. Other processes may have no part of that file.
std::vector<std::string> MissingParts(const std::vector<std::string>& names,
                                      size_t count_max = SIZE_MAX);
// Returns DataLoss, with some of the names, if MissingParts finds any.
Status CheckNoPartIsMissing(const std::vector<std::string>& names);

// Returns the names of the torch.save files that form a model in a directory
// without an index: "pytorch_model.bin" and similar names, or a numbered set.
// Other files are not weights (optimizer.pt, training_args.bin), or their names
// do not show that they are.
std::vector<std::string> TorchWeightsIn(const std::vector<std::string>& names);

// Compares the tensors in the files with an index.
class FoundWeights {
 public:
  // Adds a tensor. Fails if the name was added before, or if the index has
  // another file for the name.
  Status Add(const std::string& name, const std::string& file,
             const WeightIndex* index);
  // Checks that all names in the index were added.
  Status CheckAll(const WeightIndex& index) const;

 private:
  std::unordered_map<std::string, std::string> file_of_;
};

}  // namespace holdfast
