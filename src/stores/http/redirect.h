// Decides whether and where a redirect is followed.
//
// Thread-safety: pure functions. Errors: none; a redirect that cannot be
// followed is returned as an answer.
#pragma once

#include "stores/http/http_client.h"

namespace holdfast {

// Returns true if `response` redirects `request` to an allowed URL, and then
// sets that URL in `request`. For a different server, `request` keeps only the
// headers that describe the wanted content, and never a credential.
bool FollowsRedirect(HttpRequest& request, const HttpResponse& response);

}  // namespace holdfast
