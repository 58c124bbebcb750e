# Included by `project()` when pip builds: the same compiler calls as the C++
# build's, so what either of them has compiled the other takes from ccache.
find_program(HOLDFAST_CCACHE ccache)
if(HOLDFAST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HOLDFAST_CCACHE})
endif()
