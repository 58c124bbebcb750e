// The future of work that is done already.
//
// Thread-safety: pure. Errors: none.
#pragma once

#include "holdfast/orbax/type_handlers.h"

namespace holdfast {

inline CommitFuture DoneFuture() {
  std::promise<Status> done;
  done.set_value(Status());
  return done.get_future().share();
}

}  // namespace holdfast
