# Reader, matcher and decoder, with a small opcode table of their own (reader_rows.c); and the real table's patterns.
set(emu_reader_sources arena type scan syntax reader read_variable read_init read_operand read_kernel match match_check layout
    flow liveness rows operands decode call load)
list(TRANSFORM emu_reader_sources PREPEND ${PROJECT_SOURCE_DIR}/tools/emu/)
list(TRANSFORM emu_reader_sources APPEND .c)
add_library(emu_reader_parts STATIC ${emu_reader_sources} ${CMAKE_CURRENT_LIST_DIR}/reader_rows.c)
target_include_directories(emu_reader_parts PUBLIC ${PROJECT_SOURCE_DIR}/tools/emu ${CMAKE_CURRENT_LIST_DIR})

foreach(name reader match decode)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE emu_reader_parts ${CMOCKA_LIBRARY})
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()

smla_add_fuzz_target(fuzz-ptx emu.fuzz_ptx ${CMAKE_CURRENT_LIST_DIR}/fuzz_ptx.c ${CMAKE_CURRENT_LIST_DIR}/ptx_seeds
  emu_reader_parts)
smla_add_fuzz_target(fuzz-ptx_table emu.fuzz_ptx_table ${CMAKE_CURRENT_LIST_DIR}/fuzz_ptx.c
  ${CMAKE_CURRENT_LIST_DIR}/ptx_seeds smla_emu)
target_compile_definitions(fuzz-ptx_table PRIVATE FUZZ_WHOLE_TABLE)

# With every instruction file: no two rows of the whole table may fit the same instruction; and what loading takes.
add_executable(emu_test_table ${CMAKE_CURRENT_LIST_DIR}/test_table.c)
target_link_libraries(emu_test_table PRIVATE smla_emu ${CMOCKA_LIBRARY})
add_test(NAME emu.table COMMAND emu_test_table)
add_executable(emu_ptx_stats ${CMAKE_CURRENT_LIST_DIR}/ptx_stats.c)
target_link_libraries(emu_ptx_stats PRIVATE smla_emu)
