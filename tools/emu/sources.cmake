# Reader and decoder, instructions, engine, memory. (Files of parts that have not landed are passed over for now.)
foreach(file
    arena.c type.c scan.c syntax.c reader.c read_variable.c read_init.c read_operand.c read_kernel.c
    match.c match_check.c layout.c flow.c liveness.c rows.c operands.c decode.c call.c load.c module.c
    alu_integer.c alu_float.c alu_half.c alu_convert.c alu_compare.c alu_warp.c alu_move.c alu_number.c alu.c
    tensor.c wgmma.c mma.c matrix_math.c matrix_copy.c bulk.c bulk_tensor.c remote.c reduction.c tensor_map.c
    tensor_map_ops.c
    allocations.c memory.c memory_lanes.c memory_ops.c address_ops.c atomics.c report.c
    clocks.c engine.c cluster.c schedule.c registers.c control.c sync_ops.c mbarrier_ops.c copy_ops.c sync.c async.c race.c race_global.c)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    target_sources(smla_emu PRIVATE ${file})
  endif()
endforeach()
