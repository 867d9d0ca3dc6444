#include "cli/bench_points.h"


#include <algorithm>

#include "core/lib/base/error.h"
#include "core/lib/base/format.h"
#include "core/lib/base/text.h"

namespace forge {
namespace {

constexpr double kGain = 1.03;  // smallest gain that counts as faster

std::string rate(double tokens_per_second) {
  return tokens_per_second < 10 ? fmt::format("{:.2f}", tokens_per_second)
                                : format_count(static_cast<int64_t>(tokens_per_second + 0.5));
}
std::string times(double ratio) { return fmt::format("{:.2f} x", ratio); }
std::string percent(double share) { return fmt::format("{:.0f} %", 100 * share); }

// Returns a quantile of unsorted values; between two of them, the lower one.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1))];
}

std::string memory_text(const BenchResult& r) {
  return fmt::format("{} of {} planned", format_bytes(r.measured_peak_bytes),
                     format_bytes(r.predicted_peak_bytes));
}
std::string settings_text(const BenchResult& r) {
  return fmt::format("{}, {}, recompute {}", r.provider, r.precision, r.activation_checkpointing);
}

}  // namespace

double BenchResult::tokens_per_second() const { return quantile(rates, 0.5); }

double BenchResult::spread() const {
  return rates.empty() ? 0 : (quantile(rates, 0.75) - quantile(rates, 0.25)) / tokens_per_second();
}

BenchPoint batch_point(int64_t max_length, int64_t micro_batch_tokens) {
  const std::string tokens = std::to_string(micro_batch_tokens);
  return {"micro_batch_tokens " + tokens,
          {"data.max_length=" + std::to_string(max_length), "train.micro_batch_size=auto",
           "train.micro_batch_tokens=" + tokens, "train.global_batch_size=auto",
           "train.global_batch_tokens=" + std::to_string(std::max(max_length, micro_batch_tokens))}};
}

size_t knee(const std::vector<BenchResult>& results) {
  double fastest = 0;
  for (const BenchResult& r : results) fastest = std::max(fastest, r.tokens_per_second());
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].refused.empty() && results[i].tokens_per_second() * kGain >= fastest) return i;
  FORGE_CHECK(false, "a sweep without a result");
}

bool past_knee(const std::vector<BenchResult>& results) {
  if (results.size() < 3) return false;
  const auto last = results.end() - 3;
  return std::max(last[1].tokens_per_second(), last[2].tokens_per_second()) <
         kGain * last[0].tokens_per_second();
}

std::vector<BenchPoint> ladder() {
  // Each rung removes one more of these settings, down to the job itself.
  const BenchPoint plain[] = {
      {"one example at a time", {"train.micro_batch_tokens=auto", "train.micro_batch_size=1"}},
      {"+ micro-batches", {"data.packing=false"}},
      {"+ packing", {"train.activation_checkpointing=full"}},
      {"+ recompute as planned", {"provider=reference"}},
      {"+ provider as planned", {"train.precision=fp32"}},
      {"+ precision as planned: the job", {}},
  };
  std::vector<BenchPoint> rungs;
  for (const BenchPoint* rung = std::begin(plain); rung != std::end(plain); ++rung) {
    BenchPoint point{rung->name, {}};
    for (const BenchPoint* left = rung; left != std::end(plain); ++left)
      point.sets.insert(point.sets.end(), left->sets.begin(), left->sets.end());
    rungs.push_back(point);
  }
  return rungs;
}

double OpShares::roofline_share() const {
  double operations = 0;
  for (const Op& op : ops) operations += op.operations;
  return seconds > 0 && best_product_rate > 0 ? operations / best_product_rate / seconds : 0;
}

