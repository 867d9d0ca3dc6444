#include "core/lib/net/http.h"

#include <dlfcn.h>

#include "core/lib/base/error.h"
#include "core/lib/net/http_component.h"

namespace forge {
namespace {

[[noreturn]] void refuse(const std::string& problem) {
  const bool absent = problem.find(std::string(kHttpComponent) + ": cannot open") != std::string::npos;
  throw Error(ErrorKind::environment, std::string("the component that speaks HTTP cannot be loaded: ") + problem)
      .hint(absent ? "it is built with forge: scripts/build.sh"
                   : "it needs libcurl 4 and OpenSSL 3: install libcurl4 and libssl3 (Debian, Ubuntu) or libcurl and "
                     "openssl-libs (Fedora, RHEL)");
}

// Loads the component by name alone, so that the loader searches the program's run path. It is
// never unloaded.
const HttpComponent& component() {
  static const HttpComponent* loaded = [] {
    void* library = ::dlopen(kHttpComponent, RTLD_NOW | RTLD_LOCAL);
    if (!library) refuse(::dlerror());
    void* symbol = ::dlsym(library, kHttpSymbol);
    if (!symbol) refuse(std::string("it has no ") + kHttpSymbol);
    return reinterpret_cast<HttpEntry*>(symbol)();
  }();
  return *loaded;
}

}  // namespace

void require_http() { component(); }

HttpAnswer http_request(const HttpRequest& request, const HttpSink& sink) { return component().request(request, sink); }

std::string file_digest(const std::string& path, Digest digest) { return component().file_digest(path, digest); }

}  // namespace forge
