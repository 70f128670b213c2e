# Builds the projects that `hookline new` makes, and trains the first under the installed launcher with the hook of the
# second as a plug-in; then the second with the hook that is in it, and the third, whose model is sharded.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

# Expects that one rank has reported the fifth epoch, and that the loss has fallen from ln 2 = 0.69 by then.
function(expect_trained output)
  string(REGEX MATCHALL "epoch 4: loss 0\\.[0-9]+" last_epoch "${output}")
  list(LENGTH last_epoch lines)
  if(NOT lines EQUAL 1)
    message(FATAL_ERROR "wanted one line of the fifth epoch, of rank 0, and got ${lines}:\n${output}")
  endif()
  string(REGEX REPLACE ".* " "" loss "${last_epoch}")
  if(NOT loss LESS 0.3)
    message(FATAL_ERROR "the loss stayed at ${loss}:\n${output}")
  endif()
endfunction()

find_program(CCACHE ccache)
if(CCACHE)
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} ${CCACHE})
  # As ./dev has it: ccache handles a file with a precompiled header only if it need not look into it.
  set(ENV{CCACHE_SLOPPINESS} pch_defines,time_macros)
  set(ENV{CCACHE_BASEDIR} ${WORK})
  set(ENV{CCACHE_NOHASHDIR} 1)
endif()
foreach(variant minimal custom-hook sharded)
  file(REMOVE_RECURSE ${WORK}/${variant})
  run(${WORK}/moved/${BINDIR}/hookline new ${variant} --variant ${variant})
  configure_project(${WORK}/${variant} ${variant}/build)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
  endif()
  run(${CMAKE_COMMAND} --build ${WORK}/${variant}/build)
endforeach()
file(REMOVE_RECURSE ${WORK}/gradients ${WORK}/replayed)
run(${WORK}/moved/${BINDIR}/hookline launch --processes-per-node 2 --set ddp.plugins=custom-hook/build/libmean_after.so
  --comm-hook mean_after --comm-wrapper fp16 --set training.record_gradients=gradients ${WORK}/minimal/build/train)

expect_trained("${output}")

# What it recorded goes through another hook, by the installed program.
run(${WORK}/moved/${BINDIR}/hookline replay --input gradients --output replayed --comm-hook bf16)
if(NOT EXISTS ${WORK}/replayed/step0009.safetensors)
  message(FATAL_ERROR "replay left no tenth step:\n${output}")
endif()

# Its sweep finds which hook does best, by the metric that the program logs.
execute_process(COMMAND ${WORK}/moved/${BINDIR}/hookline sweep sweep.toml WORKING_DIRECTORY ${WORK}/minimal
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE error)
if(NOT result EQUAL 0 OR NOT output MATCHES "\n[^\n]*The (best|first row), with loss [^\n]*, is [^\n]*/best.toml:\n" OR NOT output MATCHES "sent per step")
  message(FATAL_ERROR "exit code ${result}, or no best:\n${output}${error}")
endif()

# The other projects, as their READMEs say: in their own folders, by their own configs.
foreach(variant_and_pipeline custom-hook:mean_after sharded:full_shard)
  string(REGEX MATCH "^(.*):(.*)$" _ ${variant_and_pipeline})
  set(variant ${CMAKE_MATCH_1})
  set(pipeline ${CMAKE_MATCH_2})
  execute_process(COMMAND ${WORK}/moved/${BINDIR}/hookline launch build/train WORKING_DIRECTORY ${WORK}/${variant}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0 OR NOT output MATCHES "${pipeline} ·")
    message(FATAL_ERROR "exit code ${result}, or not ${pipeline}:\n${output}")
  endif()
  expect_trained("${output}")
endforeach()
if(NOT EXISTS ${WORK}/sharded/model.pt)
  message(FATAL_ERROR "the sharded model was not saved:\n${output}")
endif()
