#include "core/train/trainer.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <type_traits>
#include <utility>

#include <torch/version.h>

#include "core/data/batch/order.h"
#include "core/job/secrets.h"
#include "core/learn/objective/objective.h"
#include "core/lib/base/clock.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/tensor/device.h"
#include "core/plan/stages/fp8.h"
#include "core/run/checkpoints.h"
#include "core/run/report.h"
#include "core/run/run_folder.h"
#include "core/train/checkpoint.h"
#include "core/train/data_start.h"
#include "core/train/fp8_gate.h"
#include "core/train/reference.h"
#include "core/train/rollout_steps.h"
#include "core/train/run_log.h"
#include "core/train/start_file_watch.h"
#include "core/train/token_steps.h"
#include "kernels/device/device_of.h"

namespace forge {
namespace {

// Returns the factor by which micro-batches are smaller than the planned ones. It is doubled when
// memory runs out, and replayed from the amendments.
int64_t memory_divisor(const std::vector<Amendment>& amendments) {
  int64_t divisor = 1;
  for (const Amendment& amendment : amendments)
    if (amendment.kind == AmendmentKind::out_of_memory) divisor = amendment.micro_batch_divisor;
  return divisor;
}

class Trainer {
 public:
  Trainer(const TrainRequest& request, const EventSink& emit, StopFlag& stop)
      : request_(request),
        paths_{request.run_folder},
        emit_(emit),
        stop_(stop),
        lock_(request.lock ? std::make_unique<RunLock>(request.run_folder, *request.lock)
                           : std::make_unique<RunLock>(request.run_folder)) {}

  void run() {
    open_folder();
    data_.train = DataSet::open(request_.plan.train.cache_path);
    if ((data_.has_eval = request_.plan.eval.examples > 0)) data_.eval = DataSet::open(request_.plan.eval.cache_path);
    std::optional<Fp8Gate> gate;
    if (!resume_step_ && has_fp8_gate(request_.plan.job)) {
      emit_({{"event", "loading"}, {"what", sealed(request_.plan.job.model.path).get<std::string>() + ", layer by layer, for the fp8 gate"}});
      gate.emplace(request_.plan, data_.train, data_.eval).read_file(stop_);
    }
    session_ = open_session(request_.plan, {.fresh = !resume_step_, .base = gate.has_value()}, emit_);
    session_->model_name = sealed(request_.plan.job.model.path);
    if (resume_step_) resume();
    const std::string fault = cut_metrics(paths_.metrics(), state_);
    log_ = std::make_unique<RunLog>(paths_, job().log.tensorboard);
    if (!fault.empty()) notice("warning", fault);
    if (!resume_step_) log_warnings();
    if (gate) pass(*gate);
    open_source();
    if (!resume_step_ && starts_from_data(job().adapter)) look_at_data();
    stop_.watched = true;  // from here on a stop ends with a checkpoint
    if (!resume_step_) source_->begin();
    try {
      take_reference();
      // Work that is due after a step comes first, so that a run stopped between a step and its
      // evaluation catches up.
      while (true) {
        require_folder();
        if (eval_due()) evaluate_now();
        if (checkpoint_due()) save();
        if (finished()) break;
        one_step();
      }
      finish();
    } catch (const StepInterrupted&) {
      save();
      throw Error(ErrorKind::stopped, "stopped after step " + std::to_string(state_.step) + " of " +
                                          std::to_string(steps()) + ", with a checkpoint")
          .hint("run the same command again to continue");
    } catch (const Error& error) {
      require_folder();  // which says more than what could not be written
      if (error.kind() != ErrorKind::diverged) throw;
      throw Error(error.kind(), error.what()).hint(kept_text() + "; " + error.hint());
    }
  }

