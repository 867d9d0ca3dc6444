#include "cli/eval_tasks.h"


#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "cli/generation.h"
#include "core/lib/base/format.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/run/evaluate/example_file.h"
#include "core/run/evaluate/task_rows.h"
#include "core/run/evaluate/text_metrics.h"
#include "core/run/staging.h"

namespace forge {
namespace {

struct Asked {
  const Arguments& args;
  const ModelChoice& choice;
  Progress& progress;
  std::string path;  // of the rows
  ModelText text;
  ModelSpec spec;
};

std::string place(const Asked& asked, int64_t line) { return asked.path + ":" + std::to_string(line); }

// Returns the log-likelihood of the predicted tokens of each example: Σ ln p, ≤ 0.
std::vector<double> log_likelihoods(const Asked& asked, const std::vector<MadeExample>& examples) {
  ScratchFolder scratch;
  const DataSet data = write_examples(scratch.path() + "/examples.tokens", asked.path, examples);
  std::vector<double> sums(examples.size(), 0);
  compute({{"command", "eval"}, {"tokens", data.path()}}, asked.choice, asked.args, [&](const Json& event) {
    if (event["event"] != "example") return asked.progress.show(event);
    sums.at(event.at("index").get<size_t>()) =
        event.at("loss").is_number() ? -event["loss"].get<double>() : std::nan("");
  });
  asked.progress.finish();
  return sums;
}

TaskResult answers(const Asked& asked) {
  const std::vector<AnswerRow> rows = read_answer_rows(asked.path);
  std::vector<std::vector<int32_t>> prompts;
  for (const AnswerRow& row : rows) prompts.push_back(prompt_ids(asked.text, row.prompt));
  const std::vector<GeneratedText> texts =
      generate_texts(sampling_request(asked.args), prompts, asked.text, asked.choice, asked.args,
                     asked.progress, [](size_t, const std::string&) {});
  TextMetrics sum;
  TaskResult result;
  int64_t cut = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    std::string answer(trim(texts[i].text));
    const TextMetrics one = text_metrics(answer, rows[i].references);
    sum.exact_match += one.exact_match, sum.f1 += one.f1, sum.rouge_l += one.rouge_l;
    cut += texts[i].reason == "length";
    result.per_example += dump_json({{"line", rows[i].line},
                                     {"answer", answer},
                                     {"references", rows[i].references},
                                     {"reason", texts[i].reason},
                                     {"exact_match", one.exact_match},
                                     {"f1", one.f1},
                                     {"rouge_l", one.rouge_l}}) +
                          "\n";
  }
  const auto count = static_cast<double>(rows.size());
  result.summary = {{"exact_match", sum.exact_match / count},
                    {"f1", sum.f1 / count},
                    {"rouge_l", sum.rouge_l / count},
                    {"examples", rows.size()},
                    {"cut_answers", cut}};
  result.text = fmt::format(
      "exact match {:.4f}  F1 {:.4f}  ROUGE-L {:.4f}  {} answers, {} of them cut at --max-new-tokens\n",
      sum.exact_match / count, sum.f1 / count, sum.rouge_l / count,
      format_count(static_cast<int64_t>(rows.size())), format_count(cut));
  return result;
}

// Returns the index of the largest value; the first of equals.
size_t best_of(const std::vector<double>& scores) {
  return static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

TaskResult choices(const Asked& asked) {
  const std::vector<ChoiceRow> rows = read_choice_rows(asked.path);
  std::vector<MadeExample> examples;
  for (const ChoiceRow& row : rows)
    for (const std::string& text : row.choices) {
      Continuation whole = continue_prompt(asked.text, row.prompt, text);
      const auto tokens = static_cast<int64_t>(whole.ids.size());
      if (whole.first >= tokens)
        throw Error(ErrorKind::data, place(asked, row.line) + ": the choice \"" + text +
                                         "\" has no token of its own after the prompt");
      if (whole.first == 0)
        throw Error(ErrorKind::data, place(asked, row.line) + ": the prompt has no token before the choice");
      examples.push_back({std::move(whole.ids), whole.first, row.line});
    }
  const std::vector<double> sums = log_likelihoods(asked, examples);
  int64_t by_sum = 0, by_token = 0, by_character = 0;
  TaskResult result;
  size_t next = 0;
  for (const ChoiceRow& row : rows) {
    std::vector<double> whole, per_token, per_character;
    for (const std::string& text : row.choices) {
      const MadeExample& example = examples[next];
      whole.push_back(sums[next++]);
      per_token.push_back(whole.back() /
                          static_cast<double>(static_cast<int64_t>(example.ids.size()) - example.first));
      per_character.push_back(whole.back() / static_cast<double>(count_characters(text)));
      if (std::isnan(whole.back()))
        throw Error(ErrorKind::diverged, place(asked, row.line) + ": no likelihood is a number")
            .hint("the model's weights are damaged, or its training diverged");
    }
    by_sum += best_of(whole) == row.answer, by_token += best_of(per_token) == row.answer,
        by_character += best_of(per_character) == row.answer;
    result.per_example += dump_json({{"line", row.line},
                                     {"answer", row.answer},
                                     {"chosen", best_of(whole)},
                                     {"chosen_per_token", best_of(per_token)},
                                     {"chosen_per_character", best_of(per_character)},
                                     {"log_likelihoods", whole}}) +
                          "\n";
  }
  const auto count = static_cast<double>(rows.size());
  const auto share = [&](int64_t right) { return static_cast<double>(right) / count; };
  result.summary = {{"accuracy", share(by_sum)},
                    {"accuracy_per_token", share(by_token)},
                    {"accuracy_per_character", share(by_character)},
                    {"examples", rows.size()},
                    {"choices", examples.size()}};
  result.text = fmt::format("accuracy {:.4f}  per token {:.4f}  per character {:.4f}  {} rows, {} choices\n",
                            share(by_sum), share(by_token), share(by_character),
                            format_count(static_cast<int64_t>(rows.size())),
                            format_count(static_cast<int64_t>(examples.size())));
  return result;
}

TaskResult long_text(const Asked& asked) {
  const int64_t window = asked.args.integer("--window", asked.spec.max_position_embeddings, 2, INT32_MAX);
  const int64_t stride = asked.args.integer("--stride", std::max<int64_t>(1, window / 2), 1, window);
  const std::vector<LongText> rows = read_long_texts(asked.path);
  std::vector<MadeExample> examples;
  int64_t tokens = 0, characters = 0;
  for (const LongText& row : rows) {
    const std::vector<int32_t> ids = prompt_ids(asked.text, row.text);
    if (ids.size() < 2)
      throw Error(ErrorKind::data,
                  place(asked, row.line) + ": has fewer than two tokens, nothing is predicted");
    for (const Window& piece : text_windows(static_cast<int64_t>(ids.size()), window, stride)) {
      examples.push_back(
          {{ids.begin() + piece.begin, ids.begin() + piece.end}, piece.first - piece.begin, row.line});
      tokens += piece.end - piece.first;
    }
    characters += count_characters(row.text);
  }
  const std::vector<double> sums = log_likelihoods(asked, examples);
  TaskResult result;
  double loss = 0;
  size_t next = 0;
  for (const LongText& row : rows) {
    double sum = 0;
    int64_t predicted = 0;
    for (; next < examples.size() && examples[next].line == row.line; ++next) {
      sum -= sums[next];
      predicted += static_cast<int64_t>(examples[next].ids.size()) - examples[next].first;
    }
    loss += sum;
    result.per_example +=
        dump_json({{"line", row.line}, {"predicted_tokens", predicted}, {"loss", sum}}) + "\n";
  }
  const double mean = loss / static_cast<double>(tokens);
  result.summary = {{"loss", mean},
                    {"perplexity", std::exp(mean)},
                    {"bits_per_character", loss / std::log(2.0) / static_cast<double>(characters)},
                    {"predicted_tokens", tokens},
                    {"characters", characters},
                    {"examples", rows.size()},
                    {"windows", examples.size()},
                    {"window", window},
                    {"stride", stride}};
  result.text = fmt::format(
      "loss {:.4f}  perplexity {:.4g}  {} tokens of {} text{}, in {} window{} of {} by {}\n", mean,
      std::exp(mean), format_count(tokens), format_count(static_cast<int64_t>(rows.size())), rows.size() == 1 ? "" : "s",
      format_count(static_cast<int64_t>(examples.size())), examples.size() == 1 ? "" : "s", format_count(window), format_count(stride));
  return result;
}

struct Task {
  const char* name;
  TaskResult (*run)(const Asked&);
  std::span<const char* const> options;  // options that no other task has
};

constexpr const char* kAnswerOptions[] = {
    "--max-new-tokens",     "--temperature", "--top-k", "--top-p",  "--min-p",
    "--repetition-penalty", "--stop",        "--seed",  "--choice", "--json-schema"};
constexpr const char* kLongTextOptions[] = {"--window", "--stride"};
constexpr Task kTasks[] = {{"answers", answers, kAnswerOptions},
                           {"choices", choices, {}},
                           {"long-text", long_text, kLongTextOptions}};

}  // namespace

void check_task_options(const std::string& task, const Arguments& args) {
  std::vector<std::string> names{"loss"};
  for (const Task& row : kTasks) names.emplace_back(row.name);
  if (std::find(names.begin(), names.end(), task) == names.end())
    throw Error(ErrorKind::usage,
                "--task " + task + ": expected " + join(names, ", ") + did_you_mean(task, names));
  for (const Task& row : kTasks)
    for (const char* option : row.options)
      if (task != row.name && args.has(option))
        throw Error(ErrorKind::usage, std::string(option) + " goes with --task " + row.name);
  for (const char* option : {"--train-on", "--max-length"})
    if (task != "loss" && args.has(option))
      throw Error(ErrorKind::usage, std::string(option) + " does not go with --task " + task);
}

TaskResult run_task(const std::string& task, const Arguments& args, const ModelChoice& choice,
                    Progress& progress) {
  const std::optional<std::string> path = args.text("--data");
  if (!path) throw Error(ErrorKind::usage, "expected --data FILE with rows of the task");
  if (!std::filesystem::exists(*path)) throw Error(ErrorKind::data, "--data " + *path + ": no such file").hint(near_path_hint(*path));
  Asked asked{args,
              choice,
              progress,
              *path,
              open_model_text(choice.text, choice.chat_template),
              read_model_spec(model_of(choice))};
  asked.text.model = example_model(asked.spec);
  if (asked.spec.reads_source() && task != "answers")
    throw Error(ErrorKind::usage, "--task " + task + ": " + asked.spec.architecture + " is an encoder-decoder, which continues no text")
        .hint("--task answers compares its answers with references; without --task, --data FILE gives its loss");
  for (const Task& row : kTasks)
    if (task == row.name) return row.run(asked);
  throw Error(ErrorKind::internal, "no task " + task);
}

}  // namespace forge
