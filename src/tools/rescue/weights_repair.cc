// Repairs safetensors files, and the indexes of models in several files.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "foreign/open/open.h"
#include "foreign/safetensors/safetensors.h"
#include "foreign/safetensors/safetensors_header.h"
#include "foreign/safetensors/weight_index.h"
#include "foreign/sidecar/tree_sidecar.h"
#include "foreign/torch/torch_checkpoint.h"
#include "ground/base/status_macros.h"
#include "holdfast/tools/torch_file.h"
#include "tools/rescue/repairs.h"

namespace holdfast {
namespace {

// The largest believable number of shards in a file's name.
constexpr size_t kShardCountMax = 100'000;

// Returns the end of the data according to the header, or 0 for a malformed
// header.
uint64_t ClaimedDataBytes(std::string_view json) {
  const auto header = nlohmann::json::parse(json, nullptr, false);
  uint64_t end = 0;
  if (!header.is_object()) return end;
  for (const auto& [name, tensor] : header.items()) {
    if (name == kSafetensorsMetadataKey || !tensor.is_object()) continue;
    const auto offsets = tensor.find("data_offsets");
    if (offsets == tensor.end() || !offsets->is_array() ||
        offsets->size() != 2 || !(*offsets)[1].is_number_unsigned()) {
      continue;
    }
    end = std::max(end, (*offsets)[1].get<uint64_t>());
  }
  return end;
}

// Returns a file's size according to its own header. Fails if the header is
// damaged.
Result<uint64_t> ClaimedFileBytes(Store& store, const std::string& path,
                                  uint64_t file_bytes) {
  HF_ASSIGN_OR_RETURN(
      const Bytes start,
      store.Read(path, {0, std::min(file_bytes, kSafetensorsLengthBytes)}));
  HF_ASSIGN_OR_RETURN(const uint64_t length,
                      SafetensorsHeaderLength(start.view(), file_bytes));
  HF_ASSIGN_OR_RETURN(const Bytes json,
                      store.Read(path, {kSafetensorsLengthBytes, length}));
  const uint64_t data_bytes = ClaimedDataBytes(json.view());
  HF_RETURN_IF_ERROR(ParseSafetensorsHeader(json.view(), data_bytes).status());
  return kSafetensorsLengthBytes + length + data_bytes;
}

class WeightsRepairer {
 public:
  WeightsRepairer(const FilesPtr& files, Repairs& repairs)
      : files_(files), repairs_(repairs) {}

  Status Run() {
    // With a damaged header the format is unknown, and nothing can be repaired.
    const auto format = FindForeignFormat(RepairedFiles::PlaceOf(files_));
    if (!format.ok() || (*format != ForeignFormat::kSafetensors &&
                         *format != ForeignFormat::kTorchFile)) {
      return Status();
    }
    const bool is_one_file =
        *format == ForeignFormat::kSafetensors && files_->files().size() == 1;
    for (const std::string& path : files_->Below("")) {
      if (path.find('/') != path.npos) continue;
      if (is_one_file || path.ends_with(kSafetensorsSuffix)) RepairFile(path);
    }
    bool has_index = false;
    for (const std::string& path : files_->Below("")) {
      const bool is_index = path.ends_with(kSafetensorsIndexSuffix) ||
                            path.ends_with(kTorchIndexSuffix);
      if (path.find('/') != path.npos || !is_index) continue;
      has_index = true;
      RepairIndex(path);
    }
    return ReplaceMissingShards(!has_index || !repairs_.names_are_known);
  }

  // Replaces each missing shard by an empty file, so that the others can be
  // opened. A name such as "model-00001-of-00003.safetensors" says that there
  // were three shards.
  Status ReplaceMissingShards(bool is_news) {
    std::vector<std::string> names, all;
    for (const std::string& path : files_->Below("")) {
      if (path.find('/') != path.npos) continue;
      all.push_back(path);
      if (path.ends_with(kSafetensorsSuffix)) names.push_back(path);
    }
    const bool is_torch = names.empty();
    if (is_torch) names = TorchWeightsIn(all);
    HF_ASSIGN_OR_RETURN(const std::string empty,
                        is_torch ? WriteTorchFile(PickleValue::Dict({}))
                                 : SafetensorsHeaderBytes({}));
    for (const std::string& path : MissingParts(names, kShardCountMax)) {
      files_->Put(path, Bytes(empty));
      if (!is_news) continue;
      repairs_.names_are_known = false;
      if (damaged_.contains(path)) continue;
      repairs_.lost.push_back({"", path, std::nullopt,
                               TextOf(path) + ": the file is gone, as the "
                                              "names of the others say",
                               false});
    }
    return Status();
  }

