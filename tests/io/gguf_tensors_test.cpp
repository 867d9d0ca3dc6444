#include "core/lib/io/gguf_tensors.h"

#include <numeric>

#include "tests/io/bytes.h"
#include "tests/test.h"

using namespace forge;

namespace {

GgufBytes model(std::string_view architecture) {
  GgufBytes file;
  std::string name(architecture);
  file.string_key("general.architecture", name).u32_key(name + ".attention.head_count", 2);
  return file;
}

std::unique_ptr<GgufFile> open(const TemporaryFolder& folder, const GgufBytes& file) {
  return open_gguf(folder.write("x.gguf", file.bytes()));
}

std::vector<float> values_of(const TensorFile& file, std::string_view name) {
  auto index = static_cast<size_t>(file.find(name));
  REQUIRE(file.find(name) >= 0);
  std::vector<float> values(static_cast<size_t>(file.tensors()[index].count()));
  file.read_f32(index, values.data());
  return values;
}

std::vector<std::string> names_of(const TensorFile& file) {
  std::vector<std::string> names;
  for (const TensorInfo& tensor : file.tensors()) names.push_back(tensor.name);
  return names;
}

}  // namespace

TEST_CASE("names are Hugging Face's, architecture by architecture") {
  TemporaryFolder folder;
  auto build = [&](std::string_view architecture, const std::vector<std::string>& names) {
    GgufBytes file = model(architecture);
    for (const std::string& name : names) file.f32(name, {4}, {0, 1, 2, 3});
    return names_of(*open(folder, file));
  };
  using Names = std::vector<std::string>;
  CHECK(build("qwen2", {"token_embd.weight", "blk.0.attn_q.bias", "blk.11.ffn_up.weight", "output.weight"}) ==
        Names{"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.bias",
              "model.layers.11.mlp.up_proj.weight", "lm_head.weight"});
  CHECK(build("qwen3", {"blk.0.attn_q_norm.weight", "blk.0.attn_k_norm.weight", "output_norm.weight"}) ==
        Names{"model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.k_norm.weight",
              "model.norm.weight"});
  CHECK(build("phi3", {"blk.0.attn_qkv.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"}) ==
        Names{"model.layers.0.self_attn.qkv_proj.weight", "model.layers.0.mlp.gate_up_proj.weight",
              "model.layers.0.mlp.down_proj.weight"});
  CHECK(build("gemma2", {"blk.3.attn_norm.weight", "blk.3.post_attention_norm.weight",
                         "blk.3.ffn_norm.weight", "blk.3.post_ffw_norm.weight"}) ==
        Names{"model.layers.3.input_layernorm.weight", "model.layers.3.post_attention_layernorm.weight",
              "model.layers.3.pre_feedforward_layernorm.weight",
              "model.layers.3.post_feedforward_layernorm.weight"});
  CHECK(build("gemma", {"blk.3.ffn_norm.weight"}) == Names{"model.layers.3.post_attention_layernorm.weight"});
}

TEST_CASE("a layer's experts come apart, and the gate of a shared one is a matrix of one row") {
  TemporaryFolder folder;
  GgufBytes file = model("qwen2moe");
  file.f32("blk.1.ffn_down_exps.weight", {2, 1, 3}, {0, 1, 2, 3, 4, 5}).f32("blk.1.ffn_gate_inp_shexp.weight", {2}, {6, 7});
  const auto opened = open(folder, file);
  const std::string layer = "model.layers.1.mlp.";
  CHECK(names_of(*opened) == std::vector<std::string>{layer + "experts.0.down_proj.weight", layer + "experts.1.down_proj.weight",
                                                      layer + "experts.2.down_proj.weight", layer + "shared_expert_gate.weight"});
  CHECK(opened->tensors()[1].shape == std::vector<int64_t>{1, 2});
  CHECK(opened->tensors()[3].shape == std::vector<int64_t>{1, 2});
  CHECK(values_of(*opened, layer + "experts.1.down_proj.weight") == std::vector<float>{2, 3});
  CHECK(values_of(*opened, layer + "experts.2.down_proj.weight") == std::vector<float>{4, 5});
  CHECK(values_of(*opened, layer + "shared_expert_gate.weight") == std::vector<float>{6, 7});
  CHECK(opened->bytes(1).size() == 8);
}

