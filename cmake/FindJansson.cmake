# Jansson (JSON), for the tools alone, as the target Jansson::jansson. With SMLA_STATIC_TOOLS the static library, so that
# a tool needs glibc alone.
find_path(JANSSON_INCLUDE_DIR jansson.h)
if(SMLA_STATIC_TOOLS)
  find_library(JANSSON_STATIC libjansson.a)
  set(library JANSSON_STATIC)
else()
  find_library(JANSSON_LIBRARY jansson)
  set(library JANSSON_LIBRARY)
endif()
mark_as_advanced(JANSSON_INCLUDE_DIR JANSSON_STATIC JANSSON_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Jansson REQUIRED_VARS ${library} JANSSON_INCLUDE_DIR)

if(Jansson_FOUND AND NOT TARGET Jansson::jansson)
  add_library(Jansson::jansson UNKNOWN IMPORTED)
  set_target_properties(Jansson::jansson PROPERTIES
    IMPORTED_LOCATION ${${library}} INTERFACE_INCLUDE_DIRECTORIES ${JANSSON_INCLUDE_DIR})
endif()
