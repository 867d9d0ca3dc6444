# Compiles every launcher by nvcc, for the GPU generations that the engine runs on, when something
# links it.
foreach(target IN LISTS FORGE_CUDA_TARGETS)
  list(APPEND forge_gencode -gencode=arch=compute_${target},code=sm_${target})
endforeach()

# forge_cuda_object(variable source): the object of SOURCE.cu, a path from the root.
function(forge_cuda_object variable source)
  string(REPLACE "/" "_" name ${source})
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
  add_custom_command(OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${FORGE_NVCC} -std=c++20 -O3 ${forge_gencode} -I ${PROJECT_SOURCE_DIR} -I ${PROJECT_SOURCE_DIR}/kernels/device/cuda
            --Werror all-warnings -Xcompiler -fPIC -MD -MF ${object}.d -c ${PROJECT_SOURCE_DIR}/${source}.cu -o ${object}
    DEPENDS ${PROJECT_SOURCE_DIR}/${source}.cu DEPFILE ${object}.d COMMENT "nvcc ${source}.cu" VERBATIM)
  set(${variable} ${object} PARENT_SCOPE)
endfunction()

file(GLOB cuda_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} kernels/*/*.cu)
list(REMOVE_ITEM cuda_sources kernels/device/memory.cu)  # for bench/gpu
foreach(source IN LISTS cuda_sources)
  cmake_path(REMOVE_EXTENSION source)
  forge_cuda_object(object ${source})
  list(APPEND forge_cuda_object_files ${object})
endforeach()
add_library(forge_cuda_objects STATIC EXCLUDE_FROM_ALL ${forge_cuda_object_files})
set_target_properties(forge_cuda_objects PROPERTIES LINKER_LANGUAGE CXX)
