// Pickles that were made to do harm, and the error for each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/pickle/pickle_writer.h"
#include "ground/base/coding.h"
#include "holdfast/tools/torch_file.h"

namespace holdfast {
namespace {

using testing::HasSubstr;
using namespace std::string_literals;

struct HostilePickle {
  std::string what;
  std::string bytes;
  StatusCode code;
  std::string error;
};

std::string Times(size_t count, const std::string& text) {
  std::string out;
  out.reserve(count * text.size());
  for (size_t i = 0; i < count; ++i) out += text;
  return out;
}

std::string Little(uint64_t value, size_t width) {
  std::string out;
  for (size_t i = 0; i < width; ++i) {
    out += static_cast<char>(value >> (8 * i));
  }
  return out;
}

// Returns a string as SHORT_BINUNICODE.
std::string Short(const std::string& text) {
  return "\x8c"s + static_cast<char>(text.size()) + text;
}

// Returns a name with STACK_GLOBAL.
std::string Named(const std::string& module, const std::string& name) {
  return Short(module) + Short(name) + "\x93";
}

// Returns a list that holds the previous list twice, `depth` times.
std::string ListBomb(int depth) {
  std::string out = "\x80\x04]\x94(NNe"s;
  for (int i = 0; i < depth; ++i) {
    const std::string before = "h"s + static_cast<char>(i);
    out += "0]\x94("s + before + before + "e";
  }
  return out + ".";
}

const StatusCode kDenied = StatusCode::kPermissionDenied;
const StatusCode kDamaged = StatusCode::kDataLoss;
const StatusCode kOther = StatusCode::kUnimplemented;

std::string Runs(const std::string& name) {
  return "pickle refers to " + name + ", which holdfast does not run";
}

std::vector<HostilePickle> ActingPickles() {
  return {
      {"os.system by GLOBAL and REDUCE", "cos\nsystem\n(S'true'\ntR.", kDenied,
       Runs("os.system")},
      {"posix.system", "cposix\nsystem\n(S'true'\ntR.", kDenied,
       Runs("posix.system")},
      {"nt.system", "cnt\nsystem\n(S'x'\ntR.", kDenied, Runs("nt.system")},
      {"os.system by STACK_GLOBAL",
       "\x80\x04"s + Named("os", "system") + Short("true") + "\x85R.", kDenied,
       Runs("os.system")},
      {"os.system only mentioned", "cos\nsystem\n.", kDenied,
       Runs("os.system")},
      {"os.system thrown away", "cos\nsystem\n0N.", kDenied, Runs("os.system")},
      {"os.system by INST", "(S'true'\nios\nsystem\n.", kDenied,
       Runs("os.system")},
      {"os.system by OBJ", "(cos\nsystem\nS'true'\no.", kDenied,
       Runs("os.system")},
      {"os.execve", "cos\nexecve\n(tR.", kDenied, Runs("os.execve")},
      {"subprocess.Popen by NEWOBJ",
       "\x80\x02"
       "csubprocess\nPopen\n(S'true'\nt\x81.",
       kDenied, Runs("subprocess.Popen")},
      {"subprocess.check_output", "csubprocess\ncheck_output\n(S'x'\ntR.",
       kDenied, Runs("subprocess.check_output")},
      {"eval", "cbuiltins\neval\n(S'1'\ntR.", kDenied, Runs("builtins.eval")},
      {"eval of Python 2", "c__builtin__\neval\n(S'1'\ntR.", kDenied,
       Runs("builtins.eval")},
      {"exec", "cbuiltins\nexec\n(S'1'\ntR.", kDenied, Runs("builtins.exec")},
      {"compile", "cbuiltins\ncompile\n(S'1'\ntR.", kDenied,
       Runs("builtins.compile")},
  };
}

std::vector<HostilePickle> ActingModulePickles() {
  return {
      {"__import__", "cbuiltins\n__import__\n(S'os'\ntR.", kDenied,
       Runs("builtins.__import__")},
      {"open", "cbuiltins\nopen\n(S'/etc/passwd'\ntR.", kDenied,
       Runs("builtins.open")},
      {"globals", "cbuiltins\nglobals\n(tR.", kDenied,
       Runs("builtins.globals")},
      {"importlib.import_module", "cimportlib\nimport_module\n(S'os'\ntR.",
       kDenied, Runs("importlib.import_module")},
      {"runpy", "crunpy\n_run_code\n(tR.", kDenied, Runs("runpy._run_code")},
      {"a code object", "ctypes\nCodeType\n(tR.", kDenied,
       Runs("types.CodeType")},
      {"a function", "ctypes\nFunctionType\n(tR.", kDenied,
       Runs("types.FunctionType")},
      {"operator.attrgetter", "coperator\nattrgetter\n(S'system'\ntR.", kDenied,
       Runs("operator.attrgetter")},
      {"functools.partial", "cfunctools\npartial\n(tR.", kDenied,
       Runs("functools.partial")},
      {"pickle.loads", "cpickle\nloads\n(S'N.'\ntR.", kDenied,
       Runs("pickle.loads")},
      {"marshal.loads", "cmarshal\nloads\n(tR.", kDenied,
       Runs("marshal.loads")},
      {"shutil.rmtree", "cshutil\nrmtree\n(S'/'\ntR.", kDenied,
       Runs("shutil.rmtree")},
      {"a socket", "csocket\nsocket\n(tR.", kDenied, Runs("socket.socket")},
      {"ctypes", "cctypes\nCDLL\n(S'libc.so.6'\ntR.", kDenied,
       Runs("ctypes.CDLL")},
      {"webbrowser.open", "cwebbrowser\nopen\n(S'x'\ntR.", kDenied,
       Runs("webbrowser.open")},
      {"torch.load", "ctorch\nload\n(S'x'\ntR.", kDenied, Runs("torch.load")},
      {"torch.hub", "ctorch.hub\nload\n(tR.", kDenied, Runs("torch.hub.load")},
      {"storages that are pickles of their own",
       "ctorch.storage\n_load_from_bytes\n(S'x'\ntR.", kDenied,
       Runs("torch.storage._load_from_bytes")},
      {"numpy.load", "cnumpy\nload\n(S'x'\ntR.", kDenied, Runs("numpy.load")},
  };
}

std::vector<HostilePickle> OddNamePickles() {
  return {
      {"a way through another module's imports",
       "\x80\x04"s + Named("torch.os", "System") + ".", kDenied,
       Runs("torch.os.System")},
      {"a way through attributes",
       "\x80\x04"s + Named("collections", "OrderedDict.__init__.__globals__") +
           ".",
       kDenied, Runs("collections.OrderedDict.__init__.__globals__")},
      {"a module by attributes",
       "\x80\x04"s + Named("json", "codecs.builtins.eval") + ".", kDenied,
       Runs("json.codecs.builtins.eval")},
      {"a name that is no text", "ca\xff\nB\n.", kDenied, Runs("a\xff.B")},
      {"no name at all", "c\n\n.", kDenied, Runs(".")},
      {"a name with blanks", "cos \nsystem\n.", kDenied, Runs("os .system")},
      {"a function that is not known", "cmodel.tools\nbuild\n(tR.", kDenied,
       "pickle calls model.tools.build, which holdfast does not run"},
      {"a class called with several arguments",
       "cmodel.tools\nThing\n(K\1K\2tR.", kDenied,
       "pickle calls model.tools.Thing, which holdfast does not run"},
      {"an enum of a list", "cmodel\nColor\n(]tR.", kDenied,
       "pickle calls model.Color"},
      {"an object of a function",
       "\x80\x02"
       "cmodel\nbuild\n)\x81.",
       kDenied, "pickle makes an object of model.build"},
      {"getattr of a module's function", "cbuiltins\ngetattr\n(S'x'\nS'y'\ntR.",
       kDenied, "pickle calls builtins.getattr"},
      {"nested getattr",
       "cbuiltins\ngetattr\n(cbuiltins\ngetattr\n(cmodel\nColor\nS'RED'\ntRS'x'"
       "\ntR.",
       kDenied, "pickle calls builtins.getattr"},
      {"getattr of a hidden name",
       "cbuiltins\ngetattr\n(cmodel\nColor\nS'__init__'\ntR.", kDenied,
       "pickle calls builtins.getattr"},
      {"getattr as a value", "cbuiltins\ngetattr\n.", kDenied,
       Runs("builtins.getattr")},
      {"builtins.list called", "cbuiltins\nlist\n(tR.", kDenied,
       Runs("builtins.list")},
      {"numpy's dtype of a dtype",
       "cnumpy.core.multiarray\nscalar\n(cnumpy\ndtype\nS'x'\ntR.", kDamaged,
       "a numpy value has no dtype"},
  };
}

std::vector<HostilePickle> DamagedPickles() {
  return {
      {"nothing", "", kDamaged, "pickle: offset 0: it ends without a STOP"},
      {"no STOP", "N", kDamaged, "offset 1: it ends without a STOP"},
      {"STOP alone", ".", kDamaged, "STOP with 0 values"},
      {"two values", "NN.", kDamaged, "STOP with 2 values"},
      {"an open mark", "(N.", kDamaged, "and 1 marks on the stack"},
      {"more after STOP", "N.N.", kDamaged, "2 bytes follow its STOP"},
      {"an opcode that is none", "\xff.", kDamaged, "no opcode is 255"},
      {"protocol 6", "\x80\x06N.", kDamaged, "it is of protocol 6"},
      {"POP of nothing", "0.", kDamaged, "the stack has 0 values"},
      {"DUP of nothing", "2.", kDamaged, "the stack has 0 values"},
      {"APPEND of one value", "]a.", kDamaged, "an opcode wants 2"},
      {"APPENDS without a mark", "]e.", kDamaged, "there is no mark"},
      {"APPEND to a tuple", ")Na.", kDamaged, "APPEND to a tuple"},
      {"APPENDS to a str", "S'x'\n(Ne.", kDamaged, "APPEND to a str"},
      {"SETITEM in a list", "]NNs.", kDamaged, "SETITEM in a list"},
      {"SETITEMS of one", "}(Nu.", kDamaged, "a key without a value"},
      {"DICT of one", "(Nd.", kDamaged, "a key without a value"},
      {"ADDITEMS to a list", "](N\x90.", kDamaged, "ADDITEMS to a list"},
      {"BUILD on a dict", "}}b.", kDamaged, "BUILD on a dict"},
      {"BUILD on a list", "]}b.", kDamaged, "BUILD on a list"},
      {"BUILD on None", "N}b.", kDamaged, "BUILD on None"},
      {"BUILD on a class", "cmodel\nThing\n}b.", kDamaged,
       "BUILD on a class or function"},
      {"BUILD twice",
       "\x80\x02"
       "cmodel\nThing\n)\x81}b}b.",
       kDamaged, "BUILD twice on one object"},
      {"BUILD on a set", "cbuiltins\nset\n(]tR}b.", kDamaged,
       "is given state or items"},
      {"items under a mark are out of reach", "]N(a.", kDamaged,
       "the stack has 0 values"},
      {"REDUCE of a number", "K\1)R.", kDamaged,
       "it calls an int, which is not a class by its name"},
      {"REDUCE of an object", "cmodel\nColor\n(K\1tR)R.", kDamaged,
       "it calls an object"},
      {"REDUCE with a list", "cmodel\nColor\n]R.", kDamaged,
       "the arguments of an object are a list"},
      {"OBJ without a class", "(o.", kDamaged, "OBJ without a class"},
      {"NEWOBJ_EX without keywords", "cmodel\nThing\n)N\x92.", kDamaged,
       "not a dict"},
  };
}

std::vector<HostilePickle> ForeignPickles() {
  return {
      {"STACK_GLOBAL of ints", "K\1K\2\x93.", kDamaged,
       "STACK_GLOBAL wants two strings, and has an int and an int"},
      {"STACK_GLOBAL of bytes", "C\2osC\6system\x93.", kDamaged,
       "STACK_GLOBAL wants two strings"},
      {"GLOBAL without its lines", "cos", kDamaged, "a line has no end"},
      {"an extension code", "\x82\x01.", kOther, "extension codes"},
      {"an extension code of two bytes", "\x83\x01\x02.", kOther,
       "extension codes"},
      {"an extension code of four bytes", "\x84\x01\x02\x03\x04.", kOther,
       "extension codes"},
      {"a buffer from outside", "\x97.", kOther, "lie outside of it"},
      {"a persistent id", "S'x'\nQ.", kDamaged, "a persistent id"},
      {"a persistent id in text", "Px\n.", kDamaged, "a persistent id"},
      {"a text longer than the file", "X" + Little(0xffffffff, 4) + "ab.",
       kDamaged, "a text says it has 4294967295 bytes, and 3 are left"},
      {"a text of 2^63 bytes", "\x8d" + Little(1ULL << 63, 8) + "ab.", kDamaged,
       "a text says it has 9223372036854775808 bytes"},
      {"bytes of 2^64 - 1", "\x8e" + Little(~0ULL, 8) + ".", kDamaged,
       "bytes, and 1 are left"},
      {"a bytearray of 2^40", "\x96" + Little(1ULL << 40, 8) + ".", kDamaged,
       "bytes, and 1 are left"},
      {"a negative text", "T" + Little(0xffffffff, 4) + "ab.", kDamaged,
       "a length is negative: -1"},
      {"LONG4 of a negative size", "\x8b" + Little(0x80000000, 4) + ".",
       kDamaged, "a length is negative"},
      {"LONG4 that lies", "\x8b" + Little(1000, 4) + "\1.", kDamaged,
       "a text says it has 1000 bytes"},
      {"an int of a million bytes",
       "\x8b" + Little(1000000, 4) + std::string(1000000, '\1') + ".", kDamaged,
       "an int has 1000000 bytes; at most 4096 are read"},
      {"an int of a million digits", "L" + std::string(1000000, '9') + "L\n.",
       kDamaged, "not the text of an int of up to 9864 digits"},
      {"an int of letters", "Iabc\n.", kDamaged, "not the text of an int"},
      {"a float of letters", "Fabc\n.", kDamaged, "not the text of a float"},
      {"a string without quotes", "Sabc\n.", kDamaged, "not in quotes"},
      {"a string with half an escape", "S'\\x1'\n.", kDamaged,
       "a broken escape"},
  };
}

std::vector<HostilePickle> MemoPickles() {
  return {
      {"a str that is not UTF-8", "X\2\0\0\0\xff\xfe."s, kDamaged,
       "a str is not UTF-8"},
      {"a frame longer than the file", "\x95" + Little(100, 8) + "N.", kDamaged,
       "a text says it has 100 bytes"},
      {"GET of nothing", "h\5.", kDamaged, "nothing was put under number 5"},
      {"LONG_BINGET of nothing", "j\xff\xff\xff\xff.", kDamaged,
       "nothing was put under number 4294967295"},
      {"GET by no number", "gx\n.", kDamaged, "a memo number is not a number"},
      {"PUT of nothing", "q\1.", kDamaged, "the stack has 0 values"},
      {"a list as a key", "}]Ns.", kDamaged, "a dict has a list as a key"},
      {"a dict in a set", "\x8f(}\x90.", kDamaged, "a set holds a dict"},
      {"a list that holds itself", "]q\0h\0a."s, kOther,
       "a value contains itself"},
      {"a dict that holds itself", "}q\0K\1h\0s."s, kOther,
       "a value contains itself"},
      {"two lists that hold each other", "]q\0]q\1h\0ah\1a0h\0h\1a."s, kDamaged,
       ""},
  };
}

std::vector<HostilePickle> WrongObjectPickles() {
  return {
      {"a tensor without a file",
       "ctorch._utils\n_rebuild_tensor_v2\n(NK\0))\x89NtR."s, kDamaged,
       "a tensor has no storage but None"},
      {"an array that lies about its size",
       "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\1btR"
       "(K\1(J\xff\xff\xff\x7ftcnumpy\ndtype\n(S'f8'\ntR\x89"
       "C\1xtb."s,
       kDamaged, "has 1 bytes, not 17179869176"},
      {"an array of negative size",
       "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\1btR"
       "(K\1(J\xff\xff\xff\xfftcnumpy\ndtype\n(S'f8'\ntR\x89"
       "C\1xtb."s,
       kDamaged, "has the shape (-1,)"},
      {"an array of objects",
       "cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\n(K\0tC\1btR"
       "(K\1(K\1tcnumpy\ndtype\n(S'O8'\ntR\x89]tb."s,
       kOther, "a numpy array is of dtype O8, which is not read"},
      {"bytes that are no latin1",
       "c_codecs\nencode\n(V\\u1234\nS'latin1'\ntR.", kDamaged,
       "bytes are not written as latin1"},
      {"bytes in another encoding", "c_codecs\nencode\n(Vx\nS'rot13'\ntR.",
       kDamaged, "bytes are not written as latin1"},
      {"a complex number of strings", "cbuiltins\ncomplex\n(S'a'\nS'b'\ntR.",
       kDamaged, "not made of two floats"},
      {"an OrderedDict of numbers", "ccollections\nOrderedDict\n((K\1ttR.",
       kDamaged, "an OrderedDict is not made of pairs"},
      {"a Namespace whose state is a list",
       "\x80\x02"
       "cargparse\nNamespace\n)\x81]b.",
       kDamaged, "the state of a Namespace is not a dict"},
  };
}

std::vector<HostilePickle> LargePickles() {
  return {
      {"1000 lists in one another", Times(1000, "]") + Times(999, "a") + ".",
       kDamaged, "values are nested deeper than 500"},
      {"a million tuples in one another", "N" + Times(1000000, "\x85") + ".",
       kDamaged, "values are nested deeper than 500"},
      {"a million marks", Times(1000000, "("), kDamaged,
       "it ends without a STOP"},
      {"30 doublings", ListBomb(30), kDamaged,
       "it holds the same parts again and again"},
      {"200 doublings", ListBomb(200), kDamaged,
       "it holds the same parts again and again"},
      {"a long text a million times",
       "\x80\x04X"s + Little(100000, 4) + std::string(100000, 'x') +
           "\x94"
           "0](" +
           Times(100000, "h"s + '\0') + "e.",
       kDamaged, "it holds the same parts again and again"},
  };
}

class HostilePickles : public testing::TestWithParam<HostilePickle> {};

TEST_P(HostilePickles, AreRefusedByName) {
  const auto value = ReadPickle(GetParam().bytes);
  ASSERT_FALSE(value.ok()) << PickleValueToJson(*value);
  EXPECT_THAT(value.status().ToString(), HasSubstr(GetParam().error));
  if (!GetParam().error.empty()) {
    EXPECT_EQ(value.status().code(), GetParam().code)
        << value.status().ToString();
  }
}

std::string NameOfCase(const testing::TestParamInfo<HostilePickle>& info) {
  std::string name = info.param.what;
  for (char& c : name)
    c = std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name + std::to_string(info.index);
}

INSTANTIATE_TEST_SUITE_P(Acting, HostilePickles,
                         testing::ValuesIn(ActingPickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(ActingModules, HostilePickles,
                         testing::ValuesIn(ActingModulePickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(OddNames, HostilePickles,
                         testing::ValuesIn(OddNamePickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Damaged, HostilePickles,
                         testing::ValuesIn(DamagedPickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Foreign, HostilePickles,
                         testing::ValuesIn(ForeignPickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Memo, HostilePickles, testing::ValuesIn(MemoPickles()),
                         NameOfCase);
INSTANTIATE_TEST_SUITE_P(WrongObjects, HostilePickles,
                         testing::ValuesIn(WrongObjectPickles()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Large, HostilePickles,
                         testing::ValuesIn(LargePickles()), NameOfCase);

// Returns a value with one of everything that a torch.save pickle may have.
PickleValue OneOfEverything() {
  PickleRecord record{.module = "model", .name = "Config"};
  record.state =
      PickleValue::Dict({{PickleValue::String("depth"), PickleValue::Int(3)}});
  PickleRecord color{.module = "model", .name = "Color"};
  color.is_called = true;
  color.args = {PickleValue::Int(1)};
  const float floats[] = {1, 2, 3, 4, 5, 6};
  return PickleValue::Dict({
      {PickleValue::String("none"), PickleValue::None()},
      {PickleValue::String("bool"), PickleValue::Bool(true)},
      {PickleValue::Int(-300), PickleValue::Int(int64_t{1} << 40)},
      {PickleValue::String("big"),
       PickleValue::IntOfBytes("123456789012345\x7f")},
      {PickleValue::String("float"), PickleValue::Float(-0.5)},
      {PickleValue::String("complex"), PickleValue::Complex(1, 2)},
      {PickleValue::String("bytes"), PickleValue::Bytes("\xff\x01")},
      {PickleValue::String("io"),
       PickleValue::Text(PickleKind::kBytesIO, "abc")},
      {PickleValue::String("array"),
       PickleValue::Text(PickleKind::kByteArray, "abc")},
      {PickleValue::String("list"), PickleValue::List({PickleValue::Int(1)})},
      {PickleValue::String("tuple"),
       PickleValue::Tuple({PickleValue::Int(1), PickleValue::None()})},
      {PickleValue::String("set"),
       PickleValue::Items(PickleKind::kSet, {PickleValue::Int(1)})},
      {PickleValue::String("frozenset"),
       PickleValue::Items(PickleKind::kFrozenSet, {PickleValue::Int(1)})},
      {PickleValue::String("ordered"),
       PickleValue::Pairs(PickleKind::kOrderedDict,
                          {{PickleValue::Int(1), PickleValue::Int(2)}})},
      {PickleValue::String("space"),
       PickleValue::Pairs(PickleKind::kNamespace,
                          {{PickleValue::String("x"), PickleValue::Int(2)}})},
      {PickleValue::String("tensor"),
       PickleValue::Tensor(Array::FromBytes(DType::kFloat32, {2, 3}, floats))},
      {PickleValue::String("unsigned"),
       PickleValue::Tensor(Array::FromBytes(DType::kUint16, {4}, floats))},
      {PickleValue::String("ndarray"),
       PickleValue::Ndarray(Array::FromBytes(DType::kFloat32, {6}, floats))},
      {PickleValue::String("dtype"),
       PickleValue::Text(PickleKind::kTorchDType, "torch.float32")},
      {PickleValue::String("device"),
       PickleValue::Text(PickleKind::kTorchDevice, "cuda:0")},
      {PickleValue::String("size"),
       PickleValue::Items(PickleKind::kTorchSize, {PickleValue::Int(1)})},
      {PickleValue::String("record"),
       PickleValue::Record(PickleKind::kRecord, std::move(record))},
      {PickleValue::String("enum"),
       PickleValue::Record(PickleKind::kEnum, std::move(color))},
  });
}

TEST(TorchFileTest, WhatIsWrittenIsRead) {
  const PickleValue value = OneOfEverything();
  const auto file = WriteTorchFile(value);
  ASSERT_TRUE(file.ok()) << file.status().ToString();
  const auto read = ReadTorchFile(*file);
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(PickleValueToJson(*read), PickleValueToJson(value));
  EXPECT_EQ(*WriteTorchFile(*read), *file);
}

TEST(TorchFileTest, IsRefusedWhereverItIsCut) {
  const std::string file = *WriteTorchFile(OneOfEverything());
  for (size_t size = 0; size < file.size(); ++size) {
    const auto read = ReadTorchFile(std::string_view(file).substr(0, size));
    ASSERT_FALSE(read.ok()) << size;
    ASSERT_EQ(read.status().code(), StatusCode::kDataLoss) << size;
  }
}

// No byte of the file may change unnoticed, except bytes that nothing depends
// on: padding, times, and information about how the file was made.
TEST(TorchFileTest, ChangedBytesNeverCrashAndNeverChangeTheValueQuietly) {
  const std::string file = *WriteTorchFile(OneOfEverything());
  const std::string want = PickleValueToJson(OneOfEverything());
  for (size_t i = 0; i < file.size(); ++i) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = file;
      changed[i] = static_cast<char>(changed[i] ^ change);
      const auto read = ReadTorchFile(changed);
      if (read.ok()) {
        ASSERT_EQ(PickleValueToJson(*read), want) << i;
      }
    }
  }
}

// Without a checksum, a changed pickle may be a valid other pickle. Reading it
// must not crash, and must yield a proper value.
TEST(PickleTest, ChangedAndCutPicklesNeverCrash) {
  pickle::PickleWriter writer;
  writer.Put(pickle::Opcode::kMark);
  writer.PutString("text");
  writer.PutInt(1 << 20);
  writer.PutBytes("\xff\x01");
  writer.PutEmptyHooks();
  writer.PutInts({1, 2, 3, 4});
  writer.PutGlobal("model", "Thing");
  writer.Append(")\x81}(");
  writer.PutString("key");
  writer.PutFloat(0.5);
  writer.Append("ub]q\x05(Kah\x05");
  writer.Append("0et");
  const std::string bytes = writer.Finish();
  for (size_t i = 0; i < bytes.size(); ++i) {
    ASSERT_FALSE(ReadPickle(bytes.substr(0, i)).ok());
    for (int value = 0; value < 256; ++value) {
      std::string changed = bytes;
      changed[i] = static_cast<char>(value);
      const auto read = ReadPickle(changed);
      if (!read.ok()) continue;
      ASSERT_FALSE(PickleValueToJson(*read).empty());
    }
  }
}

}  // namespace
}  // namespace holdfast
