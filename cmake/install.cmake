# What `cmake --install` installs. Component `library`: the library, the public
# headers, and package files for `find_package(holdfast)`, which defines
# holdfast::holdfast, and for pkg-config. Component `command`: the command, its
# manual page and completions.
include(CMakePackageConfigHelpers)

set_target_properties(holdfast PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
  EXPORT_NAME holdfast)

install(TARGETS holdfast ${holdfast_wings} EXPORT holdfast_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT library)
if(TARGET holdfast_mpi)
  install(TARGETS holdfast_mpi EXPORT holdfast_targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/holdfast
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT library
  FILES_MATCHING PATTERN "*.h")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/holdfast)
install(EXPORT holdfast_targets
  FILE holdfastTargets.cmake
  NAMESPACE holdfast::
  DESTINATION ${package_dir} COMPONENT library)
# A shared library links its dependencies itself; a static one passes them on.
get_target_property(holdfast_type holdfast TYPE)
if(holdfast_type STREQUAL "STATIC_LIBRARY")
  set(HOLDFAST_IS_STATIC ON)
else()
  set(HOLDFAST_IS_STATIC OFF)
endif()
configure_package_config_file(
  ${PROJECT_SOURCE_DIR}/cmake/holdfastConfig.cmake.in
  ${PROJECT_BINARY_DIR}/holdfastConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(
  ${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/holdfastConfig.cmake
  ${PROJECT_BINARY_DIR}/holdfastConfigVersion.cmake
  DESTINATION ${package_dir} COMPONENT library)

# Users of a static library must link its dependencies and the C++ library.
set(HOLDFAST_PC_REQUIRES)
set(HOLDFAST_PC_LINK)
set(HOLDFAST_PC_WINGS)
if(HOLDFAST_IS_STATIC)
  foreach(wing IN LISTS holdfast_wings)
    string(APPEND HOLDFAST_PC_WINGS "-l${wing} ")
  endforeach()
  set(HOLDFAST_PC_REQUIRES
    "libzstd, liblz4, snappy, libpcre2-8, pugixml, libisal, zlib, libcrypto")
  set(HOLDFAST_PC_LINK "-lstdc++ -lm -ldl -pthread")
endif()
configure_file(${PROJECT_SOURCE_DIR}/cmake/holdfast.pc.in
  ${PROJECT_BINARY_DIR}/holdfast.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/holdfast.pc
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT library)
