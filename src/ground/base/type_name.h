// The name of a C++ type as in its source, for messages and registries.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include <string>
#include <typeindex>

namespace holdfast {

// Returns a name such as "acme::Sparse", or the compiler's mangled name if it
// cannot be demangled.
std::string CppTypeName(std::type_index type);

}  // namespace holdfast
