# Puts the table of options, tools/options.json, into the command as constants
# (cli/flags.h): every member is a text, and lists are lines. A changed table
# makes CMake run again.
set(options_table ${PROJECT_SOURCE_DIR}/tools/options.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${options_table})
file(READ ${options_table} options_json)

# Sets `variable` to the JSON value at a path, "" if it is null or absent. The
# elements of an array, and of arrays in it, are lines.
function(options_text variable json)
  string(JSON type ERROR_VARIABLE error TYPE "${json}" ${ARGN})
  if(NOT type STREQUAL "ARRAY")
    string(JSON text ERROR_VARIABLE error GET "${json}" ${ARGN})
    if(error)
      set(text "")
    endif()
    set(${variable} "${text}" PARENT_SCOPE)
    return()
  endif()
  set(lines "")
  string(JSON count LENGTH "${json}" ${ARGN})
  if(count EQUAL 0)
    set(${variable} "" PARENT_SCOPE)
    return()
  endif()
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    options_text(line "${json}" ${ARGN} ${i})
    string(APPEND lines "\n${line}")
  endforeach()
  string(SUBSTRING "${lines}" 1 -1 lines)
  set(${variable} "${lines}" PARENT_SCOPE)
endfunction()

# Sets `variable` to an option as it is typed, without "--".
function(options_spelling variable row)
  options_text(name "${row}" flag)
  if(name STREQUAL "")
    options_text(name "${row}" name)
    options_text(default "${row}" default)
    if(default STREQUAL "ON")
      string(PREPEND name "no-")
    endif()
    string(REPLACE "_" "-" name "${name}")
  endif()
  set(${variable} "${name}" PARENT_SCOPE)
endfunction()

# Sets `variable` to the rows of a table with these members, as C++.
function(options_rows variable table)
  set(rows "")
  string(JSON array GET "${options_json}" ${table})
  string(JSON count LENGTH "${array}")
  math(EXPR last "${count} - 1")
  foreach(i RANGE ${last})
    string(JSON row GET "${array}" ${i})
    if(table STREQUAL "options")
      options_text(verbs "${row}" verbs)
      if(verbs STREQUAL "")
        continue()  # only of Python or C++
      endif()
      options_spelling(flag "${row}")
      string(JSON row SET "${row}" flag "\"${flag}\"")
    endif()
    set(cells "")
    foreach(member IN LISTS ARGN)
      options_text(text "${row}" ${member})
      string(APPEND cells "R\"~(${text})~\", ")
    endforeach()
    string(APPEND rows "    {${cells}},\n")
  endforeach()
  set(${variable} "${rows}" PARENT_SCOPE)
endfunction()

options_rows(flag_rows options name flag short value type default shown min max
  choices contains want may_be_empty group help help_by_verb verbs)
options_rows(verb_rows verbs name group operands operand_count choices
  summary description examples)
options_text(option_groups "${options_json}" groups)
options_text(verb_groups "${options_json}" verb_groups)
set(set_rows "")
string(JSON sets GET "${options_json}" sets)
string(JSON set_count LENGTH "${sets}")
math(EXPR last "${set_count} - 1")
foreach(i RANGE ${last})
  string(JSON set_name MEMBER "${sets}" ${i})
  options_text(set_verbs "${sets}" ${set_name})
  string(APPEND set_rows "    {\"${set_name}\", R\"(${set_verbs})\"},\n")
endforeach()

set(options_file ${CMAKE_CURRENT_BINARY_DIR}/generated/option_tables.cc)
file(CONFIGURE OUTPUT ${options_file} @ONLY CONTENT
"// Made of tools/options.json by cmake/options.cmake.
#include \"cli/flags.h\"

namespace holdfast::cli {
namespace {

constexpr Flag kFlags[] = {
@flag_rows@};

constexpr Verb kVerbs[] = {
@verb_rows@};

constexpr VerbSet kVerbSets[] = {
@set_rows@};

}  // namespace

std::span<const Flag> AllFlags() { return kFlags; }
std::span<const Verb> AllVerbs() { return kVerbs; }
std::span<const VerbSet> AllVerbSets() { return kVerbSets; }
std::string_view OptionGroups() { return R\"(@option_groups@)\"; }
std::string_view VerbGroups() { return R\"(@verb_groups@)\"; }

}  // namespace holdfast::cli
")
target_sources(holdfast_cli_objects PRIVATE ${options_file})
