# The engine with small kernels written in PTX: what it finds, in every schedule.
foreach(name exit relaxed_arrive warpgroup)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE smla_emu ${CMOCKA_LIBRARY})
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()