 private:
  // Returns the value in the form that files may hold, with secrets sealed.
  Json sealed(const Json& value) const { return seal_secrets(value, request_.secrets); }
  Json sealed_plan(const Json& plan) const {
    Json stored = sealed(plan);
    set_plan_hash(stored);
    return stored;
  }
  void append(const Amendment& amendment) const {
    Amendment stored = amendment;
    if (stored.plan) stored.plan = sealed_plan(*stored.plan);
    append_amendment(paths_.amendments(), sealed(to_json(stored)));
  }
  // Returns the state of the checkpoints in words, for a run that ends by a fault of its numbers.
  std::string kept_text() const {
    if (saved_step_ < 0) return "no checkpoint was written yet";
    return "the checkpoint of step " + std::to_string(saved_step_) + " is untouched";
  }
  const Job& job() const { return session_->job; }
  int64_t steps() const { return session_->plan.steps; }
  bool finished() const {
    // A plan without a number of steps ends by train.max_time.
    return (steps() > 0 && state_.step >= steps()) || state_.stopped_early || out_of_time_;
  }
  // Returns the seconds of the whole run. Everything counts, not steps alone: whoever asks for an
  // hour has a machine for an hour.
  double run_seconds() const { return earlier_seconds_ + request_.spent_seconds + seconds_since(started_); }
  // Reads the clock once a step, so that all that happens after a step agrees on whether it was the
  // last.
  void look_at_the_clock() {
    state_.run_seconds = run_seconds();
    out_of_time_ = state_.step > 0 && job().train.max_time && state_.run_seconds >= *job().train.max_time;
  }
  // True if something that happens every so many steps happens now. The last step always counts.
  bool due(const std::optional<int64_t>& every) const {
    return finished() || (every && state_.step % *every == 0);
  }
  bool eval_due() const {
    if (!data_.has_eval || state_.last_eval_step == state_.step) return false;
    return state_.step == 0 ? job().eval.at_start : due(job().eval.every_steps);
  }
  bool checkpoint_due() const {
    if (state_.step == 0) return false;
    bool best_now =
        job().checkpoint.keep_best > 0 && !state_.best.empty() && state_.best[0].step == state_.step;
    return due(job().checkpoint.every_steps) || best_now;
  }

  void pass(const Fp8Gate& gate) {
    const Json event = gate.compare(*session_, stop_);
    record(event);
    require_close(event);
  }

  // Runs before there is anything to save in a checkpoint. A run that is stopped here does it
  // again, with the same result.
  void look_at_data() {
    const auto cut = [this](const std::vector<int64_t>& step) {
      return micro_batches(step, data_.train.atom_lengths(), job(), divisor_);
    };
    const auto smallest = [&] {
      const std::vector<int64_t> step = epoch_steps(data_.train.atom_lengths(), job(), 0)[0];
      return cut(step).size() == step.size();
    };
    const DataStart start =
        within_memory("init: eva", smallest, [&] { return start_from_inputs(*session_, data_.train, cut); });
    std::string text = "init: eva has looked at " + format_count(start.batches) + " micro-batches";
    if (start.settled < start.layers)
      text += ", and directions of " + format_count(start.layers - start.settled) + " of " +
              format_count(start.layers) + " layers were still changing (adapter.eva.tau)";
    notice(start.settled < start.layers ? "warning" : "info", text);
  }

  void take_reference() {
    const ReferenceRequest reference{&data_.train, data_.has_eval ? &data_.eval : nullptr, paths_.reference(), state_.step == 0,
                                     [this](const std::string& text) { notice("warning", text); }};
    session_->reference = open_reference(*session_, reference, stop_);
  }

  void open_source() {
    if (!draws_completions(job().objective.type())) {
      source_ = token_steps(*session_, data_, request_.run_folder, stop_);
      return;
    }
    RolloutPorts ports{.ask = request_.ask,
                       .record = [this](Json event) { record(std::move(event)); },
                       .warn = [this](const std::string& text) { notice("warning", text); },
                       .run_folder = request_.run_folder};
    auto rollouts = std::make_unique<RolloutSteps>(*session_, data_.train, data_.has_eval ? &data_.eval : nullptr, std::move(ports), stop_);
    if (resume_step_) rollouts->restore(checkpoint_rollouts(paths_.checkpoint(*resume_step_)), paths_.checkpoint(*resume_step_));
    source_ = std::move(rollouts);
  }