TEST_CASE("llama's q and k come back in Hugging Face's order of rows") {
  // Two heads of four rows: the converter interleaves the halves of a head, 0 1 2 3 -> 0 2 1 3.
  GgufBytes file = model("llama");
  file.u32_key("llama.attention.head_count_kv", 1);
  file.f32("blk.0.attn_q.weight", {1, 8}, {0, 2, 1, 3, 4, 6, 5, 7})
      .f32("blk.0.attn_q.bias", {8}, {0, 2, 1, 3, 4, 6, 5, 7});
  file.f32("blk.0.attn_k.weight", {2, 4}, {0, 1, 4, 5, 2, 3, 6, 7})
      .f32("blk.0.attn_v.weight", {1, 4}, {0, 1, 2, 3});
  TemporaryFolder folder;
  auto opened = open(folder, file);
  CHECK(values_of(*opened, "model.layers.0.self_attn.q_proj.weight") ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values_of(*opened, "model.layers.0.self_attn.q_proj.bias") ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values_of(*opened, "model.layers.0.self_attn.k_proj.weight") ==
        std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(values_of(*opened, "model.layers.0.self_attn.v_proj.weight") == std::vector<float>{0, 1, 2, 3});
  CHECK_FALSE(opened->bytes_are_values(0));
  CHECK(opened->bytes_are_values(3));
  for (size_t i = 0; i < 4; ++i) {  // rows as bytes, in the model's order
    CHECK(opened->stores_rows(i));
    const TensorInfo& tensor = opened->tensors()[i];
    std::vector<float> stored(static_cast<size_t>(tensor.count()));
    opened->read_stored(i, reinterpret_cast<char*>(stored.data()));
    CHECK(stored == values_of(*opened, tensor.name));
  }
}

TEST_CASE("q, k and v of one matrix come back group by group") {
  // Four query heads in two groups, one row a head: q0 q1 k0 v0, q2 q3 k1 v1 in the model; all of
  // q, of k, of v in the file.
  const std::vector<float> file_order{0, 1, 4, 5, 2, 6, 3, 7};
  TemporaryFolder folder;
  GgufBytes file;
  file.string_key("general.architecture", "falcon").u32_key("falcon.attention.head_count", 4).u32_key("falcon.attention.head_count_kv", 2);
  std::vector<float> rows;  // two of each head
  for (const float row : file_order) rows.insert(rows.end(), {2 * row, 2 * row + 1});
  file.f32("blk.0.attn_qkv.weight", {1, 16}, rows);
  auto opened = open(folder, file);
  std::vector<float> expected(16);
  std::iota(expected.begin(), expected.end(), 0.0f);
  CHECK(values_of(*opened, "transformer.h.0.self_attention.query_key_value.weight") == expected);
  CHECK_FALSE(opened->bytes_are_values(0));

  GgufBytes broken;
  broken.string_key("general.architecture", "gptneox").u32_key("gptneox.attention.head_count", 3);
  broken.f32("blk.0.attn_qkv.weight", {1, 16}, rows);
  CHECK_THROWS_WITH(open(folder, broken), Catch::Contains("does not split into 3 heads"));
}

TEST_CASE("rows without elements cost nothing, however many there are") {
  GgufBytes file = model("llama");
  file.entry("blk.0.attn_q.weight", {0, 1ull << 62}, 0, 0);
  TemporaryFolder folder;
  auto opened = open(folder, file);
  CHECK(opened->tensors()[0].shape == std::vector<int64_t>{1ll << 62, 0});
  opened->read_f32(0, nullptr);
}

TEST_CASE("qwen2's q stays as it is, gemma's norms lose the one that was added") {
  TemporaryFolder folder;
  GgufBytes qwen = model("qwen2");
  CHECK(values_of(*open(folder, qwen.f32("blk.0.attn_q.weight", {1, 8}, {0, 1, 2, 3, 4, 5, 6, 7})),
                  "model.layers.0.self_attn.q_proj.weight") == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7});
  GgufBytes gemma = model("gemma");
  auto opened = open(folder, gemma.f32("output_norm.weight", {2}, {1.5, 0.5}));
  CHECK(values_of(*opened, "model.norm.weight") == std::vector<float>{0.5, -0.5});
  CHECK_FALSE(opened->stores_rows(0));
  CHECK_FALSE(opened->bytes_are_values(0));
}

