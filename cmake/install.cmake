# What `cmake --install` lays down: libraries, header, tools, CMake package, pkg-config file.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/smla)

install(TARGETS smla smla_static smla_include EXPORT smlaTargets)
install(EXPORT smlaTargets NAMESPACE smla:: DESTINATION ${package_dir})
install(FILES ${PROJECT_SOURCE_DIR}/include/smla/smla.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/smla)
if(SMLA_BUILD_TOOLS)
  foreach(tool smla-gen smla-run smla-cache smla-bench)
    if(TARGET ${tool})
      install(TARGETS ${tool})
    endif()
  endforeach()
  # What servers of known models need, for smla-cache warm --from, and scripts that call it.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/shapes ${PROJECT_SOURCE_DIR}/tools/warm
    DESTINATION ${CMAKE_INSTALL_DATADIR}/smla USE_SOURCE_PERMISSIONS)
  # Not among the libraries: nothing may take it for the driver of a card.
  if(TARGET smla_emu_driver)
    install(TARGETS smla_emu_driver LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/smla/emu NAMELINK_SKIP)
  endif()
endif()

configure_package_config_file(cmake/smlaConfig.cmake.in ${PROJECT_BINARY_DIR}/smlaConfig.cmake
  INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/smlaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/smlaConfig.cmake ${PROJECT_BINARY_DIR}/smlaConfigVersion.cmake
  cmake/FindLibb2.cmake DESTINATION ${package_dir})

# Relative to its own place, so that the prefix can move; an absolute install directory stays what it is.
file(RELATIVE_PATH SMLA_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
cmake_path(APPEND SMLA_PC_LIBDIR "\${prefix}" ${CMAKE_INSTALL_LIBDIR})
cmake_path(APPEND SMLA_PC_INCLUDEDIR "\${prefix}" ${CMAKE_INSTALL_INCLUDEDIR})
configure_file(cmake/smla.pc.in ${PROJECT_BINARY_DIR}/smla.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/smla.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
