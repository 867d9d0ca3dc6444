#pragma once
// The interface between the program and the component that holds libcurl. Both are built together,
// by one compiler, so C++ values and exceptions may cross it.
#include "core/lib/net/http.h"

namespace forge {

struct HttpComponent {
  HttpAnswer (*request)(const HttpRequest&, const HttpSink&);
  std::string (*file_digest)(const std::string& path, Digest);
};

constexpr const char* kHttpComponent = "libforge-http.so";
constexpr const char* kHttpSymbol = "forge_http";
using HttpEntry = const HttpComponent*();

}  // namespace forge
