# Compiler settings that every target shares, and forge_library().
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# -O3 costs a third more compile time and gains nothing outside the loops that ask for it
# themselves.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(FORGE_CCACHE ccache)
if(FORGE_CCACHE)
  # ccache needs this sloppiness to cache anything that uses a precompiled header. With base_dir,
  # two checkouts share the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${FORGE_CCACHE})
  set(CMAKE_PCH_INSTANTIATE_TEMPLATES OFF)
endif()

find_program(FORGE_MOLD mold)
if(FORGE_MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_compile_options(-Wall -Wextra -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 takes std::string's inlined concatenations for overruns of its small buffer (bug 105651),
  # and inside a precompiled header it no longer knows that they are the library's.
  add_compile_options(-Wno-restrict -Wno-array-bounds -Wno-stringop-overflow)
endif()
if(FORGE_SANITIZE)
  add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
if(FORGE_FUZZ)
  # CI builds this from scratch, so checks that cost seconds a file and find little are left out:
  # optimisation (half of the time), and the undefined behaviour that AddressSanitizer sees as a
  # crash anyway.
  set(forge_checks -fsanitize=address,undefined -fno-sanitize=null,vptr,object-size,nonnull-attribute)
  add_compile_options(${forge_checks} -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g1)
  add_link_options(${forge_checks})
  string(REGEX REPLACE "-O[23]" "-O0" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    set(forge_coverage -fsanitize=fuzzer-no-link)
  else()
    set(forge_coverage -fsanitize-coverage=trace-pc)
  endif()
endif()

# The header that most of the program's files include, parsed once. A precompiled header never holds
# one of the project's own: if only a comment of it changed, ccache gives back the old one, and the
# compiler, which knows an included file by its bytes, would read the header a second time.
add_library(forge_pch STATIC ${PROJECT_SOURCE_DIR}/cmake/pch.cpp)
target_precompile_headers(forge_pch PRIVATE <nlohmann/json.hpp>)
target_compile_options(forge_pch PRIVATE ${forge_coverage})

# Programs would compile with -fPIE, for which a library's precompiled header is not made.
function(forge_precompiled name pch)
  target_compile_options(${name} PRIVATE -fPIC)
  target_precompile_headers(${name} REUSE_FROM ${pch})
endfunction()

# forge_joined(target source...): compiles the sources of a folder together, eight at a time, which
# reads their headers once. Names of anonymous namespaces are therefore unique in a folder, but for
# sources that are told APART and those with compiler options of their own.
function(forge_joined target)
  cmake_parse_arguments(ARG "" "" "APART" ${ARGN})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # Warns about anonymous namespaces of included files, which joined sources are.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  foreach(source IN LISTS ARG_UNPARSED_ARGUMENTS)
    cmake_path(GET source PARENT_PATH folder)
    string(MAKE_C_IDENTIFIER "${target}_${folder}" folder)
    list(FIND ARG_APART ${source} apart)
    if(apart EQUAL -1)
      math(EXPR group "0${joined_${folder}} / 8")
      math(EXPR joined_${folder} "0${joined_${folder}} + 1")
      set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${group})
    endif()
  endforeach()
endfunction()

# forge_library(name SOURCES ... LINKS ... [APART sources] [PCH target]): a static library that sees
# the source tree's root.
function(forge_library name)
  cmake_parse_arguments(ARG "" "PCH" "SOURCES;LINKS;APART" PCH forge_pch ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PUBLIC ${ARG_LINKS})
  forge_precompiled(${name} ${ARG_PCH})
  target_compile_options(${name} PRIVATE ${forge_coverage})
  if(FORGE_JOINED)
    forge_joined(${name} ${ARG_SOURCES} APART ${ARG_APART})
  endif()
endfunction()