  // Throws Error(environment) if the run folder was removed. Whatever is written to it then is
  // lost, and would bring a fragment of the folder back.
  void require_folder() const {
    if (lock_->holds_folder() && file_exists(paths_.plan())) return;
    throw Error(ErrorKind::environment,
                request_.run_folder + ": was removed, emptied or renamed while the run went on")
        .hint(
            "a run that was renamed continues under its old name; one that is gone starts over with the same "
            "command, "
            "after --fresh where something is left of it");
  }

  // Writes job.yaml, plan.json and new amendments, clears litter, and finds the checkpoint to
  // continue from.
  void open_folder() {
    remove_litter(request_.run_folder);
    if (!file_exists(paths_.plan())) {
      write_file_durably(paths_.job(), request_.job_text);
      write_file_durably(paths_.plan(), sealed_plan(to_json(request_.plan)).dump(2) + "\n");
    }
    for (const Amendment& amendment : request_.amendments) append(amendment);
    divisor_ = memory_divisor(inspect_run(request_.run_folder).amendments);
    if (!request_.resume) return;
    std::vector<std::string> damaged;
    std::vector<int64_t> steps = list_checkpoints(request_.run_folder, &damaged);
    for (const std::string& text : damaged) notice("warning", text);
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      std::string fault;
      if (verify_checkpoint(paths_.checkpoint(*step), &fault)) {
        resume_step_ = *step;
        return;
      }
      notice("warning", fault + "; this checkpoint is skipped, kept as " +
                            set_checkpoint_aside(request_.run_folder, *step));
    }
    // Starting over would replace what the run had reached.
    if (const std::string result = result_of(request_.run_folder); !result.empty())
      throw Error(ErrorKind::environment, request_.run_folder + ": none of its checkpoints can be read, so it cannot be continued")
          .hint("its result, " + result + ", is untouched; another job may start from it (adapter.init_from, or model.path), and "
                "--fresh starts this one over");
    if ((!steps.empty() || !damaged.empty()) && file_exists(paths_.metrics()))
      notice("warning", "no checkpoint can be read: starting over; the metrics so far are kept as " +
                            keep_metrics_aside(paths_.metrics()));
  }

  void resume() {
    std::string path = paths_.checkpoint(*resume_step_);
    state_ = load_checkpoint(*session_, path);
    saved_step_ = state_.step;
    saved_eval_step_ = state_.last_eval_step;
    retain();  // a kill may have come between saving and this
    earlier_seconds_ = state_.run_seconds;
    look_at_the_clock();
    state_.stopped_early = state_.stopped_early && job().eval.early_stopping.patience > 0;
    emit_({{"event", "resumed"}, {"step", state_.step}, {"checkpoint", path}});
  }

  void one_step() {
    state_.run_seconds = run_seconds();  // a schedule may follow the clock
    const TrainState before = state_;
    const auto smallest = [&] { return source_->smallest(before, divisor_); };
    const StepStats stats = within_memory("step " + std::to_string(state_.step + 1), smallest, [&] {
      state_ = before;
      return source_->step(state_, divisor_);
    });
    for (const std::string& text : device_of(session_->device).take_sayings()) notice("warning", text);
    ++state_.step;
    state_.tokens += stats.tokens;
    state_.supervised_tokens += stats.supervised_tokens;
    state_.examples += stats.examples;
    if (state_.step == 1 && session_->reference) state_.window.reference_gap_step0 = stats.reference_gap;
    add(state_.window, stats);
    look_at_the_clock();
    if (state_.step % job().log.every_steps == 0 || finished()) log_step(stats);
  }

  // Returns what `work` does. Each time that memory runs out it halves the micro-batch and doubles
  // the accumulation: the same step in less memory. `smallest` returns true if that cannot be.
  template <class Smallest, class Work>
  std::invoke_result_t<Work> within_memory(const std::string& where, const Smallest& smallest,
                                           const Work& work) {
    while (true) {
      try {
        return work();
      } catch (const c10::OutOfMemoryError& error) {
        if (smallest())
          throw Error(ErrorKind::fit, where + ": out of memory with one example per micro-batch: " +
                                          error.what_without_backtrace())
              .hint("set train.activation_checkpointing: full, or lower data.max_length");
        divisor_ *= 2;
        append({.kind = AmendmentKind::out_of_memory, .step = state_.step + 1, .micro_batch_divisor = divisor_});
        notice("warning", "out of memory: micro-batches are now 1/" + std::to_string(divisor_) +
                              " of the planned size, with correspondingly more accumulation (the result is the same)");
      }
    }
  }

