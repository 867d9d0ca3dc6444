// forge chat: a conversation. Each answer starts the engine anew, which costs the loading of the model and
// keeps the loop simple.
#include <unistd.h>

#include <iostream>

#include "cli/console.h"
#include "cli/generation.h"
#include "core/base/text.h"

namespace forge {
namespace {

constexpr Option kOwnOptions[] = {
    {"--system", "TEXT", "the system message"},
};
constexpr auto kOptions = join_options(kModelOptions, kOwnOptions, kSamplingOptions);

// The user's next line; nothing at end of input. The prompt sign is shown only on a terminal.
std::optional<std::string> ask() {
  if (isatty(STDIN_FILENO)) std::cerr << "> " << std::flush;
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

// The answer, or nothing if the user interrupted it.
std::optional<std::string> answer(const Json& messages, const ModelText& text, const ModelChoice& choice,
                                  const Arguments& args) {
  Progress progress(false, true);
  try {
    std::vector<GeneratedText> texts =
        generate_texts(sampling_request(args), {chat_prompt(text, messages)}, text, choice, args, progress,
                       [](size_t, const std::string& piece) { print(piece); });
    print("\n");
    return texts[0].text;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    print("\n");
    return std::nullopt;
  }
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet());
  ModelChoice choice = choose_model(args, progress);
  sampling_request(args);  // so that bad options are reported before the conversation starts
  ModelText text = open_model_text(choice.text, choice.chat_template);
  Json messages = Json::array();
  if (std::optional<std::string> system = args.text("--system"))
    messages.push_back({{"role", "system"}, {"content", *system}});
  if (!args.quiet()) say("/reset forgets the conversation, /quit or Ctrl-D ends it");
  while (std::optional<std::string> line = ask()) {
    if (trim(*line).empty()) continue;
    if (trim(*line) == "/quit") break;
    if (trim(*line) == "/reset") {
      while (!messages.empty() && messages.back()["role"] != "system") messages.erase(messages.size() - 1);
      continue;
    }
    messages.push_back({{"role", "user"}, {"content", *line}});
    std::optional<std::string> reply = answer(messages, text, choice, args);
    if (reply)
      messages.push_back({{"role", "assistant"}, {"content", *reply}});
    else
      messages.erase(messages.size() - 1);
  }
  return 0;
}

}  // namespace

extern const Command kChatCommand;
constexpr Command kChatCommand{"chat",   "[RUN]", 0, 1, "a conversation with a model, or with a run's result",
                               kOptions, run};

}  // namespace forge
