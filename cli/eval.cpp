// forge eval: loss and perplexity of a model on data, of the tokens that objective.train_on names.
#include <fmt/format.h>
#include <cmath>
#include <filesystem>

#include "cli/console.h"
#include "cli/line.h"
#include "cli/model_choice.h"
#include "core/base/temporary.h"
#include "core/base/text.h"
#include "core/config/names.h"
#include "core/objective/objective.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

constexpr Option kOwnOptions[] = {
    {"--data", "FILE", "rows to evaluate (default for a run: its evaluation data)"},
    {"--train-on", "NAME", "which tokens count, as objective.train_on (default: the run's, else assistant)"},
    {"--max-length", "N", "cut longer rows at N tokens (default: nothing is cut)"},
    {"--per-example", "OUT.jsonl", "write line, tokens, supervised_tokens and loss (summed) of every row"},
};
constexpr auto kOptions = join_options(kModelOptions, kOwnOptions);

// A folder that goes when the command ends.
class ScratchFolder {
 public:
  ScratchFolder() {
    remove_abandoned(fs::temp_directory_path().string());
    std::string pattern = temporary_of(fs::temp_directory_path() / "forge-eval") + "-XXXXXX";
    if (!::mkdtemp(pattern.data()))
      throw Error(ErrorKind::environment, pattern + ": cannot create the folder")
          .hint("set TMPDIR to a folder that can be written");
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A job whose training split is the file, so that the data path of training does the work. A run's losses are of the
// tokens that it trains on.
Job job_for_file(const std::string& file, const ModelChoice& choice, const Arguments& args) {
  Job job;
  job.model.path = choice.model;
  if (choice.run && objective_of(choice.run->job.objective.type).coupling == Coupling::token)
    job.objective = choice.run->job.objective;
  if (std::optional<std::string> name = args.text("--train-on")) {
    std::optional<TrainOn> train_on = enum_of<TrainOn>(*name);
    if (!train_on)
      throw Error(ErrorKind::usage, "--train-on " + *name + ": expected " + join(names(TrainOn()), ", "));
    job.objective = {.train_on = *train_on};
  }
  job.data.template_name = choice.chat_template.name;
  job.data.template_variables = choice.chat_template.variables;
  job.data.train = {DataSource{fs::absolute(file).lexically_normal().string()}};
  // Nothing is cut unless asked for: a loss over half a row is not the row's loss.
  job.data.max_length = args.integer("--max-length", INT32_MAX, 1, INT32_MAX);
  return job;
}

Prepared prepare_rows(const Arguments& args, const ModelChoice& choice, const std::string& scratch,
                      Progress& progress) {
  ModelText text = open_model_text(choice.model, choice.chat_template);
  const ModelSpec model = read_model_spec(choice.model);
  text.embedding_rows = model.vocab_size;
  std::optional<std::string> file = args.text("--data");
  if (!file) {
    if (args.has("--train-on"))
      throw Error(ErrorKind::usage, "--train-on goes with --data: the run has masked its data");
    if (!choice.run) throw Error(ErrorKind::usage, "expected --data FILE");
    if (!has_eval_data(choice.run->job))
      throw Error(ErrorKind::usage, "the run has no evaluation data").hint("name a file with --data");
    return prepare_split(choice.run->job, Split::eval, text, progress);
  }
  if (!fs::exists(*file)) throw Error(ErrorKind::data, "--data " + *file + ": no such file");
  Job job = job_for_file(*file, choice, args);
  job.output_dir = scratch;
  Prepared rows = prepare_split(job, Split::train, text, progress, {.source_name = "--data " + *file});
  int64_t context = model.max_position_embeddings;
  if (rows.summary.longest > context)
    progress.warn("the longest row has " + format_count(rows.summary.longest) +
                  " tokens, the model was trained on " + format_count(context));
  return rows;
}

Json totals(const Json& done, const Prepared& rows) {
  double loss = done.value("eval_loss", Json()).is_number() ? done["eval_loss"].get<double>() : std::nan("");
  return {{"loss", loss},
          {"perplexity", std::exp(loss)},
          {"examples", rows.summary.examples},
          {"tokens", rows.summary.tokens},
          {"supervised_tokens", rows.summary.supervised_tokens},
          {"truncated", rows.summary.truncated},
          {"seconds", done.value("seconds", 0.0)}};
}

std::string text_of(const Json& totals) {
  auto count = [&](const char* key) { return format_count(totals[key].get<int64_t>()); };
  return fmt::format("loss {:.4f}  perplexity {:.4g}  {} examples  {} of {} tokens counted\n",
                     totals["loss"].get<double>(), totals["perplexity"].get<double>(), count("examples"),
                     count("supervised_tokens"), count("tokens"));
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  ModelChoice choice = choose_model(args, progress);
  ScratchFolder scratch;
  Prepared rows = prepare_rows(args, choice, scratch.path(), progress);
  require_trainable(rows.summary, ObjectiveType::sft, "--data");  // what is measured is the likelihood of text
  if (rows.summary.truncated > 0)
    progress.warn(format_count(rows.summary.truncated) + " rows are cut at the maximum length");
  progress.line("precision " + name_of(choice.precision) + ": " + choice.precision_reason);
  std::string per_example;
  Json done =
      compute({{"command", "eval"}, {"tokens", rows.data->path()}}, choice, args, [&](const Json& event) {
        if (event["event"] != "example") return progress.show(event);
        int64_t index = event.at("index").get<int64_t>();
        per_example += dump_json({{"line", rows.data->source_line(index)},
                                  {"tokens", event.at("tokens")},
                                  {"supervised_tokens", event.at("supervised_tokens")},
                                  {"loss", event.at("loss")}}) +
                       "\n";
      });
  progress.finish();
  if (std::optional<std::string> path = args.text("--per-example")) write_file_durably(*path, per_example);
  Json result = totals(done, rows);
  result["precision"] = name_of(choice.precision);
  result["precision_reason"] = choice.precision_reason;
  result["warnings"] = progress.warnings();
  if (args.json())
    print_json(result);
  else
    print(text_of(result));
  return 0;
}

}  // namespace

extern const Command kEvalCommand;
constexpr Command kEvalCommand{
    "eval", "[RUN]", 0, 1, "loss and perplexity of a model, or of a run's result", kOptions, run};

}  // namespace forge
