// forge data: what the model will see.
#include "cli/command.h"
#include "cli/console.h"
#include "cli/line.h"
#include "core/base/text.h"
#include "core/data/show.h"

namespace forge {
namespace {

constexpr Option kOptions[] = {
    {"--show", "N", "print the first N examples with the trained text in colour"},
    {"--dump", "OUT.jsonl", "write every example: source line text ids mask"},
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
  const std::pair<const char*, int64_t> kLosses[] = {{"truncated", summary.truncated},
                                                     {"dropped", summary.dropped},
                                                     {"split", summary.split},
                                                     {"skipped", summary.skipped},
                                                     {"nothing to train", summary.untrained}};
  for (const auto& [name, count] : kLosses)
    if (count > 0) rows.push_back({name, format_count(count) + share(count, summary.rows)});
  return format_table(rows);
}

int run(const Arguments& args) {
  Progress progress(false, args.quiet() || args.json());
  Split split = split_of(args);
  int64_t shown = args.integer("--show", 0, 0, INT64_MAX);
  LoadedJob loaded = load_job(args.operands()[0], {.sets = args.texts("--set")});
  const Job& job = loaded.job;
  if (split == Split::eval && !has_eval_data(job))
    throw Error(ErrorKind::usage, args.operands()[0] + ": the job has no evaluation data")
        .hint("set data.eval or data.eval_fraction");
  ModelText text = open_model_text(job.model.path, job.data.template_name);
  Prepared prepared = prepare_split(job, split, text, false, progress);
  const DataSet& data = *prepared.data;
  if (std::optional<std::string> path = args.text("--dump")) {
    OutputFile out(*path);
    dump_dataset(data, text.tokenizer, out);
    out.sync_and_close();
  }
  if (args.json()) {
    print_json(to_json(prepared.summary));
    return 0;
  }
  for (int64_t index = 0; index < std::min(shown, data.size()); ++index)
    print(show_example(data, index, text.tokenizer, stdout_has_color()) + "\n");
  print(summary_text(prepared.summary));
  return 0;
}

}  // namespace

extern const Command kDataCommand;
constexpr Command kDataCommand{"data",   "JOB", 1, 1, "what the model will see: examples, masks, counts",
                               kOptions, run};

}  // namespace forge
