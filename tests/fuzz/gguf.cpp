// Fuzzes GGUF: metadata of every type, tensors, the model's shapes, the vocabulary.
#include "core/lib/io/gguf_tensors.h"
#include "core/model/families/gguf_spec.h"
#include "core/run/model_text.h"
#include "tests/fuzz/encode.h"
#include "tests/fuzz/target.h"

namespace {

using namespace forge;

void read_metadata(const std::string& path) {
  const Gguf gguf(path, Data::optional);
  for (const std::string& key : gguf.keys()) {
    read_or_refuse([&] { gguf.get_int(key, 0); });
    read_or_refuse([&] { gguf.get_number(key, 0); });
    read_or_refuse([&] { gguf.get_bool(key, false); });
    read_or_refuse([&] { gguf.get_string(key, ""); });
    read_or_refuse([&] { gguf.get_ints(key); });
    read_or_refuse([&] { gguf.get_numbers(key); });
    read_or_refuse([&] { gguf.get_strings(key); });
  }
}

void read_tensors(const std::string& path) {
  const auto file = open_gguf(path);
  std::vector<float> values;
  for (size_t k = 0; k < file->tensors().size(); ++k) {
    values.resize(static_cast<size_t>(file->tensors()[k].count()));
    file->read_f32(k, values.data());
  }
  file->rope_factors();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ScratchFile file(".gguf");
  const std::string& path = file.write(text_of(data, size));
  read_or_refuse([&] { read_metadata(path); });
  read_or_refuse([&] { read_tensors(path); });
  read_or_refuse([&] { model_spec_of_gguf(path); });
  read_or_refuse([&] { exercise(open_model_text(path).tokenizer); });
  return 0;
}
