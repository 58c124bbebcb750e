// holdfast_driver: executes requests of bench/peers.py, and reports how long
// they took.
//
// It reads one request per line from standard input, and writes one response
// per line to standard output:
//   tree LINES DATA            builds the tree to save. Each line is
//                              NAME DTYPE OFFSET EXTENT...; a name's dots
//                              separate keys, and DATA has the bytes at OFFSET
//   save PATH [option=value]   format=, zarr=, ocdbt=, compression=, chunk=,
//                              threads=
//   load PATH | list PATH | slice PATH NAME ROW
//   reset_peak | peak          the value is the resident bytes now | their
//                              maximum since the reset
// It responds "ok SECONDS VALUE" or "error message". Only the call itself is
// timed; its result is freed afterwards.

#include <holdfast/holdfast.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace {

using holdfast::InvalidArgumentError;
using holdfast::Result;
using holdfast::Status;

struct Answer {
  double seconds = 0;
  uint64_t value = 0;
};

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(Clock::now() - start_).count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_ = Clock::now();
};

Status SetOption(const std::string& option, holdfast::SaveOptions& options) {
  const size_t equals = std::min(option.find('='), option.size() - 1);
  const std::string name = option.substr(0, equals);
  const std::string value = option.substr(equals + 1);
  if (name == "format") {
    options.format = value == "orbax-v1" ? holdfast::Format::kOrbaxV1
                                         : holdfast::Format::kOrbax;
  } else if (name == "zarr") {
    options.zarr_format = std::stoi(value);
  } else if (name == "ocdbt") {
    options.use_ocdbt = value == "1";
  } else if (name == "compression") {
    const auto compression = holdfast::CompressionFromName(value);
    if (!compression) {
      return InvalidArgumentError("unknown compression " + value);
    }
    options.compression = *compression;
  } else if (name == "chunk") {
    options.chunk_bytes = std::stoull(value);
  } else if (name == "threads") {
    options.run.threads = std::stoi(value);
  } else {
    return InvalidArgumentError("unknown option " + option);
  }
  return Status();
}

// Returns a field of /proc/self/status in bytes; 0 if it is missing.
uint64_t ProcessBytes(const std::string& field) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    uint64_t kibibytes = 0;
    if (word == field + ":" && status >> kibibytes) return kibibytes << 10;
  }
  return 0;
}

// An array, or a dict while its members are being read.
struct Node {
  std::map<std::string, Node> members;
  std::optional<holdfast::Array> array;
};

holdfast::Tree ToTree(Node& node) {
  if (node.array) return *std::move(node.array);
  std::vector<holdfast::Tree::Member> members;
  for (auto& [key, member] : node.members) {
    members.emplace_back(key, ToTree(member));
  }
  return holdfast::Tree::Dict(std::move(members));
}

// Adds the array that `line` describes; it borrows `data`.
Status AddArray(const std::string& line, const std::string& data, Node& root) {
  std::istringstream words(line);
  std::string name, dtype_name;
  uint64_t offset = 0;
  words >> name >> dtype_name >> offset;
  const auto dtype = holdfast::DTypeFromName(dtype_name);
  if (!words || !dtype) return InvalidArgumentError("bad line: " + line);
  holdfast::Shape shape;
  for (int64_t extent; words >> extent;) shape.push_back(extent);
  const size_t element_bytes = holdfast::DTypeBytes(*dtype);
  const uint64_t byte_count =
      static_cast<uint64_t>(holdfast::ElementCount(shape)) * element_bytes;
  if (offset > data.size() || byte_count > data.size() - offset) {
    return InvalidArgumentError("outside the data: " + line);
  }
  Node* node = &root;
  std::istringstream keys(name);
  for (std::string key; std::getline(keys, key, '.');) {
    node = &node->members[key];
  }
  node->array = holdfast::Array::Borrow(
      {*dtype, data.data() + offset, shape,
       holdfast::ContiguousStrides(shape, element_bytes)},
      nullptr);
  return Status();
}

