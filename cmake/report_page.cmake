# Puts the parts of the report's page (src/tools/report/page) into the library
# as constants (src/tools/report/page.h). A changed part makes CMake run again.
foreach(part html css js)
  set(page_file ${PROJECT_SOURCE_DIR}/src/tools/report/page/page.${part})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_file})
  file(READ ${page_file} page_${part})
endforeach()
set(page_source ${CMAKE_CURRENT_BINARY_DIR}/generated/report_page.cc)
file(CONFIGURE OUTPUT ${page_source} @ONLY CONTENT
"// Made of src/tools/report/page by cmake/report_page.cmake.
#include \"tools/report/page.h\"

namespace holdfast {

const std::string_view kPageHtml = R\"page(@page_html@)page\";
const std::string_view kPageCss = R\"page(@page_css@)page\";
const std::string_view kPageJs = R\"page(@page_js@)page\";

}  // namespace holdfast
")
target_sources(holdfast_tools_report PRIVATE ${page_source})
