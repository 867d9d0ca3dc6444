// Fuzzes tokenizer.json: it is read, by itself or under a class of transformers, then used.
#include "tests/fuzz/encode.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forge;
  TokenizerJson source;
  source.tokenizer = text_of(data, size);
  constexpr const char* kConfigs[] = {"", R"({"tokenizer_class": "LlamaTokenizer"})", R"({"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true})",
                                      R"({"tokenizer_class": "Qwen2Tokenizer"})", R"({"tokenizer_class": "GemmaTokenizer"})"};
  source.config = kConfigs[size % std::size(kConfigs)];
  read_or_refuse([&] { exercise(load_tokenizer_json(source)); });
  return 0;
}
