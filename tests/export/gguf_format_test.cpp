// Tests which type each tensor of a GGUF has.
#include "core/run/export/gguf_format.h"

#include "core/model/families/model_spec.h"
#include "tests/test.h"

namespace forge {

TEST_CASE("what llama.cpp computes in floats alone is f32 in a file of every type") {
  const ModelSpec spec =
      read_model_spec(std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama");
  const auto type_of = [&](const char* format, const char* name, std::vector<int64_t> shape) {
    return gguf_tensor_type(gguf_format(format), {name, std::move(shape), DType::f32}, spec);
  };
  for (const char* format : {"f16", "bf16", "q8_0", "q4_k_m", "q4_0"}) {
    INFO(format);
    for (const char* name : {"blk.0.ssm_conv1d.weight", "blk.0.ffn_gate_inp.weight",
                             "blk.1.ffn_gate_inp_shexp.weight", "position_embd.weight"})
      CHECK(type_of(format, name, {256, 4}) == DType::f32);
    CHECK(type_of(format, "output_norm.weight", {256}) == DType::f32);
    CHECK(type_of(format, "blk.0.ssm_out.weight", {256, 256}) != DType::f32);
  }
}

}  // namespace forge
