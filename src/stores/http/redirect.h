// Decides whether and where a redirect is followed.
//
// Thread-safety: pure functions. Errors: none; a redirect that cannot be
// followed is an answer.
#pragma once

#include "stores/http/http_client.h"

namespace holdfast {

// True when `response` redirects `request` to an allowed URL, which `request`
// then has. For another server it keeps only the headers that describe the
// wanted content, never a credential.
bool FollowsRedirect(HttpRequest& request, const HttpResponse& response);

}  // namespace holdfast
