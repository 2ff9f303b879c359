# Tables of driver and compiler, context, kernels, calls.
target_sources(smla_runtime PRIVATE
  thread.c workers.c driver.c nvrtc_table.c nvrtc_find.c ptxas_report.c compile.c describe.c store.c failures.c preparation.c node_lock.c settings.c context.c
  device.c module.c obtain.c obtain_missing.c companion.c planning.c selection.c kernel.c prepare_start.c launch.c tensor_check.c kv_layout.c prefill.c call_args.c
  prefill_check.c combine.c decode.c decode_share.c generate.c support.c stats.c stats_json.c version.c
  real.c kv_read.c reference.c compare.c self_test.c self_test_device.c self_test_problem.c self_test_run.c)
