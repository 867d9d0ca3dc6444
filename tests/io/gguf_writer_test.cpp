// Checks that written files are read back, by the reader, which follows the format's own rules.
#include "core/lib/io/gguf_names.h"
#include "core/lib/io/gguf_tensors.h"
#include "core/lib/io/gguf_writer.h"
#include "tests/test.h"

using namespace forge;

namespace {

std::string bytes_for(const TensorInfo& tensor) {
  return std::string(static_cast<size_t>(bytes_of(tensor.dtype, tensor.count())), static_cast<char>('a' + tensor.name.size()));
}

}  // namespace

TEST_CASE("metadata and tensors read back as they were written") {
  TemporaryFolder folder;
  GgufMetadata metadata;
  metadata.text("general.architecture", "old");
  metadata.integer("llama.block_count", 3);
  metadata.number("llama.rope.freq_base", 1e6);
  metadata.flag("tokenizer.ggml.add_bos_token", true);
  metadata.texts("tokenizer.ggml.tokens", {"", "a", "Ünï"});
  metadata.integers("tokenizer.ggml.token_type", {3, 1, -1});
  metadata.numbers("tokenizer.ggml.scores", {0.5f, -1});
  metadata.text("general.architecture", "llama");  // in its old place
  metadata.text("gone", "x");
  metadata.remove("gone");
  const std::vector<TensorInfo> tensors{{"v", {7}, DType::f32}, {"m", {3, 5}, DType::bf16}, {"blocks", {2, 64}, DType::q8_0},
                                        {"k", {1, 256}, DType::q4_k}};
  const std::string path = folder.path("m.gguf");
  write_gguf(path, metadata, tensors, [&](const TensorInfo& tensor, const PieceSink& sink) {
    const std::string bytes = bytes_for(tensor);
    sink(std::string_view(bytes).substr(0, 3));
    sink(std::string_view(bytes).substr(3));
  });
  const Gguf gguf(path);
  CHECK(gguf.keys().front() == "general.architecture");
  CHECK(gguf.keys().size() == 7);
  CHECK(gguf.architecture() == "llama");
  CHECK(gguf.get_int("llama.block_count", 0) == 3);
  CHECK(gguf.get_number("llama.rope.freq_base", 0) == 1e6);
  CHECK(gguf.get_bool("tokenizer.ggml.add_bos_token", false));
  CHECK(gguf.get_strings("tokenizer.ggml.tokens") == std::vector<std::string>{"", "a", "Ünï"});
  CHECK(gguf.get_ints("tokenizer.ggml.token_type") == std::vector<int64_t>{3, 1, -1});
  CHECK(gguf.get_numbers("tokenizer.ggml.scores") == std::vector<double>{0.5, -1});
  REQUIRE(gguf.tensors().size() == tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(gguf.tensors()[i].name == tensors[i].name);
    CHECK(gguf.tensors()[i].shape == tensors[i].shape);
    CHECK(gguf.tensors()[i].dtype == tensors[i].dtype);
    CHECK(gguf.tensors()[i].begin % 32 == 0);
    CHECK(gguf.bytes(gguf.tensors()[i]) == bytes_for(tensors[i]));
  }
}

TEST_CASE("copied keys have the bytes of the file that they came from") {
  TemporaryFolder folder;
  GgufMetadata metadata;
  metadata.text("general.name", "x");
  metadata.texts("list", {"one", "two"});
  metadata.integers("numbers", {1, 2, 3});
  write_gguf(folder.path("a.gguf"), metadata, {}, {});
  const Gguf gguf(folder.path("a.gguf"));
  GgufMetadata copy;
  for (const std::string& key : gguf.keys()) copy.copy(key, *gguf.find(key));
  CHECK(copy.encoded() == metadata.encoded());
}

