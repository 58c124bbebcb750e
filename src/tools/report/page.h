// The parts of the report's page: page/page.html, and the texts that replace
// `{{css}}` and `{{js}}` in it. The report's data (report_data.h) replace
// `{{data}}`.
#pragma once

#include <string_view>

namespace holdfast {

extern const std::string_view kPageHtml;
extern const std::string_view kPageCss;
extern const std::string_view kPageJs;

}  // namespace holdfast
