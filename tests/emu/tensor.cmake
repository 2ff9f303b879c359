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

# Probes of an H200, on the emulated device: its answers must be those that the card gave (probes/h200.txt).
set(probe_sources probes matrix boxes reductions encoder numbers)
list(TRANSFORM probe_sources PREPEND ${CMAKE_CURRENT_LIST_DIR}/probes/)
list(TRANSFORM probe_sources APPEND .c)
add_executable(emu_probes ${probe_sources})
target_link_libraries(emu_probes PRIVATE ${CMAKE_DL_LIBS})
if(TARGET smla_emu_driver)
  add_executable(emu_probes_ptx ${CMAKE_CURRENT_LIST_DIR}/probes/ptx.c ${CMAKE_CURRENT_LIST_DIR}/own_compile.c)
  target_include_directories(emu_probes_ptx PRIVATE
    ${CMAKE_CURRENT_LIST_DIR} ${PROJECT_SOURCE_DIR}/runtime ${PROJECT_SOURCE_DIR}/gen)
  target_compile_definitions(emu_probes_ptx PRIVATE
    OWN_KERNELS="${CMAKE_CURRENT_LIST_DIR}/kernels" OWN_TEMPLATES="${PROJECT_SOURCE_DIR}/templates")
  target_link_libraries(emu_probes_ptx PRIVATE smla_static)
  set(probes_ptx ${CMAKE_CURRENT_BINARY_DIR}/probes.ptx)
  add_test(NAME emu.probes_ptx COMMAND emu_probes_ptx ${probes_ptx})
  set_tests_properties(emu.probes_ptx PROPERTIES FIXTURES_SETUP probes_ptx)
  foreach(schedule eager lazy)
    add_test(NAME emu.probes_${schedule} COMMAND ${CMAKE_CURRENT_LIST_DIR}/probes/compare
      $<TARGET_FILE:emu_probes> $<TARGET_FILE:smla_emu_driver> ${probes_ptx})
    set_tests_properties(emu.probes_${schedule} PROPERTIES
      FIXTURES_REQUIRED probes_ptx ENVIRONMENT "SMLA_EMU_SCHEDULE=${schedule}")
  endforeach()
  # Another order of the same probes.
  set_tests_properties(emu.probes_lazy PROPERTIES LABELS once)
endif()
