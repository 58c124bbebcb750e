#include "holdfast/tools/stats_cache.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "ground/base/clock.h"
#include "ground/base/coding.h"
#include "ground/base/crc32c.h"
#include "ground/base/no_throw.h"
#include "ground/base/status_macros.h"
#include "ground/json/text.h"
#include "stores/place/place.h"
#include "stores/storage/store.h"
#include "tools/convert/work_directory.h"

namespace holdfast {
namespace {

using Json = nlohmann::ordered_json;

// The file begins with this, the CRC-32C of the rest in hex, and a newline. The
// rest is a JSON object of sections {"used": nanoseconds, "leaves": {name:
// numbers}}. Floats are stored as their bits, so that they are read back
// exactly.
constexpr std::string_view kMagic = "holdfast-stats 1 ";
constexpr size_t kHeadBytes = kMagic.size() + 8 + 1;

using Numbers = std::vector<uint64_t>;

struct Section {
  int64_t used_ns = 0;
  std::map<std::string, Numbers> leaves;
};

std::string ChecksumText(std::string_view text) {
  std::string bytes;
  const uint32_t crc = Crc32c(text);
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(crc >> shift);
  }
  return ToHex(bytes);
}

uint64_t BitsOf(double number) { return std::bit_cast<uint64_t>(number); }
double DoubleOf(uint64_t bits) { return std::bit_cast<double>(bits); }

// Returns the dtype in which a tensor's min, max or absmax is stored.
DType ExtremeDType(DType dtype, bool is_magnitude) {
  switch (DTypeKindOf(dtype)) {
    case DTypeKind::kFloat:
    case DTypeKind::kComplex:
      return DType::kFloat64;
    case DTypeKind::kUnsigned:
      return DType::kUint64;
    default:
      return is_magnitude ? DType::kUint64 : DType::kInt64;
  }
}

constexpr size_t kCounts = 7, kExtremes = 3, kDoubles = 4;
constexpr size_t kFixed = kCounts + 2 * kExtremes + kDoubles;

Numbers ToNumbers(const LeafStats& leaf) {
  Numbers numbers = {leaf.zero_count,
                     leaf.nan_count,
                     leaf.positive_infinity_count,
                     leaf.negative_infinity_count,
                     leaf.complex_infinity_count,
                     leaf.finite_count,
                     leaf.planes_bytes};
  for (const auto& extreme : {leaf.min, leaf.max, leaf.absmax}) {
    numbers.push_back(extreme.has_value());
    numbers.push_back(extreme ? extreme->As<uint64_t>() : 0);
  }
  for (const double number :
       {leaf.mean, leaf.mean_imaginary, leaf.std, leaf.l2_norm}) {
    numbers.push_back(BitsOf(number));
  }
  if (!leaf.histogram) return numbers;
  numbers.push_back(leaf.histogram->sample_count);
  const auto& counts = leaf.histogram->counts;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    numbers.push_back(i);
    numbers.push_back(counts[i]);
  }
  return numbers;
}

// Returns false for numbers that cannot belong to this tensor. A sum of counts
// that overflows wraps, and then differs from the element count.
bool FromNumbers(const Numbers& numbers, LeafStats& leaf) {
  if (numbers.size() < kFixed) return false;
  uint64_t element_count = 0;
  for (size_t i = 1; i < 6; ++i) {
    if (numbers[i] > leaf.element_count) return false;
    element_count += numbers[i];
  }
  if (element_count != leaf.element_count || numbers[0] > numbers[5]) {
    return false;
  }
  std::optional<MagnitudeHistogram> histogram;
  if (numbers.size() > kFixed) {
    histogram.emplace().sample_count = numbers[kFixed];
    if ((numbers.size() - kFixed) % 2 == 0) return false;
    for (size_t i = kFixed + 1; i < numbers.size(); i += 2) {
      if (numbers[i] >= histogram->counts.size()) return false;
      histogram->counts[numbers[i]] = numbers[i + 1];
    }
  }
  leaf.histogram = histogram;
  leaf.zero_count = numbers[0];
  leaf.nan_count = numbers[1];
  leaf.positive_infinity_count = numbers[2];
  leaf.negative_infinity_count = numbers[3];
  leaf.complex_infinity_count = numbers[4];
  leaf.finite_count = numbers[5];
  leaf.planes_bytes = numbers[6];
  size_t at = kCounts;
  for (std::optional<Scalar>* extreme : {&leaf.min, &leaf.max, &leaf.absmax}) {
    extreme->reset();
    if (numbers[at] != 0) {
      *extreme = Scalar::Of(ExtremeDType(leaf.dtype, extreme == &leaf.absmax),
                            numbers[at + 1], false);
    }
    at += 2;
  }
  for (double* number :
       {&leaf.mean, &leaf.mean_imaginary, &leaf.std, &leaf.l2_norm}) {
    *number = DoubleOf(numbers[at++]);
  }
  return true;
}

