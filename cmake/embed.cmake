# Turns text files into one C++ source:
#   cmake -D OUTPUT=… -D FUNCTION=… -D FILES="a;b" -P embed.cmake
set(type "const std::vector<EmbeddedFile>&")
set(code "// Generated from data files by cmake/embed.cmake.\n#include <vector>\n\n#include \"core/lib/base/embedded_file.h\"\n\n")
string(APPEND code "namespace forge {\n\n${type} ${FUNCTION}();\n\n${type} ${FUNCTION}() {\n")
string(APPEND code "  static const std::vector<EmbeddedFile> files{\n")
foreach(file IN LISTS FILES)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME)
  string(APPEND code "      {\"${name}\", R\"embedded(${text})embedded\"},\n")
endforeach()
string(APPEND code "  };\n  return files;\n}\n\n}  // namespace forge\n")
file(WRITE ${OUTPUT} "${code}")
