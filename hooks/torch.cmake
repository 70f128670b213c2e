# The hooks themselves, which run inside a rank.
hookline_library(hookline_hooks OPTIMIZED
  SOURCES
    comm.cc comm_hook.cc future.cc in_order.cc registry/plugin.cc registry/register.cc registry/registry.cc
    ddp/allreduce.cc ddp/half_compress.cc ddp/half_wrapper.cc ddp/scatter_average.cc
    fsdp/buffer_pool.cc fsdp/gradient_scatter.cc
    ddp/power_sgd.cc ddp/power_sgd_layout.cc ddp/power_sgd_options.cc
    numerics/cuda_kernels.cc numerics/finite_check.cc numerics/half_cast.cc numerics/in_parallel.cc numerics/kernels.cc
    numerics/low_rank.cc numerics/rank_sum.cc
    ddp/power_sgd_bucket.cc
  LINK hookline_catalog hookline::torch_cpu
  HEADERS
    build_stamp.h comm.h comm_hook.h function_hook.h future.h grad_bucket.h hook_state.h in_order.h
    per_bucket.h registry/register.h registry/registry.h)
target_compile_definitions(hookline_hooks PUBLIC HOOKLINE_VERSION="${PROJECT_VERSION}")
target_link_libraries(hookline_hooks PUBLIC ${CMAKE_DL_LIBS})
# A program that can load plug-ins exports hookline's functions to them, and no others.
target_link_options(hookline_hooks INTERFACE "LINKER:--export-dynamic-symbol=*hookline*")

# What a plug-in links: headers and libtorch, but no code of hookline's. That comes from the program that loads it.
add_library(hookline_plugin INTERFACE)
add_library(hookline::plugin ALIAS hookline_plugin)
set_target_properties(hookline_plugin PROPERTIES EXPORT_NAME plugin)
target_compile_features(hookline_plugin INTERFACE cxx_std_20)
target_compile_definitions(hookline_plugin INTERFACE HOOKLINE_VERSION="${PROJECT_VERSION}")
target_include_directories(hookline_plugin INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/hookline>)
target_link_libraries(hookline_plugin INTERFACE hookline::torch_cpu)
install(TARGETS hookline_plugin EXPORT hookline-targets COMPONENT torch)

hookline_use_torch_pch(hookline_hooks)

# Ranks on different CPUs must end with the same bits.
set_source_files_properties(numerics/half_cast.cc numerics/rank_sum.cc PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;-O3")
# All its functions that take wide vectors are inlined: how these would be passed on a CPU without such registers does not
# matter.
set_source_files_properties(numerics/low_rank.cc PROPERTIES COMPILE_OPTIONS "-ffp-contract=off;-O3;-Wno-psabi")
# These see little of libtorch, or none.
set_source_files_properties(numerics/cuda_kernels.cc numerics/finite_check.cc numerics/half_cast.cc numerics/kernels.cc numerics/rank_sum.cc
  PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