TEST_CASE("a write that fails leaves the old file") {
  TemporaryFolder folder;
  const std::string path = folder.path("m.gguf");
  write_gguf(path, {}, {}, {});
  CHECK_THROWS(write_gguf(path, {}, {{"t", {4}, DType::f32}}, [](const TensorInfo&, const PieceSink& sink) {
    sink("abc");
    throw Error(ErrorKind::environment, "stopped");
  }));
  CHECK_THROWS(write_gguf(path, {}, {{"t", {4}, DType::f32}}, [](const TensorInfo&, const PieceSink& sink) { sink("abc"); }));
  CHECK(Gguf(path).tensors().empty());
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("every name of an architecture has its way back") {
  for (const std::string& name : gguf_architectures()) {
    const GgufArchitecture& architecture = *gguf_architecture(name);
    INFO(name);
    if (name == "gptneox" || name == "falcon" || name == "gpt2" || name == "phi2" || name == "bloom" || name == "mpt") continue;  // below
    for (const char* tensor : {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight",
                               "model.layers.0.self_attn.o_proj.weight", "model.layers.3.post_attention_layernorm.weight"}) {
      const std::string gguf = gguf_name(architecture, tensor);
      INFO(tensor << " → " << gguf);
      CHECK(hugging_face_name(architecture, gguf).name == tensor);
    }
    CHECK(gguf_name(architecture, "model.layers.0.self_attn.nothing.weight").empty());
    CHECK(gguf_name(architecture, "nothing").empty());
  }
  const auto back = [](const char* architecture, const char* tensor, const char* gguf) {
    CHECK(gguf_name(*gguf_architecture(architecture), tensor) == gguf);
    CHECK(hugging_face_name(*gguf_architecture(architecture), gguf).name == tensor);
  };
  back("gptneox", "lm_head.weight", "output.weight");
  back("gptneox", "gpt_neox.layers.12.attention.query_key_value.bias", "blk.12.attn_qkv.bias");
  back("gptneox", "gpt_neox.layers.0.post_attention_layernorm.weight", "blk.0.ffn_norm.weight");
  back("gpt2", "transformer.wpe.weight", "position_embd.weight");
  back("gpt2", "transformer.h.7.attn.c_attn.bias", "blk.7.attn_qkv.bias");
  back("gpt2", "transformer.h.0.ln_2.weight", "blk.0.ffn_norm.weight");
  back("chatglm", "model.layers.1.mlp.gate_up_proj.weight", "blk.1.ffn_up.weight");
  back("falcon", "transformer.word_embeddings.weight", "token_embd.weight");
  back("bloom", "transformer.word_embeddings_layernorm.bias", "token_embd_norm.bias");
  back("bloom", "transformer.h.3.self_attention.query_key_value.weight", "blk.3.attn_qkv.weight");
  back("mpt", "transformer.blocks.3.attn.Wqkv.weight", "blk.3.attn_qkv.weight");
  back("mpt", "transformer.norm_f.weight", "output_norm.weight");
  back("nemotron", "model.norm.bias", "output_norm.bias");
  back("phi2", "lm_head.bias", "output.bias");
  back("phi2", "model.final_layernorm.bias", "output_norm.bias");
  back("phi2", "model.layers.2.self_attn.dense.weight", "blk.2.attn_output.weight");
  back("phi2", "model.layers.2.mlp.fc1.bias", "blk.2.ffn_up.bias");
  back("seed_oss", "model.layers.1.post_attention_layernorm.weight", "blk.1.post_attention_norm.weight");
  back("hunyuan-dense", "model.layers.1.self_attn.query_layernorm.weight", "blk.1.attn_q_norm.weight");
  back("qwen3next", "model.layers.0.linear_attn.in_proj_qkvz.weight", "blk.0.attn_qkv.weight");
  back("qwen3next", "model.layers.2.linear_attn.A_log", "blk.2.ssm_a");
  back("qwen35", "model.layers.1.linear_attn.dt_bias", "blk.1.ssm_dt.bias");
  back("qwen35", "model.layers.1.linear_attn.conv1d.weight", "blk.1.ssm_conv1d.weight");
  back("qwen35moe", "model.layers.1.linear_attn.in_proj_z.weight", "blk.1.attn_gate.weight");
  back("qwen35moe", "model.layers.12.mlp.shared_expert_gate.weight", "blk.12.ffn_gate_inp_shexp.weight");
  back("falcon", "transformer.h.3.mlp.dense_4h_to_h.weight", "blk.3.ffn_down.weight");
  CHECK(gguf_name(*gguf_architecture("falcon"), "transformer.h.3.post_attention_layernorm.weight").empty());
  CHECK(gguf_name(*gguf_architecture("llama"), "model.layers.2.self_attn.q_proj.bias") == "blk.2.attn_q.bias");
  const GgufArchitecture &llama = *gguf_architecture("llama"), &experts = *gguf_architecture("qwen3moe");
  CHECK(gguf_name(llama, "model.layers.2.block_sparse_moe.experts.11.w3.weight") == "blk.2.ffn_up_exps.weight");
  CHECK(gguf_name(llama, "model.layers.2.block_sparse_moe.gate.weight") == "blk.2.ffn_gate_inp.weight");
  CHECK(gguf_name(experts, "model.layers.2.mlp.experts.0.gate_proj.weight") == "blk.2.ffn_gate_exps.weight");
  for (const char* none : {"model.layers.2.mlp.experts.01.gate_proj.weight", "model.layers.2.mlp.experts.x.gate_proj.weight",
                           "model.layers.2.mlp.experts.gate_proj.weight"})
    CHECK(gguf_name(experts, none).empty());
  CHECK(expert_number("model.layers.2.mlp.experts.17.gate_proj.weight") == 17);
  CHECK(expert_number("model.layers.2.mlp.gate_proj.weight") == -1);
  CHECK(gguf_name(*gguf_architecture("phi3"), "model.layers.2.mlp.gate_up_proj.weight") == "blk.2.ffn_up.weight");
  CHECK(gguf_name(*gguf_architecture("gemma2"), "model.layers.2.pre_feedforward_layernorm.weight") == "blk.2.ffn_norm.weight");
}