Result<Section> ParseSection(const Json& json) {
  const Status bad = DataLossError("a section is malformed");
  if (!json.is_object() || !json.contains("used") || !json.contains("leaves")) {
    return bad;
  }
  const Json& used = json["used"];
  const Json& leaves = json["leaves"];
  if (!used.is_number_integer() || !leaves.is_object()) return bad;
  Section section;
  section.used_ns = used.get<int64_t>();
  for (const auto& [name, numbers] : leaves.items()) {
    if (!numbers.is_array() ||
        !std::all_of(numbers.begin(), numbers.end(), [](const Json& number) {
          return number.is_number_unsigned() ||
                 (number.is_number_integer() && number.get<int64_t>() >= 0);
        })) {
      return bad;
    }
    section.leaves[name] = numbers.get<Numbers>();
  }
  return section;
}

Json ToJson(const Section& section) {
  Json leaves = Json::object();
  // The names are unique, so they are appended without searching for an
  // existing key.
  for (const auto& [name, numbers] : section.leaves) {
    leaves.get_ref<Json::object_t&>().emplace_back(name, numbers);
  }
  Json json;
  json["used"] = section.used_ns;
  json["leaves"] = std::move(leaves);
  return json;
}

std::string DriftKey(const std::string& before, const std::string& now) {
  return before + " to " + now;
}

}  // namespace

class StatsCache::Impl {
 public:
  explicit Impl(std::string file) : place_(Place(file).Absolute()) {
    const Status status = CatchBadAlloc([&] { return Load(); });
    if (status.ok()) return;
    sections_.clear();
    warning_ = place_.path() + ": left out: " + std::string(status.message());
  }

  Status Write() {
    const std::lock_guard lock(mutex_);
    if (!is_changed_) return Status();
    if (is_other_file_) {
      return FailedPreconditionError(
          place_.path() + ": not a cache of statistics, so it is not replaced");
    }
    const std::string text = Text();
    HF_RETURN_IF_ERROR(place_.parent().OpenStore()->Write(
        place_.name(), std::string(kMagic) + ChecksumText(text) + "\n" + text));
    is_changed_ = false;
    return Status();
  }

  const Numbers* Find(const std::string& key, const std::string& name) {
    const auto section = sections_.find(key);
    if (section == sections_.end()) return nullptr;
    section->second.used_ns = SystemNowNs();
    const auto leaf = section->second.leaves.find(name);
    return leaf == section->second.leaves.end() ? nullptr : &leaf->second;
  }

  void Put(const std::string& key, const std::string& name, Numbers numbers) {
    Section& section = sections_[key];
    section.used_ns = SystemNowNs();
    section.leaves[name] = std::move(numbers);
    is_changed_ = true;
  }

  const std::string& warning() const { return warning_; }
  std::mutex& mutex() { return mutex_; }

