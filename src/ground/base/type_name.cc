#include "ground/base/type_name.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace holdfast {

std::string CppTypeName(std::type_index type) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), &std::free);
  return status == 0 && name != nullptr ? name.get() : type.name();
}

}  // namespace holdfast
