#pragma once
// A merged model as one GGUF file, and an adapter as a LoRA GGUF for its base's.
#include <optional>
#include <string>

#include "core/run/export/gguf_format.h"
#include "core/run/export/merged_model.h"
#include "core/run/export/write_model.h"

namespace forge {

struct GgufSource {
  std::string model_path;     // the base: a Hugging Face folder or a GGUF, whose keys are kept
  std::string text_path;      // where the tokenizer is
  std::string name;           // general.name
  std::string chat_template;  // empty: none
  std::string tool_template;  // for conversations with tools; empty: none
  std::optional<int32_t> end_of_turn = {};  // the token that ends an answer in the template
};

// Throws the errors of write_gguf_model() that can be told from sizes, names and the vocabulary
// before there is a result: an architecture that llama.cpp does not have, settings that its keys
// and tensors do not hold, a tokenizer that would give other ids. `model_path` is the base,
// `text_path` has the result's tokenizer; the headers of the file are written to the folder
// `scratch` and read back.
void require_gguf(const ModelSpec& spec, const std::string& model_path, const std::string& text_path, const std::string& scratch);

// Returns the bytes of the tensors.
int64_t bytes_of_gguf(const MergedModel& model, const GgufFormat& format);

// Writes `path` durably. Throws Error(job) for a model that a GGUF cannot represent,
// Error(environment) for such a tokenizer, for values past the range of the type, and for errors of
// writing.
void write_gguf_model(const MergedModel& model, const GgufSource& source, const GgufFormat& format, const std::string& path,
                      const Written& written);

// Writes the tensors of an adapter like llama.cpp's convert_lora_to_gguf.py: low-rank factors in
// `dtype` (f32 or f16), with its names and order of rows. The file has one alpha for all, so
// factors B include the scales of rslora and patterns. Throws Error(environment) for DoRA and
// modules_to_save, which llama.cpp has no place for.
void write_gguf_lora(const AdapterFile& adapter, const ModelSpec& spec, DType dtype, const std::string& name,
                     const std::string& path);

// Converts a LoRA GGUF to a PEFT adapter by the rules of a reader of the format, to compare it with
// the adapter that it was made from.
// Writes adapter_config.json and adapter_model.safetensors into `folder`, which exists. Factors are
// those that llama.cpp uses: A [rank, in], B [out, rank] with Hugging Face's order of rows and the
// scale alpha / rank multiplied in. Throws Error(environment) for a file that holds no such factors
// of the model.
void write_adapter_of_gguf(const std::string& path, const ModelSpec& spec, const std::string& folder);

}  // namespace forge
