# What the cache is made of, and the error and log that everything in the runtime reports through.
target_sources(smla_runtime PRIVATE
  error.c log.c sized.c)
