// A model whose tensors are in several files. They are found with the index
// that Hugging Face writes next to them, `{"metadata": {...}, "weight_map":
// {tensor: file}}`, in model.safetensors.index.json and
// pytorch_model.bin.index.json; without an index, by the files' names,
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
  std::map<std::string, std::string> metadata;  // its string values

  std::set<std::string> Files() const;
};

// Errors name `file`.
Result<WeightIndex> ReadWeightIndex(const Place& file);

// Maps the status of opening the files of an index: NotFound becomes DataLoss,
// since a set without one of its files is damaged.
Status OfIndexedFiles(const Status& status);

// Chooses the index of a directory: `usual`, or the only file that ends with
// `suffix`; empty if there is no index. FailedPrecondition if there are
// several.
Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual);

// The names that are missing according to the numbers in these names, in order,
// at most `count_max`. A set begins with 0 if it has a 0, otherwise with 1.
// "shard-00002-model-00001-of-00003.safetensors" is one process's part of the
// first of three files, of which other processes may have no part.
std::vector<std::string> MissingParts(const std::vector<std::string>& names,
                                      size_t count_max = SIZE_MAX);
// DataLoss, with some of the names, if MissingParts finds any.
Status CheckNoPartIsMissing(const std::vector<std::string>& names);

// Finds, in a directory without an index, the names of torch.save files that
// form a model: "pytorch_model.bin" and similar names, or a numbered set. Other
// files (optimizer.pt, training_args.bin) are not weights, or their names do
// not say so.
std::vector<std::string> TorchWeightsIn(const std::vector<std::string>& names);

// Compares the tensors in the files with an index.
class FoundWeights {
 public:
  // Each name may be added once; with an index, only in the file it has for the
  // name.
  Status Add(const std::string& name, const std::string& file,
             const WeightIndex* index);
  // Whether all names in the index were added.
  Status CheckAll(const WeightIndex& index) const;

 private:
  std::unordered_map<std::string, std::string> file_of_;
};

}  // namespace holdfast
