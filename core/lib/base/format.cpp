// Compiles fmt's definitions. Distributions lack its static library, and a shared one would have to
// be on the machine that runs forge.
#define FMT_HEADER_ONLY
#include <fmt/format.h>

#include <string>

namespace forge {
namespace {

// Has the compiler emit the inline function that format.h's users are linked with.
[[gnu::used]] std::string (*const emitted)(fmt::string_view, fmt::format_args) = &fmt::vformat;

}  // namespace
}  // namespace forge
