# HOOKLINE_CUDA_MODULE: can the GPU module be built here? It needs nvcc, the CUDA toolkit, nccl.h, and a
# libtorch with CUDA. Without the module, a run that asks for a GPU reports that the module is missing.
set(HOOKLINE_CUDA_MODULE FALSE)
if(TARGET hookline::torch_cuda AND NOT HOOKLINE_SANITIZER)
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  # Prefer the header that comes with libtorch: NCCL's version is part of an interface.
  find_path(HOOKLINE_NCCL_INCLUDE nccl.h
    HINTS ${HOOKLINE_TORCH_ROOT}/../nvidia/nccl/include ${CUDAToolkit_INCLUDE_DIRS})
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND AND HOOKLINE_NCCL_INCLUDE)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
    enable_language(CUDA)
    set(HOOKLINE_CUDA_MODULE TRUE)
  endif()
endif()
message(STATUS "hookline's CUDA module: ${HOOKLINE_CUDA_MODULE}")
