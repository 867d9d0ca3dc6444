#pragma once
// Presents a GGUF as a model's weights: Hugging Face names, PyTorch's order of dimensions, Hugging
// Face's order of rows.
//
//   auto file = open_gguf("SmolLM2-135M-Instruct.gguf");
//   file->tensors()[0].name == "model.embed_tokens.weight";
//   file->gguf().require_strings("tokenizer.ggml.tokens");
//
// llama.cpp's converter changes some tensors, and read_f32 changes them back: for `llama` it
// permutes the rows of q and k so that RoPE rotates neighbours (convert_hf_to_gguf.py,
// LlamaModel.permute); for gemma it adds 1 to the weights of norms; for gptneox and falcon it puts
// all rows of q before all of k and of v; for qwen3next and qwen35 it reorders and splits what a
// delta rule's layer projects, and writes −e^A_log. bytes_are_values() is false for those.
#include <memory>
#include <string>
#include <vector>

#include "core/lib/io/gguf.h"
#include "core/lib/io/gguf_names.h"
#include "core/lib/io/gguf_rows.h"
#include "core/lib/io/tensor_file.h"

namespace forge {

// Divisors of the RoPE frequencies [rotary_dim / 2], which converters write as tensors: `always`
// for rope type llama3 in place of its parameters; `up_to` and `past` the original context for
// longrope. Empty where the file has none.
struct GgufRopeFactors {
  std::vector<float> always, up_to, past;
  bool empty() const { return always.empty() && up_to.empty() && past.empty(); }
};

class GgufFile : public TensorFile {
 public:
  // Returns the metadata and the file's own tensors.
  virtual const Gguf& gguf() const = 0;
  virtual GgufRopeFactors rope_factors() const = 0;
};

// Opens a GGUF. Throws Error(job) for an architecture whose names are not known, listing those that
// are; Error(environment) for a broken file, for tensors that the architecture does not have and
// for q and k that do not fit the numbers of heads.
std::unique_ptr<GgufFile> open_gguf(const std::string& path, Data data = Data::required);

}  // namespace forge
