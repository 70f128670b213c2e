# Installs, then moves the whole elsewhere: nothing in the package may depend on where it was put.
include(${CMAKE_CURRENT_LIST_DIR}/common.cmake)
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/moved)
run(${WORK}/moved/${BINDIR}/hookline hooks list)
run(${WORK}/moved/${BINDIR}/hookline --cmake-dir)
string(STRIP "${output}" output)
if(NOT EXISTS ${output}/hooklineConfig.cmake)
  message(FATAL_ERROR "--cmake-dir prints '${output}', which has no hooklineConfig.cmake")
endif()

# expect_installed(FROM PATTERN TO): what is below FROM and matches PATTERN is below TO in the package, as it is.
function(expect_installed from pattern to)
  file(GLOB_RECURSE files RELATIVE ${from} ${from}/${pattern})
  if(NOT files)
    message(FATAL_ERROR "${from} has no ${pattern}")
  endif()
  foreach(file IN LISTS files)
    execute_process(
      COMMAND ${CMAKE_COMMAND} -E compare_files ${from}/${file} ${WORK}/moved/${to}/${file}
      RESULT_VARIABLE result OUTPUT_QUIET ERROR_QUIET)
    if(NOT result EQUAL 0)
      message(FATAL_ERROR "the package's ${to}/${file} is missing, or differs from ${from}/${file}")
    endif()
  endforeach()
endfunction()

# A header of a program that only names hookline's types includes nothing of libtorch.
file(WRITE ${WORK}/names.cc
  "#include <hookline/forward.h>\nvoid train(hookline::Accelerator&, hookline::DistributedModule<int>*);\n")
file(GLOB_RECURSE _forward ${WORK}/moved/*/hookline/forward.h)
list(GET _forward 0 _forward)
cmake_path(GET _forward PARENT_PATH _headers)
cmake_path(GET _headers PARENT_PATH _headers)
run(${COMPILER} -std=c++20 -fsyntax-only -I${_headers} ${WORK}/names.cc)

# What users read: the guides, and a man page for each verb.
expect_installed(${SOURCE}/docs *.md ${DOCDIR})
run(${WORK}/moved/${BINDIR}/hookline man-pages ${WORK}/man1)
expect_installed(${WORK}/man1 *.1 ${DATADIR}/man/man1)
