// The name of a C++ type as its source spells it, for messages and registries.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include <string>
#include <typeindex>

namespace holdfast {

// "acme::Sparse"; the compiler's mangled name where it cannot be demangled.
std::string CppTypeName(std::type_index type);

}  // namespace holdfast
