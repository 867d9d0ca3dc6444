// Fuzzes safetensors: the header, and the tensors after it.
#include "core/lib/io/safetensors.h"
#include "tests/fuzz/target.h"

namespace {

using namespace forge;

void read_tensors(const std::string& path) {
  const auto file = open_safetensors(path);
  std::vector<float> values;
  for (size_t k = 0; k < file->tensors().size(); ++k) {
    values.resize(static_cast<size_t>(file->tensors()[k].count()));
    file->read_f32(k, values.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static ScratchFile file(".safetensors");
  read_or_refuse([&] { parse_safetensors_header(text_of(data, size), "model.safetensors"); });
  const std::string& path = file.write(text_of(data, size));
  read_or_refuse([&] { read_tensors(path); });
  read_or_refuse([&] { open_safetensors(path, Data::optional); });
  return 0;
}
