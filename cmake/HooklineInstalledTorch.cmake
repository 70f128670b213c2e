# Where what is installed looks for libtorch, if the environment has no HOOKLINE_TORCH:
#   hookline_torch_of_programs       folders of its libraries, as an INSTALL_RPATH of programs in libexec/hookline
#   hookline_torch_of_cmake_package  libtorch's possible places, for hooklineConfig.cmake
set(HOOKLINE_INSTALLED_TORCH "" CACHE STRING
  "Where the installed programs look for libtorch if the environment has no HOOKLINE_TORCH; empty: the one of this build")
if(SKBUILD)
  # A wheel: pip installs torch beside it. Debian's own Python has another folder than a Python environment.
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
  foreach(_folder site-packages dist-packages)
    set(_torch lib/python${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}/${_folder}/torch)
    list(APPEND hookline_torch_of_programs "\$ORIGIN/../../${_torch}/lib")
    list(APPEND hookline_torch_of_cmake_package "\${CMAKE_CURRENT_LIST_DIR}/../../../${_torch}")
  endforeach()
else()
  set(hookline_torch_of_cmake_package ${HOOKLINE_TORCH_ROOT})
  if(HOOKLINE_INSTALLED_TORCH)
    set(hookline_torch_of_cmake_package ${HOOKLINE_INSTALLED_TORCH})
  endif()
  set(hookline_torch_of_programs ${hookline_torch_of_cmake_package}/lib)
endif()
