#include "cli/generation.h"

#include <algorithm>
#include <utility>

#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/schema/json_schema.h"
#include "core/lib/schema/schema_grammar.h"

namespace forge {
namespace {

// Returns the length of the longest suffix of `text` that is a prefix of one of the stop texts.
size_t begun(const std::string& text, const std::vector<std::string>& stops) {
  size_t longest = 0;
  for (const std::string& stop : stops)
    for (size_t length = std::min(text.size(), stop.size() - 1); length > longest; --length)
      if (text.compare(text.size() - length, length, stop, 0, length) == 0) longest = length;
  return longest;
}

std::vector<std::string> stop_texts(const Arguments& args) {
  for (const std::string& stop : args.texts("--stop"))
    if (stop.empty() || !valid_utf8(stop)) throw Error(ErrorKind::usage, "--stop: expected a text");
  return args.texts("--stop");
}

constexpr int64_t kLargestSchema = int64_t{16} << 20;

Json read_schema(const std::string& path) { return parse_json(read_file(path, kLargestSchema, ErrorKind::usage), path, ErrorKind::usage); }

std::optional<Grammar> grammar_of(const Arguments& args) {
  const std::vector<std::string>& choices = args.texts("--choice");
  const std::optional<std::string> schema = args.text("--json-schema");
  if (choices.empty() && !schema) return std::nullopt;
  if (!choices.empty() && schema) throw Error(ErrorKind::usage, "--choice and --json-schema are given: expected one of them");
  if (args.has("--stop")) throw Error(ErrorKind::usage, "--stop would cut short what " + std::string(schema ? "--json-schema" : "--choice") + " completes");
  if (schema) return schema_grammar(read_schema(*schema), *schema);
  for (const std::string& choice : choices)
    if (choice.empty() || !valid_utf8(choice)) throw Error(ErrorKind::usage, "--choice: expected a text");
  return choice_grammar(choices);
}

// The grammar ensures this already; here the validator that rewards use checks it.
void require_valid(const Arguments& args, const std::vector<GeneratedText>& texts) {
  const std::optional<std::string> path = args.text("--json-schema");
  if (!path) return;
  const JsonSchema schema(read_schema(*path), *path);
  for (const GeneratedText& text : texts)
    if (const std::string problem = schema.problem(parse_json(text.text, "an answer", ErrorKind::internal)); !problem.empty())
      throw Error(ErrorKind::internal, "an answer is not valid under " + *path + ": " + problem + "\n" + text.text);
}

}  // namespace

std::string StopTexts::push(const std::string& piece) {
  if (met_) return "";
  held_ += piece;
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  met_ = first != std::string::npos;
  const size_t shown = met_ ? first : held_.size() - begun(held_, stops_);
  std::string text = held_.substr(0, shown);
  held_.erase(0, shown);
  return text;
}

std::string StopTexts::finish() { return met_ ? "" : std::exchange(held_, ""); }

Json sampling_request(const Arguments& args) {
  Json request{{"command", "generate"},
          {"max_new_tokens", args.integer("--max-new-tokens", 256, 1, 1 << 24)},
          {"temperature", args.number("--temperature", 0, 0, 100)},
          {"top_k", args.integer("--top-k", 0, 0, INT32_MAX)},
          {"top_p", args.number("--top-p", 1, 0, 1)},
          {"min_p", args.number("--min-p", 0, 0, 1)},
          {"repetition_penalty", args.number("--repetition-penalty", 1, 0.01, 100)},
          {"seed", args.integer("--seed", 42, 0, INT64_MAX)},
          {"lookup_tokens", args.integer("--lookup", 0, 0, 64)}};
  if (std::optional<Grammar> grammar = grammar_of(args)) request["grammar"] = to_json(*grammar);
  if (request.contains("grammar") && request["lookup_tokens"] > 0)
    throw Error(ErrorKind::usage, "--lookup cannot be combined with --choice or --json-schema: what they allow is known only for the next token");
  return request;
}

std::vector<GeneratedText> generate_texts(Json request, const std::vector<std::vector<int32_t>>& prompts,
                                          const ModelText& text, const ModelChoice& choice,
                                          const Arguments& args, Progress& progress,
                                          const std::function<void(size_t, const std::string&)>& on_text,
                                          ModelEngine* engine) {
  const ModelSpec model = read_model_spec(model_of(choice));
  request["prompts"] = prompts;
  if (request.contains("grammar")) request["text"] = choice.text;
  request["stop_ids"] = stop_ids(text, model.eos_token_ids);
  std::vector<GeneratedText> texts(prompts.size());
  std::vector<DecodeStream> streams(prompts.size(), DecodeStream(text.tokenizer, true));
  std::vector<StopTexts> stops(prompts.size(), StopTexts(stop_texts(args)));
  std::vector<bool> ended(prompts.size(), false);
  size_t shown = 0;  // the one being streamed; output of later ones is held until their turn
  auto add = [&](size_t prompt, const std::string& piece) {
    texts[prompt].text += piece;
    if (prompt == shown && !piece.empty()) on_text(prompt, piece);
  };
  auto end = [&](size_t prompt) {
    ended[prompt] = true;
    while (shown < prompts.size() && ended[shown]) {
      on_text(shown++, "");
      if (shown < prompts.size() && !texts[shown].text.empty()) on_text(shown, texts[shown].text);
    }
  };
  const EngineProcess::OnEvent on_event = [&](const Json& event) {
    const std::string name = event["event"];
    const auto checked = [&](size_t prompt) {
      FORGE_CHECK(prompt < texts.size(), "the engine answers prompt " << prompt << " of " << texts.size());
      return prompt;
    };
    if (name == "tokens") {
      progress.finish();
      const auto of = event.at("prompts").get<std::vector<size_t>>();
      const auto ids = event.at("ids").get<std::vector<int32_t>>();
      FORGE_CHECK(of.size() == ids.size(), "the engine gives " << ids.size() << " tokens of " << of.size() << " prompts");
      for (size_t i = 0; i < ids.size(); ++i) {
        StopTexts& stop = stops[checked(of[i])];
        texts[of[i]].tokens += !stop.met();
        add(of[i], stop.push(streams[of[i]].push(ids[i])));
      }
      return;
    }
    if (name != "text_end") return progress.show(event);
    const size_t prompt = checked(event.at("prompt").get<size_t>());
    StopTexts& stop = stops[prompt];
    add(prompt, stop.push(streams[prompt].finish()));
    add(prompt, stop.finish());
    texts[prompt].reason = stop.met() ? "stop" : event.value("reason", "");
    end(prompt);
  };
  engine ? engine->turn(std::move(request), on_event) : compute(std::move(request), choice, args, on_event);
  require_valid(args, texts);
  return texts;
}

}  // namespace forge
