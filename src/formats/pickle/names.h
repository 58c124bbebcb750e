// Decides what a pickle may do with a name (module and qualified name) in it.
//
// Nothing is imported or called. A pickle that was made to run code must not
// pass as data, so names are refused: whoever reads the pickle learns what it
// tried to do.
// Thread-safety: pure functions. Errors: none.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::pickle {

enum class NameUse : uint8_t {
  kRefused,        // may not even be mentioned
  kClass,          // unknown: a record, or an enum when called with one value
  kFunction,       // unknown, does not look like a class: only mentioned
  kInertClass,     // harmless standard library class: a record; calls allowed
  kCodecsEncode,   // _codecs.encode: bytes in old protocols
  kGetattr,        // getattr(cls, name): an enum member by name
  kReconstructor,  // copyreg._reconstructor: an object in old protocols
  kNewobj,         // copyreg.__newobj__
  kObject,         // builtins.object
  kSet,
  kFrozenSet,
  kByteArray,
  kComplex,
  kBytes,
  kList,
  kTuple,
  kDict,
  kOrderedDict,
  kNamespace,
  kBytesIO,
  kNdarrayReconstruct,
  kNdarrayFromBuffer,
  kNdarray,
  kNumpyDType,
  kNumpyScalar,
  kNumpyScalarType,  // numpy.float32 and so on, mentioned as a class
  kTensorV1,         // torch._utils._rebuild_tensor
  kTensorV2,
  kTensorV3,
  kParameter,  // torch._utils._rebuild_parameter, torch.nn.Parameter
  kParameterWithState,
  kTensorOfType,     // torch._tensor._rebuild_from_type_v2
  kTensorFromCpu,    // torch._utils._rebuild_device_tensor_from_cpu_tensor
  kTensorFromNumpy,  // torch._utils._rebuild_device_tensor_from_numpy
  kQuantizedTensor,  // torch._utils._rebuild_qtensor
  kWrapperSubclass,  // torch._utils._rebuild_wrapper_subclass
  kTorchRebuild,     // other functions that make tensors: a record
  kStorageType,      // torch.FloatStorage and so on
  kTorchDType,
  kTorchDevice,
  kTorchSize,
  kTorchLayout,  // torch.serialization._get_layout
};

// Converts Python 2 names to Python 3 names.
void ModernName(std::string& module, std::string& name);

// Shortens a name of any length for a message.
std::string Abbreviated(std::string name);

// REQUIRES: a modern name.
NameUse UseOf(std::string_view module, std::string_view name);

}  // namespace holdfast::pickle
