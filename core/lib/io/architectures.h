#pragma once
// Describes architectures that forge does not have, as config.json and GGUF files name them.
#include <string>
#include <vector>

namespace forge {

// Returns what to say about a name that is not among `supported`:
//   " is not in this version"                        a model of the field, or another head of a supported one
//   " is not known (did you mean \"LlamaForCausalLM\"?)"
//   " is not known"
std::string architecture_refusal(const std::string& name, const std::vector<std::string>& supported);

// Returns models to use in its place: models of a like name among `supported`
// ("Qwen3NextForCausalLM": Qwen2ForCausalLM, Qwen3ForCausalLM, …), and for a multimodal one the
// file that holds its text half alone.
std::string nearest_way(const std::string& name, const std::vector<std::string>& supported);

}  // namespace forge
