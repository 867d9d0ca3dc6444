// forge chat: a conversation. One engine answers all of it and keeps what it has computed, so that
// a turn costs only its own tokens.
#include "cli/console.h"
#include "cli/generation.h"
#include "cli/line_editor.h"
#include "core/lib/base/text.h"
#include "core/lib/base/user_file.h"

namespace forge::chat_command {
namespace {

constexpr Option kOwnOptions[] = {
    {"--system", "TEXT", "system message"},
};
constexpr auto kOptions = join_tables(kModelOptions, kOwnOptions, kSamplingOptions);

class Chat {
 public:
  explicit Chat(const Arguments& args)
      : args_(args),
        progress_(false, args.quiet()),
        choice_(choose_model(args, progress_)),
        engine_(choice_, args),
        sampling_(sampling_request(args)),
        text_(open_model_text(choice_.text, choice_.chat_template)) {
    if (read_model_spec(model_of(choice_)).reads_source())
      throw Error(ErrorKind::usage, choice_.model + ": is an encoder-decoder, which cannot hold a conversation")
          .hint("forge generate answers single texts with it");
    if (std::optional<std::string> system = args.text("--system"))
      messages_.push_back({{"role", "system"}, {"content", *system}});
  }
  int run();

 private:
  struct CommandRow {
    const char* name;
    const char* value;  // "" for none
    const char* help;
    void (Chat::*act)(const std::string& value);
  };
  static const CommandRow kCommands[7];

  void obey(const std::string& line);
  void ask();  // for an answer to the last message

  void help(const std::string&) {
    for (const CommandRow& row : kCommands)
      say("  " + std::string(row.name) + (*row.value ? " " + std::string(row.value) : "") + "  " + row.help);
    say("  a line that ends with \\ continues on the next line");
  }
  void quit(const std::string&) { ended_ = true; }
  void reset(const std::string&) {
    while (!messages_.empty() && messages_.back()["role"] != "system") messages_.erase(messages_.size() - 1);
  }
  void system(const std::string& words) {
    messages_ = Json::array();
    if (!words.empty()) messages_.push_back({{"role", "system"}, {"content", words}});
  }
  // Takes back the last question with its answer and returns the question.
  std::string take_back() {
    while (!messages_.empty() && messages_.back()["role"] == "assistant")
      messages_.erase(messages_.size() - 1);
    if (messages_.empty() || messages_.back()["role"] != "user") return "";
    std::string question = messages_.back()["content"];
    messages_.erase(messages_.size() - 1);
    return question;
  }
  void undo(const std::string&) {
    if (take_back().empty()) say("there is nothing to take back");
  }
  // Asks again with another seed. At temperature 0 the answer is the same.
  void retry(const std::string&) {
    const std::string question = take_back();
    if (question.empty()) return say("there is no question to ask again");
    sampling_["seed"] = sampling_["seed"].get<int64_t>() + 1;
    messages_.push_back({{"role", "user"}, {"content", question}});
    ask();
  }
  void save(const std::string& path) {
    if (path.empty()) return say("expected /save FILE.jsonl");
    if (messages_.empty() || messages_.back().at("role") != "assistant") return say("there is no answer to save yet");
    append_line_to_user_file(path, dump_json({{"messages", messages_}}));
    say("added to " + path + " as a row that forge trains on");
  }

  const Arguments& args_;
  Progress progress_;
  ModelChoice choice_;
  ModelEngine engine_;
  Json sampling_;
  ModelText text_;
  Json messages_ = Json::array();
  bool ended_ = false;
};

constexpr Chat::CommandRow Chat::kCommands[7] = {
    {"/help", "", "show this list", &Chat::help},
    {"/reset", "", "forget the conversation except the system message", &Chat::reset},
    {"/system", "TEXT", "start over with another system message, or with none", &Chat::system},
    {"/undo", "", "remove the last question and its answer", &Chat::undo},
    {"/retry", "", "ask the last question again with the next seed", &Chat::retry},
    {"/save", "FILE", "append the conversation to a file of training rows", &Chat::save},
    {"/quit", "", "end the chat (also Ctrl-D)", &Chat::quit}};

void Chat::obey(const std::string& line) {
  const size_t end = std::min(line.find(' '), line.size());
  const std::string name = line.substr(0, end);
  std::vector<std::string> names;
  for (const CommandRow& row : kCommands) {
    if (name == row.name) {
      try {
        return (this->*row.act)(std::string(trim(line.substr(end))));
      } catch (const Error& error) {  // a file that cannot be written ends no conversation
        if (error.kind() != ErrorKind::environment) throw;
        return say(error.what());
      }
    }
    names.emplace_back(row.name);
  }
  say("there is no " + name + did_you_mean(name, names) + "; /help shows what there is");
}

void Chat::ask() {
  Progress progress(false, true);
  try {
    const std::vector<GeneratedText> texts =
        generate_texts(sampling_, {prompt_ids(text_, messages_)}, text_, choice_, args_, progress,
                       [](size_t, const std::string& piece) { print_text(piece); }, &engine_);
    messages_.push_back({{"role", "assistant"}, {"content", texts[0].text}});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::interrupted) throw;
    messages_.erase(messages_.size() - 1);
  }
  print("\n");
}

int Chat::run() {
  LineEditorOptions options{.history = chat_history_path()};
  for (const CommandRow& row : kCommands) options.words.emplace_back(row.name);
  LineEditor editor(std::move(options));
  if (!args_.quiet()) say("/help shows the commands, /quit or Ctrl-D ends the chat");
  while (!ended_) {
    std::optional<std::string> line = editor.read("> ");
    if (!line) break;
    while (ends_with(*line, "\\")) {
      line->back() = '\n';
      const std::optional<std::string> more = editor.read("… ");
      if (!more) break;
      *line += *more;
    }
    const std::string words(trim(*line));
    if (words.empty()) continue;
    if (!valid_utf8(*line)) {
      say("that is not UTF-8");
      continue;
    }
    if (words[0] == '/') {
      obey(words);
      continue;
    }
    messages_.push_back({{"role", "user"}, {"content", *line}});
    ask();
  }
  return 0;
}

int run(const Arguments& args) { return Chat(args).run(); }

}  // namespace

constexpr Command kCommand{
    "chat", "[RUN]", 0, 1, "chat with a model, or with the result of a run", kOptions, run};

}  // namespace forge::chat_command
