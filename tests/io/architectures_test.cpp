// A model that forge does not support is reported as such, and a name is corrected only if it is
// misspelt.
#include "core/lib/io/architectures.h"

#include "tests/test.h"

using namespace forge;

TEST_CASE("a model of the field is not taken for a misspelt one") {
  const std::vector<std::string> classes{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM"};
  for (const char* name :
       {"MambaForCausalLM", "MllamaForConditionalGeneration", "Qwen3ForCausalLM", "Qwen2MoeForCausalLM",
        "MixtralForCausalLM", "Gemma3ForConditionalGeneration", "GPT2LMHeadModel", "Llama4ForCausalLM",
        "DeepseekV3ForCausalLM", "GptOssForCausalLM", "Ernie4_5_MoeForCausalLM", "ChatGLMModel",
        "Ministral3ForCausalLM", "LlamaForSequenceClassification", "MistralForTokenClassification"}) {
    INFO(name);
    CHECK(architecture_refusal(name, classes) == " is not in this version");
  }
  for (const char* name :
       {"qwen3", "llama4", "gemma2", "gpt-oss", "command-r", "phi3", "qwen2moe", "falcon-h1"}) {
    INFO(name);
    CHECK(architecture_refusal(name, {"llama", "qwen2"}) == " is not in this version");
  }
}

TEST_CASE("a model that is refused has a nearest way") {
  const std::vector<std::string> classes{"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM",
                                         "T5ForConditionalGeneration", "GPT2LMHeadModel", "GPTNeoXForCausalLM"};
  CHECK(nearest_way("Qwen3NextForCausalLM", classes) ==
        "of a similar name, forge trains Qwen2ForCausalLM, Qwen3ForCausalLM");
  CHECK(nearest_way("Gemma3nForConditionalGeneration", classes) ==
        "of a similar name, forge trains Gemma3ForCausalLM; a GGUF file of this model holds only its text half, "
        "which forge reads if it is one of these");
  CHECK(nearest_way("GPTNeoForCausalLM", classes) == "of a similar name, forge trains GPTNeoXForCausalLM");
  // Anybody names a model GPT.
  for (const char* name : {"MambaForCausalLM", "MT5ForConditionalGeneration", "XForCausalLM", "GPTJForCausalLM", "GPTBigCodeForCausalLM", ""})
    CHECK(nearest_way(name, classes) == "use a model of one of these architectures");
}

TEST_CASE("a misspelt architecture is corrected, a strange one is not") {
  const std::vector<std::string> classes{"LlamaForCausalLM", "Qwen2ForCausalLM"};
  CHECK(architecture_refusal("LlamaForCasualLM", classes) ==
        " is not known (did you mean \"LlamaForCausalLM\"?)");
  CHECK(architecture_refusal("LLaMAForCausalLM", classes) ==
        " is not known (did you mean \"LlamaForCausalLM\"?)");
  CHECK(architecture_refusal("lama", {"llama", "qwen2"}) == " is not known (did you mean \"llama\"?)");
  // A different number is a different model, and a short edit distance alone is not similarity.
  for (const char* name : {"Qwen9ForCausalLM", "LunarForCausalLM", "SomethingElse"}) {
    INFO(name);
    CHECK(architecture_refusal(name, classes) == " is not known");
  }
}
