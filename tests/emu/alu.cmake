# The scalar instructions, read from PTX and executed one at a time; the engine's reports are the test's own.
add_executable(emu_test_alu
  ${CMAKE_CURRENT_LIST_DIR}/test_alu.c ${CMAKE_CURRENT_LIST_DIR}/test_alu_integer.c
  ${CMAKE_CURRENT_LIST_DIR}/test_alu_float.c ${CMAKE_CURRENT_LIST_DIR}/test_alu_half.c
  ${CMAKE_CURRENT_LIST_DIR}/test_alu_compare.c ${CMAKE_CURRENT_LIST_DIR}/test_alu_convert.c
  ${CMAKE_CURRENT_LIST_DIR}/test_alu_warp.c)
target_link_libraries(emu_test_alu PRIVATE smla_emu ${CMOCKA_LIBRARY})
add_test(NAME emu.alu COMMAND emu_test_alu)
