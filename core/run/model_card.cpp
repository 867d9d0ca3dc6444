#include "core/run/model_card.h"

#include <algorithm>
#include <filesystem>

#include "core/job/names.h"
#include "core/job/secrets.h"
#include "core/lib/base/file.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_sites.h"
#include "core/run/export_files.h"

namespace forge {
namespace {

std::string code(const char* language, const std::string& text) {
  return std::string("```") + language + "\n" + text + "```\n";
}

std::string head(const std::string& model_name, const char* library, const std::vector<std::string>& tags) {
  std::string text = "---\nbase_model: " + dump_json(model_name) + "\nlibrary_name: " + library + "\ntags:\n";
  for (const std::string& tag : tags) text += "- " + tag + "\n";
  return text + "---\n\n";
}

bool is_gguf(const std::string& model_name) { return ends_with(lower(model_name), ".gguf"); }

bool has_template(const std::string& folder) {
  if (file_exists(folder + "/chat_template.jinja")) return true;
  const std::string path = folder + "/tokenizer_config.json";
  return file_exists(path) &&
         read_file(path, 64 << 20, ErrorKind::environment).find("\"chat_template\"") != std::string::npos;
}

// Returns the line that enlarges the base's vocabulary for added tokens. PEFT writes an adapter's
// rows only into a vocabulary that already has them.
std::string room_for_tokens(const ModelSpec& spec) {
  if (spec.vocab_size <= spec.base_vocab_size || spec.base_vocab_size == 0) return "";
  return "base.resize_token_embeddings(" + std::to_string(spec.vocab_size) + ")  # the adapter has the new tokens' rows\n";
}

// Returns the Python snippet that loads `model` and answers with it. transformers reads a GGUF by
// the folder and the name of the file, which no adapter_config.json can state.
std::string python(bool adapter, const ModelSpec& spec, const std::string& model_name, const std::string& folder) {
  const bool scores = spec.score_head;
  const std::string task = scores ? "SequenceClassification" : spec.reads_source() ? "Seq2SeqLM" : "CausalLM", labels = scores ? ", num_labels=1" : "";
  const std::filesystem::path path(model_name);
  std::string text;
  if (!adapter) {
    text = "from transformers import AutoModelFor" + task + ", AutoTokenizer\n\n"
           "model = AutoModelFor" + task + ".from_pretrained(\".\")\n";
  } else if (is_gguf(model_name) || spec.base_vocab_size > 0) {
    const std::string base = is_gguf(model_name)
                                 ? dump_json(path.parent_path().string()) +
                                       ", gguf_file=" + dump_json(path.filename().string())
                                 : dump_json(model_name);
    text = "from peft import PeftModel\nfrom transformers import AutoModelFor" + task + ", AutoTokenizer\n\n"
           "base = AutoModelFor" + task + ".from_pretrained(" + base + labels + ")\n" + room_for_tokens(spec) +
           "model = PeftModel.from_pretrained(base, \".\")\n";
  } else {
    text = "from peft import AutoPeftModelFor" + task + "\nfrom transformers import AutoTokenizer\n\n"
           "model = AutoPeftModelFor" + task + ".from_pretrained(\".\"" + labels + ")\n";
  }
  if (scores && adapter)
    text += "# The score is read at the last token that is not padding, so padding must not be a token that ends a text.\n"
            "model.config.pad_token_id = " + std::to_string(padding_of_scores(spec)) + "\n";
  // A vocabulary that exists only in a GGUF has no files here.
  if (!file_exists(folder + "/tokenizer_config.json")) return text;
  text += "tokenizer = AutoTokenizer.from_pretrained(\".\")\n";
  if (scores) return text;
  if (has_template(folder))
    text += "messages = [{\"role\": \"user\", \"content\": \"Hello\"}]\n"
            "prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors=\"pt\", "
            "return_dict=True)\n";
  else
    text += "prompt = tokenizer(\"Hello\", return_tensors=\"pt\")\n";
  const std::string behind = spec.reads_source() ? "[0]" : "[0, prompt[\"input_ids\"].shape[1]:]";
  return text + "answer = model.generate(**prompt, max_new_tokens=64)" + behind + "\n"
                "print(tokenizer.decode(answer, skip_special_tokens=True))\n";
}

std::string transformers_section(bool adapter, const ModelSpec& spec, const std::string& model_name, const std::string& folder) {
  const std::string packages = std::string("transformers") + (adapter ? " peft" : "") +
                               (adapter && is_gguf(model_name) ? " gguf" : "");
  return "\n## transformers" + std::string(adapter ? " and PEFT" : "") + "\n\nIn this folder, with `pip install torch " +
         packages + "`:\n\n" + code("python", python(adapter, spec, model_name, folder));
}

// Returns the smallest adapter rank that vLLM has a memory layout for and that is at least `rank`;
// 0 if there is none.
int64_t vllm_rank(int64_t rank) {
  for (const int64_t known : {8, 16, 32, 64, 128, 256, 320, 512})
    if (rank <= known) return known;
  return 0;
}

int64_t largest_rank(const AdapterConfig& adapter) {
  int64_t rank = adapter.rank;
  for (const auto& [name, of_module] : adapter.rank_pattern) rank = std::max(rank, of_module);
  return changes_base(adapter) ? 2 * rank : rank;  // these adapters are saved with twice their rank
}

// Returns why vLLM cannot serve the adapter on top of its base; empty if it can.
std::string vllm_refusal(const AdapterConfig& adapter, bool adapts_vocabulary, const std::string& model_name) {
  if (is_gguf(model_name)) return "vLLM loads no adapters for a GGUF";
  if (adapter.use_dora) return "vLLM does not read DoRA adapters";
  if (!adapter.trainable_token_indices.empty()) return "vLLM does not read rows of single tokens (trainable_token_indices)";
  if (adapter.bias != LoraBias::none) return "vLLM does not read trained biases";
  if (!adapter.rank_pattern.empty() || !adapter.alpha_pattern.empty())
    return "vLLM does not read rank_pattern and alpha_pattern, and would scale by lora_alpha and r alone";
  if (adapts_vocabulary) return "vLLM does not read adapters of the embedding and the head";
  if (!adapter.modules_to_save.empty()) return "vLLM does not read modules that are kept whole (modules_to_save)";
  if (vllm_rank(largest_rank(adapter)) == 0) return "vLLM serves adapters up to rank 512";
  return "";
}

// Returns the option that names the base to merge with, for an adapter trained on a quantised base.
std::string base_option(const Job& job) {
  return job.model.quantization == Quantization::none || job.adapter.type == AdapterType::none ? "" : " --base original";
}

std::string vllm_section(const AdapterConfig* adapter, bool adapts_vocabulary, const std::string& model_name, const std::string& base) {
  const std::string merge = "forge merge ." + base + " --output merged";
  const std::string title = "\n## vLLM\n\n";
  if (!adapter) return title + code("sh", "vllm serve .\n");
  const std::string refusal = vllm_refusal(*adapter, adapts_vocabulary, model_name);
  if (!refusal.empty()) return title + refusal + ", so merge it first:\n\n" + code("sh", merge + "\nvllm serve merged\n");
  return title + code("sh", "vllm serve " + dump_json(model_name) + " --enable-lora --max-lora-rank " +
                                std::to_string(vllm_rank(largest_rank(*adapter))) + " --lora-modules adapter=.\n") +
         "\nor merged, with `" + merge + "` and `vllm serve merged`.\n";
}

// Returns the remedy for a crash of llama.cpp, which repacks weights into buffers for AMX.
std::string amx_note(const std::string& remedy) {
  return "\nWhere it crashes on a processor with AMX (Intel Xeon from 2023 on: `grep -m1 -o amx_tile /proc/cpuinfo`), add " + remedy + ".\n";
}

std::string gguf_sections(const std::string& source) {
  return "\n## llama.cpp\n\n" +
         code("sh", "forge export " + source + " --gguf --type q8_0 --output gguf\nllama-cli -m gguf/model-q8_0.gguf\n") +
         amx_note("`--no-repack` to `llama-cli`") + "\n## Ollama\n\n" +
         code("sh", "forge export " + source + " --ollama --type q8_0 --output ollama\nollama create model -f ollama/Modelfile\n");
}

// Returns the sections on servers, for models that generate text.
std::string serving_sections(const Job& job, const ModelSpec& spec, const std::string& model_name) {
  const bool full = job.adapter.type == AdapterType::none;
  return vllm_section(full ? nullptr : &job.adapter, !vocabulary_sites(spec, job.adapter).empty(), model_name, base_option(job)) +
         gguf_sections(full ? "--model ." : "." + base_option(job));
}

std::string description(const Plan& plan) {
  const Job& job = plan.job;
  const bool full = job.adapter.type == AdapterType::none;
  std::string text = std::string(full ? "Fully fine-tuned" : "A LoRA adapter") + " by forge: objective " +
                     name_of(job.objective.type()) + ", " + format_count(plan.train.examples) + " examples, " +
                     format_count(plan.steps) + " steps, learning rate " + format_number(job.optimizer.learning_rate) + " (" +
                     name_of(job.schedule.type) + ")";
  if (!full) text += ", rank " + std::to_string(job.adapter.rank) + ", alpha " + format_number(job.adapter.alpha);
  text += ".\n";
  if (job.model.quantization != Quantization::none)
    text += "\nThe base was held in " + name_of(job.model.quantization) +
            " while the adapter was trained. Merging asks which base to take, `--base original` or `--base quantized`, and "
            "shows the difference.\n";
  return text;
}

}  // namespace

void write_model_card(const Plan& plan, const std::string& model, const std::string& folder) {
  const std::string model_name = redacted(model);
  const bool full = plan.job.adapter.type == AdapterType::none;
  const std::string text = head(model_name, full ? "transformers" : "peft",
                                full ? std::vector<std::string>{"forge"} : std::vector<std::string>{"forge", "lora"}) +
                           "# " + printable(plan.job.name) + "\n\n" + description(plan) +
                           transformers_section(!full, plan.model, model_name, folder) +
                           (plan.model.score_head || plan.model.reads_source() ? "" : serving_sections(plan.job, plan.model, model_name));
  write_file_durably(folder + "/README.md", text);
}

std::string merged_card(const ModelSpec& spec, const std::string& model_name, const std::string& note, const std::string& dtype,
                        const std::string& folder) {
  return head(model_name, "transformers", {"forge"}) + "# Merged model\n\n" + printable(model_name) +
         " with its adapters merged into the weights, in " + dtype + "." + (note.empty() ? "" : " The base: " + note + ".") + "\n" +
         transformers_section(false, spec, model_name, folder) +
         (spec.reads_source() ? "" : vllm_section(nullptr, false, model_name, "") + gguf_sections("--model ."));
}

std::string gguf_card(const std::string& model_name, const std::string& file, const std::string& type, bool adapter,
                      const std::string& note) {
  std::string text = head(model_name, "gguf", {"forge", "gguf"}) + "# " + file + "\n\n" +
                     (adapter ? "A low-rank adapter for a GGUF of " : "A GGUF of ") + printable(model_name) + ", in " + type + "." +
                     (note.empty() ? "" : " The base: " + note + ".") + "\n\n## llama.cpp\n\n";
  if (adapter)
    return text + "BASE.gguf is the base model's GGUF, in any type:\n\n" +
           code("sh", "llama-cli -m BASE.gguf --lora " + file + "\n") + amx_note("`--no-repack` to `llama-cli`");
  return text + code("sh", "llama-cli -m " + file + "\n") + "\nIn this folder, with `pip install llama-cpp-python`:\n\n" +
         code("python",
              "from llama_cpp import Llama\n\nmodel = Llama(\"" + file + "\")\n" +
              "answer = model.create_chat_completion([{\"role\": \"user\", \"content\": \"Hello\"}], max_tokens=64)\n" +
              "print(answer[\"choices\"][0][\"message\"][\"content\"])\n") +
         amx_note("`use_extra_bufts=False` to `Llama(…)`, and `--no-repack` to `llama-cli`") + "\n## Ollama\n\n" + code("sh", "ollama create model -f Modelfile\n");
}

}  // namespace forge
