#include "core/lib/io/pickle.h"

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
  if (file_exists(path)) refuse_git_lfs_file(path);
  const std::string name = is_directory(path) ? path : folder_of(path);
  throw Error(ErrorKind::environment,
              path + ": is a pickle, a program that runs when it is loaded; forge reads " +
                  "safetensors or GGUF weights only")
      .hint(
          "convert it where you trust it: python -c \"from transformers import AutoModelForCausalLM as M; "
          "M.from_pretrained('" +
          name + "', dtype='auto').save_pretrained('" + name + "-safetensors')\"");
}

}  // namespace forge
