// Casts CheckpointArgs to the type that a handler accepts.
//
// Thread-safety: pure. Ownership: the result is the argument.
// Errors: InvalidArgument naming both types.
#pragma once

#include <string>

#include "ground/base/type_name.h"
#include "holdfast/orbax/checkpoint_handler.h"

namespace holdfast {

Status WrongArgsError(std::string_view handler, std::type_index want,
                      const CheckpointArgs& got);

template <typename Args>
Result<const Args*> ArgsAs(std::string_view handler,
                           const CheckpointArgs& args) {
  const auto* typed = dynamic_cast<const Args*>(&args);
  if (typed == nullptr) return WrongArgsError(handler, typeid(Args), args);
  return typed;
}

// Like ArgsAs, but returns null for null.
template <typename Args>
Result<const Args*> OptionalArgsAs(std::string_view handler,
                                   const CheckpointArgs* args) {
  if (args == nullptr) return static_cast<const Args*>(nullptr);
  return ArgsAs<Args>(handler, *args);
}

}  // namespace holdfast
