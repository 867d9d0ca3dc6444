#include "cli/missing_libraries.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/lib/base/program_output.h"
#include "core/lib/base/text.h"
#include "forge_build.h"

namespace forge {
namespace {

// True for libraries of CUDA and LibTorch, which Python's wheels contain.
bool in_wheels(const std::string& name) {
  constexpr const char* kBeginnings[] = {"libcu",    "libnv",  "libnccl",
                                         "libtorch", "libc10", "libshm"};
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](const char* beginning) { return starts_with(name, beginning); });
}

}  // namespace

std::vector<std::string> missing_libraries(const EngineLocation& location) {
  // ld.so(8): with this variable the loader lists what a program needs and leaves before it begins.
  auto variables = engine_environment(location, {});
  variables["LD_TRACE_LOADED_OBJECTS"] = "1";
  std::vector<std::string> names;
  const std::string listed = program_output({location.program}, merged_environment(variables));
  for (const std::string& line : split(listed, '\n'))
    if (const size_t at = line.find(" => not found"); at != std::string::npos)
      if (const std::string name(trim(line.substr(0, at)));
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

std::string library_remedy(const std::vector<std::string>& names) {
  if (!std::all_of(names.begin(), names.end(), in_wheels))
    return "install the packages of this system that hold them";
  return fmt::format(
      "scripts/setup.sh --cuda fetches CUDA's libraries; or python3 -m pip install torch=={}, and "
      "FORGE_TORCH_DIR set to its site-packages, which holds torch/ and nvidia/",
      kTorchVersion);
}

}  // namespace forge
