# Own small kernels that use the instructions in other ways than the templates, on the emulated libcuda.
if(NOT TARGET smla_emu_driver)
  return()
endif()
add_executable(emu_test_own_kernels
  ${CMAKE_CURRENT_LIST_DIR}/test_own_kernels.c ${CMAKE_CURRENT_LIST_DIR}/own_compile.c
  ${CMAKE_CURRENT_LIST_DIR}/own_device.c ${CMAKE_CURRENT_LIST_DIR}/own_matrices.c
  ${CMAKE_CURRENT_LIST_DIR}/own_copies.c ${CMAKE_CURRENT_LIST_DIR}/own_threads.c)
target_include_directories(emu_test_own_kernels PRIVATE
  ${PROJECT_SOURCE_DIR}/tools/emu/driver ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/gen)
target_compile_definitions(emu_test_own_kernels PRIVATE
  OWN_KERNELS="${CMAKE_CURRENT_LIST_DIR}/kernels" OWN_TEMPLATES="${PROJECT_SOURCE_DIR}/templates"
  OWN_LIBCUDA="$<TARGET_FILE:smla_emu_driver>")
target_link_libraries(emu_test_own_kernels PRIVATE smla_static ${CMOCKA_LIBRARY} ${CMAKE_DL_LIBS} m)
add_dependencies(emu_test_own_kernels smla_emu_driver)
add_test(NAME emu.own_kernels COMMAND emu_test_own_kernels)
set_tests_properties(emu.own_kernels PROPERTIES COST 50)
