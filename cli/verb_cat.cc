// cat: prints one value, or a slice of it.

#include "cli/array_text.h"
#include "cli/failures.h"
#include "cli/leaf_text.h"
#include "cli/npy.h"
#include "cli/read_selection.h"
#include "cli/select.h"
#include "cli/slice.h"
#include "cli/units.h"
#include "cli/verbs.h"
#include "holdfast/checkpoint.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast::cli {
namespace {

struct CatArgs : Args {
  bool full = false;
  bool raw = false;
  bool npy = false;

  template <typename Fn>
  void Fields(const Fn& fn) {
    Args::Fields(fn);
    fn("full", full);
    fn("raw", raw);
    fn("npy", npy);
  }
};

// The leaf and slice that the second operand asks for.
struct Wanted {
  size_t leaf = 0;
  std::optional<std::string> slice;
};

Result<size_t> FindLeaf(const Checkpoint& checkpoint, std::string_view name) {
  auto found = checkpoint.Find(name);
  if (found.status().code() == StatusCode::kNotFound && !name.empty()) {
    return NotFoundError(std::string(found.status().message()) +
                         LeafHint(checkpoint.leaves(), name));
  }
  if (found.ok() || !name.empty()) return found;
  const size_t leaf_count = checkpoint.leaves().size();
  if (leaf_count == 1) return size_t{0};
  return InvalidArgumentError("no leaf named: the checkpoint has " +
                              Counted(leaf_count, "leaf", "leaves"));
}

// Tries the complete operand as a name first, since names may contain brackets.
Result<Wanted> Resolve(const Checkpoint& checkpoint, std::string_view operand) {
  const auto whole = FindLeaf(checkpoint, operand);
  if (whole.ok()) return Wanted{*whole, std::nullopt};
  const auto split = SplitName(operand);
  if (!split) return whole.status();
  const auto leaf = FindLeaf(checkpoint, split->name);
  if (!leaf.ok()) return leaf.status();
  return Wanted{*leaf, std::string(split->slice)};
}

std::string EmptyText(ValueKind kind) {
  switch (kind) {
    case ValueKind::kNone:
      return "None";
    case ValueKind::kEmptyDict:
      return "{}";
    case ValueKind::kEmptyList:
      return "[]";
    case ValueKind::kEmptyTuple:
      return "()";
    default:
      return "...";  // a placeholder, as Orbax writes it
  }
}

std::string Hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

void BeginJson(const LeafInfo& leaf, JsonWriter* json) {
  json->BeginObject();
  json->Field("name", leaf.name);
  WriteTypeFields(leaf, json);
}

class Cat {
 public:
  Cat(const Checkpoint& checkpoint, size_t leaf, const CatArgs& args, Env& env)
      : checkpoint_(checkpoint),
        leaf_(leaf),
        info_(checkpoint.leaves()[leaf]),
        args_(args),
        env_(env) {}

  Status Run(const std::optional<std::string>& slice) {
    if (HasShape(info_)) return RunArray(slice);
    if (slice) return Refuse("cannot be sliced");
    if (args_.npy) return Refuse("cannot be a .npy file");
    switch (info_.kind) {
      case ValueKind::kString:
      case ValueKind::kBytes:
      case ValueKind::kJson:
        return RunText();
      case ValueKind::kObject:
        return RunObject();
      default:
        return RunEmpty();
    }
  }

 private:
  Status Refuse(std::string_view what) const {
    return InvalidArgumentError(info_.name + ": a leaf of kind " +
                                std::string(ValueKindName(info_.kind)) + " " +
                                std::string(what));
  }

  Status RunArray(const std::optional<std::string>& slice) {
    Selection selection = SelectAll(info_.shape);
    if (slice) {
      auto parsed = ParseSlice(*slice, info_.shape);
      if (!parsed.ok()) return parsed.status().WithContext(info_.name);
      selection = std::move(*parsed);
    }
    if (args_.raw || args_.npy) return WriteBytes(selection);
    if (args_.json) return WriteJson(selection);
    return Print(selection);
  }

  Status WriteBytes(const Selection& selection) {
    const DType dtype = info_.dtype.value_or(DType::kUint8);
    if (args_.npy) env_.out << NpyHeader(dtype, SelectedShape(selection));
    return ReadInSlabs(checkpoint_, leaf_, selection, args_.run.memory_bytes,
                       [&](const ConstArrayView& slab) {
                         if (env_.cancelled()) return CancelledError("stopped");
                         WriteArrayBytes(slab, env_.out);
                         return Status();
                       });
  }

