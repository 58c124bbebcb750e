// The index of a model whose tensors lie in several files, as Hugging Face
// writes it beside them: `{"metadata": {...}, "weight_map": {tensor: file}}`,
// in model.safetensors.index.json and pytorch_model.bin.index.json.
//
// Thread-safety: one thread at a time. Errors: DataLoss for an index that is
// damaged or does not fit the files.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "holdfast/status.h"
#include "place/place.h"

namespace holdfast {

struct WeightIndex {
  std::map<std::string, std::string> file_of;   // files beside the index
  std::map<std::string, std::string> metadata;  // its texts

  std::set<std::string> Files() const;
};

// Where its files are.
std::map<std::string, Place> FilesOf(const WeightIndex& index,
                                     const Place& directory);

// Errors name `file`.
Result<WeightIndex> ReadWeightIndex(const Place& file);

// Which of the files of a directory is its index: `usual`, or the only one that
// ends with `suffix`; empty when there is none. FailedPrecondition: several.
Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual);

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
