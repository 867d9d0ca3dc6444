#include "cli/score_model.h"


#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "cli/console.h"
#include "cli/line.h"
#include "cli/model_choice.h"
#include "core/lib/base/format.h"
#include "core/lib/base/near_path.h"
#include "core/lib/base/text.h"
#include "core/model/families/adapter_folder.h"
#include "core/run/staging.h"

namespace forge {
namespace {

namespace fs = std::filesystem;

struct ScoredRow {
  int64_t line = 0;
  std::string label;  // as DataSet::label
  double score = 0;
};

void require_scores(const ModelChoice& choice) {
  if (read_model_spec(model_of(choice)).score_head) return;
  if (choice.adapter && read_adapter_config(*choice.adapter).scores) return;
  throw Error(ErrorKind::environment, (choice.adapter ? *choice.adapter : choice.model) + ": gives no scores: it has no score head")
      .hint("a reward model comes from objective: reward, or from transformers' AutoModelForSequenceClassification");
}

// Tokenises the rows exactly as in training; the loss mask does not matter.
Prepared prepare_rows(const std::string& file, const ModelChoice& choice, const Arguments& args, const std::string& scratch,
                      Progress& progress) {
  if (!fs::exists(file)) throw Error(ErrorKind::data, file + ": no such file").hint(near_path_hint(file));
  ModelText text = open_model_text(choice.text, choice.chat_template);
  const ModelSpec model = read_model_spec(model_of(choice));
  text.model = example_model(model);
  Job job;
  job.model.path = choice.model;
  job.data.template_name = choice.chat_template.name;
  job.data.template_variables = choice.chat_template.variables;
  job.data.train = {DataSource{fs::absolute(file).lexically_normal().string()}};
  job.data.train[0].limit = args.has("--limit") ? std::optional(args.integer("--limit", 0, 1, INT64_MAX)) : std::nullopt;
  job.data.max_length = INT32_MAX;  // a truncated text has another end
  job.output_dir = scratch;
  return prepare_split(job, Split::train, text, progress, {.source_name = file});
}

struct Summary {
  int64_t count = 0;
  double sum = 0, squares = 0, least = 0, most = 0;
  void add(double score) {
    least = count == 0 ? score : std::min(least, score);
    most = count == 0 ? score : std::max(most, score);
    ++count;
    sum += score;
    squares += score * score;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double deviation() const {
    const auto n = static_cast<double>(count);
    return count < 2 ? 0 : std::sqrt(std::max(0.0, (squares - sum * sum / n) / (n - 1)));
  }
  Json json() const {
    return {{"count", count}, {"mean", mean()}, {"std", deviation()}, {"min", least}, {"max", most}};
  }
};

// Returns the group of an answer by its label: chosen and rejected, good and bad; "all" for texts
// without a label.
std::string kind_of(const ScoredRow& row) {
  if (row.label.empty()) return "all";
  return row.label.substr(0, row.label.find(' '));
}

// Share of pairs whose chosen answer has the higher score; ties count one half.
struct Accuracy {
  int64_t pairs = 0;
  double right = 0;
};
Accuracy accuracy_of(const std::vector<ScoredRow>& rows) {
  Accuracy accuracy;
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    if (kind_of(rows[i]) != "chosen" || rows[i + 1].label != "rejected") continue;
    ++accuracy.pairs;
    accuracy.right += rows[i].score > rows[i + 1].score ? 1 : rows[i].score == rows[i + 1].score ? 0.5 : 0;
  }
  return accuracy;
}

Json json_of(const std::vector<ScoredRow>& rows, const std::map<std::string, Summary>& kinds) {
  Json result{{"texts", rows.size()}, {"scores", Json::array()}, {"kinds", Json::object()}};
  for (const auto& [kind, summary] : kinds) result["kinds"][kind] = summary.json();
  const Accuracy accuracy = accuracy_of(rows);
  if (accuracy.pairs > 0) result["accuracy"] = accuracy.right / static_cast<double>(accuracy.pairs);
  for (const ScoredRow& row : rows) {
    Json one{{"line", row.line}, {"score", row.score}};
    if (!row.label.empty()) one["label"] = row.label;
    result["scores"].push_back(std::move(one));
  }
  return result;
}

std::string text_of(const std::vector<ScoredRow>& rows, const std::map<std::string, Summary>& kinds, int64_t shown) {
  std::string text;
  for (size_t i = 0; i < rows.size() && static_cast<int64_t>(i) < shown; ++i)
    text += fmt::format("line {}{}: {:.4f}\n", rows[i].line, rows[i].label.empty() ? "" : ", " + rows[i].label, rows[i].score);
  std::vector<std::vector<std::string>> table{{"texts", "count", "mean", "std", "min", "max"}};
  for (const auto& [kind, s] : kinds)
    table.push_back({kind, format_count(s.count), fmt::format("{:.4f}", s.mean()), fmt::format("{:.4f}", s.deviation()),
                     fmt::format("{:.4f}", s.least), fmt::format("{:.4f}", s.most)});
  text += (text.empty() ? "" : "\n") + format_table(table);
  const Accuracy accuracy = accuracy_of(rows);
  if (accuracy.pairs > 0)
    text += fmt::format("the chosen answer has the higher score in {:.1f} % of {} pairs\n",
                        100 * accuracy.right / static_cast<double>(accuracy.pairs), format_count(accuracy.pairs));
  return text;
}

}  // namespace

int score_by_model(const Arguments& args) {
  if (args.has("--completion") || args.has("--prompt") || args.has("--set"))
    throw Error(ErrorKind::usage, "--completion, --prompt and --set go with --rewards");
  Progress progress(false, args.quiet() || args.json());
  const ModelChoice choice = choose_model(args, progress, "--run");
  require_scores(choice);
  const ScratchFolder scratch;
  const Prepared rows = prepare_rows(args.operands()[0], choice, args, scratch.path(), progress);
  std::vector<ScoredRow> scored;
  std::map<std::string, Summary> kinds;
  compute({{"command", "eval"}, {"tokens", rows.data->path()}}, choice, args, [&](const Json& event) {
    if (event["event"] != "example") return progress.show(event);
    const int64_t index = event.at("index").get<int64_t>();
    scored.push_back({rows.data->source_line(index), rows.data->label(index), event.at("score").get<double>()});
    kinds[kind_of(scored.back())].add(scored.back().score);
  });
  progress.finish();
  if (args.json())
    print_json(json_of(scored, kinds));
  else
    print(text_of(scored, kinds, args.integer("--show", 3, 0, INT64_MAX)));
  return 0;
}

}  // namespace forge
