// The parts of the report's page: page/page.html, with `{{css}}`, `{{data}}`
// and
// `{{js}}` where the others go.
#pragma once

#include <string_view>

namespace holdfast {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace holdfast
