#include "core/run/export/gguf_format.h"

#include <algorithm>
#include <charconv>

#include "core/lib/base/error.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr GgufFormat kFormats[] = {
    {"f32", DType::f32, 0},            {"f16", DType::f16, 1},    {"bf16", DType::bf16, 32},
    {"q8_0", DType::q8_0, 7},          {"q6_k", DType::q6_k, 18}, {"q5_k_m", DType::q5_k, 17, true},
    {"q4_k_m", DType::q4_k, 15, true}, {"q4_0", DType::q4_0, 2},
};

bool fits(DType dtype, int64_t columns) { return columns % block_elements(dtype) == 0; }

// True for the first and last eighth of the layers, and every third between (use_more_bits).
bool is_sensitive(int64_t layer, int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

int64_t layer_of(const std::string& name) {
  if (!starts_with(name, "blk.")) return -1;
  int64_t layer = -1;
  std::from_chars(name.data() + 4, name.data() + name.size(), layer);
  return layer;
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

DType wanted(const GgufFormat& format, const std::string& name, const ModelSpec& spec) {
  const bool head = name == "output.weight" || (spec.tie_word_embeddings && name == "token_embd.weight");
  if (head) return format.dtype == DType::q8_0 ? DType::q8_0 : DType::q6_k;
  if (!format.mixed) return format.dtype;
  if (has(name, "attn_qkv")) return format.dtype == DType::q4_k ? DType::q5_k : DType::q6_k;
  if (has(name, "attn_v.") || has(name, "ffn_down"))
    return is_sensitive(layer_of(name), spec.num_layers) ? DType::q6_k : format.dtype;
  return format.dtype;
}

// Returns the type with blocks of 32 that has as many bits as this one with blocks of 256.
DType smaller_blocks(DType dtype) {
  if (dtype == DType::q4_k) return DType::q5_0;
  if (dtype == DType::q5_k) return DType::q5_1;
  return dtype == DType::q6_k ? DType::q8_0 : dtype;
}

}  // namespace

const GgufFormat& gguf_format(std::string_view name) {
  std::vector<std::string> names;
  for (const GgufFormat& format : kFormats) {
    if (lower(name) == format.name) return format;
    names.emplace_back(format.name);
  }
  throw Error(ErrorKind::usage, "--type " + std::string(name) + ": expected " + join(names, ", "));
}

DType gguf_tensor_type(const GgufFormat& format, const TensorInfo& tensor, const ModelSpec& spec) {
  // Routers are small but too important to be quantised; llama.cpp adds positions and multiplies
  // filters as floats.
  constexpr const char* kFloats[] = {"_norm.", "ffn_gate_inp", "position_embd", "ssm_conv1d"};
  if (tensor.shape.size() < 2 || std::ranges::any_of(kFloats, [&](const char* part) { return has(tensor.name, part); }))
    return DType::f32;
  if (!is_quantized(format.dtype)) return format.dtype;
  const int64_t columns = tensor.shape.back();
  DType dtype = wanted(format, tensor.name, spec);
  if (!fits(dtype, columns)) dtype = smaller_blocks(dtype);
  return fits(dtype, columns) ? dtype : DType::f16;
}

}  // namespace forge
