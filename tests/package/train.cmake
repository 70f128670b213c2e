# Builds the projects in consumer/ and plugin/, and trains the first under the installed launcher with the hook of the
# second.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
find_program(CCACHE ccache)
if(CCACHE)
  set(ENV{CMAKE_CXX_COMPILER_LAUNCHER} ${CCACHE})
endif()
foreach(project consumer plugin)
  configure_project(${project} ${project})
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${output}")
  endif()
  run(${CMAKE_COMMAND} --build ${WORK}/${project})
endforeach()
run(${WORK}/moved/${BINDIR}/hookline launch --processes-per-node 2 --set ddp.plugins=plugin/libmine.so
  --comm-hook mean_after --comm-wrapper fp16 --set training.record_gradients=gradients ${WORK}/consumer/train)

string(REGEX MATCHALL "epoch 4: loss 0\\.[0-9]+" last_epoch "${output}")
list(LENGTH last_epoch lines)
if(NOT lines EQUAL 1)
  message(FATAL_ERROR "wanted one line of the fifth epoch, of rank 0, and got ${lines}:\n${output}")
endif()
string(REGEX REPLACE ".* " "" loss "${last_epoch}")
if(NOT loss LESS 0.3)  # it starts near ln 2 = 0.69
  message(FATAL_ERROR "the loss stayed at ${loss}:\n${output}")
endif()

# What it recorded goes through another hook, by the installed program.
run(${WORK}/moved/${BINDIR}/hookline replay --input gradients --output replayed --comm-hook bf16)
if(NOT EXISTS ${WORK}/replayed/step0009.safetensors)
  message(FATAL_ERROR "replay left no tenth step:\n${output}")
endif()
