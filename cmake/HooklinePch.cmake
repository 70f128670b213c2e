# One precompiled <torch/torch.h> for every source that includes libtorch. Its headers, even the narrow ones,
# take most of the build time of such a file.

# hookline_use_torch_pch(TARGET): gives TARGET's sources the shared precompiled header. They still include
# what they use, since users of the installed headers do not have it.
function(hookline_use_torch_pch target)
  if(NOT TARGET hookline_torch_pch)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/torch_pch.cc CONTENT "// Carries the precompiled header; has no code.\n")
    add_library(hookline_torch_pch STATIC ${PROJECT_BINARY_DIR}/torch_pch.cc)
    target_link_libraries(hookline_torch_pch PRIVATE hookline::torch_cpu hookline_warnings)
    target_precompile_headers(hookline_torch_pch PRIVATE <torch/torch.h>)
    hookline_pch_options(hookline_torch_pch)
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL STATIC_LIBRARY)  # hookline's own static libraries link both already
    target_link_libraries(${target} PRIVATE hookline::torch_cpu hookline_warnings)
  endif()
  target_precompile_headers(${target} REUSE_FROM hookline_torch_pch)
  hookline_pch_options(${target})
endfunction()

# g++ uses a precompiled header only for compilations with the same options, so programs get -fPIC too, not
# -fPIE. ccache needs -fpch-preprocess.
function(hookline_pch_options target)
  target_compile_options(${target} PRIVATE -fPIC -Winvalid-pch $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