  // Logs the steps since the last line; `stats` are of the newest.
  void log_step(const StepStats& stats) {
    Json event{{"event", "step"}, {"step", state_.step}, {"steps", steps()}, {"epoch", epoch_position()}};
    event.update(step_facts(std::exchange(state_.window, {}), stats));
    event["run_seconds"] = state_.run_seconds;
    event["peak_memory_bytes"] = device_memory(session_->device).peak_bytes;
    event["mfu"] = nullptr;
    event["loss_scale"] = state_.loss_scale;
    record(std::move(event));
  }

  double epoch_position() const {
    return static_cast<double>(state_.examples) /
           static_cast<double>(std::max<int64_t>(1, data_.train.atoms()));
  }

  void evaluate_now() {
    check_files();
    const AverageShown shown(*session_->optimizer);
    const Evaluation made = within_memory("evaluation at step " + std::to_string(state_.step),
                                          [&] { return source_->smallest_evaluation(divisor_); },
                                          [&] { return source_->evaluate(state_, divisor_); });
    Json event{{"event", "eval"}, {"step", state_.step}, {"eval_loss", made.loss}};
    event.update(made.event);
    record(std::move(event));
    state_.last_eval_step = state_.step;
    if (state_.step == 0) return;
    if (made.of_training && !std::isfinite(made.loss) && job().train.on_nan == OnNan::stop)
      throw Error(ErrorKind::diverged,
                  "evaluation at step " + std::to_string(state_.step) + ": the loss is not finite")
          .hint("lower optimizer.learning_rate or add warmup");
    note_evaluation(made.loss);
  }

  void note_evaluation(double loss) {
    const EarlyStoppingConfig& early = job().eval.early_stopping;
    bool better =
        std::isfinite(loss) && (state_.best.empty() || loss < state_.best[0].loss - early.min_delta);
    state_.evals_without_improvement = better ? 0 : state_.evals_without_improvement + 1;
    if (early.patience > 0 && state_.evals_without_improvement >= early.patience && !finished()) {
      state_.stopped_early = true;
      notice("info",
             "stopping early: " + std::to_string(early.patience) + " evaluations without improvement");
    }
    if (!std::isfinite(loss)) return;
    auto place = std::find_if(state_.best.begin(), state_.best.end(),
                              [&](const EvalPoint& p) { return loss < p.loss; });
    state_.best.insert(place, {state_.step, loss});
    size_t keep = static_cast<size_t>(std::max<int64_t>(1, job().checkpoint.keep_best));
    if (state_.best.size() > keep) state_.best.resize(keep);
  }

  void save() {
    require_folder();
    // An evaluation that a stop had put off changes the state of a step that has its checkpoint.
    if (saved_step_ == state_.step && saved_eval_step_ == state_.last_eval_step) return;
    check_files();
    const auto start = Clock::now();
    state_.metrics_bytes = log_->flush();
    state_.run_seconds = run_seconds();
    int64_t bytes = 0;
    try {
      bytes = save_checkpoint(*session_, state_, request_.run_folder, source_->pending(state_));
      failed_saves_ = 0;
    } catch (const Error& error) {
      // A full disk does not end a run that may outlive it; the last good checkpoint is untouched.
      if (finished() || stop_.requested || ++failed_saves_ > 2) throw;
      notice("warning", std::string("no checkpoint at step ") + std::to_string(state_.step) + ": " +
                            error.what() + "; trying again at the next one");
      return;
    }
    saved_step_ = state_.step;
    saved_eval_step_ = state_.last_eval_step;
    retain();
    double seconds = seconds_since(start);
    saving_seconds_ += seconds;
    announce({{"event", "checkpoint"},
              {"step", state_.step},
              {"path", paths_.checkpoint(state_.step)},
              {"bytes", bytes},
              {"seconds", seconds}});
  }

