# holdfast_districts(table): adds the folders of tools/layers.json, from the
# ground up. A district that is its own library is left out when its option
# (HOLDFAST_ORBAX, HOLDFAST_TIERS) is off.
#
# holdfast_folder(path [COLD|HOT] LIBRARY library DEPS folders... LIBS targets...)
#
# src/<path>/*.cc become the object library holdfast_<path with _>, a part of
# `library`; the *_test.cc files next to them become the test
# <path with _>_test. Files are globbed so that no test can be forgotten.
add_library(holdfast_options INTERFACE)
target_include_directories(holdfast_options INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
# For ground/base/sha256.h, which every folder may include.
target_include_directories(holdfast_options SYSTEM INTERFACE
  ${OPENSSL_INCLUDE_DIR})
target_compile_options(holdfast_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers
  # GCC 12 warns of uninitialised members in unused moved-from variants, and of
  # impossible overlaps in std::string (GCC bug 105329).
  $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized -Wno-restrict>
  $<$<BOOL:${HOLDFAST_WERROR}>:-Werror>)
target_link_libraries(holdfast_options INTERFACE Threads::Threads
  ${CMAKE_DL_LIBS})
# Assertions stay on in every build, because a bug should end the program rather
# than write a wrong checkpoint. All builds have the same optimisation level, so
# that ccache shares objects between them. If the flags are not CMake's
# defaults, they are the caller's and stay.
if(CMAKE_CXX_FLAGS_RELEASE STREQUAL "-O3 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_RELEASE "-O2")
endif()
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO
  "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
if(HOLDFAST_SANITIZE)
  add_compile_options(-fsanitize=${HOLDFAST_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${HOLDFAST_SANITIZE})
endif()

# holdfast_unity(target SOURCES|TESTS): compiles all files of the target as one
# translation unit, if HOLDFAST_UNITY is on. There is only one unit, so that
# name clashes do not depend on the number of files. HOLDFAST_UNITY_EXCEPT lists
# targets under work, which are compiled file by file.
function(holdfast_unity target kind)
  if(target IN_LIST HOLDFAST_UNITY_EXCEPT)
    return()
  endif()
  if(NOT HOLDFAST_UNITY STREQUAL "ON" AND NOT HOLDFAST_UNITY STREQUAL kind)
    return()
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # GCC treats a .cc that a unity file includes as a header.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# A COLD folder is compiled for size, which saves a third of compile time and of
# space. In folders that handle every leaf this cost 6 to 16 % of speed,
# measured with 20,000 leaves. Debug and sanitized builds keep their own level.
set(holdfast_cold_options $<$<CONFIG:Release>:-Os>)
# HOLDFAST_QUICK_BUILD compiles with -Og what is not HOT, in 0.6 of the time.

function(holdfast_folder path)
  cmake_parse_arguments(arg "COLD;HOT" "LIBRARY" "DEPS;LIBS" ${ARGN})
  string(REPLACE "/" "_" name "${path}")
  set(dir ${PROJECT_SOURCE_DIR}/src/${path})
  file(GLOB sources CONFIGURE_DEPENDS ${dir}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")

  if(NOT sources)
    message(FATAL_ERROR "src/${path} has no sources")
  endif()
  add_library(holdfast_${name} OBJECT ${sources})
  holdfast_unity(holdfast_${name} SOURCES)
  # Public headers mark what a shared library exports (HOLDFAST_EXPORT).
  set_target_properties(holdfast_${name} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_link_libraries(holdfast_${name} PUBLIC holdfast_options)
  if(HOLDFAST_QUICK_BUILD AND NOT arg_HOT)
    target_compile_options(holdfast_${name} PRIVATE -Og)
  elseif(arg_COLD)
    target_compile_options(holdfast_${name} PRIVATE ${holdfast_cold_options})
  endif()
  target_link_libraries(holdfast_${name} PRIVATE ${arg_LIBS})
  set(closure holdfast_${name})
  set(libs ${arg_LIBS})
  foreach(dep IN LISTS arg_DEPS)
    string(REPLACE "/" "_" dep_name "${dep}")
    get_property(dep_closure GLOBAL PROPERTY HOLDFAST_CLOSURE_${dep_name})
    get_property(dep_libs GLOBAL PROPERTY HOLDFAST_LIBS_${dep_name})
    list(APPEND closure ${dep_closure})
    list(APPEND libs ${dep_libs})
  endforeach()
  list(REMOVE_DUPLICATES closure)
  list(REMOVE_DUPLICATES libs)
  set_property(GLOBAL PROPERTY HOLDFAST_CLOSURE_${name} ${closure})
  set_property(GLOBAL PROPERTY HOLDFAST_LIBS_${name} ${libs})
  set_property(GLOBAL APPEND PROPERTY HOLDFAST_OBJECTS_${arg_LIBRARY}
    $<TARGET_OBJECTS:holdfast_${name}>)

  if(HOLDFAST_BUILD_TESTS AND tests)
    add_executable(${name}_test ${tests})
    holdfast_unity(${name}_test TESTS)
    target_link_libraries(${name}_test PRIVATE
      holdfast_options holdfast_twins GTest::gmock GTest::gtest_main ${libs})
    # Linked with the folder and all folders below it, and none above it.
    foreach(library IN LISTS closure)
      target_sources(${name}_test PRIVATE $<TARGET_OBJECTS:${library}>)
    endforeach()
    target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
    target_compile_definitions(${name}_test PRIVATE
      HOLDFAST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    # Compiling a test takes longer than running it.
    target_compile_options(${name}_test PRIVATE -O0)
    add_test(NAME unit.${name} COMMAND ${name}_test)
    set_tests_properties(unit.${name} PROPERTIES
      LABELS unit TIMEOUT 600 COST 50)
  endif()
endfunction()

function(holdfast_districts table)
  file(READ ${table} text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table})
  set(order)
  holdfast_json_members(districts "${text}" districts)
  foreach(district IN LISTS districts)
    set(library holdfast)
    string(JSON own ERROR_VARIABLE shares
      GET "${text}" districts ${district} library)
    if(NOT shares)
      string(TOUPPER ${own} option)
      if(NOT ${option})
        continue()
      endif()
      set(library ${own})
    endif()
    holdfast_json_members(folders "${text}" districts ${district} folders)
    foreach(folder IN LISTS folders)
      set(at_${folder} districts ${district} folders ${folder})
      set(library_${folder} ${library})
      list(APPEND order ${folder})
    endforeach()
  endforeach()
  # CMake lists the members sorted by name. Each round adds the folders whose
  # dependencies already exist.
  set(made)
  while(order)
    set(waiting)
    foreach(folder IN LISTS order)
      holdfast_json_list(deps "${text}" ${at_${folder}} on)
      holdfast_json_list(libs "${text}" ${at_${folder}} links)
      set(missing ${deps})
      list(REMOVE_ITEM missing ${made})
      if(missing)
        list(APPEND waiting ${folder})
      else()
        set(heat)
        foreach(kind IN ITEMS cold hot)
          string(JSON is_kind ERROR_VARIABLE not_said
            GET "${text}" ${at_${folder}} is_${kind})
          if(is_kind STREQUAL "ON")
            string(TOUPPER ${kind} heat)
          endif()
        endforeach()
        holdfast_folder(${folder} ${heat} LIBRARY ${library_${folder}}
          DEPS ${deps} LIBS ${libs})
        list(APPEND made ${folder})
      endif()
    endforeach()
    if("${waiting}" STREQUAL "${order}")
      message(FATAL_ERROR "${table}: these wait for each other: ${order}")
    endif()
    set(order ${waiting})
  endwhile()
endfunction()

# Sets `result` to the member names of an object in a JSON text.
function(holdfast_json_members result text)
  string(JSON count LENGTH "${text}" ${ARGN})
  math(EXPR last "${count} - 1")
  set(names)
  foreach(i RANGE ${last})
    string(JSON name MEMBER "${text}" ${ARGN} ${i})
    list(APPEND names ${name})
  endforeach()
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# Sets `result` to the strings of an array in a JSON text, or to an empty list
# if the array is missing.
function(holdfast_json_list result text)
  set(values)
  string(JSON count ERROR_VARIABLE missing LENGTH "${text}" ${ARGN})
  if(NOT missing AND count GREATER 0)
    math(EXPR last "${count} - 1")
    foreach(i RANGE ${last})
      string(JSON value GET "${text}" ${ARGN} ${i})
      list(APPEND values ${value})
    endforeach()
  endif()
  set(${result} ${values} PARENT_SCOPE)
endfunction()
