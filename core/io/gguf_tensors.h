#pragma once
// A GGUF as a model's weights: Hugging Face names, PyTorch's order of dimensions, Hugging Face's order of
// rows.
//
//   auto file = open_gguf("SmolLM2-135M-Instruct.gguf");
//   file->tensors()[0].name == "model.embed_tokens.weight";
//   file->gguf().require_strings("tokenizer.ggml.tokens");
//
// llama.cpp's converter changes some tensors, and read_f32 changes them back: for `llama` it permutes the
// rows of q and k so that RoPE rotates neighbours (convert_hf_to_gguf.py, LlamaModel.permute); for gemma it
// adds 1 to the weights of norms. bytes_are_values() is false for those.
#include <memory>
#include <string>
#include <vector>

#include "core/io/gguf.h"
#include "core/io/tensor_file.h"

namespace forge {

class GgufFile : public TensorFile {
 public:
  // The metadata and the file's own tensors.
  virtual const Gguf& gguf() const = 0;
  // Divisors of the RoPE frequencies [head_dim / 2], which a converter writes for rope type llama3 in place
  // of its parameters; empty when the file has none.
  virtual std::vector<float> rope_factors() const = 0;
};

// Where a file whose architecture permutes heads has row `row` of q or k: in a head of n rows, row i of the first half at 2i
// and row i of the second half at 2i + 1.
int64_t gguf_row(int64_t row, int64_t head_rows);

// Throws Error(job) for an architecture whose names are not known, listing those that are; Error(environment)
// for a broken file, for tensors that the architecture does not have and for q and k that do not fit the
// numbers of heads.
std::unique_ptr<GgufFile> open_gguf(const std::string& path, Data data = Data::required);

}  // namespace forge
