#pragma once
// A data file that is compiled into the program (cmake/embed.cmake).
#include <string_view>

namespace forge {

struct EmbeddedFile {
  const char* name;
  std::string_view text;
};

}  // namespace forge
