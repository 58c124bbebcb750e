// Whether and where a redirect is followed.
//
// Thread-safety: pure functions. Errors: none; what cannot be followed is an
// answer.
#pragma once

#include "stores/http/http_client.h"

namespace holdfast {

// True when `response` redirects `request` to where it may go: then `request`
// has the new URL. To another server it keeps only the headers that say what is
// wanted: never a credential.
bool FollowsRedirect(HttpRequest& request, const HttpResponse& response);

}  // namespace holdfast
