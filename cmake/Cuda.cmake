# Included once when CUDA code is built. Targets one real architecture by default; the generic kernels compile for any from 80.
set(LITESPARK_CUDA_ARCHITECTURES "90a-real" CACHE STRING "CUDA architectures, for example 80-real;90a-real;100-real")
set(CMAKE_CUDA_ARCHITECTURES ${LITESPARK_CUDA_ARCHITECTURES})
enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)

# CMake 3.25.1 does not know CUDA C++20, so the standard is a flag; -Wpedantic refuses nvcc's own output. ptxas fails on
# spills by itself; its remarks about broken wgmma pipelines (C75xx) are no warnings, so the launcher looks for them.
function(litespark_cuda_options target)
  set_target_properties(${target} PROPERTIES CUDA_STANDARD_REQUIRED OFF CUDA_SEPARABLE_COMPILATION OFF
    CUDA_COMPILER_LAUNCHER "${CMAKE_SOURCE_DIR}/cmake/refuse_ptxas_remarks.sh;${LITESPARK_CCACHE}")
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20 -O3 --expt-relaxed-constexpr
    -Xcompiler=-Wall,-Wextra,-Wconversion,-Wshadow,-Wno-restrict -Xptxas=--warn-on-spills
    $<$<BOOL:${LITESPARK_WERROR}>:-Werror=all-warnings -Xcompiler=-Werror -Xptxas=-Werror>>)
endfunction()
