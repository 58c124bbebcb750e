#include "formats/pickle/program.h"

#include <array>
#include <unordered_map>
#include <utility>

#include "formats/pickle/decimal.h"
#include "formats/pickle/opcodes.h"
#include "formats/pickle/pickle_reader.h"
#include "ground/base/status_macros.h"
#include "ground/base/text.h"

namespace holdfast::pickle {
namespace {

constexpr std::array<std::string_view, 17> kNodeKindNames = {
    "None",
    "a bool",
    "an int",
    "an int",
    "a float",
    "a str",
    "bytes",
    "a bytearray",
    "a list",
    "a tuple",
    "a dict",
    "a set",
    "a frozenset",
    "a class or function",
    "an object",
    "a persistent id",
    "a value that is not read"};

// Values stored by MEMOIZE and PUT. Keys are mostly consecutive numbers.
class Memo {
 public:
  size_t size() const { return dense_.size() + sparse_.size(); }
  void Set(uint64_t key, NodeIndex node) {
    if (key < dense_.size()) {
      dense_[key] = node;
    } else if (key == dense_.size()) {
      dense_.push_back(node);
    } else {
      sparse_[key] = node;
    }
  }
  std::optional<NodeIndex> Get(uint64_t key) const {
    if (key < dense_.size()) return dense_[key];
    const auto found = sparse_.find(key);
    if (found == sparse_.end()) return std::nullopt;
    return found->second;
  }

 private:
  std::vector<NodeIndex> dense_;
  std::unordered_map<uint64_t, NodeIndex> sparse_;
};

class Machine {
 public:
  Machine(std::string_view bytes, const ProgramOptions& options)
      : reader_(bytes, program_.texts), options_(options) {
    // Values without parts are shared.
    none_ = Add({});
    true_ = Add({.kind = NodeKind::kBool, .number = 1});
    false_ = Add({.kind = NodeKind::kBool, .number = 0});
    empty_tuple_ = Add({.kind = NodeKind::kTuple});
  }

  bool is_cut() const { return reader_.is_cut(); }

  // Must be called only once.
  Result<Program> Run() {
    while (true) {
      HF_ASSIGN_OR_RETURN(const uint8_t code, reader_.Opcode());
      if (static_cast<Opcode>(code) == Opcode::kStop) break;
      // A few bytes (DUP, memo) can make many values, so the number of values
      // is bounded, and not only the input.
      if (program_.nodes.size() > kNodesMax) {
        return reader_.Error("it makes more than " + std::to_string(kNodesMax) +
                             " values");
      }
      HF_RETURN_IF_ERROR(Step(static_cast<Opcode>(code)));
    }
    if (!marks_.empty() || stack_.size() != 1) {
      return reader_.Error("STOP with " + std::to_string(stack_.size()) +
                           " values and " + std::to_string(marks_.size()) +
                           " marks on the stack, not one value");
    }
    program_.root = stack_.back();
    program_.byte_count = reader_.offset();
    return std::move(program_);
  }

 private:
  // ---- the stack
  NodeIndex Add(Node node) {
    program_.nodes.push_back(std::move(node));
    return static_cast<NodeIndex>(program_.nodes.size() - 1);
  }
  Status Push(NodeIndex node) {
    stack_.push_back(node);
    return {};
  }
  Status PushNew(Node node) { return Push(Add(std::move(node))); }
  Status PushText(NodeKind kind, std::string_view text) {
    Node node{.kind = kind};
    node.text = text;
    return PushNew(std::move(node));
  }
  Status PushInt(int64_t value) {
    return PushNew({.kind = NodeKind::kInt, .number = value});
  }
  // Returns the lowest stack position that an opcode may use. It may access
  // values below the topmost mark only if it pops the mark.
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Status Need(size_t count) const {
    if (stack_.size() - floor() >= count) return {};
    return reader_.Error(
        "the stack has " + std::to_string(stack_.size() - floor()) +
        " values, and an opcode wants " + std::to_string(count));
  }
  NodeIndex Take() {
    const NodeIndex node = stack_.back();
    stack_.pop_back();
    return node;
  }
  Node& node(NodeIndex index) { return program_.nodes[index]; }
  Result<std::vector<NodeIndex>> TakeToMark() {
    if (marks_.empty()) return reader_.Error("there is no mark");
    const size_t from = marks_.back();
    marks_.pop_back();
    std::vector<NodeIndex> values(stack_.begin() + static_cast<long>(from),
                                  stack_.end());
    stack_.resize(from);
    return values;
  }
  std::string NameOf(const Node& value) const {
    return std::string(NodeKindName(value.kind));
  }

