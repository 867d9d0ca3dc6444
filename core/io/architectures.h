#pragma once
// Architectures that forge does not have, as config.json and GGUF files name them.
#include <string>
#include <vector>

namespace forge {

// What to say about a name that is not among `supported`:
//   " is not in this version"                        a model of the field, or another head of a supported one
//   " is not known (did you mean \"LlamaForCausalLM\"?)"
//   " is not known"
std::string architecture_refusal(const std::string& name, const std::vector<std::string>& supported);

}  // namespace forge
