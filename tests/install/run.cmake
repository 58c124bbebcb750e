# cmake -DBUILD_DIR= -DSOURCE_DIR= -DCONSUMER_DIR= -DSCRATCH_DIR=
#       -DCXX_COMPILER= -DGENERATOR= -P run.cmake
cmake_minimum_required(VERSION 3.25)

function(run what)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status
    OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${what} failed (${status}):\n${output}")
  endif()
  message(STATUS "${what}: fine")
endfunction()

file(REMOVE_RECURSE ${SCRATCH_DIR})
set(prefix ${SCRATCH_DIR}/prefix)
run("install" ${CMAKE_COMMAND} --install ${BUILD_DIR} --prefix ${prefix})

file(GLOB_RECURSE headers RELATIVE ${prefix}/include/holdfast
  ${prefix}/include/holdfast/*.h)
list(LENGTH headers header_count)
if(header_count LESS 5)
  message(FATAL_ERROR "only ${header_count} headers were installed")
endif()

# The command alone, and the library alone.
run("install the command" ${CMAKE_COMMAND} --install ${BUILD_DIR}
  --prefix ${SCRATCH_DIR}/command --component command)
file(GLOB_RECURSE installed RELATIVE ${SCRATCH_DIR}/command
  ${SCRATCH_DIR}/command/*)
if(NOT "bin/holdfast" IN_LIST installed OR installed MATCHES "\\.(h|a)(;|$)")
  message(FATAL_ERROR "the component `command` has: ${installed}")
endif()
run("install the library" ${CMAKE_COMMAND} --install ${BUILD_DIR}
  --prefix ${SCRATCH_DIR}/library --component library)
if(EXISTS ${SCRATCH_DIR}/library/bin)
  message(FATAL_ERROR "the component `library` has a bin/")
endif()

# pkg-config's users: one call of the compiler.
file(GLOB_RECURSE pc_file ${SCRATCH_DIR}/library/*/holdfast.pc)
cmake_path(GET pc_file PARENT_PATH pc_folder)
run("compile with pkg-config" sh -c "PKG_CONFIG_PATH=${pc_folder} && \
  export PKG_CONFIG_PATH && ${CXX_COMPILER} -std=c++20 \
  $(pkg-config --cflags holdfast) ${CONSUMER_DIR}/main.cc \
  $(pkg-config --libs holdfast) -o ${SCRATCH_DIR}/by_pkg_config")
run("run what pkg-config linked" ${SCRATCH_DIR}/by_pkg_config
  ${SCRATCH_DIR}/checkpoint_of_pkg_config)

# As part of another project: no tests, no bench.
file(WRITE ${SCRATCH_DIR}/parent/CMakeLists.txt "
cmake_minimum_required(VERSION 3.24)
project(parent CXX)
add_subdirectory(${SOURCE_DIR} holdfast)
if(TARGET ground_base_test OR TARGET holdfast_bench OR NOT TARGET holdfast::holdfast)
  message(FATAL_ERROR \"want the library, without tests and bench\")
endif()
")
run("configure a parent project" ${CMAKE_COMMAND}
  -S ${SCRATCH_DIR}/parent -B ${SCRATCH_DIR}/parent/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX_COMPILER})

run("configure the consumer" ${CMAKE_COMMAND}
  -S ${CONSUMER_DIR} -B ${SCRATCH_DIR}/build -G ${GENERATOR}
  -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
  -DCMAKE_PREFIX_PATH=${prefix}
  "-DHEADERS=${headers}")
run("build the consumer" ${CMAKE_COMMAND} --build ${SCRATCH_DIR}/build)
run("run the consumer" ${SCRATCH_DIR}/build/consumer
  ${SCRATCH_DIR}/checkpoint)
if(EXISTS ${SCRATCH_DIR}/build/mpi_consumer)
  run("run the consumer of MPI" ${SCRATCH_DIR}/build/mpi_consumer)
endif()
