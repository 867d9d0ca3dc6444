#include "core/train/rates.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/job/names.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/error.h"
#include "core/model/adapter/lora.h"
#include "core/model/dtype.h"
#include "core/model/families/adapter_sites.h"
#include "core/model/random_model.h"
#include "core/plan/machine/hardware.h"
#include "core/plan/machine/rate_models.h"
#include "core/plan/stages/step_choice.h"
#include "providers/engine_providers.h"

namespace forge {
namespace {

Batch random_batch(const RateModel& m) {
  Batch batch;
  for (int64_t id = 0, tokens = 0; tokens < m.tokens; ++id, tokens += m.length) {
    Example example{.id = id};
    for (int64_t t = 0; t < m.length; ++t) {
      example.ids.push_back(static_cast<int32_t>((id * 7919 + t * 104729) % m.spec.vocab_size));
      example.supervised.push_back(t >= m.length / 2);
    }
    batch.append(example);
  }
  return batch;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Times of equal work, over steps and layers.
class Points {
 public:
  void add(Precision precision, const Work& work, double seconds) {
    Point& point = points_[{static_cast<int>(precision), work.kind, work.shape}];
    point.precision = precision;
    point.work = work;
    point.seconds.push_back(seconds);
  }
  // Returns the time of work that was measured alone, with exactly this shape.
  double seconds_of(Precision precision, const Work& work) const {
    const auto found = points_.find({static_cast<int>(precision), work.kind, work.shape});
    FORGE_CHECK(found != points_.end(), work.kind << " was not measured by itself");
    return median(found->second.seconds);
  }
  void send(const EventSink& emit) const {
    for (const auto& [key, point] : points_)
      emit({{"event", "rate"},
            {"precision", name_of(point.precision)},
            {"kind", point.work.kind},
            {"shape", point.work.shape},
            {"amount", point.work.amount},
            {"seconds", median(point.seconds)}});
  }

 private:
  struct Point {
    Precision precision = Precision::fp32;
    Work work;
    std::vector<double> seconds;
  };
  std::map<std::tuple<int, std::string, std::array<double, 3>>, Point> points_;
};

class Measurement {
 public:
  Measurement(const RateModel& model, Precision precision, RateAdapter adapter, bool fused_head, Points& points)
      : rate_model_(model), precision_(precision), spec_(model.spec), points_(points) {
    c10::NoGradGuard no_grad;
    job_.adapter = adapter_config(adapter);
    const c10::ScalarType type = scalar_type(precision);
    model_ = random_model(spec_, type);
    trainables_ = std::make_unique<TrainableSet>(trained_layout(run_parameters(spec_, job_.adapter, Quantization::none)), type,
                                                 model_.device, true);
    if (adapter != RateAdapter::none) {
      sites_ = adapter_sites(spec_, job_.adapter);
      attach_adapter(model_, *trainables_, sites_, job_.adapter);
      initialize_adapter(model_, *trainables_, sites_, job_.adapter, 1);
    }
    trainables_->publish();
    trainables_->zero_grad();
    optimizer_ = std::make_unique<Optimizer>(job_.optimizer, 1.0, *trainables_);
    StepOptions options = step_options(spec_, job_, sites_, Checkpointing::none);
    options.shape.fused_head = fused_head;
    provider_ = make_step_provider("fused", model_, *trainables_, options);
    network_ = std::make_unique<Network>(model_, *trainables_, *provider_, job_);
    network_->watch([this](const StepSpan& span) { spans_.push_back(span); });
  }

  // Runs a step and returns its seconds. A step that warms up is not noted.
  double step(bool note) {
    spans_.clear();
    const auto start = Clock::now();
    const Batch batch = random_batch(rate_model_);
    const auto prepared = Clock::now();
    BatchTensors tensors = to_tensors(batch, spec_, model_.type, model_.device);
    tensors.training = true;
    network_->forward_backward(tensors, {static_cast<double>(batch.supervised_tokens()), 1});
    const auto computed = Clock::now();
    const std::vector<StepSpan> micro_batch = std::move(spans_);
    spans_.clear();
    trainables_->zero_grad();
    network_->measure(*optimizer_, 1, 1);
    network_->update(*optimizer_, 1e-5, 1);
    const auto end = Clock::now();
    if (note) {
      const StepSizes sizes{batch.tokens(), batch.supervised_tokens(), bytes_of(precision_), 1};
      double between = std::chrono::duration<double>(computed - prepared).count();
      for (const StepSpan& span : micro_batch) {
        between -= seconds_of(span);
        if (span.op) note_op(span, sizes);
      }
      points_.add(precision_, batch_work(sizes), std::max(between, 1e-7));
      for (const StepSpan& span : spans_) note_op(span, sizes);
    }
    return std::chrono::duration<double>(end - start).count();
  }

 private:
  static double seconds_of(const StepSpan& span) { return cpu_device().seconds(span.begin, span.end); }

  // A product with adapters is timed together with them; the time of the product alone comes from
  // the model without adapters.
  void note_op(const StepSpan& span, const StepSizes& sizes) {
    const std::vector<Work> work = work_of(*span.graph, *span.op, sizes, static_cast<double>(rate_model_.length));
    if (work.empty()) return;
    const bool product = work[0].kind == "linear" || work[0].kind == "expert linear";
    if (work.size() == 1) return points_.add(precision_, work[0], seconds_of(span));
    double left = seconds_of(span), amount = 0;
    if (product) left -= points_.seconds_of(precision_, work[0]);
    for (size_t i = product ? 1 : 0; i < work.size(); ++i) amount += work[i].amount;
    for (size_t i = product ? 1 : 0; i < work.size(); ++i)
      points_.add(precision_, work[i], std::max(left, 0.02 * seconds_of(span)) * work[i].amount / amount);
  }

  const RateModel& rate_model_;
  Precision precision_;
  const ModelSpec& spec_;
  Points& points_;
  Job job_;
  Model model_;
  std::vector<AdapterSite> sites_;
  std::unique_ptr<TrainableSet> trainables_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<StepProvider> provider_;
  std::unique_ptr<Network> network_;
  std::vector<StepSpan> spans_;
};

}  // namespace

void measure_rates(const std::vector<Precision>& precisions, double seconds, const EventSink& emit,
                   const StopFlag& stop) {
  constexpr int64_t kLeast = 2, kMost = 9;  // steps
  int64_t measurements = 0, done = 0;
  for (const RateModel& model : rate_models())
    measurements += static_cast<int64_t>((1 + rate_adapters(model).size()) * precisions.size());
  const double each = seconds / static_cast<double>(measurements);
  Points points;
  const auto start = Clock::now();
  const auto late = [&] { return seconds_since(start) > 3 * seconds; };
  const auto measure = [&](const RateModel& model, Precision precision, RateAdapter adapter) {
    Measurement measurement(model, precision, adapter, head_without_logits(precision, instructions_of(probe_cpu())), points);
    double spent = measurement.step(false);
    for (int64_t i = 0; i < kMost && (i < kLeast || spent < each); ++i) {
      if (stop.requested) throw Error(ErrorKind::interrupted, "interrupted");
      spent += measurement.step(true);
    }
    emit({{"event", "progress"}, {"done", ++done}, {"of", measurements}});
  };
  std::set<std::pair<Precision, std::string>> families;
  for (const Precision precision : precisions)
    for (const RateModel& model : rate_models()) {
      const bool first = families.insert({precision, model.spec.family}).second;
      if (!first && late()) continue;
      measure(model, precision, RateAdapter::none);
      for (const RateAdapter adapter : rate_adapters(model)) measure(model, precision, adapter);
    }
  points.send(emit);
  emit({{"event", "done"}});
}

}  // namespace forge
