#include "cli/scratch_folder.h"

#include <cstdlib>
#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/temporary.h"

namespace forge {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  remove_abandoned(fs::temp_directory_path().string());
  std::string pattern = temporary_of(fs::temp_directory_path() / "forge-eval") + "-XXXXXX";
  if (!::mkdtemp(pattern.data()))
    throw Error(ErrorKind::environment, pattern + ": cannot create the folder")
        .hint("set TMPDIR to a folder that can be written");
  path_ = pattern;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace forge
