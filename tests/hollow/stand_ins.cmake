# Makes stand-ins for libraries that LibTorch's CUDA half is linked to and that are only on machines
# with a GPU: cuBLAS, cuDNN, NCCL … On every machine they are empty libraries of the same name and
# version nodes, so a test does not depend on the machine, and the real ones take longer to load
# than the test takes to run. Their functions are bound when they are called, and then missing by
# name. LibTorch's linear algebra is loaded late, with all its functions bound at once: a stand-in
# has those, which end the process by their name.
#
#   forge_stand_ins(targets)     # a target for each; the files are in build/hollow
set(FORGE_HOLLOW_FOLDER ${PROJECT_BINARY_DIR}/hollow)
find_program(FORGE_READELF readelf REQUIRED)

# Writes the functions of `library` that LibTorch's linear algebra asks for to `file`.
function(forge_stand_in_functions library file)
  execute_process(COMMAND ${FORGE_READELF} --dyn-syms -W
                          ${FORGE_TORCH_ROOT}/torch/lib/libtorch_cuda_linalg.so
                  OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "UND cu[A-Za-z0-9_]+@${library}" found "${said}")
  set(functions "#include <cstdio>\n#include <cstdlib>\n")
  foreach(line IN LISTS found)
    string(REGEX REPLACE "UND (.*)@.*" "\\1" name "${line}")
    string(APPEND functions "extern \"C\" void ${name}() {\n"
                            "  std::fputs(\"the hollow GPU has no ${name}\\n\", stderr);\n"
                            "  std::abort();\n}\n")
  endforeach()
  file(CONFIGURE OUTPUT ${file} CONTENT "${functions}" @ONLY)
endfunction()

function(forge_stand_ins result)
  set(targets)
  foreach(library torch_cuda torch_nvshmem c10_cuda torch_cuda_linalg)
    execute_process(COMMAND ${FORGE_READELF} -dVW ${FORGE_TORCH_ROOT}/torch/lib/lib${library}.so
                    OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
    string(REGEX MATCHALL "NEEDED\\)[^\n]*\\[lib(cu|nv|nccl)[^]\n]*\\]" needed "${said}")
    foreach(line IN LISTS needed)
      string(REGEX REPLACE ".*\\[(.*)\\]" "\\1" name "${line}")
      if(name MATCHES "^libcudart")
        continue()
      endif()
      list(APPEND names ${name})
      # Parses "File: libcublas.so.13  Cnt: 1", then a line for each required version of it.
      string(REGEX MATCH "File: ${name}  Cnt: 1\n[^\n]*Name: ([^ ]+)" found "${said}")
      if(found)
        set(version_of_${name} ${CMAKE_MATCH_1})
      endif()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  foreach(name IN LISTS names)
    set(script ${CMAKE_CURRENT_BINARY_DIR}/${name}.version)
    file(CONFIGURE OUTPUT ${script} CONTENT "${version_of_${name}} { global: *; };\n")
    string(MAKE_C_IDENTIFIER stand_in_${name} target)
    list(APPEND targets ${target})
    if(NOT TARGET ${target})
      forge_stand_in_functions(${name} ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
      add_library(${target} SHARED ${CMAKE_CURRENT_BINARY_DIR}/${target}.cpp)
      set_target_properties(${target} PROPERTIES PREFIX "" OUTPUT_NAME ${name} SUFFIX ""
                            NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${FORGE_HOLLOW_FOLDER})
      target_link_options(${target} PRIVATE -Wl,-soname,${name} -Wl,--version-script=${script})
    endif()
  endforeach()
  set(${result} ${targets} PARENT_SCOPE)
endfunction()
