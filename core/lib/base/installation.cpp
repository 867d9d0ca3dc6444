#include "core/lib/base/installation.h"

#include <sys/auxv.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/lib/base/file.h"
#include "core/lib/base/program_output.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> folders_of_prefix(const fs::path& prefix) {
  std::vector<std::string> folders{prefix / "libexec/forge/site-packages"};
  for (const char* lib : {"lib", "lib64"})
    for (const std::string& python : names_in(prefix / lib))
      if (starts_with(python, "python3"))
        for (const char* name : {"site-packages", "dist-packages"}) folders.push_back(prefix / lib / python / name);
  folders.push_back(prefix);
  return folders;
}

// Returns sys.path of an interpreter, which handles links, .pth files and the user's own packages.
std::vector<std::string> folders_of_python(const std::string& python) {
  constexpr size_t kMostBytes = 65536;
  std::vector<std::string> folders;
  const std::string output = program_output({python, "-c", "import sys; print('\\n'.join(sys.path))"}, {},
                                            {.most_bytes = kMostBytes});
  for (const std::string& line : split(output, '\n'))
    if (!line.empty()) folders.push_back(line);
  return folders;
}

}  // namespace

std::string program_folder() {
  std::error_code error;
  fs::path program = fs::read_symlink("/proc/self/exe", error);
  if (!error) return program.parent_path();
  // Without /proc, the path that the program was started with is used.
  const auto* started_as = reinterpret_cast<const char*>(::getauxval(AT_EXECFN));
  return fs::weakly_canonical(started_as ? started_as : ".", error).parent_path();
}

std::string find_package_folder(const std::function<bool(const std::string&)>& wanted) {
  const auto first_wanted = [&](const std::vector<std::string>& folders) -> std::string {
    const auto found = std::ranges::find_if(folders, wanted);
    return found == folders.end() ? "" : *found;
  };
  const fs::path bin = program_folder();
  if (std::string found = first_wanted(folders_of_prefix(bin.parent_path())); !found.empty()) return found;
  if (const std::string beside = bin / "python3"; ::access(beside.c_str(), X_OK) == 0)
    if (std::string found = first_wanted(folders_of_python(beside)); !found.empty()) return found;
  return first_wanted(folders_of_python("python3"));
}

}  // namespace forge
