# smla's own kernels on the engine; NVRTC makes their PTX.
add_library(emu_kernel_harness STATIC ${CMAKE_CURRENT_LIST_DIR}/kernel_harness.c)
target_include_directories(emu_kernel_harness PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(emu_kernel_harness PUBLIC smla_emu smla_tools_common smla_static)
foreach(name kernels mutation)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE emu_kernel_harness ${CMOCKA_LIBRARY})
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()

# The GPU tests of tests/gpu on the emulated device: the library, its loader and its kernels through the driver interface.
foreach(program prefill formats combine)
  if(TARGET gpu-${program})
    foreach(schedule eager random) # the others: emu.kernels
      add_test(NAME emu.gpu_${program}_${schedule} COMMAND gpu-${program})
      set_tests_properties(emu.gpu_${program}_${schedule} PROPERTIES LABELS long TIMEOUT 600 ENVIRONMENT
        "SMLA_DRIVER=${PROJECT_BINARY_DIR}/emu/libcuda.so.1;SMLA_CACHE=off;SMLA_EMU_SCHEDULE=${schedule};SMLA_EMU_SEED=1")
    endforeach()
  endif()
endforeach()
