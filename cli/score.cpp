// forge score: scores completions with a job's rewards, before any training, or with a reward model
// (score_model.h).

#include <algorithm>
#include <cmath>

#include "cli/command.h"
#include "cli/console.h"
#include "cli/faults.h"
#include "cli/line.h"
#include "cli/model_choice.h"
#include "cli/score_model.h"
#include "core/data/read/sample_rows.h"
#include "core/job/names.h"
#include "core/job/secrets.h"
#include "core/learn/reinforce/advantage.h"
#include "core/learn/reward/answer.h"
#include "core/learn/reward/rewards.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"
#include "core/run/host/judge_text.h"

namespace forge::score_command {
namespace {

constexpr Option kOwnOptions[] = {
    {"--rewards", "JOB", "job file with the rewards to use; its other sections are ignored"},
    {"--completion", "COLUMN",
     "column of the completion, or of a list of them (default: completion, completions, or the "
     "row's answer)"},
    {"--prompt", "COLUMN", "column of the prompt (default: prompt)"},
    {"--limit", "N", "score only the first N rows"},
    {"--show", "N", "print the scores of the first N completions (default 3)"},
    {"--set", "KEY=VALUE", "change a value, as in --set rewards=[exact]", true},
    {"--run", "RUN",
     "run folder of a reward model to score with; --model and --adapter name one by its files"},
};
constexpr auto kOptions = join_tables(kOwnOptions, kModelOptions);

// The result of one reward.
struct Column {
  std::vector<double> values;
  int64_t failed = 0, declined = 0;
};

Column column_of(const std::vector<ScoredSample>& scored, size_t reward) {
  Column column;
  for (const ScoredSample& sample : scored) {
    const Score& score = sample.parts[reward];
    if (score.value) column.values.push_back(*score.value);
    column.failed += score.failure.has_value();
    column.declined += !score.value && !score.failure;
  }
  return column;
}

Column totals_of(const std::vector<ScoredSample>& scored) {
  Column column;
  for (const ScoredSample& sample : scored) {
    if (sample.total) column.values.push_back(*sample.total);
    column.declined += !sample.total;
  }
  return column;
}

// Returns the smallest and the largest value; zeros without any.
std::pair<double, double> ends_of(const std::vector<double>& values) {
  if (values.empty()) return {};
  return {std::ranges::min(values), std::ranges::max(values)};
}

constexpr int kBins = 10;

// Returns a histogram with equally wide bins from the smallest to the largest value; one bin if all
// are equal. Empty without values.
std::vector<int64_t> histogram(const std::vector<double>& values) {
  if (values.empty()) return {};
  const auto [least, most] = ends_of(values);
  std::vector<int64_t> bins(most > least ? kBins : 1);
  for (const double value : values) {
    const double place = most > least ? (value - least) / (most - least) * kBins : 0;
    ++bins[std::min<size_t>(static_cast<size_t>(place), bins.size() - 1)];
  }
  return bins;
}

std::string bars(const std::vector<int64_t>& bins) {
  static const char* const kHeights[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const int64_t most = *std::max_element(bins.begin(), bins.end());
  std::string text;
  for (const int64_t count : bins) text += count == 0 ? " " : kHeights[(7 * count + most - 1) / most];
  return text;
}

std::string short_number(double value) { return format_number(std::round(value * 1e4) / 1e4); }

// Groups of several completions whose totals are all equal teach nothing.
struct Groups {
  int64_t several = 0, flat = 0;
};
Groups groups_of(const std::vector<RewardSample>& samples, const std::vector<ScoredSample>& scored) {
  std::map<int64_t, std::vector<double>> totals;
  for (size_t i = 0; i < samples.size(); ++i)
    if (scored[i].total) totals[samples[i].group].push_back(*scored[i].total);
  Groups groups;
  for (const auto& [id, of_group] : totals) {
    if (of_group.size() < 2) continue;
    ++groups.several;
    groups.flat += moments_of(of_group).deviation < kFlatDeviation;
  }
  return groups;
}

Json column_json(const Column& column) {
  const std::vector<double>& values = column.values;
  const MeanAndDeviation moments = values.empty() ? MeanAndDeviation{} : moments_of(values);
  const auto [least, most] = ends_of(values);
  const auto number = [&](double value) { return values.empty() ? Json(nullptr) : Json(value); };
  return {{"mean", number(moments.mean)},
          {"std", number(moments.deviation)},
          {"min", number(least)},
          {"max", number(most)},
          {"scored", values.size()},
          {"failed", column.failed},
          {"unscored", column.declined},
          {"histogram", histogram(values)}};
}

std::vector<std::string> table_row(const std::string& name, const std::string& type,
                                   const std::string& weight, const Column& column) {
  const Json json = column_json(column);
  std::vector<std::string> row{name, type, weight};
  for (const char* key : {"mean", "std", "min", "max"})
    row.push_back(json[key].is_null() ? "–" : short_number(json[key].get<double>()));
  for (const char* key : {"scored", "failed", "unscored"})
    row.push_back(format_count(json[key].get<int64_t>()));
  row.push_back(column.values.empty() ? "" : bars(histogram(column.values)));
  return row;
}

std::string table_text(const Rewards& rewards, const std::vector<ScoredSample>& scored) {
  std::vector<std::vector<std::string>> rows{{"reward", "type", "weight", "mean", "std", "min", "max",
                                              "scored", "failed", "unscored", "min to max"}};
  for (size_t k = 0; k < rewards.configs().size(); ++k) {
    const RewardConfig& reward = rewards.configs()[k];
    rows.push_back(table_row(reward.name, name_of(reward.type()),
                             reward.weight == 0 ? "0 (shadow)" : format_number(reward.weight),
                             column_of(scored, k)));
  }
  rows.push_back(table_row("total", "", "", totals_of(scored)));
  return format_table(rows);
}

std::string shown_text(const Rewards& rewards, const std::vector<RewardSample>& samples,
                       const std::vector<ScoredSample>& scored, int64_t count) {
  std::string text;
  for (size_t i = 0; i < samples.size() && static_cast<int64_t>(i) < count; ++i) {
    text += samples[i].place + ": " + (scored[i].total ? short_number(*scored[i].total) : "unscored") +
            "  \"" + shortened(samples[i].completion) + "\"\n";
    for (size_t k = 0; k < rewards.configs().size(); ++k) {
      const Score& score = scored[i].parts[k];
      text += "  " + rewards.configs()[k].name + " " +
              (score.value ? short_number(*score.value) : "unscored") +
              (score.reason.empty() ? "" : ": " + score.reason) + "\n";
    }
  }
  return text.empty() ? "" : text + "\n";
}

// Lists the first completions without a score, by row.
std::string failures_text(const Rewards& rewards, const std::vector<RewardSample>& samples,
                          const std::vector<ScoredSample>& scored) {
  std::string text;
  int64_t told = 0, more = 0;
  for (size_t i = 0; i < samples.size(); ++i)
    for (size_t k = 0; k < rewards.configs().size(); ++k) {
      const Score& score = scored[i].parts[k];
      if (score.value) continue;
      if (told == kMostTold) {
        ++more;
        continue;
      }
      ++told;
      text += "  " + samples[i].place + ": " + rewards.configs()[k].name +
              (score.failure ? " failed: " : " gave no score: ") + score.reason + "\n";
    }
  if (more > 0) text += "  and " + format_count(more) + " more (--json lists all)\n";
  return text.empty() ? "" : "\nwithout a score:\n" + text;
}

Json json_of(const Rewards& rewards, const std::vector<RewardSample>& samples,
             const std::vector<ScoredSample>& scored) {
  Json result{{"completions", samples.size()}};
  Json all = Json::array();
  for (size_t k = 0; k < rewards.configs().size(); ++k) {
    const RewardConfig& reward = rewards.configs()[k];
    Json one{{"name", reward.name}, {"type", name_of(reward.type())}, {"weight", reward.weight}};
    one.update(column_json(column_of(scored, k)));
    one["timeouts"] = rewards.counts(k).timeouts;
    one["crashes"] = rewards.counts(k).crashes;
    all.push_back(std::move(one));
  }
  result["rewards"] = std::move(all);
  result["total"] = column_json(totals_of(scored));
  const Groups groups = groups_of(samples, scored);
  result["groups"] = {{"several", groups.several}, {"flat", groups.flat}};
  Json rows = Json::array();
  for (size_t i = 0; i < samples.size(); ++i) {
    Json parts = Json::object();
    for (size_t k = 0; k < rewards.configs().size(); ++k) {
      const Score& score = scored[i].parts[k];
      parts[rewards.configs()[k].name] = {{"score", score.value ? Json(*score.value) : Json(nullptr)},
                                          {"reason", score.reason},
                                          {"failed", score.failure.has_value()},
                                          {"parts", score.parts}};
    }
    rows.push_back({{"place", samples[i].place},
                    {"group", samples[i].group},
                    {"total", scored[i].total ? Json(*scored[i].total) : Json(nullptr)},
                    {"reason", scored[i].reason},
                    {"rewards", std::move(parts)}});
  }
  result["scores"] = std::move(rows);
  return result;
}

void count_tokens(const Job& job, const Rewards& rewards, std::vector<RewardSample>& samples) {
  if (!rewards.counts_tokens()) return;
  if (job.model.path.empty())
    throw KeyError(ErrorKind::job, "model.path", "is missing, but a reward counts tokens",
                   "name the model whose tokens count");
  const ModelText text = open_model_text(job.model.path);
  for (RewardSample& sample : samples)
    sample.tokens =
        static_cast<int64_t>(text.tokenizer.encode(sample.completion, {.parse_special = false}).size());
}

// Asks a reward model through an engine of its own.
std::vector<Score> judged(const RewardConfig& reward, const std::vector<RewardSample>& samples, const Arguments& args,
                          const Device& device) {
  const JudgeModel judge = read_judge(*reward.as<ModelReward>().path);
  const JudgedTexts texts = JudgeText(judge).encode(samples);
  if (texts.ids.empty()) return texts.scores(Json::array());
  ModelChoice choice{.model = judge.model, .text = judge.model, .device = device};
  if (!judge.adapter.empty()) choice.adapter = judge.adapter;
  return texts.scores(compute({{"command", "judge"}, {"texts", texts.ids}}, choice, args, [](const Json&) {}).at("scores"));
}

int score(const Arguments& args, const LoadedJob& loaded) {
  const Job& job = loaded.job;
  Rewards rewards(job);
  SampleRowOptions options;
  options.completion = args.text("--completion").value_or("");
  options.prompt = args.text("--prompt").value_or("prompt");
  options.limit = args.integer("--limit", 0, 1, INT64_MAX);
  std::vector<RewardSample> samples = read_samples(args.operands()[0], options);
  count_tokens(job, rewards, samples);
  Progress progress(false, args.quiet() || args.json());
  std::optional<Device> device;
  const auto judge = [&](const RewardConfig& reward, const std::vector<RewardSample>& asked) {
    if (!device) device = chosen_device(args, progress);
    return judged(reward, asked, args, *device);
  };
  const std::vector<ScoredSample> scored = rewards.score(samples, {.keep_going = true, .judge = judge});
  if (args.json()) {
    print_json(hide_secrets(json_of(rewards, samples, scored), loaded.secrets));
  } else {
    std::string text = shown_text(rewards, samples, scored, args.integer("--show", 3, 0, INT64_MAX));
    text += table_text(rewards, scored);
    if (const Groups groups = groups_of(samples, scored); groups.several > 0)
      text += fmt::format(
          "\n{} of {} groups of several completions are flat: all of a group have the same total\n",
          format_count(groups.flat), format_count(groups.several));
    text += failures_text(rewards, samples, scored);
    print_text(hide_secrets(std::move(text), loaded));
  }
  // The command fails with the error a run would fail with.
  require_scores(rewards.configs(), samples, scored);
  return 0;
}

int run(const Arguments& args) {
  const std::optional<std::string> file = args.text("--rewards");
  const bool by_model = args.has("--run") || args.has("--model");
  if (file && by_model) throw Error(ErrorKind::usage, "--rewards and a model are given: expected one of them");
  if (by_model) return score_by_model(args);
  if (!file)
    throw Error(ErrorKind::usage, "--rewards JOB, --run RUN or --model PATH is missing")
        .hint("forge score " + args.operands()[0] + " --rewards job.yaml, or --run runs/NAME of a reward model");
  const LoadedJob loaded = load_job(*file, {.sets = args.texts("--set"), .rewards_only = true});
  try {
    return score(args, loaded);
  } catch (const Error& error) {
    throw hide_secrets(with_places(error, loaded, *file), loaded.secrets);
  }
}

}  // namespace

constexpr Command kCommand{
    "score", "FILE", 1, 1,
    "score the answers in a file with a job's rewards or a reward model",
    kOptions, run};

}  // namespace forge::score_command
