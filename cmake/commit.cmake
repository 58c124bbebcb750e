# Looks up the commit that Commit() returns at every build, and writes it when
# it has changed. As a script (-P), writes the file OUT for the clone SOURCE.
if(CMAKE_SCRIPT_MODE_FILE)
  set(commit "")
  if(EXISTS ${SOURCE}/.git)
    execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  endif()
  file(CONFIGURE OUTPUT ${OUT} CONTENT
    "extern const char kHoldfastCommit[];\nconst char kHoldfastCommit[] = \"@commit@\";\n"
    @ONLY)
  return()
endif()

set(commit_file ${CMAKE_CURRENT_BINARY_DIR}/generated/commit.cc)
set(commit_script ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR}
  -DOUT=${commit_file} -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake)
add_custom_target(holdfast_commit COMMAND ${commit_script}
  BYPRODUCTS ${commit_file} VERBATIM)
execute_process(COMMAND ${commit_script})
set_source_files_properties(${commit_file} PROPERTIES
  SKIP_UNITY_BUILD_INCLUSION ON)
target_sources(holdfast_ground_base PRIVATE ${commit_file})
add_dependencies(holdfast_ground_base holdfast_commit)
