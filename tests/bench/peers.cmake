# The peers that scripts/setup --peers has put into .peers/ (peers.txt): bench_rmm and
# bench_torch, over the runtime of the build. bench/rmm and bench/torch say why there is no
# such program, and are empty where there is one. Without a PyTorch in .peers/ an installed
# one is taken; bench/torch_libraries names the folder of its libraries.
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

# Sets torch_dir in the caller: the folder of the PyTorch of GPU_CHECK_PYTHON, or of python3,
# which is asked where it lies and does not import it; "" without one.
function(gpushim_find_installed_torch)
  set(python "$ENV{GPU_CHECK_PYTHON}")
  if(NOT python)
    set(python python3)
  elseif(python MATCHES "/")
    get_filename_component(python "${python}" ABSOLUTE BASE_DIR "${PROJECT_SOURCE_DIR}")
  endif()
  execute_process(COMMAND "${python}" -c "import importlib.util
found = importlib.util.find_spec('torch')
print(next(iter(found.submodule_search_locations or []), '') if found else '')"
    OUTPUT_VARIABLE place RESULT_VARIABLE status ERROR_QUIET TIMEOUT 20
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT status EQUAL 0)
    set(place "")
  endif()
  set(torch_dir "${place}" PARENT_SCOPE)
endfunction()

# Sets no_peer in the caller, as above: whether alloc_torch.cpp becomes a program with the
# headers and the libraries of torch_dir, whose version nobody has chosen.
function(gpushim_try_installed_torch)
  set(no_peer "")
  string(MAKE_C_IDENTIFIER "GPUSHIM_TORCH_${torch_dir}_COMPILES" compiles)
  if(NOT EXISTS "${torch_dir}/lib/libc10_cuda.so")
    set(no_peer "the PyTorch in ${torch_dir} has no libc10_cuda.so")
  elseif(NOT DEFINED ${compiles})
    set(stub "${bench_dir}/torch_stub.c")
    file(WRITE "${stub}" "int cudaFree(void *);\nint cudaFree(void *block) "
      "{ return block != 0; }\nextern const char bench_allocators[];\n"
      "int main(void) { return bench_allocators[0]; }\n")
    message(STATUS "Trying the PyTorch in ${torch_dir}")
    try_compile(${compiles} "${bench_dir}/torch_try"
      SOURCES "${PROJECT_SOURCE_DIR}/tests/bench/alloc_torch.cpp" "${stub}"
      CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${PROJECT_SOURCE_DIR}/tests/bench;${PROJECT_SOURCE_DIR}/include;${torch_dir}/include;${CUDA_INCLUDE_DIR}"
      LINK_OPTIONS -Wl,--allow-shlib-undefined
      LINK_LIBRARIES "${torch_dir}/lib/libc10_cuda.so" "${torch_dir}/lib/libc10.so"
      CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
      OUTPUT_VARIABLE said)
    if(NOT ${compiles})
      file(WRITE "${bench_dir}/torch_try.log" "${said}")
    endif()
  endif()
  if(NOT no_peer AND NOT ${compiles})
    set(no_peer "the PyTorch in ${torch_dir} does not compile here (bench/torch_try.log)")
  endif()
  set(no_peer "${no_peer}" PARENT_SCOPE)
endfunction()

set(torch_dir "${peers_dir}/torch")
set(torch_libraries "")
gpushim_find_peer(torch/lib/libc10_cuda.so PyTorch c++20
  c10/cuda/CUDACachingAllocator.h torch/include)
if(no_peer MATCHES "is not in .peers" AND NOT GPUSHIM_SANITIZE AND CUDA_HAS_RUNTIME_HEADERS)
  gpushim_find_installed_torch()
  if(torch_dir)
    gpushim_try_installed_torch()
    set(torch_libraries "${torch_dir}/lib")
  else()
    string(REPLACE ")" "), nor installed" no_peer "${no_peer}")
  endif()
endif()
if(no_peer)
  message(STATUS "bench_torch is not built: ${no_peer}")
  set(torch_libraries "")
else()
  gpushim_add_allocators(bench_torch alloc_torch.cpp)
  target_compile_features(bench_torch PRIVATE cxx_std_20)
  target_include_directories(bench_torch SYSTEM PRIVATE "${torch_dir}/include")
  target_link_libraries(bench_torch PRIVATE gpushim_cuda sim_cudart
    "${torch_dir}/lib/libc10_cuda.so" "${torch_dir}/lib/libc10.so")
  if(torch_libraries)
    # It may have been built for another runtime than this build's, and brings that.
    target_link_options(bench_torch PRIVATE -Wl,--allow-shlib-undefined)
  endif()
endif()
file(WRITE "${bench_dir}/torch" "${no_peer}")
file(WRITE "${bench_dir}/torch_libraries" "${torch_libraries}")

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
