// Tests which type each tensor of a GGUF has, and the time of asking whether a model has a GGUF.
#include "core/run/export/gguf_format.h"

#include <algorithm>
#include <ctime>

#include "core/lib/base/file.h"
#include "core/lib/io/python_json.h"
#include "core/model/families/config_spec.h"
#include "core/run/export/gguf_model.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string tiny = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

// Returns a published model with the tiny model's vocabulary.
ModelSpec published(const std::string& name) {
  const std::string path =
      std::string(FORGE_SOURCE_DIR) + "/tests/plan/published/" + name + ".json";
  ModelSpec spec = model_spec_from_config(
      parse_python_json(read_file(path, 1 << 22, ErrorKind::internal), path), path);
  spec.vocab_size = 384, spec.bos_token_id = 1, spec.eos_token_ids = {2}, spec.pad_token_id = 2;
  return spec;
}

// Returns the processor's seconds for require_gguf(), the least of three.
double seconds_of(const ModelSpec& spec) {
  double least = 1e9;
  for (int i = 0; i < 3; ++i) {
    TemporaryFolder folder;
    const std::clock_t begin = std::clock();
    require_gguf(spec, tiny, tiny, folder.path());
    least = std::min(least, static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
  }
  return least;
}

}  // namespace

TEST_CASE("whether a model has a GGUF is told without listing the names of all experts") {
  ModelSpec many = published("Qwen3-235B-A22B-FP8"), few = many;
  many.num_experts = 512, few.num_experts = 8;
  const double seconds = seconds_of(many), of_few = seconds_of(few);
  INFO(seconds << " s, with 8 experts " << of_few << " s");
  // Only the headers that are read back have them: 13 times as long, and 70 with all names.
  CHECK(seconds < 25 * of_few);
}

TEST_CASE("a class with towers has a GGUF of its text where llama.cpp has none of the whole") {
  TemporaryFolder folder;
  for (const char* name : {"PaddleOCR-VL", "GLM-4.6V-Flash", "Qwen2.5-VL-7B-Instruct"}) {
    INFO(name);
    CHECK(error_of([&] { require_gguf(published(name), tiny, tiny, folder.path()); }) == "no error");
  }
}

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
