# Every form of the control and synchronisation tables.
add_executable(emu_test_sync_rows ${CMAKE_CURRENT_LIST_DIR}/test_sync_rows.c)
target_link_libraries(emu_test_sync_rows PRIVATE smla_emu ${CMOCKA_LIBRARY})
add_test(NAME emu.sync_rows COMMAND emu_test_sync_rows)
