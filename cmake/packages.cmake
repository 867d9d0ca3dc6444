# The system's libraries as targets: static archives where Debian ships position-independent ones,
# and the shared library on systems that ship none (Fedora, Arch).
find_package(Threads REQUIRED)

# forge_package(target header library debian [definition]): DEFINITION is what the header requires
# of users who link an archive.
function(forge_package target header library debian)
  find_path(${target}_include ${header})
  string(REGEX REPLACE "\\.a$" ".so" shared ${library})
  find_library(${target}_library NAMES ${library} ${shared})
  if(NOT ${target}_include OR NOT ${target}_library)
    message(FATAL_ERROR "${header} or ${library} not found: scripts/setup.sh installs Debian's and Ubuntu's package "
                        "${debian}; -DCMAKE_PREFIX_PATH=<folder> names another place")
  endif()
  add_library(forge::${target} UNKNOWN IMPORTED)
  if(${target}_library MATCHES "\\.a$")
    set_target_properties(forge::${target} PROPERTIES INTERFACE_COMPILE_DEFINITIONS "${ARGN}")
  endif()
  set_target_properties(forge::${target} PROPERTIES IMPORTED_LOCATION ${${target}_library}
                        INTERFACE_INCLUDE_DIRECTORIES ${${target}_include})
  message(STATUS "${target}: ${${target}_library} (Debian package ${debian})")
endfunction()

forge_package(yaml yaml-cpp/yaml.h libyaml-cpp.a libyaml-cpp-dev)
forge_package(pcre2 pcre2.h libpcre2-8.a libpcre2-dev PCRE2_STATIC)
forge_package(utf8proc utf8proc.h libutf8proc.a libutf8proc-dev UTF8PROC_STATIC)
forge_package(sentencepiece sentencepiece_processor.h libsentencepiece.so libsentencepiece-dev)
forge_package(zlib zlib.h libz.a zlib1g-dev)
forge_package(zstd zstd.h libzstd.a libzstd-dev)
# Only the component that speaks HTTP links this: certificates and protocols are the machine's, as
# its updates keep them.
forge_package(curl curl/curl.h libcurl.so libcurl4-openssl-dev)
forge_package(crypto openssl/evp.h libcrypto.so libssl-dev)

# Header-only: fmt (core/lib/base/format.h), nlohmann/json, CLI11, Catch2, xxhash.
foreach(header fmt/format.h nlohmann/json.hpp CLI/CLI.hpp xxhash.h)
  string(MAKE_C_IDENTIFIER "FORGE_HEADER_${header}" variable)
  find_path(${variable} ${header} REQUIRED)
endforeach()
