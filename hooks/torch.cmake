# The hooks themselves, which run inside a rank.
hookline_library(hookline_hooks
  SOURCES
    comm.cc comm_hook.cc future.cc register.cc registry.cc
    ddp/allreduce.cc ddp/half_compress.cc ddp/half_wrapper.cc
    ddp/power_sgd.cc ddp/power_sgd_layout.cc ddp/power_sgd_options.cc
    numerics/low_rank.cc
  LINK hookline_catalog hookline::torch_cpu
  HEADERS
    comm.h comm_hook.h error.h function_hook.h future.h grad_bucket.h register.h registry.h
    ddp/allreduce.h ddp/half_compress.h ddp/half_wrapper.h ddp/noop.h
    ddp/power_sgd.h ddp/power_sgd_layout.h ddp/power_sgd_options.h
    numerics/low_rank.h)
# Ranks on different CPUs must end with the same bits.
set_source_files_properties(numerics/low_rank.cc PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;-O3")
