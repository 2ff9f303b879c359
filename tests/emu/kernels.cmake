# smla's own kernels on the engine; NVRTC makes their PTX.
add_library(emu_kernel_harness STATIC ${CMAKE_CURRENT_LIST_DIR}/kernel_harness.c)
target_include_directories(emu_kernel_harness PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(emu_kernel_harness PUBLIC smla_emu smla_tools_common smla_static)
foreach(name kernels mutation)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE emu_kernel_harness ${CMOCKA_LIBRARY})
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()
