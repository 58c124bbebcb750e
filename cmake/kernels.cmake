# Puts the text of the device's kernels into the library, for NVRTC
# (src/formats/device/kernel_source.h). A changed text makes CMake run again.
set(kernel_folder ${PROJECT_SOURCE_DIR}/src/formats/device)
foreach(part kernels.cuh kernel_tables.h)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${kernel_folder}/${part})
endforeach()
file(READ ${kernel_folder}/kernels.cuh kernels_text)
file(READ ${kernel_folder}/kernel_tables.h kernel_tables_text)
set(kernel_source ${CMAKE_CURRENT_BINARY_DIR}/generated/kernel_source.cc)
file(CONFIGURE OUTPUT ${kernel_source} @ONLY CONTENT
"// Made of src/formats/device by cmake/kernels.cmake.
#include \"formats/device/kernel_source.h\"

namespace holdfast {

DeviceSource KernelSource() {
  return {\"kernels.cuh\", R\"kernel(@kernels_text@)kernel\",
          \"formats/device/kernel_tables.h\",
          R\"kernel(@kernel_tables_text@)kernel\"};
}

}  // namespace holdfast
")
target_sources(holdfast_formats_device PRIVATE ${kernel_source})
