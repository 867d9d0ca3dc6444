# LibTorch 2.11 from its PyPI wheels, as own imported targets: find_package(Torch) stops without a
# CUDA toolkit and runs a program on a GPU with one. FORGE_TORCH_DIR holds torch/ and nvidia/ side
# by side (scripts/setup.sh).
set(torch_root "${FORGE_TORCH_DIR}")
if(NOT torch_root)
  set(torch_root "$ENV{HOME}/.cache/forge/torch-2.11.0")
endif()
if(NOT EXISTS ${torch_root}/torch/version.py)
  message(FATAL_ERROR "LibTorch not found in ${torch_root}: run scripts/setup.sh, or pass -DFORGE_TORCH_DIR=<folder "
                      "that holds torch/ and nvidia/>, or -DFORGE_ENGINE=OFF for the program alone")
endif()
file(READ ${torch_root}/torch/version.py torch_version)
if(NOT torch_version MATCHES "__version__ = '2\\.11\\.0")
  message(FATAL_ERROR "${torch_root} holds another LibTorch than 2.11.0; forge's engine is built against exactly that")
endif()
set(FORGE_TORCH_ROOT ${torch_root})

add_library(forge_torch INTERFACE)
target_include_directories(forge_torch SYSTEM INTERFACE
  ${torch_root}/torch/include ${torch_root}/torch/include/torch/csrc/api/include)
# -fopenmp everywhere: without it at::parallel_for silently runs serially.
target_compile_options(forge_torch INTERFACE -fopenmp)
# LibTorch's fmt, of another version than the system's, shadows it in engine files, which compile
# its definitions (core/lib/base/format.h compiles the system's).
target_compile_definitions(forge_torch INTERFACE USE_DISTRIBUTED FMT_HEADER_ONLY)
target_link_options(forge_torch INTERFACE -fopenmp -Wl,--allow-shlib-undefined)
target_link_libraries(forge_torch INTERFACE ${torch_root}/torch/lib/libtorch_cpu.so ${torch_root}/torch/lib/libc10.so)

# One precompiled ATen header for all engine libraries.
add_library(forge_torch_pch STATIC ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_include_directories(forge_torch_pch PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_link_libraries(forge_torch_pch PUBLIC forge_torch forge_base)
target_precompile_headers(forge_torch_pch PRIVATE <ATen/ATen.h> <c10/core/GradMode.h> <torch/csrc/autograd/autograd.h>
                          <torch/csrc/autograd/variable.h> <nlohmann/json.hpp>)

# forge_engine_library(name SOURCES ... LINKS ... [APART sources]): forge_library with LibTorch and
# its precompiled header.
function(forge_engine_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;APART" ${ARGN})
  forge_library(${name} SOURCES ${ARG_SOURCES} APART ${ARG_APART} LINKS ${ARG_LINKS} forge_torch forge_base PCH forge_torch_pch)
endfunction()
