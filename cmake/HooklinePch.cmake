# One precompiled <torch/torch.h> for every source that includes any of libtorch: its headers are most of such a file's build
# time, narrow ones too.

# hookline_use_torch_pch(TARGET): TARGET's sources get the shared precompiled header. They still include what they use: whoever
# builds against the installed headers has none.
function(hookline_use_torch_pch target)
  if(NOT TARGET hookline_torch_pch)
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/torch_pch.cc CONTENT "// Carries the precompiled header; has no code.\n")
    add_library(hookline_torch_pch STATIC ${PROJECT_BINARY_DIR}/torch_pch.cc)
    target_link_libraries(hookline_torch_pch PRIVATE hookline::torch_cpu hookline_warnings)
    target_precompile_headers(hookline_torch_pch PRIVATE <torch/torch.h>)
    hookline_pch_options(hookline_torch_pch)
  endif()
  get_target_property(type ${target} TYPE)
  if(NOT type STREQUAL STATIC_LIBRARY)  # those of hookline's own link them already, as others are to see them
    target_link_libraries(${target} PRIVATE hookline::torch_cpu hookline_warnings)
  endif()
  target_precompile_headers(${target} REUSE_FROM hookline_torch_pch)
  hookline_pch_options(${target})
endfunction()

# g++ takes a precompiled header only into a compilation with the same options: programs would get -fPIE.
# -fpch-preprocess is what ccache asks for.
function(hookline_pch_options target)
  target_compile_options(${target} PRIVATE -fPIC -Winvalid-pch $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()