  Status Step(Opcode opcode);
  Status StepNumber(Opcode opcode);
  Status StepText(Opcode opcode);
  Status StepContainer(Opcode opcode);
  Status StepMemo(Opcode opcode);
  Status StepObject(Opcode opcode);

  Status Text(NodeKind kind, Result<std::string_view> text);
  // Adds a Python 2 str, which becomes bytes if it is not valid text.
  Status OldString(Result<std::string_view> text);
  Status Long(Result<std::string_view> bytes);
  Status TextInt(std::string_view line);
  Status TextFloat(std::string_view line);
  Status TextLong(std::string_view line);
  Status TupleOf(size_t count);
  Status FromMark(NodeKind kind);
  Status Append(const std::vector<NodeIndex>& values);
  Status SetItems(const std::vector<NodeIndex>& values);
  Status AddItems(const std::vector<NodeIndex>& values);
  Status Put(uint64_t key);
  Status Get(uint64_t key);
  Status TextMemo(Opcode opcode);
  // Adds a node that holds the reason, or fails if refusals are not kept.
  Result<NodeIndex> Refuse(const Status& why, std::vector<NodeIndex> parts);
  Status PushRefused(const Status& why, std::vector<NodeIndex> parts);
  Result<NodeIndex> MakeGlobal(std::string_view module, std::string_view name);
  Status StackGlobal();
  Status Instantiate(NodeIndex callee, NodeIndex args,
                     std::optional<NodeIndex> kwargs, bool is_called);
  Status CheckCall(const Global& global, const Node& args) const;
  Status FromMarkInstance(Opcode opcode);
  Status Build();
  Status Persistent(NodeIndex id);

