# Finds the parts that the CUDA engine is built with: FORGE_NVCC, an nvcc of CUDA 13 if there is
# one, in FORGE_CUDA_TOOLKIT, and for the engine the headers of the toolkit and of NCCL. The toolkit
# is FORGE_CUDA_DIR, or else CUDA_HOME's, PATH's, /usr/local/cuda, or the one that scripts/setup.sh
# --cuda fetched. If a part is missing, FORGE_CUDA=AUTO builds no CUDA engine, and ON refuses.
set(FORGE_CUDA_DIR "" CACHE PATH "CUDA toolkit 13, if it is not to be looked for")
set(fetched ${FORGE_TORCH_ROOT}/nvidia)
set(missing)

# The engine loads libcudart.so.13, and code of another major version's nvcc needs another.
set_property(GLOBAL PROPERTY forge_refused_nvcc)
function(forge_is_nvcc_13 result program)
  execute_process(COMMAND ${program} --version OUTPUT_VARIABLE text ERROR_QUIET)
  if(NOT text MATCHES "release 13\\.")
    set(${result} FALSE PARENT_SCOPE)
    string(REGEX MATCH "release [0-9.]+[0-9]" release "${text}")
    set_property(GLOBAL APPEND_STRING PROPERTY forge_refused_nvcc " (not ${program}, ${release})")
  endif()
endfunction()

unset(FORGE_NVCC CACHE)  # found anew in every configuration: toolkits come and go
if(FORGE_CUDA_DIR)
  find_program(FORGE_NVCC nvcc VALIDATOR forge_is_nvcc_13 PATHS ${FORGE_CUDA_DIR}/bin NO_DEFAULT_PATH NO_CACHE)
else()
  find_program(FORGE_NVCC nvcc VALIDATOR forge_is_nvcc_13 HINTS ENV CUDA_HOME PATH_SUFFIXES bin
               PATHS /usr/local/cuda ${fetched}/cu13 NO_CACHE)
endif()
if(NOT FORGE_NVCC)
  get_property(refused GLOBAL PROPERTY forge_refused_nvcc)
  list(APPEND missing "nvcc of CUDA 13${refused}")
endif()

# The toolkit comes from nvcc's own output, since the program may be a wrapper or a link.
set(FORGE_CUDA_TOOLKIT ${FORGE_CUDA_DIR})
if(FORGE_NVCC)
  execute_process(COMMAND ${FORGE_NVCC} --dryrun -c any.cu OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(text MATCHES "TOP=([^\n]+)")
    cmake_path(SET FORGE_CUDA_TOOLKIT NORMALIZE "${CMAKE_MATCH_1}")
  endif()
endif()

# One header of each of the toolkit's packages; NCCL's is preferably LibTorch's own.
set(FORGE_CUDA_INCLUDE)
foreach(header cuda_runtime_api.h crt/host_defines.h nv/target cublasLt.h cusolverDn.h cusparse.h nccl.h)
  unset(folder)
  if(header STREQUAL nccl.h)
    find_path(folder ${header} HINTS ${fetched}/nccl/include NO_DEFAULT_PATH NO_CACHE)
  endif()
  find_path(folder ${header} HINTS ${FORGE_CUDA_TOOLKIT} ${FORGE_CUDA_TOOLKIT}/targets/x86_64-linux
            PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
  find_path(folder ${header} HINTS ${fetched}/cu13/include NO_CACHE)
  if(folder)
    list(APPEND FORGE_CUDA_INCLUDE ${folder})
  else()
    list(APPEND missing ${header})
  endif()
endforeach()
list(REMOVE_DUPLICATES FORGE_CUDA_INCLUDE)
list(JOIN missing ", " missing)

# nvcc refuses a C++ compiler that is newer than itself: an empty file shows it here rather than in
# the middle of the build.
set(refused_compiler)
if(FORGE_NVCC AND NOT missing)
  set(empty ${PROJECT_BINARY_DIR}/CMakeFiles/empty.cu)
  file(WRITE ${empty} "")
  execute_process(COMMAND ${FORGE_NVCC} -std=c++20 -c ${empty} -o ${empty}.o RESULT_VARIABLE result OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT result EQUAL 0)
    string(REGEX MATCH "[^\n]*(error|fatal|not found)[^\n]*" line "${text}")
    set(refused_compiler "${FORGE_NVCC} does not compile with the C++ compiler here: ${line}")
    set(FORGE_NVCC FORGE_NVCC-NOTFOUND)
  endif()
endif()

set(FORGE_BUILD_CUDA OFF)
if(NOT FORGE_ENGINE OR NOT FORGE_CUDA)
  return()
endif()
if(missing AND FORGE_CUDA STREQUAL AUTO)
  message(STATUS "CUDA engine: not built, missing: ${missing}. scripts/setup.sh --cuda fetches them")
  return()
elseif(missing)
  message(FATAL_ERROR "the CUDA engine cannot be built, missing: ${missing}. Fetch them with scripts/setup.sh --cuda, "
                      "name another toolkit with -DFORGE_CUDA_DIR=<folder>, or do without it with -DFORGE_CUDA=OFF")
endif()
if(refused_compiler AND FORGE_CUDA STREQUAL AUTO)
  message(STATUS "CUDA engine: not built, ${refused_compiler}. NVCC_CCBIN=<an older g++> in the environment names another compiler")
  return()
elseif(refused_compiler)
  message(FATAL_ERROR "the CUDA engine cannot be built: ${refused_compiler}. Name another compiler for nvcc with NVCC_CCBIN=<an older g++> "
                      "in the environment, another toolkit with -DFORGE_CUDA_DIR=<folder>, or do without it with -DFORGE_CUDA=OFF")
endif()
set(FORGE_BUILD_CUDA ON)
message(STATUS "CUDA engine: built by ${FORGE_NVCC}")

# The engine links here against libraries whose own dependencies (cuBLAS, cuDNN …) may only be on
# the machine with the GPU.
add_library(forge_torch_cuda INTERFACE)
target_include_directories(forge_torch_cuda SYSTEM INTERFACE ${FORGE_CUDA_INCLUDE})
target_compile_definitions(forge_torch_cuda INTERFACE USE_C10D_NCCL)
# Nothing references a symbol of libtorch_cuda, but its static registrations provide CUDA: keeps it.
target_link_libraries(forge_torch_cuda INTERFACE -Wl,--no-as-needed ${FORGE_TORCH_ROOT}/torch/lib/libtorch_cuda.so
                      ${FORGE_TORCH_ROOT}/torch/lib/libc10_cuda.so -Wl,--as-needed ${fetched}/cu13/lib/libcudart.so.13)
