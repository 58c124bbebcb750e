// plan_transforms: tells a Python test which leaves a restore with transforms
// reads.
//
// Each line of standard input is a request, with words separated by spaces:
//   DEFAULT_TO_ORIGINAL HAS_ARGS
//   N  N times: PATH                                  the stored leaves
//   N  N times: PATH leaf|none|dict                   the item
//   N  N times: PATTERN KEY USE_FALLBACK HAS_MULTI IS_RESTORE INPUTS
//      then INPUTS times (if >= 0): PATTERN ARGS      the transforms
//   N  N times: PATH ARGS                             the restore arguments
// Strings are in hex ("-" if empty). The keys of a PATH are separated by
// commas. "!" means no KEY. Flags are 0 or 1. ARGS are "saved", "numpy" or
// "jax", then a colon, then a dtype or nothing. The answer is "ok" and the ARGS
// of each stored leaf ("-" if the leaf is not read), or "error CODE HEX".

#include <holdfast/holdfast.h>
#include <holdfast/orbax/orbax.h>

#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tree_lines.h"

namespace {

using holdfast::AnyRestoreArgs;
using holdfast::ArrayRestoreArgs;
using holdfast::DType;
using holdfast::RestoreArgs;
using holdfast::RestoreType;
using holdfast::Result;
using holdfast::Status;
using holdfast::TreePath;
using holdfast::interop::FromHex;
using holdfast::interop::ToHex;

// Reads the words of one request. After the last word, reads zeros.
class Request {
 public:
  explicit Request(const std::string& line) : words_(line) {}

  std::string Word() {
    std::string word;
    words_ >> word;
    return word;
  }
  int Number() {
    int number = 0;
    words_ >> number;
    return number;
  }
  std::string Text() { return FromHex(Word()).value(); }
  TreePath Path() {
    TreePath path;
    std::istringstream keys(Word());
    for (std::string key; std::getline(keys, key, ',');) {
      path.push_back(FromHex(key).value());
    }
    return path;
  }
  AnyRestoreArgs Args() {
    const std::string word = Word();
    const size_t colon = word.find(':');
    const std::string kind = word.substr(0, colon);
    const std::string name = word.substr(colon + 1);
    const std::optional<DType> dtype = holdfast::DTypeFromName(name);
    if (kind == "jax") return ArrayRestoreArgs{.dtype = dtype};
    return RestoreArgs{.restore_type = kind == "numpy" ? RestoreType::kNumpy
                                                       : RestoreType::kAsSaved,
                       .dtype = dtype};
  }

 private:
  std::istringstream words_;
};

std::string ArgsText(const AnyRestoreArgs& any) {
  std::optional<DType> dtype;
  std::string text = "jax:";
  if (const auto* array = std::get_if<ArrayRestoreArgs>(&any)) {
    dtype = array->dtype;
  } else {
    const auto& plain = std::get<RestoreArgs>(any);
    dtype = plain.dtype;
    text = plain.restore_type == RestoreType::kNumpy ? "numpy:" : "saved:";
  }
  if (dtype) text += holdfast::DTypeName(*dtype);
  return text;
}

std::vector<TreePath> ReadStored(Request& request) {
  std::vector<TreePath> stored(request.Number());
  for (TreePath& path : stored) path = request.Path();
  return stored;
}

Result<holdfast::Tree> ReadItem(Request& request) {
  holdfast::FlatDict flat(request.Number());
  for (auto& [path, leaf] : flat) {
    path = request.Path();
    const std::string kind = request.Word();
    leaf = kind == "none"   ? holdfast::Tree()
           : kind == "dict" ? holdfast::Tree::Dict()
                            : holdfast::Tree(0);
  }
  return FromFlatDict(flat);
}

holdfast::AnyTransform ReadTransform(Request& request) {
  holdfast::RestoreTransform transform;
  const std::string key = request.Word();
  if (key != "!") transform.original_key = FromHex(key).value();
  transform.use_fallback = request.Number() == 1;
  const bool has_multi_value_fn = request.Number() == 1;
  const bool is_restore = request.Number() == 1;
  const int input_count = request.Number();
  if (input_count >= 0) transform.multi_value_fn_input_args.emplace();
  for (int i = 0; i < input_count; ++i) {
    std::string pattern = request.Text();
    transform.multi_value_fn_input_args->emplace_back(std::move(pattern),
                                                      request.Args());
  }
  if (is_restore) {
    if (has_multi_value_fn) {
      transform.multi_value_fn = [](std::string_view, const holdfast::Tree&,
                                    const AnyRestoreArgs&) {
        return holdfast::Tree();
      };
    }
    return transform;
  }
  holdfast::Transform plain{.original_key = transform.original_key,
                            .use_fallback = transform.use_fallback};
  if (has_multi_value_fn) {
    plain.multi_value_fn = [](std::string_view, const holdfast::Tree&) {
      return holdfast::Tree();
    };
  }
  return plain;
}

Result<holdfast::TransformPlan> Plan(Request& request) {
  const bool default_to_original = request.Number() == 1;
  const bool has_args = request.Number() == 1;
  const std::vector<TreePath> stored = ReadStored(request);
  const Result<holdfast::Tree> item = ReadItem(request);
  if (!item.ok()) return item.status();
  holdfast::Transforms transforms;
  for (int i = request.Number(); i > 0; --i) {
    std::string pattern = request.Text();
    transforms.emplace_back(std::move(pattern), ReadTransform(request));
  }
  holdfast::RestoreArgsMap args;
  for (int i = request.Number(); i > 0; --i) {
    const std::string name = holdfast::StrKeypath(request.Path());
    args[name] = request.Args();
  }
  return PlanTransforms(stored, &*item, transforms, has_args ? &args : nullptr,
                        default_to_original);
}

std::string Answer(const Result<holdfast::TransformPlan>& plan) {
  if (!plan.ok()) {
    const Status& status = plan.status();
    return "error " + std::string(StatusCodeName(status.code())) + " " +
           ToHex(status.message());
  }
  std::string answer = "ok";
  for (const auto& args : plan->args) {
    answer += " " + (args ? ArgsText(*args) : "-");
  }
  return answer;
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    Request request(line);
    std::cout << Answer(Plan(request)) << std::endl;
  }
}
