# HOOKLINE_CUDA_MODULE: can the GPU module be built here? It needs nvcc, the CUDA toolkit, a libtorch with CUDA,
# and nccl.h of the NCCL that this libtorch was built with. Without the module, a run that asks for a GPU reports
# that the module is missing.
set(HOOKLINE_CUDA_MODULE FALSE)
if(TARGET hookline::torch_cuda AND NOT HOOKLINE_SANITIZER)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  # Prefer the header that comes with libtorch: NCCL's version is part of an interface.
  find_path(HOOKLINE_NCCL_INCLUDE nccl.h
    HINTS ${HOOKLINE_TORCH_ROOT}/../nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND HOOKLINE_NCCL_INCLUDE)
    try_compile(HOOKLINE_NCCL_FITS
      SOURCE_FROM_CONTENT nccl_fits.cc "#include \"torch_versions/nccl.h\"\nint main() {}\n"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${CMAKE_CURRENT_LIST_DIR}/..;${HOOKLINE_NCCL_INCLUDE};${CUDAToolkit_INCLUDE_DIRS};${HOOKLINE_TORCH_ROOT}/include;${HOOKLINE_TORCH_ROOT}/include/torch/csrc/api/include"
      OUTPUT_VARIABLE output NO_CACHE)
    if(HOOKLINE_NCCL_FITS)
      set(CMAKE_CUDA_ARCHITECTURES all-major)
      enable_language(CUDA)
      set(HOOKLINE_CUDA_MODULE TRUE)
    elseif(output MATCHES "not of the NCCL that libtorch")
      message(WARNING "${HOOKLINE_NCCL_INCLUDE}/nccl.h is not of the NCCL that torch ${HooklineTorch_VERSION} was built "
                      "with, so hookline is built without its CUDA module. To build it, set HOOKLINE_NCCL_INCLUDE to the "
                      "folder of that NCCL's nccl.h: torch_versions/nccl.h says which version it has.")
    else()
      message(WARNING "${HOOKLINE_NCCL_INCLUDE}/nccl.h can't be compiled, so hookline is built without its CUDA module: ${output}")
    endif()
  elseif(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    message(WARNING "There is no nccl.h, so hookline is built without its CUDA module. To build it, set HOOKLINE_NCCL_INCLUDE "
                    "to the folder of the nccl.h that torch ${HooklineTorch_VERSION} was built with.")
  endif()
endif()
message(STATUS "hookline's CUDA module: ${HOOKLINE_CUDA_MODULE}")
