#pragma once
// What the program and the component that holds libcurl agree on. Both are built together, by one compiler: C++ values and
// exceptions cross.
#include "core/net/http.h"

namespace forge {

struct HttpComponent {
  HttpAnswer (*request)(const HttpRequest&, const HttpSink&);
  std::string (*file_digest)(const std::string& path, Digest);
};

constexpr const char* kHttpComponent = "libforge-http.so";
constexpr const char* kHttpSymbol = "forge_http";
using HttpEntry = const HttpComponent*();

}  // namespace forge