  Status WriteJson(const Selection& selection) {
    const auto picture = ReadSelection(checkpoint_, leaf_, selection);
    if (!picture.ok()) return picture.status();
    JsonWriter json(env_.out);
    BeginJson(info_, &json);
    json.ShapeField("shape", picture->view.shape);
    json.Key("value");
    WriteArrayJson(picture->view, &json);
    json.EndObject();
    env_.out << '\n';
    return Status();
  }

  Status Print(const Selection& selection) {
    const Shape shape = SelectedShape(selection);
    const bool summary = !args_.full && ElementCount(shape) > kSummaryThreshold;
    const auto picture =
        summary ? ReadEdges(checkpoint_, leaf_, selection, kEdgeCount)
                : ReadSelection(checkpoint_, leaf_, selection);
    if (!picture.ok()) return picture.status();
    PrintArray(picture->view, shape, env_.out);
    return Status();
  }

  Status RunText() {
    const auto text = checkpoint_.ReadText(leaf_);
    if (!text.ok()) return text.status();
    const bool is_bytes = info_.kind == ValueKind::kBytes;
    if (args_.json) {
      JsonWriter json(env_.out);
      BeginJson(info_, &json);
      json.NullField("shape");
      if (is_bytes) {
        json.Field("value_hex", Hex(*text));
      } else {
        json.Field("value", *text);
      }
      json.EndObject();
      env_.out << '\n';
    } else if (args_.raw) {
      env_.out << *text;
    } else {
      env_.out << (is_bytes ? PrintableText(*text) : *text) << '\n';
    }
    return Status();
  }

  // Prints the object's content, or with --raw the torch.save file that stores
  // it.
  Status RunObject() {
    const auto file = checkpoint_.ReadText(leaf_);
    if (!file.ok()) return file.status();
    if (args_.raw) {
      env_.out << *file;
      return Status();
    }
    const auto value = ReadTorchFile(*file);
    if (!value.ok()) return value.status().WithContext(info_.name);
    const std::string text = PickleValueToJson(*value);
    if (!args_.json) {
      env_.out << text << '\n';
      return Status();
    }
    JsonWriter json(env_.out);
    BeginJson(info_, &json);
    json.NullField("shape");
    json.Key("value");
    json.Raw(text);
    json.EndObject();
    env_.out << '\n';
    return Status();
  }

  Status RunEmpty() {
    if (args_.raw) return Status();
    if (!args_.json) {
      env_.out << EmptyText(info_.kind) << '\n';
      return Status();
    }
    JsonWriter json(env_.out);
    BeginJson(info_, &json);
    json.NullField("shape");
    json.NullField("value");
    json.EndObject();
    env_.out << '\n';
    return Status();
  }

  const Checkpoint& checkpoint_;
  const size_t leaf_;
  const LeafInfo& info_;
  const CatArgs& args_;
  Env& env_;
};

Status CheckOutput(const CatArgs& args, const Env& env) {
  if (args.raw + args.npy + args.json > 1) {
    return InvalidArgumentError("--json, --raw and --npy exclude each other");
  }
  if ((args.raw || args.npy) && env.out_is_terminal) {
    return InvalidArgumentError("binary output does not go to a terminal");
  }
  return Status();
}

int RunCat(const CatArgs& args, Env& env) {
  const Status output = CheckOutput(args, env);
  if (!output.ok()) return Fail(env, output, "redirect it: > FILE");
  const auto opened = Open(args.operands[0], args.open);
  if (!opened.ok()) return Fail(env, opened.status());
  const std::string operand = args.operands.size() > 1 ? args.operands[1] : "";
  const auto wanted = Resolve(**opened, operand);
  if (!wanted.ok()) {
    return Fail(env, wanted.status(),
                "holdfast ls " + args.operands[0] + " lists the names");
  }
  const Status status =
      Cat(**opened, wanted->leaf, args, env).Run(wanted->slice);
  return status.ok() ? kExitFine : Fail(env, status);
}

}  // namespace

int RunCat(const Words& words, Env& env) {
  return RunFilled<CatArgs>(words, env, RunCat);
}

}  // namespace holdfast::cli
