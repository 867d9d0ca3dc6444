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

foreach(source activation/activation attention/attention_own attention/group_sums dora/dora dropout/dropout embedding/embedding experts/experts experts/route fp8/fp8 latent/latent layer_norm/layer_norm lm_head/logits lora/folded lora/gated optimizer/optimizer quantize/quantize rms_norm/rms_norm
        rope/rope rows/rows sampling/sampling swiglu/swiglu)
  forge_cuda_object(object kernels/${source})
  list(APPEND forge_cuda_object_files ${object})
endforeach()
add_library(forge_cuda_objects STATIC EXCLUDE_FROM_ALL ${forge_cuda_object_files})
set_target_properties(forge_cuda_objects PROPERTIES LINKER_LANGUAGE CXX)
