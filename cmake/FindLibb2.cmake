# The static libb2 (BLAKE2), as the target Libb2::libb2. Static, so that the shared smla needs libc alone.
find_path(LIBB2_INCLUDE_DIR blake2.h)
find_library(LIBB2_STATIC libb2.a)
mark_as_advanced(LIBB2_INCLUDE_DIR LIBB2_STATIC)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Libb2 REQUIRED_VARS LIBB2_STATIC LIBB2_INCLUDE_DIR)

if(Libb2_FOUND AND NOT TARGET Libb2::libb2)
  add_library(Libb2::libb2 STATIC IMPORTED)
  set_target_properties(Libb2::libb2 PROPERTIES
    IMPORTED_LOCATION ${LIBB2_STATIC} INTERFACE_INCLUDE_DIRECTORIES ${LIBB2_INCLUDE_DIR})
endif()
