#include "foreign/safetensors/weight_index.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>

#include "engine/commit/known_formats.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"
#include "ground/json/unique.h"
#include "stores/place/file_set.h"

namespace holdfast {
namespace {

// More than any index needs. An index is read completely before it is parsed,
// so its size is limited.
constexpr uint64_t kIndexBytesMax = uint64_t{256} << 20;

Result<WeightIndex> ParseWeightIndex(std::string_view text) {
  HF_ASSIGN_OR_RETURN(const nlohmann::json document, ParseUniqueJson(text));
  const auto map = document.find("weight_map");
  if (map == document.end() || !map->is_object()) {
    return DataLossError("it has no weight_map");
  }
  WeightIndex index;
  for (const auto& [name, file] : map->items()) {
    if (!file.is_string()) {
      return DataLossError("weight_map: the file of \"" + name +
                           "\" is not a string");
    }
    const std::string& text = file.get_ref<const std::string&>();
    if (text.empty() || text == "." || text == ".." ||
        text.find('/') != std::string::npos ||
        text.find('\0') != std::string::npos) {
      return DataLossError("weight_map: tensor \"" + name + "\" is in \"" +
                           text + "\", which does not name a file next to it");
    }
    index.file_of[name] = text;
  }
  const auto metadata = document.find("metadata");
  if (metadata == document.end() || !metadata->is_object()) return index;
  for (const auto& [name, value] : metadata->items()) {
    if (value.is_string()) index.metadata[name] = value.get<std::string>();
  }
  return index;
}

// "model-00001-of-00003.safetensors".
struct NumberedName {
  std::string front;  // "model-"
  std::string back;   // "-of-00003.safetensors"
  size_t digit_count = 0;
  int64_t number = 0;
  int64_t count = 0;

  std::string WithNumber(int64_t other) const {
    std::string digits = std::to_string(other);
    digits.insert(0, digit_count - std::min(digit_count, digits.size()), '0');
    return front + digits + back;
  }
};

bool IsDigit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Returns the position at which the digits before `end` begin.
size_t DigitsBefore(std::string_view text, size_t end) {
  while (end > 0 && IsDigit(text[end - 1])) --end;
  return end;
}

// Returns `front`, the part of a name before its numbers. In a shard's name,
// "*" replaces the number of the process that wrote the shard.
std::string WithoutShard(const std::string& front) {
  constexpr std::string_view kShard = "shard-";
  if (!front.starts_with(kShard)) return front;
  size_t end = kShard.size();
  while (end < front.size() && IsDigit(front[end])) ++end;
  return "shard-*" + front.substr(end);
}

std::optional<NumberedName> ParseNumberedName(const std::string& name) {
  for (size_t of = name.rfind("of"); of != std::string::npos && of > 1;
       of = name.rfind("of", of - 1)) {
    const auto is_separator = [&](size_t at) {
      return at < name.size() && (name[at] == '-' || name[at] == '_');
    };
    if (!is_separator(of - 1) || !is_separator(of + 2)) continue;
    const size_t begin = DigitsBefore(name, of - 1);
    size_t end = of + 3;
    while (end < name.size() && IsDigit(name[end])) ++end;
    const std::string_view text = name;
    const auto number =
        ParseNumber<int64_t>(text.substr(begin, of - 1 - begin));
    const auto count = ParseNumber<int64_t>(text.substr(of + 3, end - of - 3));
    if (!number || !count) continue;
    return NumberedName{WithoutShard(name.substr(0, begin)),
                        name.substr(of - 1), of - 1 - begin, *number, *count};
  }
  return std::nullopt;
}

// Adds the names of the missing parts of one set to `missing`.
void AddMissingParts(const std::vector<NumberedName>& parts, size_t count_max,
                     std::vector<std::string>& missing) {
  std::set<int64_t> numbers;
  for (const NumberedName& part : parts) numbers.insert(part.number);
  const int64_t first = numbers.contains(0) ? 0 : 1;
  for (int64_t i = 0; i < parts[0].count && missing.size() < count_max; ++i) {
    if (numbers.contains(first + i)) continue;
    missing.push_back(parts[0].WithNumber(first + i));
  }
}

}  // namespace

std::vector<std::string> MissingParts(const std::vector<std::string>& names,
                                      size_t count_max) {
  std::map<std::pair<std::string, std::string>, std::vector<NumberedName>> sets;
  for (const std::string& name : names) {
    std::optional<NumberedName> part = ParseNumberedName(name);
    if (!part) continue;
    sets[{part->front, part->back}].push_back(*std::move(part));
  }
  std::vector<std::string> missing;
  for (const auto& [set, parts] : sets) {
    AddMissingParts(parts, count_max, missing);
  }
  return missing;
}

Status CheckNoPartIsMissing(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 3;
  const std::vector<std::string> missing = MissingParts(names, kNamed + 1);
  if (missing.empty()) return Status();
  std::string text;
  for (size_t i = 0; i < std::min(kNamed, missing.size()); ++i) {
    text += (i > 0 ? ", " : "") + missing[i];
  }
  if (missing.size() > kNamed) text += " and others";
  return DataLossError(
      text + (missing.size() > 1 ? " are" : " is") +
      " missing, as the names of the other files say; fetch the rest, or give "
      "the path of one file to read what is in it");
}

std::vector<std::string> TorchWeightsIn(const std::vector<std::string>& names) {
  for (const std::string_view known :
       {"pytorch_model.bin", "diffusion_pytorch_model.bin",
        "adapter_model.bin"}) {
    if (std::ranges::find(names, known) != names.end()) {
      return {std::string(known)};
    }
  }
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    if (name.ends_with(".bin") && ParseNumberedName(name)) {
      parts.push_back(name);
    }
  }
  return parts;
}