 private:
  Status Load() {
    const std::shared_ptr<Store> store = place_.parent().OpenStore();
    const auto info = store->Stat(place_.name());
    if (info.status().code() == StatusCode::kNotFound) return Status();
    if (!info.ok()) return info.status();
    if (info->byte_count > 2 * kStatsCacheBytesMax) {
      is_other_file_ = true;
      return DataLossError("is too large for a cache of statistics");
    }
    HF_ASSIGN_OR_RETURN(const Bytes bytes, store->Read(place_.name()));
    const std::string_view file = bytes.view();
    if (file.empty()) return Status();
    if (!file.starts_with(kMagic) || file.size() < kHeadBytes) {
      is_other_file_ = !kMagic.starts_with(file.substr(0, kMagic.size()));
      return DataLossError("not a cache of statistics");
    }
    const std::string_view text = file.substr(kHeadBytes);
    if (file.substr(kMagic.size(), 8) != ChecksumText(text)) {
      return DataLossError("its checksum does not match");
    }
    HF_ASSIGN_OR_RETURN(const Json json, ParseJsonText(text));
    if (!json.is_object()) return DataLossError("not a JSON object");
    for (const auto& [key, value] : json.items()) {
      HF_ASSIGN_OR_RETURN(sections_[key], ParseSection(value));
    }
    return Status();
  }

  // Returns the file's text with the most recently used sections, up to the
  // maximum size.
  std::string Text() const {
    std::vector<std::pair<int64_t, std::string>> order;
    for (const auto& [key, section] : sections_) {
      order.emplace_back(-section.used_ns, key);
    }
    std::sort(order.begin(), order.end());
    std::string text = "{";
    for (const auto& [age, key] : order) {
      std::string part =
          (text.size() > 1 ? "," : "") + Json(key).dump() + ":" +
          ToJson(sections_.at(key))
              .dump(-1, ' ', true, Json::error_handler_t::replace);
      if (text.size() + part.size() > kStatsCacheBytesMax) break;
      text += part;
    }
    return text + "}";
  }

  const Place place_;
  std::string warning_;
  bool is_other_file_ = false;
  std::mutex mutex_;
  std::map<std::string, Section> sections_;
  bool is_changed_ = false;
};

StatsCache::StatsCache(std::string file)
    : impl_(std::make_unique<Impl>(std::move(file))) {}
StatsCache::~StatsCache() = default;

const std::string& StatsCache::warning() const { return impl_->warning(); }
Status StatsCache::Write() {
  return CatchBadAlloc([&] { return impl_->Write(); });
}

std::string StatsCache::IdentityOf(const Checkpoint& checkpoint) {
  const std::string& path = checkpoint.info().path;
  const uint64_t hash = FilesHash(Place(path));
  return hash == 0 ? "" : path + " " + std::to_string(hash);
}

bool StatsCache::Find(const std::string& identity, bool with_histogram,
                      LeafStats& leaf) const {
  const std::lock_guard lock(impl_->mutex());
  const Numbers* numbers = impl_->Find(identity, leaf.name);
  if (numbers == nullptr) return false;
  if (with_histogram && numbers->size() <= kFixed) return false;
  return FromNumbers(*numbers, leaf);
}

void StatsCache::Put(const std::string& identity, const LeafStats& leaf) {
  const std::lock_guard lock(impl_->mutex());
  impl_->Put(identity, leaf.name, ToNumbers(leaf));
}

bool StatsCache::FindDrift(const std::string& before, const std::string& now,
                           const std::string& name, LeafDrift& leaf) const {
  const std::lock_guard lock(impl_->mutex());
  const Numbers* numbers = impl_->Find(DriftKey(before, now), name);
  if (numbers == nullptr || numbers->size() != 2) return false;
  leaf.moved = DoubleOf((*numbers)[0]);
  leaf.norm = DoubleOf((*numbers)[1]);
  return true;
}

void StatsCache::PutDrift(const std::string& before, const std::string& now,
                          const std::string& name, const LeafDrift& leaf) {
  const std::lock_guard lock(impl_->mutex());
  impl_->Put(DriftKey(before, now), name,
             {BitsOf(leaf.moved), BitsOf(leaf.norm)});
}

}  // namespace holdfast
