# The peers that scripts/setup --peers has put into .peers/ (peers.txt): bench_rmm and
# bench_torch, over the runtime of the build. bench/rmm and bench/torch say why there is no
# such program, and are empty where there is one.
set(peers_dir "${PROJECT_SOURCE_DIR}/.peers")

# Sets no_peer in the caller: why there is no program, empty if there can be one.
#   file      what of the peer must be there, below .peers
#   standard  the C++ that its header is compiled as, with the folders that follow
function(gpushim_find_peer file what standard header)
  set(no_peer "")
  if(NOT TARGET sim_cudart)
    set(no_peer "the CUDA runtime is not built for these headers")
  elseif(NOT CMAKE_CXX_COMPILER)
    set(no_peer "there is no C++ compiler")
  elseif(NOT EXISTS "${peers_dir}/${file}")
    set(no_peer "${what} is not in .peers (scripts/setup --peers)")
  elseif(GPUSHIM_SANITIZE)
    set(no_peer "a build with sanitizers measures nothing")
  elseif(NOT CUDA_HAS_RUNTIME_HEADERS)
    set(no_peer "cuda_runtime.h is not here (a CUDA toolkit)")
  else()
    include(CheckCXXSourceCompiles)
    string(MAKE_C_IDENTIFIER "GPUSHIM_PEER_${what}_COMPILES" compiles)
    list(TRANSFORM ARGN PREPEND "${peers_dir}/")
    set(CMAKE_REQUIRED_INCLUDES "${ARGN}" "${CUDA_INCLUDE_DIR}")
    set(CMAKE_REQUIRED_FLAGS "-std=${standard}")
    set(CMAKE_REQUIRED_DEFINITIONS -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
    set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
    check_cxx_source_compiles("#include <${header}>\nint peer;" ${compiles})
    if(NOT ${compiles})
      set(no_peer "this C++ compiler does not take the headers of ${what}")
    endif()
  endif()
  set(no_peer "${no_peer}" PARENT_SCOPE)
endfunction()

find_path(CUDA_HAS_RUNTIME_HEADERS cuda_runtime.h HINTS "${CUDA_INCLUDE_DIR}" NO_DEFAULT_PATH)

gpushim_find_peer(librmm/lib64/librmm.so RMM c++17 rmm/mr/pool_memory_resource.hpp
  librmm/include librmm/include/rapids rapids_logger/include)
if(NOT no_peer)
  gpushim_add_allocators(bench_rmm alloc_rmm.cpp)
  target_compile_features(bench_rmm PRIVATE cxx_std_17)
  target_compile_definitions(bench_rmm PRIVATE
    LIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE)
  # RMM brings its own CCCL, which must come before the toolkit's.
  target_include_directories(bench_rmm SYSTEM BEFORE PRIVATE
    "${peers_dir}/librmm/include" "${peers_dir}/librmm/include/rapids"
    "${peers_dir}/rapids_logger/include")
  target_link_libraries(bench_rmm PRIVATE gpushim_cuda sim_cudart
    "${peers_dir}/librmm/lib64/librmm.so"
    "${peers_dir}/rapids_logger/lib64/librapids_logger.so")
endif()
file(WRITE "${bench_dir}/rmm" "${no_peer}")

gpushim_find_peer(torch/lib/libc10_cuda.so PyTorch c++20
  c10/cuda/CUDACachingAllocator.h torch/include)
if(NOT no_peer)
  gpushim_add_allocators(bench_torch alloc_torch.cpp)
  target_compile_features(bench_torch PRIVATE cxx_std_20)
  target_include_directories(bench_torch SYSTEM PRIVATE "${peers_dir}/torch/include")
  target_link_libraries(bench_torch PRIVATE gpushim_cuda sim_cudart
    "${peers_dir}/torch/lib/libc10_cuda.so" "${peers_dir}/torch/lib/libc10.so")
endif()
file(WRITE "${bench_dir}/torch" "${no_peer}")

# What the programs run with over the simulated device, or for their own code alone.
if(TARGET sim_cudart)
  add_library(bench_free_calls SHARED free_calls.c)
  target_link_libraries(bench_free_calls
    PRIVATE gpushim_flags gpushim_cuda ${CMAKE_DL_LIBS})
  add_library(bench_nvml_none SHARED nvml_none.c)
  target_link_libraries(bench_nvml_none PRIVATE gpushim_flags)
  set_target_properties(bench_nvml_none PROPERTIES
    OUTPUT_NAME nvidia-ml SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY "${bench_dir}/nvml")
  set_target_properties(bench_free_calls PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${bench_dir}")
endif()