  Program program_;
  PickleReader reader_;
  ProgramOptions options_;
  std::vector<NodeIndex> stack_;
  std::vector<size_t> marks_;
  Memo memo_;
  std::unordered_map<std::string, int64_t> global_indices_;
  std::unordered_map<std::string, int64_t> refusal_indices_;  // by message
  NodeIndex none_, true_, false_, empty_tuple_;
};

Status Machine::Step(Opcode opcode) {
  switch (opcode) {
    case Opcode::kProto: {
      HF_ASSIGN_OR_RETURN(const uint64_t version, reader_.Unsigned(1));
      if (version <= 5) return {};
      return reader_.Error("it is of protocol " + std::to_string(version) +
                           "; the newest known is 5");
    }
    case Opcode::kFrame: {
      HF_ASSIGN_OR_RETURN([[maybe_unused]] const std::string_view frame,
                          PickleReader(reader_).Counted(8));
      return reader_.Unsigned(8).status();
    }
    case Opcode::kMark:
      marks_.push_back(stack_.size());
      return {};
    case Opcode::kPop:
      if (!marks_.empty() && marks_.back() == stack_.size()) {
        marks_.pop_back();
        return {};
      }
      HF_RETURN_IF_ERROR(Need(1));
      stack_.pop_back();
      return {};
    case Opcode::kPopMark:
      return TakeToMark().status();
    case Opcode::kDup:
      HF_RETURN_IF_ERROR(Need(1));
      return Push(stack_.back());
    case Opcode::kNone:
      return Push(none_);
    case Opcode::kNewTrue:
      return Push(true_);
    case Opcode::kNewFalse:
      return Push(false_);
    default:
      return StepNumber(opcode);
  }
}

Status Machine::StepNumber(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBinInt1:
    case Opcode::kBinInt2: {
      HF_ASSIGN_OR_RETURN(const uint64_t value,
                          reader_.Unsigned(opcode == Opcode::kBinInt1 ? 1 : 2));
      return PushInt(static_cast<int64_t>(value));
    }
    case Opcode::kBinInt: {
      HF_ASSIGN_OR_RETURN(const int64_t value, reader_.Int32());
      return PushInt(value);
    }
    case Opcode::kLong1:
      return Long(reader_.Counted(1));
    case Opcode::kLong4:
      return Long(reader_.Counted(4, true));
    case Opcode::kBinFloat: {
      HF_ASSIGN_OR_RETURN(const double value, reader_.BigEndianDouble());
      Node node{.kind = NodeKind::kFloat};
      node.real = value;
      return PushNew(std::move(node));
    }
    case Opcode::kInt: {
      HF_ASSIGN_OR_RETURN(const std::string_view line, reader_.Line());
      return TextInt(line);
    }
    case Opcode::kLong: {
      HF_ASSIGN_OR_RETURN(const std::string_view line, reader_.Line());
      return TextLong(line);
    }
    case Opcode::kFloat: {
      HF_ASSIGN_OR_RETURN(const std::string_view line, reader_.Line());
      return TextFloat(line);
    }
    default:
      return StepText(opcode);
  }
}

Status Machine::StepText(Opcode opcode) {
  switch (opcode) {
    case Opcode::kShortBinUnicode:
      return Text(NodeKind::kString, reader_.Counted(1));
    case Opcode::kBinUnicode:
      return Text(NodeKind::kString, reader_.Counted(4));
    case Opcode::kBinUnicode8:
      return Text(NodeKind::kString, reader_.Counted(8));
    case Opcode::kUnicode:
      return Text(NodeKind::kString, reader_.UnicodeLine());
    case Opcode::kShortBinBytes:
      return Text(NodeKind::kBytes, reader_.Counted(1));
    case Opcode::kBinBytes:
      return Text(NodeKind::kBytes, reader_.Counted(4));
    case Opcode::kBinBytes8:
      return Text(NodeKind::kBytes, reader_.Counted(8));
    case Opcode::kByteArray8:
      return Text(NodeKind::kByteArray, reader_.Counted(8));
    case Opcode::kString:
      return OldString(reader_.QuotedLine());
    case Opcode::kBinString:
      return OldString(reader_.Counted(4, true));
    case Opcode::kShortBinString:
      return OldString(reader_.Counted(1));
    default:
      return StepContainer(opcode);
  }
}

Status Machine::StepContainer(Opcode opcode) {
  switch (opcode) {
    case Opcode::kEmptyList:
      return PushNew({.kind = NodeKind::kList});
    case Opcode::kEmptyDict:
      return PushNew({.kind = NodeKind::kDict});
    case Opcode::kEmptySet:
      return PushNew({.kind = NodeKind::kSet});
    case Opcode::kEmptyTuple:
      return Push(empty_tuple_);
    case Opcode::kTuple1:
      return TupleOf(1);
    case Opcode::kTuple2:
      return TupleOf(2);
    case Opcode::kTuple3:
      return TupleOf(3);
    case Opcode::kTuple:
      return FromMark(NodeKind::kTuple);
    case Opcode::kList:
      return FromMark(NodeKind::kList);
    case Opcode::kDict:
      return FromMark(NodeKind::kDict);
    case Opcode::kFrozenSet:
      return FromMark(NodeKind::kFrozenSet);
    case Opcode::kAppend:
      HF_RETURN_IF_ERROR(Need(2));
      return Append({Take()});
    case Opcode::kAppends: {
      HF_ASSIGN_OR_RETURN(const std::vector<NodeIndex> values, TakeToMark());
      HF_RETURN_IF_ERROR(Need(1));
      return Append(values);
    }
    case Opcode::kSetItem: {
      HF_RETURN_IF_ERROR(Need(3));
      const NodeIndex value = Take();
      return SetItems({Take(), value});
    }
    case Opcode::kSetItems: {
      HF_ASSIGN_OR_RETURN(const std::vector<NodeIndex> values, TakeToMark());
      HF_RETURN_IF_ERROR(Need(1));
      return SetItems(values);
    }
    case Opcode::kAddItems: {
      HF_ASSIGN_OR_RETURN(const std::vector<NodeIndex> values, TakeToMark());
      HF_RETURN_IF_ERROR(Need(1));
      return AddItems(values);
    }
    default:
      return StepMemo(opcode);
  }
}

Status Machine::StepMemo(Opcode opcode) {
  switch (opcode) {
    case Opcode::kMemoize:
      return Put(memo_.size());
    case Opcode::kBinPut:
    case Opcode::kLongBinPut: {
      HF_ASSIGN_OR_RETURN(const uint64_t key,
                          reader_.Unsigned(opcode == Opcode::kBinPut ? 1 : 4));
      return Put(key);
    }
    case Opcode::kBinGet:
    case Opcode::kLongBinGet: {
      HF_ASSIGN_OR_RETURN(const uint64_t key,
                          reader_.Unsigned(opcode == Opcode::kBinGet ? 1 : 4));
      return Get(key);
    }
    case Opcode::kPut:
    case Opcode::kGet:
      return TextMemo(opcode);
    default:
      return StepObject(opcode);
  }
}

Status Machine::StepObject(Opcode opcode) {
  switch (opcode) {
    case Opcode::kGlobal: {
      HF_ASSIGN_OR_RETURN(const std::string_view module, reader_.Line());
      HF_ASSIGN_OR_RETURN(const std::string_view name, reader_.Line());
      HF_ASSIGN_OR_RETURN(const NodeIndex global, MakeGlobal(module, name));
      return Push(global);
    }
    case Opcode::kStackGlobal:
      return StackGlobal();
    case Opcode::kReduce:
    case Opcode::kNewObj: {
      HF_RETURN_IF_ERROR(Need(2));
      const NodeIndex args = Take();
      const NodeIndex callee = Take();
      return Instantiate(callee, args, {}, opcode == Opcode::kReduce);
    }
    case Opcode::kNewObjEx: {
      HF_RETURN_IF_ERROR(Need(3));
      const NodeIndex kwargs = Take();
      const NodeIndex args = Take();
      const NodeIndex callee = Take();
      if (node(kwargs).kind != NodeKind::kDict &&
          node(kwargs).kind != NodeKind::kRefused) {
        return reader_.Error("the keyword arguments of an object are " +
                             NameOf(node(kwargs)) + ", not a dict");
      }
      return Instantiate(callee, args, kwargs, false);
    }
    case Opcode::kInst:
    case Opcode::kObj:
      return FromMarkInstance(opcode);
    case Opcode::kBuild:
      return Build();
    case Opcode::kPersid: {
      HF_ASSIGN_OR_RETURN(const std::string_view line, reader_.Line());
      HF_RETURN_IF_ERROR(PushText(NodeKind::kString, line));
      return Persistent(Take());
    }
    case Opcode::kBinPersid:
      HF_RETURN_IF_ERROR(Need(1));
      return Persistent(Take());
    case Opcode::kExt1:
    case Opcode::kExt2:
    case Opcode::kExt4:
      HF_RETURN_IF_ERROR(reader_
                             .Unsigned(opcode == Opcode::kExt1   ? 1
                                       : opcode == Opcode::kExt2 ? 2
                                                                 : 4)
                             .status());
      return PushRefused(
          UnimplementedError("pickle: it uses extension codes "
                             "(copyreg.add_extension), which only the program "
                             "that wrote it can tell the meaning of"),
          {});
    case Opcode::kNextBuffer:
    case Opcode::kReadonlyBuffer:
      return UnimplementedError(
          "pickle: offset " + std::to_string(reader_.opcode_offset()) +
          ": it refers to buffers that lie outside of it");
    default:
      return reader_.Error("no opcode is " +
                           std::to_string(static_cast<int>(opcode)));
  }
}

// ---- numbers and strings

Status Machine::Text(NodeKind kind, Result<std::string_view> text) {
  HF_RETURN_IF_ERROR(text.status());
  if (kind == NodeKind::kString && !IsPythonText(*text)) {
    return reader_.Error("a str is not UTF-8");
  }
  return PushText(kind, *text);
}

Status Machine::OldString(Result<std::string_view> text) {
  HF_RETURN_IF_ERROR(text.status());
  return PushText(IsPythonText(*text) ? NodeKind::kString : NodeKind::kBytes,
                  *text);
}

Status Machine::Long(Result<std::string_view> bytes) {
  HF_RETURN_IF_ERROR(bytes.status());
  if (bytes->size() > kIntBytesMax) {
    return reader_.Error("an int has " + std::to_string(bytes->size()) +
                         " bytes; at most " + std::to_string(kIntBytesMax) +
                         " are read");
  }
  if (bytes->size() > sizeof(int64_t)) {
    return PushText(NodeKind::kBigInt, *bytes);
  }
  uint64_t value = !bytes->empty() && (bytes->back() & 0x80) != 0 ? ~uint64_t{0}
                                                                  : uint64_t{0};
  for (size_t i = bytes->size(); i-- > 0;) {
    value = value << 8 | static_cast<unsigned char>((*bytes)[i]);
  }
  return PushInt(static_cast<int64_t>(value));
}

Status Machine::TextInt(std::string_view line) {
  if (line == "00") return Push(false_);
  if (line == "01") return Push(true_);
  return TextLong(line);
}

Status Machine::TextLong(std::string_view line) {
  std::string_view digits = line;
  if (digits.ends_with('L')) digits.remove_suffix(1);
  auto bytes = BytesOfDecimal(digits);
  if (!bytes) {
    return reader_.Error("not the text of an int of up to " +
                         std::to_string(kDigitsMax) + " digits");
  }
  while (bytes->size() > 8 && (bytes->back() == '\0' || bytes->back() == -1) &&
         (((*bytes)[bytes->size() - 2] & 0x80) != 0) == (bytes->back() == -1)) {
    bytes->pop_back();
  }
  return Long(reader_.Keep(std::move(*bytes)));
}

Status Machine::TextFloat(std::string_view line) {
  Node node{.kind = NodeKind::kFloat};
  const auto number = ParseNumber<double>(line);
  if (!number) return reader_.Error("not the text of a float");
  node.real = *number;
  return PushNew(std::move(node));
}

// ---- containers

Status Machine::TupleOf(size_t count) {
  HF_RETURN_IF_ERROR(Need(count));
  Node tuple{.kind = NodeKind::kTuple};
  tuple.children.assign(stack_.end() - static_cast<long>(count), stack_.end());
  stack_.resize(stack_.size() - count);
  return PushNew(std::move(tuple));
}

Status Machine::FromMark(NodeKind kind) {
  HF_ASSIGN_OR_RETURN(std::vector<NodeIndex> values, TakeToMark());
  if (kind == NodeKind::kDict && values.size() % 2 != 0) {
    return reader_.Error("a dict has a key without a value");
  }
  Node node{.kind = kind};
  node.children = std::move(values);
  return PushNew(std::move(node));
}

Status Machine::Append(const std::vector<NodeIndex>& values) {
  Node& target = node(stack_.back());
  if (target.kind == NodeKind::kList) {
    target.children.insert(target.children.end(), values.begin(), values.end());
    return {};
  }
  if (target.kind == NodeKind::kObject) {
    auto& items = program_.objects[static_cast<size_t>(target.number)].items;
    items.insert(items.end(), values.begin(), values.end());
    return {};
  }
  if (target.kind == NodeKind::kRefused) {
    target.children.insert(target.children.end(), values.begin(), values.end());
    return {};
  }
  return reader_.Error("APPEND to " + NameOf(target));
}

Status Machine::SetItems(const std::vector<NodeIndex>& values) {
  Node& target = node(stack_.back());
  if (values.size() % 2 != 0) {
    return reader_.Error("SETITEMS with a key without a value");
  }
  if (target.kind == NodeKind::kDict || target.kind == NodeKind::kRefused) {
    target.children.insert(target.children.end(), values.begin(), values.end());
    return {};
  }
  if (target.kind == NodeKind::kObject) {
    auto& pairs = program_.objects[static_cast<size_t>(target.number)].pairs;
    pairs.insert(pairs.end(), values.begin(), values.end());
    return {};
  }
  return reader_.Error("SETITEM in " + NameOf(target));
}

Status Machine::AddItems(const std::vector<NodeIndex>& values) {
  Node& target = node(stack_.back());
  if (target.kind != NodeKind::kSet && target.kind != NodeKind::kRefused) {
    return reader_.Error("ADDITEMS to " + NameOf(target));
  }
  target.children.insert(target.children.end(), values.begin(), values.end());
  return {};
}

// ---- memo

Status Machine::Put(uint64_t key) {
  HF_RETURN_IF_ERROR(Need(1));
  memo_.Set(key, stack_.back());
  return {};
}

Status Machine::Get(uint64_t key) {
  const auto found = memo_.Get(key);
  if (!found) {
    return reader_.Error("nothing was put under number " + std::to_string(key));
  }
  return Push(*found);
}

Status Machine::TextMemo(Opcode opcode) {
  HF_ASSIGN_OR_RETURN(const std::string_view line, reader_.Line());
  const auto key = ParseNumber<uint32_t>(line);
  if (!key) return reader_.Error("a memo number is not a number");
  return opcode == Opcode::kPut ? Put(*key) : Get(*key);
}

// ---- names and objects

Result<NodeIndex> Machine::Refuse(const Status& why,
                                  std::vector<NodeIndex> parts) {
  if (!options_.keeps_refused) return why;
  const auto [found, is_new] = refusal_indices_.try_emplace(
      std::string(why.message()),
      static_cast<int64_t>(program_.refusals.size()));
  if (is_new) program_.refusals.push_back(why);
  Node refused{.kind = NodeKind::kRefused, .number = found->second};
  refused.children = std::move(parts);
  return Add(std::move(refused));
}

Status Machine::PushRefused(const Status& why, std::vector<NodeIndex> parts) {
  HF_ASSIGN_OR_RETURN(const NodeIndex refused, Refuse(why, std::move(parts)));
  return Push(refused);
}

Result<NodeIndex> Machine::MakeGlobal(std::string_view module_text,
                                      std::string_view name_text) {
  std::string module(module_text);
  std::string name(name_text);
  ModernName(module, name);
  const NameUse use = UseOf(module, name);
  if (use == NameUse::kRefused) {
    return Refuse(PermissionDeniedError("pickle refers to " +
                                        Abbreviated(module + "." + name) +
                                        ", which holdfast does not run"),
                  {});
  }
  std::string key = module + "\n" + name;
  const auto [found, is_new] = global_indices_.try_emplace(
      std::move(key), static_cast<int64_t>(program_.globals.size()));
  if (is_new) {
    program_.globals.push_back({std::move(module), std::move(name), use});
  }
  return Add({.kind = NodeKind::kGlobal, .number = found->second});
}

Status Machine::StackGlobal() {
  HF_RETURN_IF_ERROR(Need(2));
  const NodeIndex name = Take();
  const NodeIndex module = Take();
  if (node(name).kind != NodeKind::kString ||
      node(module).kind != NodeKind::kString) {
    return reader_.Error("STACK_GLOBAL wants two strings, and has " +
                         NameOf(node(module)) + " and " + NameOf(node(name)));
  }
  HF_ASSIGN_OR_RETURN(const NodeIndex global,
                      MakeGlobal(node(module).text, node(name).text));
  return Push(global);
}

bool IsPlain(const Program& program, const Node& value, int depth = 0) {
  if (value.kind == NodeKind::kTuple && depth < 4) {
    for (const NodeIndex child : value.children) {
      if (!IsPlain(program, program.node(child), depth + 1)) return false;
    }
    return true;
  }
  return value.kind <= NodeKind::kBytes;
}

// Returns ok if the callee may be called with these arguments. A class that is
// not in the table may be an enum, which pickles as cls(value).
Status Machine::CheckCall(const Global& global, const Node& args) const {
  const auto refuse = [&] {
    return PermissionDeniedError("pickle calls " +
                                 Abbreviated(global.FullName()) +
                                 ", which holdfast does not run");
  };
  switch (global.use) {
    case NameUse::kFunction:
    case NameUse::kObject:
    case NameUse::kNumpyScalarType:
    case NameUse::kStorageType:
    case NameUse::kTorchDType:
      return refuse();
    case NameUse::kClass:
      if (args.children.size() == 1 &&
          IsPlain(program_, program_.node(args.children[0]))) {
        return {};
      }
      return refuse();
    case NameUse::kGetattr: {
      const bool is_enum =
          args.children.size() == 2 &&
          program_.node(args.children[0]).kind == NodeKind::kGlobal &&
          program_.global(program_.node(args.children[0])).use ==
              NameUse::kClass &&
          program_.node(args.children[1]).kind == NodeKind::kString &&
          !program_.node(args.children[1]).text.starts_with('_');
      return is_enum ? Status() : refuse();
    }
    default:
      return {};
  }
}

Status Machine::Instantiate(NodeIndex callee, NodeIndex args,
                            std::optional<NodeIndex> kwargs, bool is_called) {
  std::vector<NodeIndex> parts = {callee, args};
  if (kwargs) parts.push_back(*kwargs);
  for (const NodeIndex part : parts) {
    if (node(part).kind != NodeKind::kRefused) continue;
    return PushRefused(
        program_.refusals[static_cast<size_t>(node(part).number)], parts);
  }
  if (node(callee).kind == NodeKind::kObject && options_.keeps_refused) {
    return PushRefused(
        UnimplementedError("pickle: it calls an object that it has made"),
        std::move(parts));
  }
  if (node(callee).kind != NodeKind::kGlobal) {
    return reader_.Error("it calls " + NameOf(node(callee)) +
                         ", which is not a class by its name");
  }
  if (node(args).kind != NodeKind::kTuple) {
    return reader_.Error("the arguments of an object are " +
                         NameOf(node(args)) + ", not a tuple");
  }
  const Global& global = program_.global(node(callee));
  if (is_called) {
    const Status allowed = CheckCall(global, node(args));
    if (!allowed.ok()) return PushRefused(allowed, std::move(parts));
  } else if (global.use == NameUse::kFunction ||
             global.use == NameUse::kGetattr ||
             global.use == NameUse::kCodecsEncode) {
    return PushRefused(PermissionDeniedError("pickle makes an object of " +
                                             Abbreviated(global.FullName()) +
                                             ", which holdfast does not run"),
                       std::move(parts));
  }
  Object object;
  object.callee = callee;
  object.args = args;
  object.kwargs = kwargs;
  object.is_called = is_called;
  program_.objects.push_back(std::move(object));
  return PushNew({.kind = NodeKind::kObject,
                  .number = static_cast<int64_t>(program_.objects.size() - 1)});
}

Status Machine::FromMarkInstance(Opcode opcode) {
  NodeIndex callee = 0;
  if (opcode == Opcode::kInst) {
    HF_ASSIGN_OR_RETURN(const std::string_view module, reader_.Line());
    HF_ASSIGN_OR_RETURN(const std::string_view name, reader_.Line());
    HF_ASSIGN_OR_RETURN(callee, MakeGlobal(module, name));
  }
  HF_ASSIGN_OR_RETURN(std::vector<NodeIndex> values, TakeToMark());
  if (opcode == Opcode::kObj) {
    if (values.empty()) return reader_.Error("OBJ without a class");
    callee = values.front();
    values.erase(values.begin());
  }
  Node args{.kind = NodeKind::kTuple};
  args.children = std::move(values);
  return Instantiate(callee, Add(std::move(args)), {}, true);
}

Status Machine::Build() {
  HF_RETURN_IF_ERROR(Need(2));
  const NodeIndex state = Take();
  Node& target = node(stack_.back());
  if (target.kind == NodeKind::kRefused) {
    target.children.push_back(state);
    return {};
  }
  if (target.kind != NodeKind::kObject) {
    return reader_.Error("BUILD on " + NameOf(target));
  }
  Object& object = program_.objects[static_cast<size_t>(target.number)];
  if (object.state) return reader_.Error("BUILD twice on one object");
  object.state = state;
  return {};
}

Status Machine::Persistent(NodeIndex id) {
  if (!options_.persistent_ids) {
    return reader_.Error(
        "it refers to an object outside of it (a persistent "
        "id), which only torch.save files may do");
  }
  // Before torch 1.6, a module's class was saved with its source: ("module",
  // class, file, text).
  const std::vector<NodeIndex>& parts = node(id).children;
  if (node(id).kind == NodeKind::kTuple && parts.size() == 4 &&
      node(parts[0]).kind == NodeKind::kString &&
      node(parts[0]).text == "module") {
    return Push(parts[1]);
  }
  Node persistent{.kind = NodeKind::kPersistent};
  persistent.children = {id};
  return PushNew(std::move(persistent));
}

}  // namespace

std::string_view NodeKindName(NodeKind kind) {
  return kNodeKindNames[static_cast<size_t>(kind)];
}

Result<Program> RunPickle(std::string_view bytes,
                          const ProgramOptions& options) {
  Machine machine(bytes, options);
  Result<Program> program = machine.Run();
  if (options.is_cut != nullptr) *options.is_cut = machine.is_cut();
  return program;
}

}  // namespace holdfast::pickle
