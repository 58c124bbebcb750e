# Third-party libraries, all from Debian 12; why each: doc/dependencies.md.

# One program file that runs anywhere: a static holdfast takes static
# third-party libraries where the system has them.
if(NOT BUILD_SHARED_LIBS)
  set(ZLIB_USE_STATIC_LIBS ON)
  set(OPENSSL_USE_STATIC_LIBS ON)
endif()
include(CheckLinkerFlag)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(zstd_pc REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(lz4_pc REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(snappy_pc REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(pcre2_pc REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(pugixml_pc REQUIRED IMPORTED_TARGET pugixml)
pkg_check_modules(isal_pc REQUIRED IMPORTED_TARGET libisal)
find_path(CURL_INCLUDE_DIR curl/curl.h REQUIRED)
find_path(MSGPACK_INCLUDE_DIR msgpack.hpp REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(BOOST_INCLUDE_DIR boost/beast/http.hpp REQUIRED)

# holdfast_archive(name target archives...): `name` links the archives when all
# of them exist and a static build wants them, else the imported `target`.
function(holdfast_archive name target)
  add_library(${name} INTERFACE)
  set(found)
  foreach(archive IN LISTS ARGN)
    find_library(HOLDFAST_ARCHIVE_${archive} lib${archive}.a)
    if(HOLDFAST_ARCHIVE_${archive})
      list(APPEND found ${HOLDFAST_ARCHIVE_${archive}})
    endif()
  endforeach()
  list(LENGTH found found_count)
  list(LENGTH ARGN wanted_count)
  if(NOT BUILD_SHARED_LIBS AND found_count EQUAL wanted_count)
    target_include_directories(${name} SYSTEM INTERFACE
      $<TARGET_PROPERTY:${target},INTERFACE_INCLUDE_DIRECTORIES>)
    target_link_libraries(${name} INTERFACE ${found})
  else()
    target_link_libraries(${name} INTERFACE ${target})
  endif()
endfunction()

holdfast_archive(holdfast_zstd PkgConfig::zstd_pc zstd)
holdfast_archive(holdfast_lz4 PkgConfig::lz4_pc lz4)
holdfast_archive(holdfast_snappy PkgConfig::snappy_pc snappy)
holdfast_archive(holdfast_pcre2 PkgConfig::pcre2_pc pcre2-8)
holdfast_archive(holdfast_pugixml PkgConfig::pugixml_pc pugixml)
holdfast_archive(holdfast_isal PkgConfig::isal_pc isal)
# What a shared library or module of the folders links: Debian's archives are
# not all position-independent, so the compressors come as shared libraries. What
# is in the other archives stays inside.
add_library(holdfast_shared_needs INTERFACE)
check_linker_flag(CXX -Wl,--exclude-libs,ALL HOLDFAST_CAN_EXCLUDE_LIBS)
if(HOLDFAST_CAN_EXCLUDE_LIBS)  # not zig's linker
  target_link_options(holdfast_shared_needs INTERFACE -Wl,--exclude-libs,ALL)
endif()
target_link_libraries(holdfast_shared_needs INTERFACE
  PkgConfig::zstd_pc PkgConfig::lz4_pc PkgConfig::snappy_pc PkgConfig::pcre2_pc
  PkgConfig::isal_pc
  holdfast_pugixml ZLIB::ZLIB OpenSSL::Crypto Threads::Threads ${CMAKE_DL_LIBS})
# libcurl is loaded when the first URL is used (src/stores/http/curl_library.h): only
# its headers are needed here. HOLDFAST_CURL_INSIDE links an archive of it.
add_library(holdfast_curl INTERFACE)
target_include_directories(holdfast_curl SYSTEM INTERFACE ${CURL_INCLUDE_DIR})
if(HOLDFAST_CURL_INSIDE)
  find_package(OpenSSL REQUIRED COMPONENTS SSL)
  find_library(HOLDFAST_ARCHIVE_curl libcurl.a REQUIRED)
  target_compile_definitions(holdfast_curl INTERFACE
    HOLDFAST_CURL_INSIDE CURL_STATICLIB)
  target_link_libraries(holdfast_curl INTERFACE
    ${HOLDFAST_ARCHIVE_curl} OpenSSL::SSL OpenSSL::Crypto ZLIB::ZLIB)
endif()
target_link_libraries(holdfast_shared_needs INTERFACE holdfast_curl)
add_library(holdfast_msgpack INTERFACE)
target_include_directories(holdfast_msgpack SYSTEM INTERFACE
  ${MSGPACK_INCLUDE_DIR})
target_compile_definitions(holdfast_msgpack INTERFACE MSGPACK_NO_BOOST)
add_library(holdfast_xxhash INTERFACE)
target_include_directories(holdfast_xxhash SYSTEM INTERFACE
  "${XXHASH_INCLUDE_DIR}")
add_library(holdfast_boost INTERFACE)
target_include_directories(holdfast_boost SYSTEM INTERFACE "${BOOST_INCLUDE_DIR}")

if(HOLDFAST_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(HOLDFAST_BUILD_TESTS OR HOLDFAST_BUILD_FUZZ)
  pkg_check_modules(blosc_pc REQUIRED IMPORTED_TARGET blosc)
endif()

# MPI, for libholdfast_mpi.so alone.
if(HOLDFAST_WITH_MPI STREQUAL "AUTO")
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS CXX)
  if(MPI_CXX_FOUND)
    set(HOLDFAST_WITH_MPI ON)
  else()
    set(HOLDFAST_WITH_MPI OFF)
  endif()
elseif(HOLDFAST_WITH_MPI)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI REQUIRED COMPONENTS CXX)
endif()
