# The tensor instructions alone, on stand-ins for the engine (tensor_machine.c).
set(emu_tensor_sources tensor wgmma mma matrix_math matrix_copy bulk bulk_tensor remote reduction tensor_map match arena
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
