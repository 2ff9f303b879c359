# The tensor instructions alone, on stand-ins for the engine (tensor_machine.c).
set(emu_tensor_sources tensor wgmma mma matrix_math matrix_copy bulk bulk_tensor remote reduction tensor_map tensor_map_ops match arena
    scan type registers)
list(TRANSFORM emu_tensor_sources PREPEND ${PROJECT_SOURCE_DIR}/tools/emu/)
list(TRANSFORM emu_tensor_sources APPEND .c)
add_library(emu_tensor_alone STATIC ${emu_tensor_sources} ${CMAKE_CURRENT_LIST_DIR}/tensor_machine.c)
target_include_directories(emu_tensor_alone PUBLIC ${PROJECT_SOURCE_DIR}/tools/emu ${CMAKE_CURRENT_LIST_DIR})

foreach(name wgmma mma matrix_copy bulk tensor_map)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE emu_tensor_alone ${CMOCKA_LIBRARY} m)
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()

# Probes of layouts and conversions, on the emulated device; what an H200 answered is in probes/h200.txt, once recorded.
find_program(SMLA_NVCC nvcc HINTS /usr/local/cuda/bin)
add_executable(emu_probes ${CMAKE_CURRENT_LIST_DIR}/probes/probes.c)
target_link_libraries(emu_probes PRIVATE ${CMAKE_DL_LIBS})
if(SMLA_NVCC)
  set(probes_source ${CMAKE_CURRENT_LIST_DIR}/probes/probes.cu)
  foreach(kind ptx cubin)
    add_custom_command(OUTPUT probes.${kind} DEPENDS ${probes_source}
      COMMAND ${SMLA_NVCC} -arch=sm_90a -${kind} -o probes.${kind} ${probes_source})
  endforeach()
  add_custom_target(emu_probe_images ALL DEPENDS probes.ptx probes.cubin)
  foreach(schedule eager lazy)
    add_test(NAME emu.probes_${schedule} COMMAND ${CMAKE_CURRENT_LIST_DIR}/probes/compare
      $<TARGET_FILE:emu_probes> ${PROJECT_BINARY_DIR}/emu/libcuda.so.1 ${CMAKE_CURRENT_BINARY_DIR}/probes.ptx)
    set_tests_properties(emu.probes_${schedule} PROPERTIES ENVIRONMENT "SMLA_EMU_SCHEDULE=${schedule}")
  endforeach()
endif()