class Driver {
 public:
  Result<Answer> Do(std::istringstream& words) {
    std::string verb, path;
    words >> verb >> path;
    if (verb == "tree") return BuildTree(path, words);
    if (verb == "save") return Save(path, words);
    if (verb == "load") return Load(path);
    if (verb == "list") return List(path);
    if (verb == "slice") return Slice(path, words);
    if (verb == "reset_peak") return ResetPeak();
    if (verb == "peak") return Answer{0, ProcessBytes("VmHWM")};
    return InvalidArgumentError("unknown request " + verb);
  }

 private:
  Result<Answer> BuildTree(const std::string& lines_path,
                           std::istringstream& words) {
    std::string data_path;
    words >> data_path;
    std::ifstream lines(lines_path);
    std::ifstream data(data_path, std::ios::binary | std::ios::ate);
    if (!lines || !data) return InvalidArgumentError("cannot open the tree");
    const Stopwatch watch;
    tree_.reset();
    data_.resize(static_cast<size_t>(data.tellg()));
    data.seekg(0);
    data.read(data_.data(), static_cast<std::streamsize>(data_.size()));
    Node root;
    for (std::string line; std::getline(lines, line);) {
      Status status = AddArray(line, data_, root);
      if (!status.ok()) return status;
    }
    tree_ = ToTree(root);
    return Answer{watch.seconds(), data_.size()};
  }

  Result<Answer> Save(const std::string& path, std::istringstream& words) {
    if (!tree_) return InvalidArgumentError("no tree yet");
    holdfast::SaveOptions options;
    for (std::string option; words >> option;) {
      Status status = SetOption(option, options);
      if (!status.ok()) return status;
    }
    const Stopwatch watch;
    const auto saved = holdfast::Save(path, *tree_, options);
    const double seconds = watch.seconds();
    if (!saved.ok()) return saved.status();
    return Answer{seconds, saved->stats.stored_bytes};
  }

  Result<Answer> Load(const std::string& path) {
    const Stopwatch watch;
    const auto loaded = holdfast::Load(path);
    const double seconds = watch.seconds();
    if (!loaded.ok()) return loaded.status();
    return Answer{seconds, loaded->stats.decoded_bytes};
  }

  Result<Answer> List(const std::string& path) {
    const Stopwatch watch;
    const auto checkpoint = holdfast::Open(path);
    const double seconds = watch.seconds();
    if (!checkpoint.ok()) return checkpoint.status();
    return Answer{seconds, (*checkpoint)->leaves().size()};
  }

  Result<Answer> Slice(const std::string& path, std::istringstream& words) {
    std::string name;
    int64_t row = 0;
    words >> name >> row;
    const Stopwatch watch;
    const auto checkpoint = holdfast::Open(path);
    if (!checkpoint.ok()) return checkpoint.status();
    const auto leaf = (*checkpoint)->Find(name);
    if (!leaf.ok()) return leaf.status();
    holdfast::Shape shape = (*checkpoint)->leaves()[*leaf].shape;
    if (shape.empty()) return InvalidArgumentError(name + " has no rows");
    holdfast::Shape origin(shape.size());
    origin[0] = row;
    shape[0] = 1;
    const auto box = (*checkpoint)->ReadBox(*leaf, origin, shape);
    const double seconds = watch.seconds();
    if (!box.ok()) return box.status();
    return Answer{seconds, box->byte_count()};
  }

  Result<Answer> ResetPeak() {
    std::ofstream("/proc/self/clear_refs") << "5";
    return Answer{0, ProcessBytes("VmRSS")};
  }

  std::string data_;
  std::optional<holdfast::Tree> tree_;  // borrows data_
};

}  // namespace

int main() {
  Driver driver;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    const Result<Answer> answer = driver.Do(words);
    if (answer.ok()) {
      std::cout << "ok " << answer->seconds << " " << answer->value
                << std::endl;
      continue;
    }
    std::string message = answer.status().ToString();
    std::replace(message.begin(), message.end(), '\n', ' ');
    std::cout << "error " << message << std::endl;
  }
  return 0;
}
