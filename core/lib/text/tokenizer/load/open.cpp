// Opens the tokenizer of a model folder.
#include "core/lib/base/file.h"
#include "core/lib/text/tokenizer.h"

namespace forge {
namespace {

constexpr int64_t kLargestFile = 256 << 20;

std::string read_if_there(const std::string& path) {
  return file_exists(path) ? read_file(path, kLargestFile, ErrorKind::environment) : "";
}

}  // namespace

TokenizerJson read_tokenizer_json(const std::string& model_dir) {
  const std::string json = model_dir + "/tokenizer.json";
  return {json, read_file(json, kLargestFile, ErrorKind::environment), read_if_there(model_dir + "/tokenizer_config.json"),
          read_if_there(model_dir + "/special_tokens_map.json"), read_if_there(model_dir + "/added_tokens.json"),
          read_if_there(model_dir + "/config.json")};
}

Tokenizer open_tokenizer(const std::string& model_dir) {
  if (file_exists(model_dir + "/tokenizer.json")) return load_tokenizer_json(read_tokenizer_json(model_dir));
  const std::string model = model_dir + "/tokenizer.model";
  if (file_exists(model)) return load_sentencepiece(model, read_if_there(model_dir + "/tokenizer_config.json"));
  if (file_exists(model_dir + "/tekken.json")) {
    throw Error(ErrorKind::environment,
                model_dir + "/tekken.json: forge does not read Mistral's tekken files")
        .hint("put the model's tokenizer.json into the folder");
  }
  const std::string gguf = name_with_suffix(model_dir, ".gguf");
  throw Error(ErrorKind::environment, model_dir + ": no tokenizer: neither tokenizer.json nor tokenizer.model is there")
      .hint(gguf.empty() ? "copy the tokenizer files of the model into the folder, or give a .gguf file, which holds its own"
                         : "the folder holds " + gguf + ", a model with its own tokenizer: name that file");
}

}  // namespace forge
