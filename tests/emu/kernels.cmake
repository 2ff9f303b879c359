# smla's own kernels on the engine; NVRTC makes their PTX.
add_library(emu_kernel_harness STATIC ${CMAKE_CURRENT_LIST_DIR}/kernel_harness.c)
target_include_directories(emu_kernel_harness PUBLIC ${CMAKE_CURRENT_LIST_DIR})
target_link_libraries(emu_kernel_harness PUBLIC smla_emu smla_tools_common smla_static)
foreach(name kernels mutation)
  add_executable(emu_test_${name} ${CMAKE_CURRENT_LIST_DIR}/test_${name}.c)
  target_link_libraries(emu_test_${name} PRIVATE emu_kernel_harness ${CMOCKA_LIBRARY})
  add_test(NAME emu.${name} COMMAND emu_test_${name})
endforeach()
# What says the same under sanitizers, in minutes, runs once; the engine's threads are there in a part of it.
set_tests_properties(emu.kernels emu.mutation PROPERTIES LABELS long COST 100)
add_test(NAME emu.kernels_short_lists COMMAND emu_test_kernels short_lists)
set_tests_properties(emu.kernels emu.mutation emu.kernels_short_lists PROPERTIES ENVIRONMENT "${shared_kernels}")

# The GPU tests of tests/gpu on the emulated device: the library, its loader and its kernels through the driver interface.
if(TARGET gpu-prefill)
  set(emulated "SMLA_DRIVER=${PROJECT_BINARY_DIR}/emu/libcuda.so.1;${shared_kernels};SMLA_EMU_SM_COUNT=2")
  # One schedule each; every schedule of small calls is emu.kernels' and the property tests'.
  foreach(run prefill=random formats=eager combine=random property=eager bug_reports=random
      scenarios=random)
    string(REGEX MATCH "^([a-z_]+)=(.*)$" run "${run}")
    set(name emu.gpu_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
    add_test(NAME ${name} COMMAND gpu-${CMAKE_MATCH_1})
    set_tests_properties(${name} PROPERTIES LABELS long TIMEOUT 600 COST 100 ENVIRONMENT
      "${emulated};SMLA_EMU_SCHEDULE=${CMAKE_MATCH_2};SMLA_EMU_SEED=1")
  endforeach()
  # The kernel for few queries in clusters of 2, 4 and 8: four queries on so many multiprocessors.
  foreach(run 8=lazy 16=random 32=eager)
    string(REGEX MATCH "^([0-9]+)=(.*)$" run "${run}")
    set(name emu.gpu_prefill_few_queries_${CMAKE_MATCH_1}_${CMAKE_MATCH_2})
    add_test(NAME ${name} COMMAND gpu-prefill few-queries)
    set_tests_properties(${name} PROPERTIES LABELS long TIMEOUT 600 ENVIRONMENT
      "${emulated};SMLA_EMU_SM_COUNT=${CMAKE_MATCH_1};SMLA_EMU_SCHEDULE=${CMAKE_MATCH_2};SMLA_EMU_SEED=1")
  endforeach()
  # Keys shared among five; a kernel's blocks of threads go through many tokens, whole and in parts.
  add_test(NAME emu.gpu_decode_random COMMAND gpu-decode --tiny)
  set_tests_properties(emu.gpu_decode_random PROPERTIES LABELS long TIMEOUT 600 ENVIRONMENT
    "${emulated};SMLA_EMU_SM_COUNT=5;SMLA_EMU_SCHEDULE=random;SMLA_EMU_SEED=1")
  # Few tokens, which companions take: on few multiprocessors, that have several tiles each, and on many.
  add_test(NAME emu.gpu_decode_few_tokens_7_random
    COMMAND gpu-decode "few tokens, 20 heads" "few tokens, 40 heads" "few tokens, 100 heads")
  add_test(NAME emu.gpu_decode_few_tokens_40_pct COMMAND gpu-decode --tiny --cases 6 "few tokens" random)
  foreach(run 7=random 40=pct)
    string(REGEX MATCH "^([0-9]+)=(.*)$" run "${run}")
    set_tests_properties(emu.gpu_decode_few_tokens_${CMAKE_MATCH_1}_${CMAKE_MATCH_2} PROPERTIES
      LABELS long TIMEOUT 600 ENVIRONMENT
      "${emulated};SMLA_EMU_SM_COUNT=${CMAKE_MATCH_1};SMLA_EMU_SCHEDULE=${CMAKE_MATCH_2};SMLA_EMU_SEED=1")
  endforeach()
  # Of more multiprocessors than a persistent kernel may take.
  foreach(schedule eager random)
    add_test(NAME emu.gpu_neighbours_${schedule} COMMAND gpu-neighbours)
    set_tests_properties(emu.gpu_neighbours_${schedule} PROPERTIES LABELS long TIMEOUT 600 ENVIRONMENT
      "${emulated};SMLA_EMU_SM_COUNT=12;SMLA_EMU_SCHEDULE=${schedule};SMLA_EMU_SEED=1")
  endforeach()
  # Fewer random calls in each schedule, of the same kernels.
  foreach(schedule eager random lazy starve pct)
    add_test(NAME emu.gpu_property_tiny_${schedule} COMMAND gpu-property --tiny --cases 20 --seed 3)
    set_tests_properties(emu.gpu_property_tiny_${schedule} PROPERTIES LABELS long TIMEOUT 600 ENVIRONMENT
      "${emulated};SMLA_EMU_SCHEDULE=${schedule};SMLA_EMU_SEED=1")
  endforeach()
  # More schedules and sizes of what the others try: tools/test --full.
  set_property(TEST emu.gpu_prefill_few_queries_8_lazy emu.gpu_prefill_few_queries_32_eager emu.gpu_neighbours_eager
    emu.gpu_property_eager APPEND PROPERTY LABELS full)
  # What compute-sanitizer must find in them on a card, the emulated device finds too.
  foreach(fault IN ITEMS "race=race in smla_sm90_prefill" "memory=out-of-bounds in smla_sm90_prefill"
      "init=uninitialised-read in smla_sm90_prefill" "sync=divergent in smla_sm90_prefill")
    string(REGEX MATCH "^([a-z]+)=(.*)$" fault "${fault}")
    add_test(NAME emu.gpu_planted_${CMAKE_MATCH_1} COMMAND gpu-planted_${CMAKE_MATCH_1})
    set_tests_properties(emu.gpu_planted_${CMAKE_MATCH_1} PROPERTIES LABELS long
      PASS_REGULAR_EXPRESSION "${CMAKE_MATCH_2}" ENVIRONMENT "${emulated};SMLA_EMU_REPORT=-")
  endforeach()
endif()

get_property(tests DIRECTORY PROPERTY TESTS)
list(FILTER tests INCLUDE REGEX "^emu\\.(kernels|mutation|gpu)")
set_tests_properties(${tests} PROPERTIES FIXTURES_REQUIRED shared_kernels)
