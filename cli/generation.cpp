#include "cli/generation.h"

namespace forge {
Json sampling_request(const Arguments& args) {
  return {{"command", "generate"},
          {"max_new_tokens", args.integer("--max-new-tokens", 256, 1, 1 << 24)},
          {"temperature", args.number("--temperature", 0, 0, 100)},
          {"top_k", args.integer("--top-k", 0, 0, INT32_MAX)},
          {"top_p", args.number("--top-p", 1, 0, 1)},
          {"min_p", args.number("--min-p", 0, 0, 1)},
          {"seed", args.integer("--seed", 42, 0, INT64_MAX)}};
}

std::vector<GeneratedText> generate_texts(Json request, const std::vector<std::vector<int32_t>>& prompts,
                                          const ModelText& text, const ModelChoice& choice,
                                          const Arguments& args, Progress& progress,
                                          const std::function<void(size_t, const std::string&)>& on_text) {
  const ModelSpec model = read_model_spec(choice.model);
  request["prompts"] = prompts;
  request["stop_ids"] = stop_ids(text, model.eos_token_ids);
  std::vector<GeneratedText> texts(prompts.size());
  std::vector<DecodeStream> streams(prompts.size(), DecodeStream(text.tokenizer, true));
  std::vector<bool> ended(prompts.size(), false);
  size_t shown = 0;  // whose pieces are shown as they come; what later ones have is shown when it is their turn
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
  compute(std::move(request), choice, args, [&](const Json& event) {
    const std::string name = event["event"];
    if (name != "token" && name != "text_end") return progress.show(event);
    size_t prompt = event.at("prompt").get<size_t>();
    FORGE_CHECK(prompt < texts.size(), "the engine answers prompt " << prompt << " of " << texts.size());
    if (name == "token") {
      progress.finish();
      return add(prompt, streams[prompt].push(event.at("id").get<int32_t>()));
    }
    add(prompt, streams[prompt].finish());
    texts[prompt].reason = event.value("reason", "");
    texts[prompt].tokens = event.value("tokens", int64_t{0});
    end(prompt);
  });
  return texts;
}

}  // namespace forge
