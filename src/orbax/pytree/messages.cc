#include "orbax/pytree/messages.h"

#include "ground/tree/python_repr.h"

namespace holdfast {

std::string JaxKeyPathText(const KeyPath& path) {
  return PythonTupleText(path,
                         [](std::string& text, const KeyElement& element) {
                           if (element.kind == KeyKind::kIndex) {
                             text += "SequenceKey(idx=" + element.key + ")";
                           } else {
                             text += "DictKey(key=";
                             AppendPythonRepr(text, element.key);
                             text += ")";
                           }
                         });
}

std::string LookupFailureText(const LookupFailure& failure) {
  return "TypeHandler lookup failed for: type=" + std::string(failure.type) +
         ", keypath=" + JaxKeyPathText(failure.path) +
         ", ParamInfo=[name=" + ParamName(failure.path) +
         "], RestoreArgs=" + std::string(failure.restore_args) +
         ", value=" + std::string(failure.value);
}

std::string NotAbsoluteText(std::string_view path) {
  return "Checkpoint path should be absolute. Got " + std::string(path);
}

}  // namespace holdfast
