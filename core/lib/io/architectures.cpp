#include "core/lib/io/architectures.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "core/lib/base/text.h"
#include "core/lib/base/typo.h"

namespace forge {
namespace {

// Text models of transformers, of llama.cpp and of model folders with code of their own: the class
// without its ending (Qwen3MoeForCausalLM), lower case, letters and digits alone.
constexpr std::string_view kElsewhere =
    " afmoe apertus aquila arcee arctic aria baichuan bailingmoe bailinghybrid bamba bart bert bigbird "
    "biogpt bitnet "
    "blenderbot bloom blt camembert canary chameleon chatglm codegen codellama codeshell cohere cohere2 "
    "cohere2moe "
    "commandr cpmant ctrl cwm dbrx deci deepseek deepseek2 deepseekv2 deepseekv3 deepseekv32 deepseekv4 "
    "diffllama doge dots1 "
    "dream electra emu3 ernie ernie45 ernie45moe exaone exaone4 exaonemoe falcon falconh1 falconmamba "
    "flexolmo fuyu "
    "gemma gemma2 gemma3 gemma3n gemma3text gemma4 gemma4text gemmaembedding glm glm4 glm4moe glm4moelite "
    "glm4v glm4vmoe "
    "glmmoedsa gpt2 gptbigcode gptj gptneo gptneox gptneoxjapanese gptoss granite granitehybrid granitemoe "
    "granitemoehybrid "
    "granitemoeshared grok grovemoe helium hunyuandense hunyuandensev1 hunyuanmoe hunyuanmoev1 hyperclovax "
    "idefics2 "
    "idefics3 internlm internlm2 internlm3 internvl jais jais2 jamba jetmoe kimi kimik25 kimilinear lfm2 "
    "lfm2moe lfm2vl "
    "lfm3 llada llama4 llava llavallama llavanext llavaonevision longcatflash mamba mamba2 mbart minicpm "
    "minicpm3 "
    "minicpmv minimax minimaxm2 ministral ministral3 mistral3 mistral4 mixtral mllama modernbert "
    "modernbertdecoder moshi "
    "mpt mt5 nanochat nemotron nemotronh nomicbert olmo olmo2 olmo3 olmoe olmohybrid openaigpt opt orion "
    "paligemma "
    "persimmon phi phi2 phi3 phi3small phi3v phi4mm phi4multimodal phimoe phimsft phixtral pixtral plamo "
    "plamo2 plm qwen "
    "qwen2moe qwen2vl qwen25vl qwen25omni qwen2audio qwen3 qwen35 qwen35moe qwen3moe qwen3next qwen3omnimoe "
    "qwen3vl "
    "qwen3vlmoe recurrentgemma refact roberta rwkv rwkv6 rwkv7 seedoss smallthinker smollm3 smolvlm solar "
    "solaropen stablelm "
    "stablelmepoch starcoder starcoder2 t5 t5gemma telechat vaultgemma voxtral whisper xglm xlmroberta xlnet "
    "xverse yi "
    "youtu zamba zamba2 ";

// Returns one text for "Qwen3MoeForCausalLM", "qwen3_moe" and "qwen3-moe".
std::string stem(std::string name) {
  for (const char* ending : {"For", "LMHead", "WithLM"})
    if (const size_t at = name.find(ending); at != std::string::npos && at > 0) name.resize(at);
  if (ends_with(name, "Model")) name.resize(name.size() - 5);
  std::string plain;
  for (char c : lower(name))
    if (std::isalnum(static_cast<unsigned char>(c))) plain += c;
  return plain;
}

// Returns "qwen" for qwen3next.
std::string line_of(const std::string& model) {
  const auto letter = [](unsigned char c) { return std::isalpha(c) != 0; };
  return {model.begin(), std::find_if_not(model.begin(), model.end(), letter)};
}

}  // namespace

std::string architecture_refusal(const std::string& name, const std::vector<std::string>& supported) {
  const std::string model = stem(name);
  if (!model.empty() && kElsewhere.find(" " + model + " ") != std::string_view::npos)
    return " is not in this version";
  if (std::string meant = likely_meant(name, supported); !meant.empty())
    return " is not known (did you mean \"" + meant + "\"?)";
  const bool other_head = std::any_of(supported.begin(), supported.end(),
                                      [&](const std::string& family) { return stem(family) == model; });
  return other_head ? " is not in this version" : " is not known";
}

std::string nearest_way(const std::string& name, const std::vector<std::string>& supported) {
  constexpr size_t kTelling = 3;  // letters: "t" of t5 says nothing
  constexpr std::string_view kAnybodys = "gpt";  // GPT-J has other makers than GPT-2
  const std::string line = line_of(stem(name));
  const auto shorter = [](const std::string& a, const std::string& b) { return a.size() < b.size(); };
  std::vector<std::string> relatives;
  for (const std::string& family : supported) {
    const std::string other = line_of(stem(family));
    if (other != line && std::min(other, line, shorter) == kAnybodys) continue;
    if (other.size() >= kTelling && (starts_with(line, other) || starts_with(other, line)) && line.size() >= kTelling)
      relatives.push_back(family);
  }
  if (relatives.empty()) return "use a model of one of these architectures";
  const std::string way = "of a similar name, forge trains " + join(relatives, ", ");
  return ends_with(name, "ForConditionalGeneration")
             ? way + "; a GGUF file of this model holds only its text half, which forge reads if it is one of these"
             : way;
}

}  // namespace forge
