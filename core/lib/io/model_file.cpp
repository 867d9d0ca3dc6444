#include "core/lib/io/model_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/lib/base/error.h"
#include "core/lib/base/file.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/json.h"
#include "core/lib/io/pickle.h"
#include "core/lib/io/safetensors.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

[[noreturn]] void fail(const std::string& path, const std::string& what, const std::string& hint) {
  throw Error(ErrorKind::environment, path + ": " + what).hint(hint);
}

// Throws an Error that describes what is there instead of weights.
[[noreturn]] void refuse_folder(const std::string& folder) {
  const std::string expected = std::string("expected ") + kSingle + ", or " + kIndex + " and its shards";
  for (const std::string& name : names_in(folder)) {
    const std::string path = (fs::path(folder) / name).string();
    if (pickle_name(name) && name != "training_args.bin") refuse_pickle(path);
    if (ends_with(name, ".gguf"))
      fail(folder, "holds no safetensors weights, " + expected, "write model.path: " + path);
    if (name == "adapter_model.safetensors")
      fail(folder, "holds an adapter, not a model, " + expected, "write it as adapter.init_from");
  }
  for (const std::string& name : names_in(folder))
    if (starts_with(name, "consolidated") && ends_with(name, ".safetensors"))
      fail(folder, "holds " + show_name(name) + ", weights under Mistral's own names, " + expected,
           "download the model's other files too: model*.safetensors and its index");
  for (const std::string& name : names_in(folder))
    if (ends_with(name, ".safetensors"))
      fail(folder, "holds " + show_name(name) + ", but neither " + kSingle + " nor " + kIndex,
           "download the whole model again");
  fail(folder, "holds no weights, " + expected, "");
}

// Returns the single weights file, or the index of its shards.
std::string weights_of(const std::string& folder) {
  for (const char* name : {kSingle, kIndex}) {
    const fs::path file = fs::path(folder) / name;
    std::error_code error;
    if (fs::exists(fs::symlink_status(file, error))) return file.string();
  }
  refuse_folder(folder);
}

}  // namespace

ModelFormat model_format(const std::string& path) {
  if (is_directory(path)) return ModelFormat::hugging_face;
  std::error_code error;
  if (!fs::exists(path, error))
    fail(path, "there is no such file or folder, expected a Hugging Face folder or a .gguf file",
         near_path_hint(path, "check model.path of the job, or --model"));
  const MappedFile file(path);
  const std::string_view start = file.bytes().substr(0, 16);
  if (starts_with(start, "GGUF")) return ModelFormat::gguf;
  if (pickle_content(start) || pickle_name(fs::path(path).filename().string())) refuse_pickle(path);
  if (ends_with(path, ".safetensors") || ends_with(path, ".index.json"))
    fail(path, "expected the folder that holds this file, with config.json and the tokenizer",
         "write model.path: " + folder_of(path));
  refuse_git_lfs_file(path);
  fail(path, "is neither a Hugging Face folder nor a GGUF file", "");
}

bool has_weights(const std::string& path) {
  if (!is_directory(path)) return true;
  const std::vector<std::string> names = names_in(path);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return ends_with(name, ".safetensors") || ends_with(name, ".safetensors.index.json") || ends_with(name, ".gguf") ||
           pickle_name(name);
  });
}

std::unique_ptr<TensorFile> open_model(const std::string& path, Data data) {
  if (model_format(path) == ModelFormat::gguf) return open_gguf(path, data);
  return open_safetensors(weights_of(path), data);
}

std::vector<std::string> weight_file_names(const std::string& folder) {
  const std::string path = weights_of(folder);
  return ends_with(path, kIndex) ? shard_names(path) : std::vector<std::string>{kSingle};
}

}  // namespace forge