 private:
  std::string TextOf(const std::string& path) const {
    return RepairedFiles::StoreOf(files_)->Describe(path);
  }

  void RepairFile(const std::string& path) {
    const auto store = RepairedFiles::StoreOf(files_);
    const uint64_t got = files_->files().find(path)->second.byte_count;
    const Result<uint64_t> want = ClaimedFileBytes(*store, path, got);
    if (!want.ok()) {
      damaged_[path] = want.status().WithContext(TextOf(path));
      files_->Hide(path);
      // The leaf's name is empty for now; the index names the tensors of this
      // file.
      repairs_.lost.push_back(
          {"", path, 0, std::string(want.status().message()), false});
      return;
    }
    if (*want == got) return;
    repairs_.notes.push_back(TextOf(path) + " has " + std::to_string(got) +
                             " bytes, and its header says " +
                             std::to_string(*want));
    files_->Patch(path, std::min(got, *want), {}, *want);
  }

  void RepairIndex(const std::string& path) {
    const Place place = RepairedFiles::PlaceOf(files_);
    const Result<WeightIndex> index = ReadWeightIndex(place / path);
    if (!index.ok()) {
      files_->Hide(path);
      repairs_.notes.push_back(TextOf(path) + " is left aside: " +
                               std::string(index.status().message()));
      repairs_.names_are_known = false;
      return;
    }
    WeightIndex left;
    std::set<std::string> gone;
    for (const auto& [tensor, file] : index->file_of) {
      if (files_->Has(file)) {
        left.file_of.emplace(tensor, file);
      } else {
        gone.insert(tensor);
      }
    }
    if (gone.empty()) return;
    left.metadata = index->metadata;
    NoteGone(*index, gone, left);
    // The tensors of missing files are now listed as lost, so the entries for
    // the files themselves are removed.
    std::erase_if(repairs_.lost,
                  [](const LostLeaf& lost) { return lost.leaf.empty(); });
    if (left.file_of.empty()) {
      files_->Hide(path);
      return;
    }
    const nlohmann::json text = {{"metadata", left.metadata},
                                 {"weight_map", left.file_of}};
    files_->Put(path,
                Bytes(text.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace)));
  }

  // Adds the tensors of missing files to the lost leaves, and removes them from
  // the sidecar.
  void NoteGone(const WeightIndex& index, const std::set<std::string>& gone,
                WeightIndex& left) {
    std::map<std::string, std::string> leaf_of;
    const std::string key(kSidecarKey);
    const auto text = left.metadata.find(key);
    auto sidecar = text == left.metadata.end()
                       ? Result<TreeSidecar>(NotFoundError("no sidecar"))
                       : ParseSidecar(text->second);
    if (sidecar.ok()) {
      std::erase_if(sidecar->leaves, [&](const SidecarLeaf& leaf) {
        if (!gone.contains(leaf.stored)) return false;
        std::string& name = leaf_of[leaf.stored];
        for (const std::string& part : leaf.key) {
          name += (name.empty() ? "" : ".") + part;
        }
        return true;
      });
      text->second = SidecarText(*sidecar);
    }
    for (const std::string& tensor : gone) {
      const std::string& file = index.file_of.at(tensor);
      const auto damage = damaged_.find(file);
      const auto leaf = leaf_of.find(tensor);
      repairs_.lost.push_back(
          {leaf == leaf_of.end() ? tensor : leaf->second, file, std::nullopt,
           damage == damaged_.end()
               ? TextOf(file) + ": the file is gone, and the index has it"
               : std::string(damage->second.message()),
           false});
    }
  }

  const FilesPtr& files_;
  Repairs& repairs_;
  std::map<std::string, Status> damaged_;  // hidden files
};

}  // namespace

Status RepairWeights(const FilesPtr& files, Repairs& repairs) {
  return WeightsRepairer(files, repairs).Run();
}

}  // namespace holdfast
