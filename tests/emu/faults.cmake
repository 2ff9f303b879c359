# A catalogue of faults, each with its corrected twin; and how the engine behaves where nothing is wrong.
add_executable(emu_test_faults ${CMAKE_CURRENT_LIST_DIR}/test_faults.c ${CMAKE_CURRENT_LIST_DIR}/faults_harness.c
  ${CMAKE_CURRENT_LIST_DIR}/faults_races.c ${CMAKE_CURRENT_LIST_DIR}/faults_global.c
  ${CMAKE_CURRENT_LIST_DIR}/faults_waits.c ${CMAKE_CURRENT_LIST_DIR}/faults_barriers.c
  ${CMAKE_CURRENT_LIST_DIR}/faults_warps.c ${CMAKE_CURRENT_LIST_DIR}/faults_grid.c)
target_link_libraries(emu_test_faults PRIVATE smla_emu ${CMOCKA_LIBRARY})
add_test(NAME emu.faults COMMAND emu_test_faults)

add_executable(emu_test_engine ${CMAKE_CURRENT_LIST_DIR}/test_engine.c ${CMAKE_CURRENT_LIST_DIR}/faults_harness.c)
target_link_libraries(emu_test_engine PRIVATE smla_emu ${CMOCKA_LIBRARY})
add_test(NAME emu.engine COMMAND emu_test_engine)
set_tests_properties(emu.engine PROPERTIES COST 50)
