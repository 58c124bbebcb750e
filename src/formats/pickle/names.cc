#include "formats/pickle/names.h"

#include <algorithm>
#include <array>
#include <utility>

#include "formats/pickle/numpy_dtype.h"
#include "formats/pickle/pickle_reader.h"

namespace holdfast::pickle {
namespace {

constexpr size_t kShownNameBytes = 200;

struct KnownName {
  std::string_view module;
  std::string_view name;
  NameUse use;
};

constexpr std::array<KnownName, 61> kKnownNames = {{
    {"_codecs", "encode", NameUse::kCodecsEncode},
    {"builtins", "getattr", NameUse::kGetattr},
    {"builtins", "object", NameUse::kObject},
    {"builtins", "set", NameUse::kSet},
    {"builtins", "frozenset", NameUse::kFrozenSet},
    {"builtins", "bytearray", NameUse::kByteArray},
    {"builtins", "complex", NameUse::kComplex},
    {"builtins", "bytes", NameUse::kBytes},
    {"builtins", "list", NameUse::kList},
    {"builtins", "tuple", NameUse::kTuple},
    {"builtins", "dict", NameUse::kDict},
    {"builtins", "int", NameUse::kFunction},
    {"builtins", "float", NameUse::kFunction},
    {"builtins", "str", NameUse::kFunction},
    {"builtins", "bool", NameUse::kFunction},
    {"copyreg", "_reconstructor", NameUse::kReconstructor},
    {"copyreg", "__newobj__", NameUse::kNewobj},
    {"collections", "OrderedDict", NameUse::kOrderedDict},
    {"collections", "defaultdict", NameUse::kInertClass},
    {"collections", "deque", NameUse::kInertClass},
    {"collections", "Counter", NameUse::kInertClass},
    {"argparse", "Namespace", NameUse::kNamespace},
    {"types", "SimpleNamespace", NameUse::kNamespace},
    {"_io", "BytesIO", NameUse::kBytesIO},
    {"io", "BytesIO", NameUse::kBytesIO},
    {"pathlib", "PosixPath", NameUse::kInertClass},
    {"pathlib", "WindowsPath", NameUse::kInertClass},
    {"pathlib", "PurePosixPath", NameUse::kInertClass},
    {"pathlib", "PureWindowsPath", NameUse::kInertClass},
    {"pathlib", "Path", NameUse::kInertClass},
    {"pathlib._local", "PosixPath", NameUse::kInertClass},
    {"datetime", "datetime", NameUse::kInertClass},
    {"datetime", "date", NameUse::kInertClass},
    {"datetime", "time", NameUse::kInertClass},
    {"datetime", "timedelta", NameUse::kInertClass},
    {"datetime", "timezone", NameUse::kInertClass},
    {"decimal", "Decimal", NameUse::kInertClass},
    {"fractions", "Fraction", NameUse::kInertClass},
    {"uuid", "UUID", NameUse::kInertClass},
    {"numpy", "ndarray", NameUse::kNdarray},
    {"numpy", "dtype", NameUse::kNumpyDType},
    {"torch._utils", "_rebuild_tensor", NameUse::kTensorV1},
    {"torch._utils", "_rebuild_tensor_v2", NameUse::kTensorV2},
    {"torch._utils", "_rebuild_tensor_v3", NameUse::kTensorV3},
    {"torch._utils", "_rebuild_parameter", NameUse::kParameter},
    {"torch._utils", "_rebuild_parameter_with_state",
     NameUse::kParameterWithState},
    {"torch.nn.parameter", "Parameter", NameUse::kParameter},
    {"torch._tensor", "_rebuild_from_type_v2", NameUse::kTensorOfType},
    {"torch._utils", "_rebuild_device_tensor_from_cpu_tensor",
     NameUse::kTensorFromCpu},
    {"torch._utils", "_rebuild_device_tensor_from_numpy",
     NameUse::kTensorFromNumpy},
    {"torch._utils", "_rebuild_xla_tensor", NameUse::kTensorFromNumpy},
    {"torch._utils", "_rebuild_qtensor", NameUse::kQuantizedTensor},
    {"torch._utils", "_rebuild_wrapper_subclass", NameUse::kWrapperSubclass},
    {"torch._utils", "_rebuild_sparse_tensor", NameUse::kTorchRebuild},
    {"torch._utils", "_rebuild_nested_tensor", NameUse::kTorchRebuild},
    {"torch._utils", "_rebuild_meta_tensor_no_storage", NameUse::kTorchRebuild},
    {"torch.storage", "UntypedStorage", NameUse::kStorageType},
    {"torch", "UntypedStorage", NameUse::kStorageType},
    {"torch", "device", NameUse::kTorchDevice},
    {"torch", "Size", NameUse::kTorchSize},
    {"torch.serialization", "_get_layout", NameUse::kTorchLayout},
}};

// Modules that act on the machine, run code that they are given, or lead to
// modules that do so.
constexpr std::array<std::string_view, 92> kActingModules = {
    "os",
    "posix",
    "nt",
    "ntpath",
    "posixpath",
    "subprocess",
    "_posixsubprocess",
    "sys",
    "builtins",
    "importlib",
    "_frozen_importlib",
    "imp",
    "runpy",
    "code",
    "codeop",
    "codecs",
    "_codecs",
    "copyreg",
    "pty",
    "tty",
    "socket",
    "_socket",
    "ssl",
    "shutil",
    "ctypes",
    "_ctypes",
    "cffi",
    "_cffi_backend",
    "signal",
    "_signal",
    "threading",
    "_thread",
    "multiprocessing",
    "asyncio",
    "concurrent",
    "pickle",
    "_pickle",
    "cPickle",
    "dill",
    "cloudpickle",
    "joblib",
    "marshal",
    "types",
    "inspect",
    "gc",
    "operator",
    "_operator",
    "functools",
    "_functools",
    "itertools",
    "webbrowser",
    "http",
    "urllib",
    "urllib2",
    "requests",
    "httplib",
    "ftplib",
    "telnetlib",
    "smtplib",
    "tempfile",
    "glob",
    "io",
    "_io",
    "fileinput",
    "linecache",
    "pdb",
    "bdb",
    "timeit",
    "trace",
    "profile",
    "cProfile",
    "platform",
    "sysconfig",
    "site",
    "venv",
    "zipimport",
    "zipfile",
    "tarfile",
    "pkgutil",
    "pip",
    "setuptools",
    "distutils",
    "commands",
    "atexit",
    "weakref",
    "ast",
    "compileall",
    "py_compile",
    "shelve",
    "sqlite3",
    "unittest",
    "doctest"};

// Submodules of packages that also have harmless parts.
constexpr std::array<std::string_view, 15> kActingSubmodules = {
    "torch.hub",
    "torch.utils",
    "torch.jit",
    "torch.package",
    "torch.ops",
    "torch._dynamo",
    "torch._inductor",
    "torch.storage",
    "torch.serialization",
    "torch.multiprocessing",
    "torch.fx",
    "torch._utils",
    "numpy.testing",
    "numpy.f2py",
    "numpy.distutils"};

constexpr std::array<std::string_view, 13> kActingNames = {
    "eval",   "exec",  "compile", "open", "getattr", "setattr",   "input",
    "system", "popen", "spawn",   "load", "loads",   "__import__"};

bool IsIn(std::string_view text, auto& list) {
  return std::ranges::find(list, text) != std::ranges::end(list);
}

// Calls fn with each part between dots until fn returns false.
bool AllParts(std::string_view dotted, auto&& fn) {
  while (true) {
    const size_t dot = dotted.find('.');
    if (!fn(dotted.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    dotted.remove_prefix(dot + 1);
  }
}

bool IsIdentifier(std::string_view part) {
  if (part.empty() || (part[0] >= '0' && part[0] <= '9')) return false;
  return std::ranges::all_of(part, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
           (c >= 'A' && c <= 'Z') || c == '_' ||
           static_cast<unsigned char>(c) >= 0x80;
  });
}

bool IsActing(std::string_view module, std::string_view name) {
  if (IsIn(module.substr(0, module.find('.')), kActingModules)) return true;
  for (const std::string_view acting : kActingSubmodules) {
    if (module == acting ||
        (module.starts_with(acting) && module[acting.size()] == '.')) {
      return true;
    }
  }
  // A name may reach a dangerous module through attributes ("a.os.system") or
  // through a module that imported it.
  if (module.find('.') != std::string_view::npos &&
      !AllParts(module.substr(module.find('.') + 1), [](std::string_view part) {
        return part != "os" && part != "sys" && part != "subprocess" &&
               part != "builtins";
      })) {
    return true;
  }
  return !AllParts(name, [&](std::string_view part) {
    return !IsIn(part, kActingNames) && !part.starts_with("__") &&
           (part.size() == name.size() || !IsIn(part, kActingModules));
  });
}

bool IsNumpyCore(std::string_view module, std::string_view last) {
  return (module.starts_with("numpy.core.") ||
          module.starts_with("numpy._core.")) &&
         module.substr(module.rfind('.') + 1) == last;
}

// Returns whether the name is capitalized. By convention, names of classes are,
// and names of functions are not.
bool LooksLikeClass(std::string_view name) {
  std::string_view last = name.substr(name.rfind('.') + 1);
  while (last.starts_with('_')) last.remove_prefix(1);
  return !last.empty() && last[0] >= 'A' && last[0] <= 'Z';
}

// Kinds of quantization, layouts and similar constants, which are only
// mentioned.
constexpr std::array<std::string_view, 15> kTorchConstants = {
    "per_tensor_affine",
    "per_tensor_symmetric",
    "per_channel_affine",
    "per_channel_symmetric",
    "strided",
    "per_channel_affine_float_qparams",
    "sparse_coo",
    "sparse_csr",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
    "preserve_format",
    "contiguous_format",
    "channels_last",
    "channels_last_3d"};

NameUse UseOfTorch(std::string_view name) {
  if (DTypeOfTorchStorage(name) || BytesOfOtherStorage(name)) {
    return NameUse::kStorageType;
  }
  if (IsIn(name, kTorchConstants)) return NameUse::kFunction;
  if (IsTorchDTypeName(name)) return NameUse::kTorchDType;
  return LooksLikeClass(name) ? NameUse::kClass : NameUse::kRefused;
}

}  // namespace

void ModernName(std::string& module, std::string& name) {
  if (module == "__builtin__") module = "builtins";
  if (module == "copy_reg") module = "copyreg";
  if (module == "builtins" && name == "unicode") name = "str";
  if (module == "builtins" && name == "long") name = "int";
}

std::string Abbreviated(std::string name) {
  if (name.size() > kShownNameBytes) {
    name.resize(kShownNameBytes);
    name += "...";
  }
  return name;
}

NameUse UseOf(std::string_view module, std::string_view name) {
  if (!IsPythonText(module) || !IsPythonText(name) ||
      !AllParts(module, IsIdentifier) || !AllParts(name, IsIdentifier)) {
    return NameUse::kRefused;
  }
  for (const KnownName& known : kKnownNames) {
    if (known.module == module && known.name == name) return known.use;
  }
  if (IsNumpyCore(module, "multiarray")) {
    if (name == "_reconstruct") return NameUse::kNdarrayReconstruct;
    if (name == "scalar") return NameUse::kNumpyScalar;
  }
  if (IsNumpyCore(module, "numeric") && name == "_frombuffer") {
    return NameUse::kNdarrayFromBuffer;
  }
  if (module == "torch" && name.find('.') == std::string_view::npos) {
    return UseOfTorch(name);
  }
  if (module == "numpy.dtypes" && name.ends_with("DType")) {
    return NameUse::kNumpyScalarType;
  }
  if ((module == "ml_dtypes" || module == "numpy") &&
      name.find('.') == std::string_view::npos &&
      (DTypeFromName(name) || name == "bool_" || name == "str_")) {
    return NameUse::kNumpyScalarType;
  }
  if (IsActing(module, name)) return NameUse::kRefused;
  return LooksLikeClass(name) ? NameUse::kClass : NameUse::kFunction;
}

}  // namespace holdfast::pickle