std::set<std::string> WeightIndex::Files() const {
  std::set<std::string> files;
  for (const auto& [tensor, file] : file_of) files.insert(file);
  return files;
}

Result<WeightIndex> ReadWeightIndex(const Place& file) {
  const std::string name = file.name();
  HF_ASSIGN_OR_RETURN(const std::shared_ptr<Store> store,
                      MakeFileSet({{name, file}}));
  HF_ASSIGN_OR_RETURN(const ObjectInfo info, store->Stat(name));
  if (info.byte_count > kIndexBytesMax) {
    return DataLossError(file.path() + ": an index of " +
                         std::to_string(info.byte_count) + " bytes");
  }
  HF_ASSIGN_OR_RETURN(const Bytes text, store->Read(name));
  Result<WeightIndex> index = ParseWeightIndex(text.view());
  if (!index.ok()) {
    return WithWhatFileIs(index.status(), *store, name, "json")
        .WithContext(file.path());
  }
  return index;
}

Status OfIndexedFiles(const Status& status) {
  if (status.code() != StatusCode::kNotFound) return status;
  return DataLossError(std::string(status.message()) +
                       ", and the index names it");
}

Result<std::string> ChooseIndex(const Place& directory,
                                const std::vector<std::string>& names,
                                std::string_view suffix,
                                std::string_view usual) {
  std::vector<std::string> indexes;
  for (const std::string& name : names) {
    if (name == usual) return name;
    if (name.ends_with(suffix)) indexes.push_back(name);
  }
  if (indexes.empty()) return std::string();
  if (indexes.size() == 1) return indexes.front();
  return FailedPreconditionError(
      directory.path() + ": there are several indexes, " + indexes[0] +
      " and " + indexes[1] + "; give the path of one of them");
}

Status FoundWeights::Add(const std::string& name, const std::string& file,
                         const WeightIndex* index) {
  const auto [other, is_new] = file_of_.emplace(name, file);
  if (!is_new) {
    return DataLossError("tensor \"" + name + "\" is also in " + other->second);
  }
  if (index == nullptr) return Status();
  const auto listed = index->file_of.find(name);
  if (listed != index->file_of.end() && listed->second == file) {
    return Status();
  }
  return DataLossError(
      "tensor \"" + name + "\" is in it, but the index has it " +
      (listed == index->file_of.end() ? "nowhere" : "in " + listed->second));
}

Status FoundWeights::CheckAll(const WeightIndex& index) const {
  for (const auto& [name, file] : index.file_of) {
    if (file_of_.contains(name)) continue;
    return DataLossError("tensor \"" + name + "\" is not in " + file);
  }
  return Status();
}

}  // namespace holdfast
