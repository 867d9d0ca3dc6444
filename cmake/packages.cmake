# Debian's packages as targets. Static archives where Debian ships position-independent ones.
find_package(Threads REQUIRED)

function(forge_package target header archive debian)
  find_path(${target}_include ${header} REQUIRED)
  find_library(${target}_library NAMES ${archive} REQUIRED)
  add_library(forge::${target} UNKNOWN IMPORTED)
  set_target_properties(forge::${target} PROPERTIES IMPORTED_LOCATION ${${target}_library}
                        INTERFACE_INCLUDE_DIRECTORIES ${${target}_include})
  message(STATUS "${target}: ${${target}_library} (Debian package ${debian})")
endfunction()

forge_package(yaml yaml-cpp/yaml.h libyaml-cpp.a libyaml-cpp-dev)
forge_package(pcre2 pcre2.h libpcre2-8.a libpcre2-dev)
forge_package(utf8proc utf8proc.h libutf8proc.a libutf8proc-dev)
forge_package(sentencepiece sentencepiece_processor.h libsentencepiece.so libsentencepiece-dev)
forge_package(zlib zlib.h libz.a zlib1g-dev)
forge_package(zstd zstd.h libzstd.a libzstd-dev)
# Of the component that speaks HTTP alone: certificates and protocols are the machine's, as its updates keep them.
forge_package(curl curl/curl.h libcurl.so libcurl4-openssl-dev)
forge_package(crypto openssl/evp.h libcrypto.so libssl-dev)

set_target_properties(forge::pcre2 PROPERTIES INTERFACE_COMPILE_DEFINITIONS PCRE2_STATIC)
set_target_properties(forge::utf8proc PROPERTIES INTERFACE_COMPILE_DEFINITIONS UTF8PROC_STATIC)

# Header-only: fmt (LibTorch's wheel ships fmt 12, which shadows Debian's 9 in engine files: both are used without
# a library, so neither can clash), nlohmann/json, CLI11, Catch2, xxhash.
add_library(forge_header_only INTERFACE)
target_compile_definitions(forge_header_only INTERFACE FMT_HEADER_ONLY)
add_library(forge::headers ALIAS forge_header_only)
foreach(header fmt/format.h nlohmann/json.hpp CLI/CLI.hpp xxhash.h)
  string(MAKE_C_IDENTIFIER "FORGE_HEADER_${header}" variable)
  find_path(${variable} ${header} REQUIRED)
endforeach()
