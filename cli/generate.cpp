// forge generate: writes text of a model, streamed to stdout.
#include <iostream>
#include <vector>

#include "cli/console.h"
#include "cli/generation.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"

namespace forge::generate_command {
namespace {

constexpr Option kOwnOptions[] = {
    {"--prompt", "TEXT", "prompt to answer", true},
    {"--prompts", "FILE",
     "file with one prompt per line, or .jsonl objects with prompt or messages; - reads stdin"},
    {"--compare", "", "also answer each prompt without the adapter"},
    {"--system", "TEXT", "system message"},
    {"--raw", "", "continue the text as is, without the chat template"},
};
constexpr auto kOptions = join_tables(kModelOptions, kOwnOptions, kSamplingOptions);

constexpr int64_t kLargestPrompts = int64_t{64} << 20;

struct Prompt {
  std::string text;  // as given
  Json messages;     // null with --raw
  bool is_text = true;  // else only `messages` were given
};

Json conversation(const std::optional<std::string>& system, const std::string& user) {
  Json messages = Json::array();
  if (system) messages.push_back({{"role", "system"}, {"content", *system}});
  messages.push_back({{"role", "user"}, {"content", user}});
  return messages;
}

Prompt prompt_of_row(const Json& row, const std::string& place, const std::optional<std::string>& system) {
  if (row.is_object() && row.contains("messages") && row["messages"].is_array())
    return {dump_json(row["messages"]), row["messages"], false};
  if (!row.is_object() || !row.contains("prompt") || !row["prompt"].is_string())
    throw Error(ErrorKind::data, place + ": expected an object with prompt (a text) or messages (a list)");
  std::string text = row["prompt"];
  return {text, conversation(system, text)};
}

std::string read_stdin() {
  std::string text;
  std::vector<char> block(size_t{1} << 16);
  while (std::cin.read(block.data(), static_cast<std::streamsize>(block.size())), std::cin.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(std::cin.gcount()));
    if (static_cast<int64_t>(text.size()) > kLargestPrompts)
      throw Error(ErrorKind::data, "stdin: more than " + format_bytes(kLargestPrompts) + " of prompts");
  }
  return text;
}

std::vector<Prompt> prompts_of_file(const std::string& name, const std::optional<std::string>& system) {
  std::vector<Prompt> prompts;
  int64_t number = 0;
  const std::string path = name == "-" ? "stdin" : name;
  const std::string text = name == "-" ? read_stdin() : read_file(name, kLargestPrompts, ErrorKind::data);
  const bool rows = name == "-" ? starts_with(trim(text), "{") : ends_with(name, ".jsonl");
  for (std::string line : split(text, '\n')) {
    ++number;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (trim(line).empty()) continue;
    if (size_t bad = 0; !valid_utf8(line, &bad))
      throw Error(ErrorKind::data,
                  path + ":" + std::to_string(number) + ":" + std::to_string(bad + 1) + ": is not UTF-8");
    if (!rows)
      prompts.push_back({line, conversation(system, line)});
    else
      prompts.push_back(prompt_of_row(parse_json(line, path, ErrorKind::data, {}, number),
                                      path + ":" + std::to_string(number), system));
  }
  if (prompts.empty()) throw Error(ErrorKind::data, path + ": holds no prompt, expected one a line");
  return prompts;
}

std::vector<Prompt> read_prompts(const Arguments& args) {
  std::optional<std::string> system = args.text("--system");
  std::vector<Prompt> prompts;
  for (const std::string& text : args.texts("--prompt")) {
    if (!valid_utf8(text)) throw Error(ErrorKind::usage, "--prompt: is not UTF-8");
    prompts.push_back({text, conversation(system, text)});
  }
  if (std::optional<std::string> path = args.text("--prompts"))
    for (Prompt& prompt : prompts_of_file(*path, system)) prompts.push_back(std::move(prompt));
  if (prompts.empty()) throw Error(ErrorKind::usage, "expected --prompt TEXT or --prompts FILE");
  if (args.has("--raw") && system)
    throw Error(ErrorKind::usage, "--system needs the chat template, which --raw leaves out");
  return prompts;
}

std::vector<int32_t> ids_of(const Prompt& prompt, const ModelText& text, bool raw) {
  if (text.model.reads_source()) return prompt_ids(text, prompt.is_text ? Json(prompt.text) : prompt.messages);
  if (!raw) return prompt_ids(text, prompt.messages);
  std::vector<int32_t> ids;
  text.tokenizer.encode_ids(prompt.text, ids, {.add_special_tokens = true});
  return ids;
}

Json json_of(const Prompt& prompt, const GeneratedText& text) {
  return {{"prompt", prompt.text}, {"text", text.text}, {"reason", text.reason}, {"tokens", text.tokens}};
}

// Shows the base model's answers next to the adapter's.
int compare(const Json& sampling, const std::vector<Prompt>& prompts, const std::vector<std::vector<int32_t>>& ids,
            const ModelText& text, const ModelChoice& choice, const Arguments& args, Progress& progress) {
  if (!choice.adapter) throw Error(ErrorKind::usage, "--compare: there is no adapter to leave out");
  ModelChoice bare = choice;
  bare.adapter.reset();
  const auto silent = [](size_t, const std::string&) {};
  const std::vector<GeneratedText> before = generate_texts(sampling, ids, text, bare, args, progress, silent);
  const std::vector<GeneratedText> after = generate_texts(sampling, ids, text, choice, args, progress, silent);
  for (size_t i = 0; i < prompts.size(); ++i) {
    if (!args.json()) {
      print_text("prompt:  " + prompts[i].text + "\nbase:    " + before[i].text + "\nadapter: " + after[i].text + "\n\n");
      continue;
    }
    Json result = json_of(prompts[i], after[i]);
    result["base_text"] = before[i].text;
    print_json(result);
  }
  return 0;
}

// True if the run or adapter was trained on prompts that are texts, without the chat template.
bool trained_on_texts(const ModelChoice& choice) {
  const std::optional<Plan> run = choice.run ? choice.run : choice.adapter ? run_of(*choice.adapter) : std::nullopt;
  return run && run->train.cuts.bare_prompts > 0 && 2 * run->train.cuts.bare_prompts >= run->train.rows;
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  ModelChoice choice = choose_model(args, progress);
  std::vector<Prompt> prompts = read_prompts(args);
  Json sampling = sampling_request(args);
  ModelText text = open_model_text(choice.text, choice.chat_template);
  text.model = example_model(spec_of(choice));
  if (text.model.reads_source() && args.has("--system"))
    throw Error(ErrorKind::usage, "--system: the model is an encoder-decoder, which knows no system message");
  const bool as_text = !args.has("--raw") && !args.has("--template") && !args.has("--system") && text.chat_template && trained_on_texts(choice);
  if (as_text) progress.warn("prompts are continued as texts, as in training (data.prompt_as: text); --template auto asks through the chat template");
  std::vector<std::vector<int32_t>> ids;
  for (const Prompt& prompt : prompts) {
    ids.push_back(ids_of(prompt, text, args.has("--raw") || (as_text && prompt.is_text)));
    if (ids.back().empty()) throw Error(ErrorKind::usage, "a prompt is empty");
  }
  if (args.has("--compare")) return compare(sampling, prompts, ids, text, choice, args, progress);
  std::vector<GeneratedText> texts =
      generate_texts(sampling, ids, text, choice, args, progress, [&](size_t, const std::string& piece) {
        if (args.json()) return;
        print_text(piece.empty() ? "\n" : piece);  // finish the line at the end of a text
      });
  if (args.json())
    for (size_t i = 0; i < texts.size(); ++i) {
      Json result = json_of(prompts[i], texts[i]);
      if (!progress.warnings().empty()) result["warnings"] = progress.warnings();
      print_json(result);
    }
  return 0;
}

}  // namespace

constexpr Command kCommand{
    "generate", "[RUN]", 0, 1,
    "generate text with a model, or with the result of a run",
    kOptions, run};

}  // namespace forge::generate_command