TEST_CASE("numbers of heads may differ from layer to layer") {
  GgufBytes file;
  file.string_key("general.architecture", "llama");
  file.key("llama.attention.head_count", 9, little(5u) + little<uint64_t>(2) + little(1) + little(2));
  file.f32("blk.0.attn_q.weight", {1, 4}, {0, 2, 1, 3}).f32("blk.1.attn_q.weight", {1, 4}, {0, 1, 2, 3});
  TemporaryFolder folder;
  auto opened = open(folder, file);
  CHECK(values_of(*opened, "model.layers.0.self_attn.q_proj.weight") == std::vector<float>{0, 1, 2, 3});
  CHECK(values_of(*opened, "model.layers.1.self_attn.q_proj.weight") == std::vector<float>{0, 1, 2, 3});
}

TEST_CASE("RoPE factors are not a parameter") {
  auto file = open_gguf(golden("types.gguf"));
  CHECK(file->rope_factors().always == std::vector<float>{1, 8});
  CHECK(file->find("rope_freqs.weight") == -1);
  TemporaryFolder folder;
  CHECK(open(folder, model("llama"))->rope_factors().empty());
  GgufBytes phi = model("phi3");
  phi.f32("rope_factors_long.weight", {2}, {1, 9}).f32("rope_factors_short.weight", {2}, {1, 2});
  const GgufRopeFactors factors = open(folder, phi)->rope_factors();
  CHECK(factors.up_to == std::vector<float>{1, 2});
  CHECK(factors.past == std::vector<float>{1, 9});
  CHECK(factors.always.empty());
}

TEST_CASE("what does not fit the architecture is named") {
  using Catch::Contains;
  TemporaryFolder folder;
  auto problem = [&](const GgufBytes& file) { return error_of([&] { open(folder, file); }); };
  CHECK_THAT(problem(model("lama")),
             Contains("the architecture \"lama\" is not known (did you mean \"llama\"?)"));
  CHECK_THAT(problem(GgufBytes()), Contains("the key general.architecture is missing"));
  CHECK_THAT(
      problem(model("llama").f32("blk.0.ffn_gate_shexp.weight", {1}, {0}).f32("blk.0.attn_q", {1}, {0})),
      Contains("\"blk.0.ffn_gate_shexp.weight\" is not one of architecture llama") &&
          Contains("\"blk.0.attn_q\""));
  for (const std::vector<uint64_t>& shape : {std::vector<uint64_t>{4}, {2, 2}, {1, 1, 4, 1}})
    CHECK_THAT(problem(model("llama").f32("blk.0.ffn_up_exps.weight", shape, {0, 1, 2, 3})),
               Contains("\"blk.0.ffn_up_exps.weight\"") && Contains("does not hold the matrices of 1 to 4096 experts"));
  GgufBytes many = model("llama");
  many.entry("blk.0.ffn_up_exps.weight", {0, 0, 1ull << 62}, 0, 0);
  CHECK_THAT(problem(many), Contains("does not hold the matrices of 1 to 4096 experts"));
  for (std::string name :
       {"blk..attn_q.weight", "blk.-1.attn_q.weight", "blk.00.attn_q.weight", "blk.0attn_q.weight",
        "blk.99999999999999999999.attn_q.weight", "blk.0.", ".weight", "output.weight.weight"}) {
    INFO(name);
    CHECK_THAT(problem(model("qwen2").f32(name, {1}, {0})), Contains("is not one of architecture qwen2"));
  }
  CHECK_THAT(problem(model("llama").f32("blk.0.attn_q.weight", {1, 6}, {0, 1, 2, 3, 4, 5})),
             Contains("[6, 1] does not split into 2 heads"));
  GgufBytes no_heads;
  no_heads.string_key("general.architecture", "llama").f32("blk.0.attn_k.weight", {1, 2}, {0, 1});
  CHECK_THAT(problem(no_heads), Contains("does not split into 0 heads"));
  GgufBytes odd = model("llama");
  odd.u32_key("llama.attention.head_count_kv", 0xffffffff).f32("blk.0.attn_k.weight", {1, 2}, {0, 1});
  CHECK_THAT(problem(odd), Contains("does not split into 4294967295 heads"));
}
