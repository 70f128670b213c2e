# What the steps share. Settings of the user's own must not reach the projects under test.
cmake_minimum_required(VERSION 3.25)
unset(ENV{HOOKLINE_TORCH})
unset(ENV{CMAKE_PREFIX_PATH})

# run(COMMAND…): its output in `output`; ends the test if it fails.
function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "exit code ${result} of: ${command}\n${out}")
  endif()
  set(output "${out}" PARENT_SCOPE)
endfunction()

# Configures the project in `folder` against the installed package; what follows goes to CMake.
macro(configure_project folder build_folder)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -S ${folder} -B ${WORK}/${build_folder} -G Ninja
      -D CMAKE_PREFIX_PATH=${WORK}/moved -D CMAKE_CXX_COMPILER=${COMPILER} ${ARGN}
    RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
endmacro()
