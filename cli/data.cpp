// forge data: shows what the model will see.
#include "cli/command.h"
#include "cli/console.h"
#include "cli/data_html.h"
#include "cli/faults.h"
#include "cli/line.h"
#include "core/data/examples/data_summary.h"
#include "core/data/report/report.h"
#include "core/data/show.h"
#include "core/job/secrets.h"
#include "core/lib/base/printable.h"
#include "core/lib/base/text.h"
#include "core/lib/base/user_file.h"

namespace forge::data_command {
namespace {

constexpr Option kOptions[] = {
    {"--show", "N", "print the first N examples, with trained text in color"},
    {"--dump", "OUT.jsonl", "write every example: source, line, label, text, ids, mask"},
    {"--html", "FILE", "write findings and examples, token by token, as one HTML page"},
    {"--prepare", "", "only create the token caches"},
    {"--split", "NAME", "train (default) or eval"},
    {"--set", "KEY=VALUE", "change a value, as in --set data.max_length=512", true},
};

Split split_of(const Arguments& args) {
  std::string name = args.text("--split").value_or("train");
  if (name == "train") return Split::train;
  if (name == "eval") return Split::eval;
  throw Error(ErrorKind::usage, "--split " + name + ": expected train or eval");
}

std::string share(int64_t part, int64_t whole) {
  return whole > 0 ? " (" + std::to_string((100 * part + whole / 2) / whole) + " %)" : "";
}

std::string summary_text(const DataSummary& summary) {
  std::vector<std::vector<std::string>> rows{
      {"format", summary.format},
      {"rows", format_count(summary.rows)},
      {"examples", format_count(summary.examples)},
      {"tokens", format_count(summary.tokens)},
      {"trained tokens",
       format_count(summary.supervised_tokens) + share(summary.supervised_tokens, summary.tokens)},
      {"longest", format_count(summary.longest) + " tokens"}};
  const std::pair<const char*, int64_t> kCounts[] = {
      {"left out by weight", summary.unsampled},       {"prompts cut", summary.cuts.prompts},
      {"completions cut", summary.cuts.completions},   {"tokens cut", summary.cuts.tokens},
      {"tokens dropped", summary.cuts.dropped_tokens}, {"tools unsaid", summary.cuts.unsaid_tools}};
  const std::pair<const char*, int64_t> kLosses[] = {{"truncated", summary.truncated},
                                                     {"dropped", summary.dropped},
                                                     {"split", summary.split},
                                                     {"skipped", summary.skipped},
                                                     {"nothing to train", summary.untrained}};
  for (const auto& [name, count] : kLosses)
    if (count > 0) rows.push_back({name, format_count(count) + share(count, summary.rows)});
  for (const auto& [name, count] : kCounts)
    if (count > 0) rows.push_back({name, format_count(count)});
  if (summary.pairs.desirable + summary.pairs.undesirable > 0)
    rows.push_back({"answers", classes_text(summary.pairs)});
  if (summary.pairs.longest > 0) rows.push_back({"pairs", pairs_text(summary.pairs, summary.examples)});
  if (!summary.unread_keys.empty()) rows.push_back({"keys not read", unread_text(summary)});
  return format_table(rows);
}

// A split that rows with faults may have stopped: the report says what they are, and the error
// still ends the command.
struct Looked {
  std::optional<Prepared> prepared;
  std::optional<Error> error;
};

Looked look_at_split(const Job& job, Split split, const ModelText& text, Progress& progress, DataReport& report,
                     FileHashes& file_hashes) {
  const int64_t before = report.rows();
  try {
    return {prepare_split(job, split, text, progress, {.report = &report, .read_cached = true, .file_hashes = &file_hashes}), {}};
  } catch (const Error& error) {
    progress.clear();
    if (error.kind() != ErrorKind::data || report.rows() == before) throw;
    return {{}, error};
  }
}

Json json_of(const Looked& looked, const DataReport& report) {
  Json json = looked.prepared ? to_json(looked.prepared->summary) : Json::object();
  json.update(to_json(report));
  return json;
}

// Creates the token caches of all splits and returns the summary of one.
DataSummary prepare_all(const Job& job, Split split, const ModelText& text, Progress& progress) {
  FileHashes file_hashes;
  const PrepareOptions options{.file_hashes = &file_hashes};
  const Prepared train = prepare_split(job, Split::train, text, progress, options);
  if (!has_eval_data(job)) return train.summary;
  const Prepared eval = prepare_split(job, Split::eval, text, progress, options);
  return split == Split::eval ? eval.summary : train.summary;
}

int look(const Arguments& args, LoadedJob& loaded) {
  Progress progress(false, args.quiet() || args.json());
  progress.hide(loaded.secrets);
  Split split = split_of(args);
  int64_t shown = args.integer("--show", 0, 0, INT64_MAX);
  const Job& job = loaded.job;
  ExampleModel known;
  try {
    ModelSpec model = read_model_spec(job.model);
    add_job_tokens(loaded, model);
    limit_length(loaded, model);
    known = example_model(model);
  } catch (const Error&) {
    // A model that forge cannot train still has a tokenizer to look through.
  }
  if (split == Split::eval && !has_eval_data(job))
    throw Error(ErrorKind::usage, args.operands()[0] + ": the job has no evaluation data")
        .hint("set data.eval or data.eval_fraction");
  ModelText text = open_model_text(job.model.path, template_choice(job));
  text.model = known;
  require_own_tokens(job, text);
  if (const std::string& note = text.tokenizer.class_note(); !note.empty()) progress.warn(note);
  if (args.has("--prepare")) {
    const DataSummary summary = prepare_all(job, split, text, progress);
    print_either(args.json(), hide_secrets(to_json(summary), loaded.secrets),
                 printable(hide_secrets(summary_text(summary), loaded)));
    return 0;
  }
  DataReport report(job);
  FileHashes file_hashes;
  Looked train = look_at_split(job, Split::train, text, progress, report, file_hashes), eval;
  try {
    if (has_eval_data(job)) eval = look_at_split(job, Split::eval, text, progress, report, file_hashes);
  } catch (const Error&) {
    // Training rows that cannot be used leave none to data.eval_fraction: the first error says why.
    if (!train.error || !job.data.eval.empty()) throw;
  }
  report.finish();
  if (train.prepared) keep_findings(job, *train.prepared, eval.prepared, findings_of(report), progress);
  if (loaded.origins["data.prompt_as"].kind == OriginKind::given) report.silence("bare_prompt");
  const Looked& chosen = split == Split::eval ? eval : train;
  const DataSet* data = chosen.prepared ? &*chosen.prepared->data : nullptr;
  if (std::optional<std::string> path = args.text("--html"))
    write_user_file(*path, data_html({job.name, &report, &text.tokenizer, data, shown > 0 ? shown : 20, loaded.secrets}));
  if (std::optional<std::string> path = args.text("--dump"); path && data)
    write_user_file(*path, [&](OutputFile& out) { dump_dataset(*data, text.tokenizer, out); });
  if (args.json()) {
    print_json(hide_secrets(json_of(chosen, report), loaded.secrets));
  } else {
    for (int64_t index = 0; data && index < std::min(shown, data->size()); ++index)
      print(hide_secrets(show_example(*data, index, text.tokenizer, stdout_has_color()), loaded) + "\n");
    if (data) print(printable(hide_secrets(summary_text(chosen.prepared->summary), loaded)));
    print(hide_secrets(report_text(report, stdout_has_color()), loaded));
  }
  for (const Looked* looked : {&train, &eval})
    if (looked->error) throw *looked->error;
  return 0;
}

int run(const Arguments& args) {
  LoadedJob loaded = read_job(args.operands()[0], args.texts("--set"));
  try {
    return look(args, loaded);
  } catch (const Error& error) {
    throw hide_secrets(with_places(error, loaded, args.operands()[0]), loaded.secrets);
  }
}

}  // namespace

constexpr Command kCommand{
    "data", "JOB", 1, 1,
    "show the examples a model is trained on, their masks and counts",
    kOptions, run};

}  // namespace forge::data_command
