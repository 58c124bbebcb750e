#include "pytree/messages.h"

#include "tree/python_repr.h"

namespace holdfast {

std::string JaxKeyPathText(const KeyPath& path) {
  std::string text = "(";
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) text += ", ";
    if (path[i].is_sequence) {
      text += "SequenceKey(idx=" + path[i].key + ")";
    } else {
      text += "DictKey(key=";
      AppendPythonRepr(text, path[i].key);
      text += ")";
    }
  }
  return text + (path.size() == 1 ? ",)" : ")");
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