  void check_files() {
    for (const std::string& text : files_.check()) notice("warning", text);
  }

  void retain() {
    std::vector<int64_t> keep;
    if (job().checkpoint.keep_best > 0)
      for (const EvalPoint& point : state_.best) keep.push_back(point.step);
    retain_checkpoints(request_.run_folder, job().checkpoint.keep_last, keep);
  }

  // Returns the best step whose checkpoint is whole, if early stopping asks for the best one;
  // otherwise the last step. Hours may lie between a checkpoint and this reading of it.
  int64_t step_to_export() {
    if (job().eval.early_stopping.patience == 0) return state_.step;
    for (const EvalPoint& point : state_.best) {
      std::string fault;
      if (point.step == state_.step || verify_checkpoint(paths_.checkpoint(point.step), &fault)) return point.step;
      notice("warning", fault + "; step " + std::to_string(point.step) + ", which evaluated better, is not exported");
    }
    return state_.step;
  }

  // The loop's last turn has evaluated and saved already.
  void finish() {
    require_folder();
    const int64_t exported = step_to_export();
    if (exported != state_.step) {
      load_checkpoint_weights(*session_, paths_.checkpoint(exported));
    } else {
      session_->optimizer->show_average();
    }
    check_files();
    std::string result = export_result(*session_, request_.run_folder);
    log_->flush();
    RunFacts facts{.seconds = run_seconds(),
                   .measured_peak_bytes = device_memory(session_->device).peak_bytes,
                   .environment = environment_of(session_->plan.device, TORCH_VERSION)};
    facts.samples = source_->samples(state_);
    for (const Amendment& amendment : read_amendments(paths_.amendments()))
      facts.amendments.push_back(to_json(amendment));
    std::string fault;
    RunMetrics metrics = read_metrics(paths_.metrics(), &fault);
    if (!fault.empty()) notice("warning", fault + ": left out of the report");
    metrics.saving_seconds = saving_seconds_;
    Json report = make_report(to_json(request_.plan), metrics, facts);
    report["step"] = state_.step;
    report["planned_steps"] = steps();  // a run may end before them, by early stopping or train.max_time
    report["stopped_early"] = state_.stopped_early;
    report["exported"] = {{"path", result}, {"step", exported}, {"files", Json::object()}};
    for (const std::string& name : names_in(result)) report["exported"]["files"][name] = file_size(result + "/" + name);
    report = redacted(report, request_.secrets);
    write_report(request_.run_folder, report, metrics);
    emit_({{"event", "done"}, {"report", report}});
  }

  // The program has shown the plan's warnings before it started the engine.
  void log_warnings() {
    for (const std::string& text : request_.plan.warnings)
      log_->note(redacted({{"event", "notice"}, {"level", "warning"}, {"text", text}}, request_.secrets));
  }

  void record(Json event) {
    log_->record(event);
    emit_(event);
  }
  void announce(const Json& event) {
    if (log_) log_->note(redacted(event, request_.secrets));
    emit_(event);
  }
  void notice(const std::string& level, const std::string& text) {
    announce({{"event", "notice"}, {"level", level}, {"text", text}});
  }

  const Clock::time_point started_ = Clock::now();
  const TrainRequest& request_;
  RunPaths paths_;
  const EventSink& emit_;
  StopFlag& stop_;
  std::unique_ptr<RunLock> lock_;
  StartFileWatch files_{request_.plan};
  std::unique_ptr<Session> session_;
  std::unique_ptr<RunLog> log_;
  RunData data_;
  std::unique_ptr<StepSource> source_;
  TrainState state_;
  std::optional<int64_t> resume_step_;
  int64_t divisor_ = 1, saved_step_ = -1, saved_eval_step_ = -1, failed_saves_ = 0;
  double earlier_seconds_ = 0, saving_seconds_ = 0;
  bool out_of_time_ = false;
};

}  // namespace

void train(const TrainRequest& request, const EventSink& emit, StopFlag& stop) {
  if (!request.lock) make_directories(request.run_folder);
  Trainer(request, emit, stop).run();
}

}  // namespace forge
