// Fuzzes tokenizer.json: it is read, then used.
#include "tests/fuzz/encode.h"
#include "tests/fuzz/target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace forge;
  TokenizerJson source;
  source.tokenizer = text_of(data, size);
  read_or_refuse([&] { exercise(load_tokenizer_json(source)); });
  return 0;
}