std::string shares_table(const OpShares& shares) {
  std::vector<std::vector<std::string>> rows{{"op", "share", "products, GFLOP/s", "of the quickest product"}};
  if (shares.on_device) rows[0].push_back("GB/s at least");
  const auto add = [&](const OpShares::Op& op) {
    std::vector<std::string> row{op.name, fmt::format("{:.1f} %", 100 * op.seconds / shares.seconds), "", ""};
    if (op.operations > 0 && op.seconds > 0) {
      row[2] = format_count(static_cast<int64_t>(op.operations / op.seconds / 1e9));
      row[3] = percent(op.operations / op.seconds / shares.best_product_rate);
    }
    if (shares.on_device) row.push_back(op.bytes > 0 && op.seconds > 0 ? format_count(static_cast<int64_t>(op.bytes / op.seconds / 1e9)) : "");
    rows.push_back(row);
  };
  OpShares::Op all{"all", shares.seconds};
  for (const OpShares::Op& op : shares.ops) add(op), all.operations += op.operations, all.bytes += op.bytes;
  add(all);
  const double per_second = shares.seconds > 0 ? static_cast<double>(shares.tokens) / shares.seconds : 0;
  const std::string clock =
      shares.on_device
          ? "measured: on the GPU's compute stream, by events before and after each op, in steps without graphs; " + rate(per_second) + " tokens/s so\n"
          : "measured: by the host's clock, around each op\n";
  return format_table(rows) + clock +
         fmt::format("roofline: at {} GFLOP/s, the quickest product alone, the products of a step would take {} of its time\n",
                     format_count(static_cast<int64_t>(shares.best_product_rate / 1e9)), percent(shares.roofline_share()));
}

std::string sweep_table(const std::vector<BenchResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"max_length", "micro_batch_tokens", "tokens/s", "spread", "memory", ""}};
  for (const BenchResult& r : results) {
    std::vector<std::string> row{format_count(r.max_length), format_count(r.micro_batch_tokens)};
    if (r.refused.empty())
      row.insert(row.end(),
                 {rate(r.tokens_per_second()), percent(r.spread()), memory_text(r), settings_text(r)});
    else
      row.insert(row.end(), {"", "", "", r.refused});
    rows.push_back(row);
  }
  return format_table(rows);
}

std::string ladder_table(const std::vector<BenchResult>& results) {
  std::vector<std::vector<std::string>> rows{
      {"settings", "tokens/s", "of the first", "of the one before", "spread", "memory", ""}};
  double first = 0, before = 0;
  for (const BenchResult& r : results) {
    const double now = r.tokens_per_second();
    if (!r.refused.empty()) {
      rows.push_back({r.point.name, "", "", "", "", "", r.refused});
      continue;
    }
    rows.push_back({r.point.name, rate(now), first > 0 ? times(now / first) : "",
                    before > 0 ? times(now / before) : "", percent(r.spread()), memory_text(r),
                    settings_text(r)});
    if (first == 0) first = now;
    before = now;
  }
  return format_table(rows);
}

Json to_json(const BenchResult& r) {
  Json json{{"name", r.point.name},
            {"set", r.point.sets},
            {"provider", r.provider},
            {"precision", r.precision},
            {"activation_checkpointing", r.activation_checkpointing},
            {"max_length", r.max_length},
            {"micro_batch_tokens", r.micro_batch_tokens},
            {"predicted_peak_bytes", r.predicted_peak_bytes}};
  if (!r.refused.empty()) {
    json["refused"] = r.refused;
    return json;
  }
  json["tokens_per_second"] = r.tokens_per_second();
  json["step_tokens_per_second"] = r.rates;
  json["spread"] = r.spread();
  json["measured_peak_bytes"] = r.measured_peak_bytes;
  if (r.shares) {
    json["ops"] = Json::array();
    for (const OpShares::Op& op : r.shares->ops)
      json["ops"].push_back({{"name", op.name}, {"share", op.seconds / r.shares->seconds}, {"operations", op.operations}, {"bytes", op.bytes}, {"seconds", op.seconds}});
    json["ops_clock"] = r.shares->on_device ? "device" : "host";
    json["ops_tokens_per_second"] = r.shares->seconds > 0 ? static_cast<double>(r.shares->tokens) / r.shares->seconds : 0;
    json["best_product_rate"] = r.shares->best_product_rate;
    json["roofline_share"] = r.shares->roofline_share();
  }
  return json;
}

}  // namespace forge
