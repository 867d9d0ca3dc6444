#pragma once
// A merged model as a Hugging Face folder: safetensors in shards with their index, config.json,
// generation_config.json.
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/model/families/wrapper.h"
#include "core/run/export/merged_model.h"

namespace forge {

struct WriteOptions {
  DType dtype = DType::bf16;                        // f32, f16 or bf16
  // The bytes of a shard at most; a single tensor may be larger.
  int64_t shard_bytes = int64_t{5} * 1000 * 1000 * 1000;
};

// Called before each tensor with the share of all bytes that is written.
using Written = std::function<void(double share)>;

// Encodes values of a tensor in its type. `prefix` begins the names of float types in messages.
// Throws Error(environment) for values past the range of f16.
void encode_values(const TensorInfo& tensor, std::span<const float> values,
                   std::vector<char>& bytes, const std::string& prefix);

int64_t bytes_of_model(const MergedModel& model, DType dtype);

// Writes the weights into `folder`, which exists and is empty, with the names of the base's own
// file. `kept` holds the other tensors of that file, which are written unchanged. Throws
// Error(environment) for values past the range of the type.
void write_weights(const MergedModel& model, const KeptTensors& kept, const WriteOptions& options, const std::string& folder,
                   const Written& written);

}  // namespace forge
