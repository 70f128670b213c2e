# Precompiled headers. Reading <torch/torch.h> takes most of the build time of a source that includes any of libtorch's
# headers, even the narrow ones, so all such sources share one precompiled header. They still include what they use, since
# users of the installed headers do not have it.

# hookline_pch(NAME HEADERS <header>… [LINK target…] [OPTIONS option…]): NAME, a library without code, carries the
# precompiled HEADERS for targets that link LINK and are compiled with OPTIONS.
function(hookline_pch name)
  cmake_parse_arguments(arg "" "" "HEADERS;LINK;OPTIONS" ${ARGN})
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc CONTENT "// Carries a precompiled header; has no code.\n")
  add_library(${name} STATIC ${CMAKE_CURRENT_BINARY_DIR}/${name}.cc)
  target_link_libraries(${name} PRIVATE ${arg_LINK} hookline_warnings)
  target_compile_options(${name} PRIVATE ${arg_OPTIONS})
  target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
  hookline_pch_options(${name})
endfunction()

# hookline_use_torch_pch(TARGET…): their sources share the precompiled <torch/torch.h>.
function(hookline_use_torch_pch)
  if(NOT TARGET hookline_torch_pch)
    hookline_pch(hookline_torch_pch HEADERS <torch/torch.h> LINK hookline::torch_cpu)
  endif()
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    if(NOT type STREQUAL STATIC_LIBRARY)  # hookline's own static libraries link both already
      target_link_libraries(${target} PRIVATE hookline::torch_cpu hookline_warnings)
    endif()
    hookline_use_pch(${target} hookline_torch_pch)
  endforeach()
endfunction()

# hookline_use_pch(TARGET PCH): TARGET's sources use the header of the library PCH.
function(hookline_use_pch target pch)
  target_precompile_headers(${target} REUSE_FROM ${pch})
  hookline_pch_options(${target})
endfunction()

# g++ uses a precompiled header only for compilations with the same options, so programs get -fPIC too, not
# -fPIE. ccache needs -fpch-preprocess.
function(hookline_pch_options target)
  target_compile_options(${target} PRIVATE -fPIC -Winvalid-pch $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
