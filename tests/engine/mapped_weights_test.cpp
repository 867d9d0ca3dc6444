// Tests weights that are used in place, in the file's mapping.
#include <ATen/ATen.h>

#include "core/lib/io/model_file.h"
#include "core/lib/tensor/counting_allocator.h"
#include "core/model/model.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kModel = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";
const std::string kGate = "model.layers.1.mlp.gate_proj", kUp = "model.layers.1.mlp.up_proj", kQuery = "model.layers.1.self_attn.q_proj";

Model load(const std::string& folder, c10::ScalarType type, const BaseStorage& storage) {
  return load_model(read_model_spec(folder), *open_model(folder), type, c10::Device(c10::DeviceType::CPU), storage);
}

// True if a weight is in the file's mapping: a tensor over foreign memory cannot grow.
bool in_file(const at::Tensor& weight) { return !weight.storage().resizable(); }

}  // namespace

TEST_CASE("weights in the type they are stored in are the file's own memory, which the file may go before") {
  install_counting_allocator();
  TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(kModel + "/" + name, folder.path(name));
  const int64_t before = allocator_stats().live_bytes;
  const Model copied = load(folder.path(), at::kFloat, {.written = true});
  const int64_t bytes = allocator_stats().live_bytes - before;
  {
    const Model mapped = load(folder.path(), at::kFloat, {});
    CHECK(allocator_stats().live_bytes - before == 2 * bytes);  // as the plan counts them
    std::filesystem::remove(folder.path("model.safetensors"));
    CHECK(in_file(mapped.embedding));
    CHECK(in_file(mapped.head));
    CHECK_FALSE(in_file(copied.embedding));
    CHECK_FALSE(in_file(mapped.norms.at("model.norm")));  // a few bytes
    // One product reads both, so they must be adjacent, like in the file; queries, keys and values
    // are not adjacent there.
    const at::Tensor gate = mapped.linears.at(kGate).weight, up = mapped.linears.at(kUp).weight;
    CHECK(in_file(gate));
    CHECK(up.const_data_ptr() == static_cast<const char*>(gate.const_data_ptr()) + gate.nbytes());
    CHECK_FALSE(in_file(mapped.linears.at(kQuery).weight));
    CHECK(at::equal(mapped.embedding, copied.embedding));
    CHECK(at::equal(mapped.head, copied.head));
    for (const auto& [name, linear] : copied.linears) CHECK(at::equal(mapped.linears.at(name).weight, linear.weight));
    at::Tensor(copied.linears.at(kGate).weight).add_(1);
    CHECK_FALSE(at::equal(gate, copied.linears.at(kGate).weight));
  }
  CHECK(allocator_stats().live_bytes - before == bytes);
}

TEST_CASE("weights in another type than the file's are copies") {
  const Model model = load(kModel, at::kBFloat16, {});
  CHECK_FALSE(in_file(model.embedding));
  CHECK_FALSE(in_file(model.linears.at(kGate).weight));
}
