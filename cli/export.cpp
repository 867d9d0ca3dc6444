// forge export: writes a result as GGUF for llama.cpp and Ollama.

#include <filesystem>

#include "cli/merge_source.h"
#include "core/lib/base/file.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/run/export/gguf_metadata.h"
#include "core/run/export/gguf_model.h"
#include "core/run/export/modelfile.h"
#include "core/run/export/staged_folder.h"
#include "core/run/model_card.h"
#include "core/run/staging.h"

namespace forge::export_command {
namespace {

namespace fs = std::filesystem;

constexpr Option kOwnOptions[] = {
    {"--gguf", "", "write the whole model as GGUF"},
    {"--gguf-lora", "", "write only the adapter, as a LoRA GGUF"},
    {"--ollama", "", "write a GGUF and a Modelfile for Ollama"},
    {"--type", "NAME",
     "f32, f16, bf16, q8_0, q6_k, q5_k_m, q4_k_m or q4_0 (default f16; for a LoRA f32 or f16)"},
    {"--output", "DIR", "folder to write (default: RUN/gguf, RUN/gguf-lora or RUN/ollama)"},
    {"--name", "NAME", "general.name in the file (default: name of the run or model)"},
    {"--template", "NAME",
     "chat template: auto (the result's own), a bundled name or a .jinja file"},
    {"--fresh", "", "replace existing files at --output"},
};
constexpr auto kOptions = join_tables(kSourceOptions, kOwnOptions, kCheckOptions);

std::string kind_of(const Arguments& args) {
  std::vector<std::string> kinds;
  for (const char* kind : {"gguf", "gguf-lora", "ollama"})
    if (args.has(std::string("--") + kind)) kinds.emplace_back(kind);
  if (kinds.size() != 1) throw Error(ErrorKind::usage, "expected one of --gguf, --gguf-lora and --ollama");
  return kinds[0];
}

std::string model_name(const Arguments& args, const ModelChoice& choice) {
  if (std::optional<std::string> name = args.text("--name")) return *name;
  if (choice.run) return choice.run->job.name;
  return fs::path(shown_model(choice)).stem().string();
}

struct Templates {
  std::string chat, tool_use;
};

// Returns the template that the result is prompted with, and its variant for tools.
Templates templates_of(const Arguments& args, const ModelChoice& choice) {
  const std::map<std::string, Scalar>& variables = choice.chat_template.variables;
  if (std::optional<std::string> name = args.text("--template"); name && *name != "auto") {
    const TemplateSource source = named_template(ends_with(*name, ".jinja") ? fs::absolute(*name).string() : *name);
    ChatTemplate::parse(source, {});  // which names the file, and nothing is written yet
    return {source.text, ""};
  }
  const auto text = [&](const std::optional<TemplateSource>& source) { return source ? source->text : std::string(); };
  if (choice.adapter && find_chat_template(*choice.adapter, false)) {
    const std::string chat = text(find_chat_template(*choice.adapter, false)), tool = text(find_chat_template(*choice.adapter, true));
    return {chat, tool == chat ? "" : tool};
  }
  if (choice.chat_template.name != "auto") return {with_variables(named_template(choice.chat_template.name).text, variables), ""};
  const std::string chat = text(own_template(choice.text, false)), tool = text(own_template(choice.text, true));
  if (chat.empty()) return {};
  return {with_variables(chat, variables), tool.empty() || tool == chat ? "" : with_variables(tool, variables)};
}

constexpr const char* kWrongExport = "the GGUF does not compute what the model does";

std::vector<std::string> stop_texts(const ModelText& text, const ModelSpec& spec) {
  std::vector<std::string> stops;
  for (int32_t id : stop_ids(text, spec.eos_token_ids))
    if (std::optional<std::string> token = text.tokenizer.token_of(id)) stops.push_back(*token);
  return stops;
}

std::string modelfile_of(const ModelText& text, const ModelSpec& spec, const std::string& file) {
  const std::optional<TurnPieces> pieces = text.chat_template ? turn_pieces(*text.chat_template) : std::nullopt;
  const std::optional<int32_t> bos = text.tokenizer.bos_id();
  const std::string bos_text = bos && text.tokenizer.adds_bos() ? text.tokenizer.token_of(*bos).value_or("") : "";
  return modelfile(file, pieces, bos_text, stop_texts(text, spec));
}

// Warns of tokens with a rule that a GGUF has no field for.
void warn_of_tokens(const Tokenizer& tokenizer, Progress& progress) {
  const std::vector<std::string> names = tokenizer.tokens_that_see_beside();
  if (!names.empty())
    progress.warn("a GGUF has no field for rules of tokens (lstrip, rstrip, single_word), which llama.cpp then lacks: " + join(names, ", "));
}

int finish(const Arguments& args, const std::string& output, const std::string& file, const std::string& type,
           const std::optional<Difference>& difference, const Progress& progress) {
  const std::string path = output + "/" + file;
  return show_written(
      args, {{"output", output}, {"file", path}, {"bytes", file_size(path)}, {"type", type}}, difference,
      progress, path + ": " + format_bytes(file_size(path)) + " in " + type + "\n");
}

// Compares the adapter with the one in the file at `path`, on the same base.
std::optional<Difference> compare_lora(const ModelChoice& choice, const ModelSpec& spec, const std::string& path, const Arguments& args,
                                       Progress& progress) {
  if (args.has("--no-check")) return std::nullopt;
  const ScratchFolder read_back;
  write_adapter_of_gguf(path, spec, read_back.path());
  ModelChoice other = choice;
  other.adapter = read_back.path();
  return compare_models(choice, other, args, progress);
}

int export_lora(const Arguments& args, Progress& progress) {
  const std::string type = args.text("--type").value_or("f32");
  const GgufFormat& format = gguf_format(type);
  if (format.dtype != DType::f32 && format.dtype != DType::f16)
    throw Error(ErrorKind::usage, "--type " + type + ": factors of a LoRA are written in f32 or f16");
  const MergeSource source = merge_source(args, progress, BaseChoice::any);
  if (!source.choice.adapter) throw Error(ErrorKind::usage, "--gguf-lora exports exactly one adapter");
  const std::string output = output_of(args, "gguf-lora"), file = "adapter-" + type + ".gguf";
  StagedFolder staged(output, args.has("--fresh"), source.read);
  const std::string path = staged.path() + "/" + file;
  const ModelSpec spec = read_model_spec(model_of(source.choice));
  write_gguf_lora(read_adapter_config(*source.choice.adapter), spec, format.dtype, model_name(args, source.choice), path);
  write_file_durably(staged.path() + "/README.md", gguf_card(shown_model(source.choice), file, type, /*adapter=*/true, ""));
  const std::optional<Difference> difference = compare_lora(source.choice, spec, path, args, progress);
  if (difference) refuse_difference(*difference, format.dtype, kWrongExport, "--type f32");
  staged.commit();
  return finish(args, output, file, type, difference, progress);
}

int export_model(const Arguments& args, const std::string& kind, Progress& progress) {
  const GgufFormat& format = gguf_format(args.text("--type").value_or("f16"));
  const MergeSource source = merge_source(args, progress);
  const ModelSpec& spec = source.model->spec();
  if (const std::string window = ignored_window(spec); !window.empty()) progress.warn(window);
  if (!source.choice.chat_template.added_tokens.empty() && source.choice.text == source.choice.run->job.model.path)
    throw Error(ErrorKind::environment, "the run's tokens are added to its tokenizer when it ends")
        .hint("finish the run, or merge the checkpoint (forge merge) and export that model");
  const std::string output = output_of(args, kind), file = std::string("model-") + format.name + ".gguf";
  const int64_t bytes = bytes_of_gguf(*source.model, format);
  const Templates templates = templates_of(args, source.choice);
  const ModelText text = open_model_text(source.choice.text, source.choice.chat_template);
  warn_of_tokens(text.tokenizer, progress);
  require_gguf(spec, source.choice.model, source.choice.text, ScratchFolder().path());
  StagedFolder staged(output, args.has("--fresh"), source.read);
  require_free_bytes(output, bytes);
  if (!source.base_note.empty()) progress.line(source.base_note);
  const std::string path = staged.path() + "/" + file;
  write_gguf_model(*source.model,
                   {source.choice.model, source.choice.text, model_name(args, source.choice), templates.chat, templates.tool_use,
                    end_of_turn(text)},
                   format, path, [&](double share) {
                     progress.status(fmt::format("writing  {:.0f} % of {}", 100 * share, format_bytes(bytes)));
                   });
  progress.clear();
  write_file_durably(staged.path() + "/README.md",
                     gguf_card(shown_model(source.choice), file, format.name, /*adapter=*/false, source.base_note));
  write_file_durably(staged.path() + "/Modelfile", modelfile_of(open_model_text(path), spec, file));
  const std::optional<Difference> difference = compare_with_source(source, path, args, progress);
  if (difference && source.same_as_choice)
    refuse_difference(*difference, format.dtype, kWrongExport, "--type f32");
  staged.commit();
  return finish(args, output, file, format.name, difference, progress);
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  const std::string kind = kind_of(args);
  return kind == "gguf-lora" ? export_lora(args, progress) : export_model(args, kind, progress);
}

}  // namespace

constexpr Command kCommand{
    "export", "[RUN|CHECKPOINT|ADAPTER]", 0, 1,
    "write a GGUF for llama.cpp or Ollama",
    kOptions, run};

}  // namespace forge::export_command
