// The parts of the report's page: page/page.html, and what goes into it at
// `{{css}}` and `{{js}}`; `{{data}}` is the report's own (report_data.h).
#pragma once

#include <string_view>

namespace holdfast {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace holdfast
