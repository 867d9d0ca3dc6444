// forge eval: loss and perplexity of a model on data, over the tokens that objective.train_on
// names. For a run that compares answers: its objective's loss, accuracy and margin. Other tasks
// are in eval_tasks.h.

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/console.h"
#include "cli/eval_tasks.h"
#include "cli/generation.h"
#include "cli/line.h"
#include "cli/model_choice.h"
#include "core/job/job_json.h"
#include "core/job/names.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/format.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/lib/base/user_file.h"
#include "core/run/staging.h"

namespace forge::eval_command {
namespace {

namespace fs = std::filesystem;

constexpr Option kOwnOptions[] = {
    {"--data", "FILE", "rows to evaluate (default: the run's evaluation data)"},
    {"--train-on", "NAME",
     "tokens that count, as in objective.train_on (default: the run's, or assistant)"},
    {"--max-length", "N", "cut longer rows at N tokens (default: no limit)"},
    {"--per-example", "OUT.jsonl",
     "write a line per row: line, tokens, supervised_tokens and loss (summed), or the result of "
     "the task"},
};
constexpr auto kOptions = join_tables(kModelOptions, kOwnOptions, kTaskOptions, kSamplingOptions);

// Returns a job whose training split is the file, so that the data path of training does the work.
// A run's losses are over the tokens that it trains on.
Job job_for_file(const std::string& file, const ModelChoice& choice, const Arguments& args) {
  Job job;
  job.model.path = choice.model;
  if (choice.run) job.objective = choice.run->job.objective;
  if (std::optional<std::string> name = args.text("--train-on")) {
    std::optional<TrainOn> train_on = enum_of<TrainOn>(*name);
    if (!train_on)
      throw Error(ErrorKind::usage, "--train-on " + *name + ": expected " + join(names(TrainOn()), ", "));
    job.objective = SftConfig{{.train_on = *train_on}};
  }
  job.data.template_name = choice.chat_template.name;
  job.data.template_variables = choice.chat_template.variables;
  job.data.train = {DataSource{fs::absolute(file).lexically_normal().string()}};
  // Nothing is cut unless asked for: a loss over half a row is not the row's loss.
  job.data.max_length = args.integer("--max-length", INT32_MAX, 1, INT32_MAX);
  return job;
}

// Throws Error(data) for rows that the objective does not train on. Without a run there is no job
// whose keys could be changed.
void require_answers(const DataSummary& summary, ObjectiveType type) {
  for (RowFormat format : summary.formats)
    if (!trains_on(objective_of(type), format))
      throw Error(ErrorKind::data, "--data: " + name_of(format) + " rows, expected rows with one answer each to compute the loss of")
          .hint("prompt and completion, messages, or instruction and output hold one; --task answers lets the model "
                "answer and compares with the rows' references");
}

// Reads and tokenises the rows; `objective` is set to what is evaluated.
Prepared prepare_rows(const Arguments& args, const ModelChoice& choice, const std::string& scratch,
                      Progress& progress, ObjectiveConfig& objective) {
  ModelText text = open_model_text(choice.text, choice.chat_template);
  const ModelSpec model = spec_of(choice);
  text.model = example_model(model);
  std::optional<std::string> file = args.text("--data");
  if (!file) {
    if (args.has("--train-on"))
      throw Error(ErrorKind::usage, "--train-on goes with --data: the run has masked its data");
    if (!choice.run) throw Error(ErrorKind::usage, "expected --data FILE");
    if (!has_eval_data(choice.run->job))
      throw Error(ErrorKind::usage, "the run has no evaluation data").hint("name a file with --data");
    objective = choice.run->job.objective;
    return prepare_split(choice.run->job, Split::eval, text, progress);
  }
  if (!fs::exists(*file)) throw Error(ErrorKind::data, "--data " + *file + ": no such file").hint(near_path_hint(*file));
  Job job = job_for_file(*file, choice, args);
  job.output_dir = scratch;
  const auto prepare = [&] { return prepare_split(job, Split::train, text, progress, {.source_name = "--data " + *file}); };
  Prepared rows = prepare();
  // Rows of text have a likelihood even if the run compares answers: they are evaluated with the
  // default objective.
  const auto is_text = [](RowFormat format) { return trains_on(objective_of(ObjectiveType::sft), format); };
  const Objective& row = objective_of(job.objective.type());
  if (row.coupling != Coupling::token && !row.scores && std::all_of(rows.summary.formats.begin(), rows.summary.formats.end(), is_text)) {
    job.objective = {};
    rows = prepare();
  }
  objective = job.objective;
  int64_t context = model.max_position_embeddings;
  if (rows.summary.longest > context && !model.reads_source())
    progress.warn("the longest row has " + format_count(rows.summary.longest) +
                  " tokens, the model was trained on " + format_count(context));
  return rows;
}

Json totals(const Json& done, const Prepared& rows, const ObjectiveConfig& objective) {
  double loss = done.value("eval_loss", Json()).is_number() ? done["eval_loss"].get<double>() : std::nan("");
  const bool by_token = objective_of(objective.type()).coupling == Coupling::token;
  return {{"loss", loss},
          {"perplexity", by_token ? Json(std::exp(loss)) : Json(nullptr)},
          {"objective", name_of(objective.type())},
          {"metrics", done.value("metrics", Json::object())},
          {"examples", rows.summary.examples},
          {"tokens", rows.summary.tokens},
          {"supervised_tokens", rows.summary.supervised_tokens},
          {"truncated", rows.summary.truncated},
          {"seconds", done.value("seconds", 0.0)}};
}

std::string text_of(const Json& totals) {
  auto count = [&](const char* key) { return format_count(totals[key].get<int64_t>()); };
  if (totals["perplexity"].is_null())
    return fmt::format("{} loss {:.4f}  accuracy {:.4g}  margin {:.4g}  {} examples, {} tokens\n",
                       totals["objective"].get<std::string>(), totals["loss"].get<double>(),
                       totals["metrics"].value("reward_accuracy", std::nan("")), totals["metrics"].value("reward_margin", std::nan("")),
                       count("examples"), count("tokens"));
  return fmt::format("loss {:.4f}  perplexity {:.4g}  {} examples  {} of {} tokens counted\n",
                     totals["loss"].get<double>(), totals["perplexity"].get<double>(), count("examples"),
                     count("supervised_tokens"), count("tokens"));
}

// Returns the request. Runs of dpo or kto compare with the model that they started from, or with
// its base.
Json eval_request(const DataSet& data, const ModelChoice& choice, const ObjectiveConfig& objective) {
  Json request{{"command", "eval"}, {"tokens", data.path()}};
  if (objective_of(objective.type()).coupling == Coupling::token) return request;
  const Job& trained = choice.run->job;
  Job job = trained;
  job.objective = objective;
  request["job"] = to_json(job);
  if (!objective_of(objective.type()).has_reference) return request;
  request["reference_model"] = trained.model.path;
  const bool start = objective.as<Referenced>().reference == ReferenceModel::start;
  if (start && trained.adapter.init_from) request["reference_adapter"] = *trained.adapter.init_from;
  return request;
}

// Returns one line of --per-example.
std::string example_line(const DataSet& data, const Json& event) {
  const int64_t index = event.at("index").get<int64_t>();
  Json line{{"line", data.source_line(index)}, {"tokens", event.at("tokens")}};
  if (const std::string label = data.label(index); !label.empty()) line["label"] = label;
  if (event.contains("score")) {
    line["score"] = event["score"];
  } else {
    line["supervised_tokens"] = event.at("supervised_tokens");
    line["loss"] = event.at("loss");
  }
  return dump_json(line) + "\n";
}

int show(Json result, const std::string& text, const std::string& per_example, const ModelChoice& choice, const Arguments& args,
         const Progress& progress) {
  if (std::optional<std::string> path = args.text("--per-example")) write_user_file(*path, per_example);
  result["precision"] = name_of(choice.precision);
  result["precision_reason"] = choice.precision_reason;
  result["warnings"] = progress.warnings();
  print_either(args.json(), result, text);
  return 0;
}

int run(const Arguments& args) {
  const std::string task = args.text("--task").value_or("loss");
  check_task_options(task, args);
  Progress progress(false, args.quiet() || args.json());
  ModelChoice choice = choose_model(args, progress);
  if (task != "loss") {
    TaskResult result = run_task(task, args, choice, progress);
    Json summary{{"task", task}};
    summary.update(result.summary);
    return show(std::move(summary), result.text, result.per_example, choice, args, progress);
  }
  ScratchFolder scratch;
  ObjectiveConfig objective;
  Prepared rows = prepare_rows(args, choice, scratch.path(), progress, objective);
  if (draws_completions(objective.type()))
    throw Error(ErrorKind::usage, "the run learned from completions that it drew: its rows hold no answers to compute a loss of")
        .hint("its report has the held-out reward; for other prompts, forge generate RUN --prompts FILE writes completions and "
              "forge score FILE --rewards JOB scores them; --task answers --data FILE compares answers with references");
  if (!choice.run) require_answers(rows.summary, objective.type());
  require_trainable(rows.summary, objective.type(), "--data");
  if (rows.summary.truncated > 0)
    progress.warn(format_count(rows.summary.truncated) + " rows are cut at the maximum length");
  progress.line("precision " + name_of(choice.precision) + ": " + choice.precision_reason);
  std::string per_example;
  Json done = compute(eval_request(*rows.data, choice, objective), choice, args, [&](const Json& event) {
    if (event["event"] != "example") return progress.show(event);
    per_example += example_line(*rows.data, event);
  });
  progress.finish();
  const Json result = totals(done, rows, objective);
  return show(result, text_of(result), per_example, choice, args, progress);
}

}  // namespace

constexpr Command kCommand{
    "eval", "[RUN]", 0, 1,
    "measure loss, perplexity, answers and choices of a model or a run",
    kOptions, run};

}  // namespace forge::eval_command
