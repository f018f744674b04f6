# What both projects, gpushim and the simulated device (tests/sim), are built with: options, headers, flags.
get_filename_component(gpushim_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()

set(GPUSHIM_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread")
option(GPUSHIM_COVERAGE "Instrument the library for gcov" OFF)
option(GPUSHIM_TESTS "Build the programs and tests that run over the simulated device" ${PROJECT_IS_TOP_LEVEL})
option(GPUSHIM_TESTS_PLAIN "Compile the test programs and the simulated device with little optimization, and unit tests without a sanitizer: in two thirds of the time" OFF)
option(GPUSHIM_CXX "Build the test programs in C++ too, if there is a compiler" ON)
option(GPUSHIM_WERROR "Warnings are errors: for developers (CMakePresets.json, scripts/test)" OFF)

include(CheckCCompilerFlag)
include(CheckLanguage)
if(GPUSHIM_CXX)
  check_language(CXX)
  if(CMAKE_CXX_COMPILER)
    enable_language(CXX)
  endif()
endif()

# CUDA headers: a toolkit, or what scripts/setup unpacked from the header wheels.
find_path(CUDA_INCLUDE_DIR cuda.h
  HINTS "${gpushim_root}/.cuda/include"
        ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda /opt/cuda /usr/lib/cuda
  PATH_SUFFIXES include)
if(NOT CUDA_INCLUDE_DIR)
  message(FATAL_ERROR "cuda.h not found: set CUDA_HOME, or run scripts/setup")
endif()

# uthash is one header: of the package uthash-dev, or of a folder. The build keeps a copy: a
# cross build must not see the rest of /usr/include, and a build that is carried to another
# machine brings the header along.
set(UTHASH_DIR "" CACHE PATH "Folder with uthash.h, where no package has installed it")
find_file(uthash_header uthash.h
  HINTS ${UTHASH_DIR} ENV UTHASH_DIR
  PATHS "${PROJECT_BINARY_DIR}/uthash"
  PATH_SUFFIXES src include
  NO_CACHE)
if(NOT uthash_header)
  message(FATAL_ERROR "uthash.h not found: install uthash-dev, or set UTHASH_DIR to a folder with it")
endif()
configure_file("${uthash_header}" "${PROJECT_BINARY_DIR}/uthash/uthash.h" COPYONLY)

# What every target of ours is compiled with. No CUDA path here: pool/ and tracker/
# must not be able to include it.
add_library(gpushim_flags INTERFACE)
# A header of the product is included by its path from here: "pool/pool.h".
target_include_directories(gpushim_flags INTERFACE "${gpushim_root}" "${gpushim_root}/include")
target_include_directories(gpushim_flags SYSTEM INTERFACE "${PROJECT_BINARY_DIR}/uthash")
target_compile_features(gpushim_flags INTERFACE c_std_11)
target_compile_definitions(gpushim_flags INTERFACE _GNU_SOURCE)
target_compile_options(gpushim_flags INTERFACE
  -Wall -Wextra -Wundef -Wshadow -fvisibility=hidden -fno-omit-frame-pointer
  $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes>
  $<$<BOOL:${GPUSHIM_WERROR}>:-Werror>)
if(GPUSHIM_SANITIZE)
  target_compile_options(gpushim_flags INTERFACE
    -fsanitize=${GPUSHIM_SANITIZE} -fno-sanitize-recover=undefined)
  target_link_options(gpushim_flags INTERFACE -fsanitize=${GPUSHIM_SANITIZE})
  # Each check of an address a call, not code of its own: compiled in two thirds of the time.
  if(GPUSHIM_SANITIZE MATCHES "address" AND CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(gpushim_flags INTERFACE
      "SHELL:--param asan-instrumentation-with-call-threshold=0")
  endif()
endif()
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# A target that may know CUDA.
add_library(gpushim_cuda INTERFACE)
target_include_directories(gpushim_cuda SYSTEM INTERFACE "${CUDA_INCLUDE_DIR}")

set(CMAKE_REQUIRED_FLAGS -Werror)
check_c_compiler_flag(-fstack-clash-protection HAS_STACK_CLASH_PROTECTION)
unset(CMAKE_REQUIRED_FLAGS)

# The product is the same bytes from any folder; of a debug build, a debugger wants the full names.
set(gpushim_any_folder "")
if(NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(gpushim_any_folder
    "-ffile-prefix-map=${gpushim_root}=." "-ffile-prefix-map=${PROJECT_BINARY_DIR}=build")
endif()

# gpushim_precompile(TARGET HEADER...): where each file is compiled without it too, in another build, or the
# headers are in each file: it hides what a file has forgotten to include.
function(gpushim_precompile target)
  foreach(header IN LISTS ARGN)
    target_precompile_headers(${target} PRIVATE "$<$<COMPILE_LANGUAGE:C>:<${header}$<ANGLE-R>>")
  endforeach()
endfunction()

# Object library with coverage where asked for: the modules of libgpushim.so.
function(gpushim_add_module name)
  add_library(${name} OBJECT ${ARGN})
  if(GPUSHIM_SANITIZE)
    gpushim_precompile(${name} errno.h pthread.h stdio.h stdlib.h string.h sys/mman.h time.h unistd.h)
  endif()
  target_link_libraries(${name} PUBLIC gpushim_flags)
  # A thread or a fiber may have 16 KiB, most of it its own: no frame is large, and what is
  # beyond the end of a stack is met, never jumped over. Sanitizers make frames of their own.
  if(HAS_STACK_CLASH_PROTECTION)
    target_compile_options(${name} PRIVATE -fstack-clash-protection)
  endif()
  if(NOT GPUSHIM_SANITIZE AND NOT GPUSHIM_COVERAGE)
    target_compile_options(${name} PRIVATE -Wframe-larger-than=2048)
  endif()
  target_compile_options(${name} PRIVATE ${gpushim_any_folder})
  # The library is there from the program's start: its thread-local words need no call.
  target_compile_options(${name} PRIVATE -ftls-model=initial-exec)
  if(GPUSHIM_COVERAGE)
    target_compile_options(${name} PUBLIC --coverage -fprofile-update=atomic)
    target_compile_definitions(${name} PUBLIC GS_COVERAGE=1)
    target_link_options(${name} PUBLIC --coverage)
  endif()
endfunction()
