# A libtorch of another version, a folder without any, and missing libraries, each with the message that the user gets.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)

file(REMOVE_RECURSE ${WORK}/to-be-refused)
run(${WORK}/moved/${BINDIR}/hookline new to-be-refused)

# Looks at what CMake has just printed.
macro(expect_printed wanted)
  string(REGEX REPLACE "[ \n]+" " " text "${output}")  # CMake breaks lines
  string(FIND "${text}" "${wanted}" position)
  if(result EQUAL 0 OR position EQUAL -1)
    message(FATAL_ERROR "exit code ${result}, wanted a failure with '${wanted}':\n${output}")
  endif()
endmacro()

function(expect_refusal name wanted)
  configure_project(${WORK}/to-be-refused ${name} -D HOOKLINE_TORCH=${WORK}/${name}-torch)
  expect_printed("${wanted}")
endfunction()

set(other ${WORK}/other-torch)
file(WRITE ${other}/include/torch/csrc/api/include/torch/torch.h "")
file(WRITE ${other}/include/torch/headeronly/version.h
  "#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 2\n#define TORCH_VERSION_PATCH 3\n")
file(WRITE ${other}/lib/libtorch_cpu.so "")
file(WRITE ${other}/lib/libc10.so "")
file(REAL_PATH ${other} other)
expect_refusal(other "this hookline was built with libtorch ${TORCH_VERSION}, but ${other} is libtorch 1.2.3: set HOOKLINE_TORCH to a libtorch ${TORCH_VERSION}, or build hookline with the other one")

file(MAKE_DIRECTORY ${WORK}/empty-torch)
expect_refusal(empty "HOOKLINE_TORCH is '${WORK}/empty-torch', which holds no include/torch/csrc/api/include/torch/torch.h: name the folder that holds libtorch's include/ and lib/")

execute_process(
  COMMAND ${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/no-headers -D CMAKE_CXX_COMPILER=${COMPILER} -D HOOKLINE_TORCH_HALF=OFF
    -D CMAKE_IGNORE_PATH=/usr/include -D CMAKE_DISABLE_FIND_PACKAGE_spdlog=ON
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
expect_printed("libraries are missing. On Debian: apt-get install libspdlog-dev libxxhash-dev; elsewhere, what these hold")
