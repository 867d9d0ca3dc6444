#include "core/lib/io/pickle.h"

#include <filesystem>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"

namespace forge {

bool pickle_name(std::string_view file_name) {
  for (std::string_view ending : {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".bin.index.json"})
    if (ends_with(lower(file_name), ending)) return true;
  return false;
}

bool pickle_content(std::string_view first_bytes) {
  // A safetensors header whose length happens to look like a pickle's or a zip's magic has '{' at
  // byte 8.
  if (first_bytes.size() > 8 && first_bytes[8] == '{') return false;
  bool zip = starts_with(first_bytes, "PK\x03\x04");
  bool pickle =
      first_bytes.size() > 2 && first_bytes[0] == '\x80' && first_bytes[1] >= 2 && first_bytes[1] <= 5;
  return zip || pickle;
}

void refuse_pickle(const std::string& path) {
  constexpr int64_t kLargestPointer = 1024;
  std::error_code error;
  if (const auto size = std::filesystem::file_size(path, error); !error && size < kLargestPointer)
    refuse_git_lfs(read_file(path, kLargestPointer, ErrorKind::environment), path, ErrorKind::environment);
  std::filesystem::path folder = path;
  if (!is_directory(path)) folder = folder.parent_path();
  std::string name = folder.empty() ? "." : folder.string();
  throw Error(ErrorKind::environment,
              path + ": is a pickle, a program that runs when it is loaded; forge reads " +
                  "safetensors or GGUF weights only")
      .hint(
          "convert it where you trust it: python -c \"from transformers import AutoModelForCausalLM as M; "
          "M.from_pretrained('" +
          name + "', dtype='auto').save_pretrained('" + name + "-safetensors')\"");
}

}  // namespace forge
