# Finds libtorch without its own TorchConfig.cmake, which needs a newer CMake and, even for a CPU build, a
# CUDA toolkit.
# Looks in these places, in this order:
#   HOOKLINE_TORCH                 variable or environment: a libtorch folder, the `torch` folder of a Python, a Python
#                                  environment or its site-packages; if it is set, nowhere else
#   Torch_DIR, CMAKE_PREFIX_PATH   as for TorchConfig.cmake (`torch.utils.cmake_prefix_path` too)
#   HOOKLINE_BUILT_WITH_TORCH_ROOT the libtorch that an installed hookline was built with
#   .deps/light                    what `./dev setup` installs
# Targets: hookline::torch_cpu, hookline::c10, and hookline::torch_cuda if that libtorch has CUDA.
# Variables: HooklineTorch_VERSION, HOOKLINE_TORCH_ROOT.

set(_hookline_torch_header include/torch/csrc/api/include/torch/torch.h)
set(_hookline_torch_below . torch site-packages/torch ../.. ../../..)  # the last two lead up from share/cmake and share/cmake/Torch

# hookline_find_torch_root(PLACE…): sets HOOKLINE_TORCH_ROOT to the first libtorch at or near one of the places.
function(hookline_find_torch_root)
  foreach(place IN LISTS ARGN)
    file(REAL_PATH ${place} place)  # first: ".." after a symbolic link leads elsewhere
    file(GLOB near ${place}/lib/python3*/site-packages/torch)
    foreach(below IN LISTS _hookline_torch_below)
      list(APPEND near ${place}/${below})
    endforeach()
    foreach(root IN LISTS near)
      if(EXISTS ${root}/${_hookline_torch_header})
        file(REAL_PATH ${root} root)
        set(HOOKLINE_TORCH_ROOT ${root} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

unset(HOOKLINE_TORCH_ROOT)
if(HOOKLINE_TORCH)
  set(_hookline_torch_asked ${HOOKLINE_TORCH})
else()
  set(_hookline_torch_asked "$ENV{HOOKLINE_TORCH}")
endif()
if(_hookline_torch_asked)
  get_filename_component(_hookline_torch_asked "${_hookline_torch_asked}" ABSOLUTE)
  hookline_find_torch_root(${_hookline_torch_asked})
  if(NOT HOOKLINE_TORCH_ROOT)
    message(FATAL_ERROR "HOOKLINE_TORCH is '${_hookline_torch_asked}', which holds no ${_hookline_torch_header}: "
                        "name the folder that holds libtorch's include/ and lib/")
  endif()
else()
  file(REAL_PATH ${CMAKE_CURRENT_LIST_DIR} _hookline_torch_here)
  string(REPLACE ":" ";" _hookline_torch_places "$ENV{CMAKE_PREFIX_PATH}")
  hookline_find_torch_root(${Torch_DIR} ${CMAKE_PREFIX_PATH} ${_hookline_torch_places}
    ${HOOKLINE_BUILT_WITH_TORCH_ROOT} ${_hookline_torch_here}/../.deps/light)
endif()

if(HOOKLINE_TORCH_ROOT)
  # find_library would cache its answer even if HOOKLINE_TORCH changes.
  foreach(_hookline_torch_library torch_cpu c10)
    set(_hookline_torch_file ${HOOKLINE_TORCH_ROOT}/lib/lib${_hookline_torch_library}.so)
    if(EXISTS ${_hookline_torch_file})
      set(HOOKLINE_TORCH_${_hookline_torch_library} ${_hookline_torch_file})
    else()
      unset(HOOKLINE_TORCH_${_hookline_torch_library})
    endif()
  endforeach()
  set(_hookline_torch_version_header ${HOOKLINE_TORCH_ROOT}/include/torch/headeronly/version.h)
  if(NOT EXISTS ${_hookline_torch_version_header})
    set(_hookline_torch_version_header ${HOOKLINE_TORCH_ROOT}/include/torch/csrc/api/include/torch/version.h)
  endif()
  set(HooklineTorch_VERSION)
  foreach(_hookline_torch_part MAJOR MINOR PATCH)
    file(STRINGS ${_hookline_torch_version_header} _hookline_torch_line REGEX "define TORCH_VERSION_${_hookline_torch_part} ")
    string(REGEX MATCH "[0-9]+$" _hookline_torch_line "${_hookline_torch_line}")
    list(APPEND HooklineTorch_VERSION ${_hookline_torch_line})
  endforeach()
  list(JOIN HooklineTorch_VERSION "." HooklineTorch_VERSION)
endif()

# libtorch_cpu contains c10d's Gloo backend; only gloo's headers are missing from the wheel. Never link gloo's
# own library: two copies in one process would have clashing symbols.
find_path(HOOKLINE_GLOO_INCLUDE gloo/algorithm.h HINTS ${HOOKLINE_TORCH_ROOT}/include)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(HooklineTorch
  REQUIRED_VARS HOOKLINE_TORCH_ROOT HOOKLINE_TORCH_torch_cpu HOOKLINE_TORCH_c10 HOOKLINE_GLOO_INCLUDE
  VERSION_VAR HooklineTorch_VERSION
  REASON_FAILURE_MESSAGE "Set HOOKLINE_TORCH to a libtorch folder (in a checkout, ./dev setup gets one). Gloo's headers are in Debian's libgloo-dev.")

if(HooklineTorch_FOUND AND NOT TARGET hookline::torch_cpu)
  add_library(hookline::c10 SHARED IMPORTED)
  set_target_properties(hookline::c10 PROPERTIES IMPORTED_LOCATION ${HOOKLINE_TORCH_c10})
  add_library(hookline::torch_cpu SHARED IMPORTED)
  set_target_properties(hookline::torch_cpu PROPERTIES
    IMPORTED_LOCATION ${HOOKLINE_TORCH_torch_cpu}
    INTERFACE_COMPILE_DEFINITIONS "USE_DISTRIBUTED;USE_C10D_GLOO"
    INTERFACE_LINK_LIBRARIES hookline::c10)
  target_include_directories(hookline::torch_cpu SYSTEM INTERFACE
    ${HOOKLINE_TORCH_ROOT}/include ${HOOKLINE_TORCH_ROOT}/include/torch/csrc/api/include ${HOOKLINE_GLOO_INCLUDE})
  # Libraries that libtorch_cpu needs (cudart and cupti of the CUDA wheel) are in folders that its run path
  # names.
  file(GLOB _hookline_torch_nvidia ${HOOKLINE_TORCH_ROOT}/../nvidia/*/lib)
  set(_hookline_torch_link_dirs ${HOOKLINE_TORCH_ROOT}/lib ${_hookline_torch_nvidia})
  list(TRANSFORM _hookline_torch_link_dirs PREPEND "LINKER:-rpath-link,")
  target_link_options(hookline::torch_cpu INTERFACE ${_hookline_torch_link_dirs})
endif()

# Only modules that are loaded for a GPU link this. The libraries that it needs itself, such as cuBLAS, may be
# missing on a machine that only builds.
if(HooklineTorch_FOUND AND EXISTS ${HOOKLINE_TORCH_ROOT}/lib/libtorch_cuda.so AND NOT TARGET hookline::torch_cuda)
  add_library(hookline::torch_cuda SHARED IMPORTED)
  set_target_properties(hookline::torch_cuda PROPERTIES
    IMPORTED_LOCATION ${HOOKLINE_TORCH_ROOT}/lib/libtorch_cuda.so
    INTERFACE_LINK_LIBRARIES "hookline::torch_cpu;${HOOKLINE_TORCH_ROOT}/lib/libc10_cuda.so")
  # Even if the module uses none of its symbols directly, loading the module must load it.
  target_link_options(hookline::torch_cuda INTERFACE LINKER:--no-as-needed)
endif()
