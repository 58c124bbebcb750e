# cmake -DBUILD_DIR= -DCONSUMER_DIR= -DSCRATCH_DIR= -DCXX_COMPILER=
#       -DGENERATOR= -P run.cmake
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
