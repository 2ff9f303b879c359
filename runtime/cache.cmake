# What the cache is made of, and the error and log that everything in the runtime reports through.
target_sources(smla_runtime PRIVATE
  error.c events.c log.c process.c sized.c why.c
  digest.c key.c cubin_check.c ptx_check.c entry.c
  folder.c file.c cache_name.c cache.c cache_find.c cache_files.c cache_gc.c cache_visit.c cache_default_dir.c
  smlab.c smlab_format.c tiers.c)

set(SMLA_SYSTEM_DIR "/usr/share/smla/kernels" CACHE STRING "Read-only folder of kernels that a package installs; empty: none")
set_source_files_properties(cache_default_dir.c PROPERTIES COMPILE_DEFINITIONS "SMLA_SYSTEM_DIR=\"${SMLA_SYSTEM_DIR}\"")
