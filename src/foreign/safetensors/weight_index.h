// A model whose tensors lie in several files. They are found by the index that
// Hugging Face writes beside them, `{"metadata": {...}, "weight_map": {tensor:
// file}}`, in model.safetensors.index.json and pytorch_model.bin.index.json;
// and without one the files' names, "model-00001-of-00003.safetensors".
//
// Thread-safety: one thread at a time. Errors: DataLoss for an index that is
// damaged or does not fit the files, and for a set that lacks a file.
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
  std::map<std::string, std::string> file_of;   // files beside the index
  std::map<std::string, std::string> metadata;  // its texts

  std::set<std::string> Files() const;
};

// Errors name `file`.
Result<WeightIndex> ReadWeightIndex(const Place& file);

// The status of opening the files of an index; DataLoss in place of NotFound,
// for a set without one of its files is damaged.
Status OfIndexedFiles(const Status& status);

// Which of the files of a directory is its index: `usual`, or the only one that
// ends with `suffix`; empty when it has none. FailedPrecondition: several.
Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual);

// The names that numbers in these names say there are, and that are not among
// them, in order; no more than `count_max`. A set begins with 0 where it has a
// 0, else with 1. "shard-00002-model-00001-of-00003.safetensors" is what one
// process has of the first file of three, which the others may have none of.
std::vector<std::string> MissingParts(const std::vector<std::string>& names,
                                      size_t count_max = SIZE_MAX);
// DataLoss when MissingParts has any, with the names of some.
Status CheckNoPartIsMissing(const std::vector<std::string>& names);

// Among the names of a directory without an index, those of the files of
// torch.save that are a model together: "pytorch_model.bin" and its like, or a
// numbered set. Others (optimizer.pt, training_args.bin) are not weights, or no
// name says so.
std::vector<std::string> TorchWeightsIn(const std::vector<std::string>& names);

// Compares the tensors that the files hold with what an index says.
class FoundWeights {
 public:
  // Each name once; with an index, in the file that it has for it.
  Status Add(const std::string& name, const std::string& file,
             const WeightIndex* index);
  // Whether all of the index were added.
  Status CheckAll(const WeightIndex& index) const;

 private:
  std::unordered_map<std::string, std::string> file_of_;
};

}  // namespace holdfast
