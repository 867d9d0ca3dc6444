// Tests the table of objectives: known answers, gradients by central differences, and that these
// two tests detect a wrong row.
#include <cmath>
#include <functional>

#include "core/job/field.h"
#include "core/job/names.h"
#include "core/learn/objective/dpo.h"
#include "core/learn/objective/sequence_loss.h"
#include "core/lib/base/file.h"
#include "core/lib/base/text.h"
#include "core/lib/io/json.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Values and derivatives were computed by an independent program in double precision (β 0.1, ε
// 0.1).
const SequenceSums kChosen{-12, -13, 4}, kRejected{-15, -14.5, 6};

struct KnownAnswer {
  std::string name;
  ObjectiveConfig objective;
  double loss, d_chosen, d_rejected, loss_at_reference;
  SequenceSums chosen = kChosen, rejected = kRejected;
};

ObjectiveConfig config(ObjectiveType type, const std::function<void(ObjectiveConfig&)>& change = {}) {
  ObjectiveConfig objective;
  objective.become(type);
  if (auto* beside = objective.find<LikelihoodBeside>()) beside->nll_weight = 0;
  if (change) change(objective);
  return with_defaults(objective);
}
KnownAnswer dpo(const char* name, double flip, double loss, double chosen, double rejected, double at_reference) {
  const auto change = [&](ObjectiveConfig& o) {
    o.find<DpoConfig>()->loss = *enum_of<DpoLoss>(name);
    o.find<DpoConfig>()->label_flip = flip;
  };
  return {std::string(name) + (flip > 0 ? " flipped" : ""), config(ObjectiveType::dpo, change), loss, chosen, rejected, at_reference};
}

const std::vector<KnownAnswer>& known_answers() {
  static const std::vector<KnownAnswer> all{
      dpo("sigmoid", 0, 0.620957048, -0.046257015, 0.046257015, 0.693147181),
      dpo("sigmoid", 0.1, 0.635957048, -0.036257015, 0.036257015, 0.693147181),
      dpo("robust", 0.1, 0.602207048, -0.058757015, 0.058757015, 0.693147181),
      dpo("hinge", 0, 0.85, -0.1, 0.1, 1),
      dpo("ipo", 0, 21.777777778, -2.333333333, 1.555555556, 25),
      dpo("sigmoid_norm", 0, 0.676619396, -0.012291686, 0.008194457, 0.693147181),
      dpo("exo_pair", 0.1, 0.431388457, -0.050893800, 0.050893800, 0.510825624),
      dpo("nca_pair", 0, 1.350824814, -0.021253122, 0.024375130, 1.386294361),
      dpo("sppo_hard", 0, 36.25, -8, 9, 50),
      dpo("apo_zero", 0, 0.962523416, -0.024937604, 0.024984382, 1),
      dpo("apo_down", 0, 0.987549342, 0.000077703, 0.024859901, 1),
      {"simpo", config(ObjectiveType::simpo, [](ObjectiveConfig& o) { o.find<Preferring>()->beta = 2.5; }), 2.350206559, -0.565406584, 0.376937723, -1},
      {"orpo", config(ObjectiveType::orpo), 0.099574255, -0.016589729, 0.011448972, -1},
      {"cpo", config(ObjectiveType::cpo), 0.554355244, -0.042555748, 0.042555748, -1},
      {"reward", config(ObjectiveType::reward), 0.541915252, -0.367312340, 0.435312340, -1, {1.2, 0, 1, true, 0.3}, {0.5, 0, 1}},
  };
  return all;
}

PairLossFunction row_of(const ObjectiveConfig& objective) { return objective_of(objective.type()).pair; }

using Row = std::function<PairLoss(const ObjectiveConfig&, const SequenceSums&, const SequenceSums&)>;

bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)); }

// Returns the faults of a row: differences to its known answer, and to central differences at
// several points on both sides of every gate.
std::vector<std::string> faults_of(const Row& row, const KnownAnswer& known) {
  std::vector<std::string> faults;
  const auto expect = [&](bool good, const std::string& what) {
    if (!good) faults.push_back(known.name + ": " + what);
  };
  const ObjectiveConfig& o = known.objective;
  const PairLoss found = row(o, known.chosen, known.rejected);
  expect(near(found.loss, known.loss, 1e-8), "loss " + format_number(found.loss));
  expect(near(found.d_chosen, known.d_chosen, 1e-8), "d_chosen " + format_number(found.d_chosen));
  expect(near(found.d_rejected, known.d_rejected, 1e-8), "d_rejected " + format_number(found.d_rejected));
  if (known.loss_at_reference >= 0) {
    const SequenceSums c{-13, -13, 4}, r{-14.5, -14.5, 6};
    expect(near(row(o, c, r).loss, known.loss_at_reference, 1e-8), "loss at the reference");
  }
  constexpr double kStep = 1e-4;
  for (const double chosen : {-40.0, -12.0, -2.0, -0.03})
    for (const double rejected : {-50.0, -15.0, -1.0}) {
      SequenceSums c = known.chosen, r = known.rejected;
      c.logp = chosen, r.logp = rejected;
      const PairLoss at = row(o, c, r);
      const auto slope = [&](double& value) {
        const double middle = value;
        value = middle + kStep;
        const double above = row(o, c, r).loss;
        value = middle - kStep;
        const double below = row(o, c, r).loss;
        value = middle;
        return (above - below) / (2 * kStep);
      };
      const std::string place = " at " + format_number(chosen) + ", " + format_number(rejected);
      expect(near(at.d_chosen, slope(c.logp), 2e-6), "d_chosen" + place);
      expect(near(at.d_rejected, slope(r.logp), 2e-6), "d_rejected" + place);
    }
  return faults;
}

struct Mutation {
  const char* name;
  std::function<PairLoss(const Row&, const ObjectiveConfig&, const SequenceSums&, const SequenceSums&)> run;
};
const std::vector<Mutation>& mutations() {
  static const std::vector<Mutation> all{
      {"sign of d_chosen",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         PairLoss p = row(o, c, r);
         p.d_chosen = -p.d_chosen;
         return p;
       }},
      {"sign of d_rejected",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         PairLoss p = row(o, c, r);
         p.d_rejected = -p.d_rejected;
         return p;
       }},
      {"sign of the loss",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         PairLoss p = row(o, c, r);
         p.loss = -p.loss;
         return p;
       }},
      {"the two answers swapped", [](const Row& row, const auto& o, const auto& c, const auto& r) { return row(o, r, c); }},
      {"divided by the answer's length",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         PairLoss p = row(o, c, r);
         p.d_chosen /= static_cast<double>(c.tokens + 1);
         return p;
       }},
      {"a gate that closes where the chosen answer wins",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         PairLoss p = row(o, c, r);
         if (c.logp > r.logp) p.d_chosen = p.d_rejected = 0;
         return p;
       }},
      {"another beta",
       [](const Row& row, const auto& o, const auto& c, const auto& r) {
         ObjectiveConfig other = o;
         if (auto* preferring = other.find<Preferring>()) *preferring->beta *= 1.01;
         if (auto* orpo = other.find<OrpoConfig>()) orpo->odds_weight *= 1.01;
         if (auto* scores = other.find<RewardModelConfig>()) scores->center *= 1.01;
         return row(other, c, r);
       }},
  };
  return all;
}

// Sets a key of a golden's objective.
void set(ObjectiveConfig& objective, const std::string& key, const Json& value) {
  const auto number = [&] { return value.get<double>(); };
  if (key == "loss") objective.find<DpoConfig>()->loss = *enum_of<DpoLoss>(value.get<std::string>());
  else if (key == "beta") objective.find<Preferring>()->beta = number();
  else if (key == "label_flip") objective.find<DpoConfig>()->label_flip = number();
  else if (key == "nll_weight") objective.find<LikelihoodBeside>()->nll_weight = number();
  else if (key == "gamma") objective.find<SimpoConfig>()->gamma = number();
  else if (key == "odds_weight") objective.find<OrpoConfig>()->odds_weight = number();
  else if (key == "center") objective.find<RewardModelConfig>()->center = number();
  else if (key == "desirable_weight") objective.find<KtoConfig>()->desirable_weight = number();
  else if (key == "undesirable_weight") objective.find<KtoConfig>()->undesirable_weight = number();
  else if (key == "nll_mean") objective.find<LikelihoodBeside>()->nll_mean = *enum_of<NllMean>(value.get<std::string>());
  else FAIL("a golden with " << key);
}

// Checks a golden whose answers are judged one by one.
void check_answers(const Json& golden, const ObjectiveConfig& objective) {
  std::vector<SequenceSums> answers;
  for (size_t i = 0; i < golden["logp"].size(); ++i)
    answers.push_back({golden["logp"][i], golden["reference"][i], golden["tokens"][i], golden["desirable"][i]});
  const auto count = static_cast<double>(answers.size());
  const SequenceLoss found = sequence_loss(objective, answers, {.divisor = count, .divergence = golden["divergence"]});
  CHECK(near(found.loss / count, golden["loss"], 1e-10));
  for (size_t i = 0; i < answers.size(); ++i) CHECK(near(found.cotangents[i], golden["gradient"][i], 1e-10));
}

// Returns the faults of kto: by its known answer, central differences and both sides of its one
// gate.
using AnswerRow = std::function<AnswerLoss(const ObjectiveConfig&, const SequenceSums&, double)>;
std::vector<std::string> kto_faults(const AnswerRow& row) {
  std::vector<std::string> faults;
  const auto expect = [&](double found, double wanted, double tolerance, const std::string& what) {
    if (!near(found, wanted, tolerance)) faults.push_back(what + " " + format_number(found));
  };
  const ObjectiveConfig o = config(ObjectiveType::kto, [](ObjectiveConfig& o) { o.find<KtoConfig>()->undesirable_weight = 1.5; });
  const SequenceSums good{-12, -13, 4, true}, bad{-15, -14.5, 6, false};
  expect(row(o, good, 0.4).loss, 0.485004498, 1e-8, "desirable loss");
  expect(row(o, bad, 0.4).loss, 0.716272763, 1e-8, "undesirable loss");
  expect(row(o, good, 0.4).d_answer, -0.024977513, 1e-8, "desirable d");
  expect(row(o, bad, 0.4).d_answer, 0.037424165, 1e-8, "undesirable d");
  for (SequenceSums answer : {good, bad})
    for (const double logp : {-60.0, -13.5, -2.0}) {
      answer.logp = logp;
      const double slope = row(o, answer, 0.4).d_answer;
      answer.logp = logp + 1e-4;
      const double above = row(o, answer, 0.4).loss;
      answer.logp = logp - 1e-4;
      expect(slope, (above - row(o, answer, 0.4).loss) / 2e-4, 2e-6, "d at " + format_number(logp));
    }
  return faults;
}

std::string text(const std::vector<std::string>& faults) { return join(faults, "\n"); }

}  // namespace

TEST_CASE("every row has its known answer and the gradient of its loss") {
  for (const KnownAnswer& known : known_answers()) {
    const std::vector<std::string> faults = faults_of(row_of(known.objective), known);
    INFO(text(faults));
    CHECK(faults.empty());
  }
}

TEST_CASE("a row that is wrong in one place is noticed") {
  for (const KnownAnswer& known : known_answers())
    for (const Mutation& mutation : mutations()) {
      const Row right = row_of(known.objective);
      const Row wrong = [&](const ObjectiveConfig& o, const SequenceSums& c, const SequenceSums& r) {
        return mutation.run(right, o, c, r);
      };
      INFO(known.name << ": " << mutation.name);
      CHECK_FALSE(faults_of(wrong, known).empty());
    }
}

TEST_CASE("every loss of dpo and every objective of pairs has a known answer") {
  for (const DpoRow& row : dpo_rows())
    CHECK(std::any_of(known_answers().begin(), known_answers().end(), [&](const KnownAnswer& known) {
      return known.objective.type() == ObjectiveType::dpo && known.objective.as<DpoConfig>().loss == row.loss;
    }));
  for (size_t i = 0; i < names(ObjectiveType()).size(); ++i) {
    const auto type = static_cast<ObjectiveType>(i);
    if (objective_of(type).coupling != Coupling::pair) continue;
    CHECK(std::any_of(known_answers().begin(), known_answers().end(),
                      [&](const KnownAnswer& known) { return known.objective.type() == type; }));
  }
}

TEST_CASE("losses and gradients stay finite for answers that are certain or impossible") {
  for (const KnownAnswer& known : known_answers())
    for (const double chosen : {0.0, -1e-12, -1e5})
      for (const double rejected : {0.0, -1e-12, -1e5}) {
        SequenceSums c = known.chosen, r = known.rejected;
        c.logp = chosen, r.logp = rejected;
        const PairLoss found = row_of(known.objective)(known.objective, c, r);
        INFO(known.name << " " << chosen << " " << rejected);
        CHECK(std::isfinite(found.loss));
        CHECK(std::isfinite(found.d_chosen));
        CHECK(std::isfinite(found.d_rejected));
      }
}

TEST_CASE("an answer that is certain pulls on nothing in orpo, whose odds would be infinite") {
  const ObjectiveConfig objective = config(ObjectiveType::orpo);
  const PairLoss found = objective_of(ObjectiveType::orpo).pair(objective, {0, 0, 4}, {0, 0, 6});
  CHECK(found.d_chosen == 0);
  CHECK(found.d_rejected == 0);
}

TEST_CASE("losses and gradients are those of TRL in float64") {
  const std::string path = std::string(FORGE_SOURCE_DIR) + "/tests/objective/goldens/trl.json";
  const Json goldens = Json::parse(read_file(path, 1 << 20, ErrorKind::environment));
  CHECK(goldens["cases"].size() == 21);
  for (const Json& golden : goldens["cases"]) {
    ObjectiveConfig objective;
    objective.become(*enum_of<ObjectiveType>(golden["objective"]["type"].get<std::string>()));
    for (const auto& [key, value] : golden["objective"].items())
      if (key != "type") set(objective, key, value);
    std::vector<SequenceSums> answers;
    const size_t pairs = golden["logp"].size() / 2;
    StepScale scale{.divisor = static_cast<double>(pairs)};
    if (objective_of(objective.type()).coupling == Coupling::answer) {
      check_answers(golden, with_defaults(objective));
      continue;
    }
    for (size_t i = 0; i < pairs; ++i)
      for (const size_t row : {i, pairs + i}) {
        answers.push_back({golden["logp"][row], golden["reference"][row], golden["tokens"][row]});
        if (row == i && golden.contains("margin")) answers.back().margin = golden["margin"][i];
        if (row == i) scale.chosen_tokens += static_cast<double>(answers.back().tokens);
      }
    const SequenceLoss found = sequence_loss(with_defaults(objective), answers, scale);
    INFO(golden["name"]);
    CHECK(near(found.loss / static_cast<double>(pairs), golden["loss"], 1e-10));
    for (size_t i = 0; i < pairs; ++i) {
      CHECK(near(found.cotangents[2 * i], golden["gradient"][i], 1e-10));
      CHECK(near(found.cotangents[2 * i + 1], golden["gradient"][pairs + i], 1e-10));
    }
  }
}

TEST_CASE("the loss of a batch is divided by the pairs of the step, and its likelihood is the chosen answer's mean") {
  const ObjectiveConfig objective = config(ObjectiveType::dpo, [](ObjectiveConfig& o) { o.find<LikelihoodBeside>()->nll_weight = 0.5; });
  const SequenceLoss found = sequence_loss(objective, {kChosen, kRejected, kRejected, kChosen}, {.divisor = 8});
  const PairLoss first = objective_of(ObjectiveType::dpo).pair(objective, kChosen, kRejected);
  const PairLoss second = objective_of(ObjectiveType::dpo).pair(objective, kRejected, kChosen);
  CHECK(found.loss == Approx(first.loss + 0.5 * 3 + second.loss + 0.5 * 2.5).epsilon(1e-14));
  REQUIRE(found.cotangents.size() == 4);
  CHECK(found.cotangents[0] == Approx((first.d_chosen - 0.5 / 4) / 8).epsilon(1e-14));
  CHECK(found.cotangents[1] == Approx(first.d_rejected / 8).epsilon(1e-14));
  CHECK(found.cotangents[2] == Approx((second.d_chosen - 0.5 / 6) / 8).epsilon(1e-14));
  CHECK(found.cotangents[3] == Approx(second.d_rejected / 8).epsilon(1e-14));
  CHECK(found.metrics.at("nll").sum == Approx(5.5).epsilon(1e-14));
}

TEST_CASE("metrics are sums over pairs, and equal rewards count one half") {
  const ObjectiveConfig objective = config(ObjectiveType::dpo);
  const Metrics sums = sequence_loss(objective, {kChosen, kRejected, kChosen, kChosen}, {.divisor = 2}).metrics;
  CHECK(sums.at("reward_chosen").sum == Approx(0.2));
  CHECK(sums.at("reward_rejected").sum == Approx(0.05));
  CHECK(sums.at("reward_margin").sum == Approx(0.15));
  CHECK(sums.at("reward_accuracy").sum == 1.5);
  CHECK(sums.at("logp_chosen").sum == -24);
  CHECK(sums.at("logp_rejected").sum == -27);
  CHECK(sums.at("logp_chosen_change").sum == 2);
  CHECK(sums.at("logp_rejected_change").sum == 0.5);
}

TEST_CASE("an answer equal to the reference's has reward 0 and the loss ln 2") {
  const SequenceSums c{-13, -13, 4}, r{-14.5, -14.5, 6};
  const SequenceLoss found = sequence_loss(config(ObjectiveType::dpo), {c, r}, {});
  CHECK(found.loss == std::log(2.0));
  CHECK(found.metrics.at("reward_chosen").sum == 0);
  CHECK(found.metrics.at("reward_margin").sum == 0);
}

TEST_CASE("the page of keys states each objective's own learning rates") {
  const auto stated = [](const Objective& row) {
    const auto power = [](double rate) { return "`1e" + std::to_string(std::lround(std::log10(rate))) + "`"; };
    return power(row.adapter_learning_rate) + " (all weights: " + power(row.full_learning_rate) + ")";
  };
  const std::string page = find_field("optimizer.learning_rate")->when_unset;
  CHECK(page == "sft and pretrain `2e-4`, reward " + stated(objective_of(ObjectiveType::reward)) + ", other objectives " + stated(objective_of(ObjectiveType::dpo)));
  for (size_t i = 0; i < names(ObjectiveType{}).size(); ++i) {
    const Objective& row = objective_of(static_cast<ObjectiveType>(i));
    if (row.adapter_learning_rate == 0 || row.type == ObjectiveType::reward) continue;
    CHECK(stated(row) == stated(objective_of(ObjectiveType::dpo)));
  }
}

TEST_CASE("objectives train on rows that they understand") {
  CHECK(trains_on(objective_of(ObjectiveType::dpo), RowFormat::preference));
  CHECK_FALSE(trains_on(objective_of(ObjectiveType::dpo), RowFormat::messages));
  CHECK_FALSE(trains_on(objective_of(ObjectiveType::sft), RowFormat::preference));
  CHECK(trains_on(objective_of(ObjectiveType::sft), RowFormat::messages));
  CHECK_FALSE(trains_on(objective_of(ObjectiveType::simpo), RowFormat::kto));
  CHECK(trains_on(objective_of(ObjectiveType::kto), RowFormat::kto));
  CHECK(trains_on(objective_of(ObjectiveType::kto), RowFormat::preference));
  CHECK_FALSE(trains_on(objective_of(ObjectiveType::kto), RowFormat::messages));
  CHECK(trains_on(objective_of(ObjectiveType::reward), RowFormat::preference));
  CHECK_FALSE(trains_on(objective_of(ObjectiveType::reward), RowFormat::reward));
}

TEST_CASE("kto has its known answer and the gradient of its loss, and a row that is wrong in one place is noticed") {
  const AnswerRow right = objective_of(ObjectiveType::kto).answer;
  const std::vector<std::string> faults = kto_faults(right);
  INFO(text(faults));
  CHECK(faults.empty());
  const std::vector<std::pair<const char*, AnswerRow>> wrong{
      {"sign of d", [&](const auto& o, const auto& a, double z) { return AnswerLoss{right(o, a, z).loss, -right(o, a, z).d_answer}; }},
      {"sign of the loss", [&](const auto& o, const auto& a, double z) { return AnswerLoss{-right(o, a, z).loss, right(o, a, z).d_answer}; }},
      {"classes swapped",
       [&](const auto& o, auto a, double z) {
         a.desirable = !a.desirable;
         return right(o, a, z);
       }},
      {"without the divergence", [&](const auto& o, const auto& a, double) { return right(o, a, 0); }},
      {"divided by the answer's length",
       [&](const auto& o, const auto& a, double z) {
         AnswerLoss loss = right(o, a, z);
         loss.d_answer /= static_cast<double>(a.tokens);
         return loss;
       }},
      {"a gate that closes past the divergence",
       [&](const auto& o, const auto& a, double z) {
         AnswerLoss loss = right(o, a, z);
         if (a.ratio() > z) loss.d_answer = 0;
         return loss;
       }},
      {"one weight for both",
       [&](ObjectiveConfig o, const auto& a, double z) {
         o.find<KtoConfig>()->undesirable_weight = o.find<KtoConfig>()->desirable_weight;
         return right(o, a, z);
       }},
      {"another beta",
       [&](ObjectiveConfig o, const auto& a, double z) {
         *o.find<Preferring>()->beta *= 1.01;
         return right(o, a, z);
       }}};
  for (const auto& [name, row] : wrong) {
    INFO(name);
    CHECK_FALSE(kto_faults(row).empty());
  }
}

TEST_CASE("answers that are judged one by one are divided by their number, and counted by class") {
  const ObjectiveConfig objective = config(ObjectiveType::kto);
  const SequenceSums good{-12, -13, 4, true}, bad{-15, -14.5, 6, false}, worse{-14, -14.5, 6, false};
  const SequenceLoss found = sequence_loss(objective, {good, bad, worse}, {.divisor = 6, .divergence = 0.4});
  CHECK(found.loss == Approx(0.485004498 + 0.716272763 / 1.5 + logistic(0.1 * (0.5 - 0.4))).epsilon(1e-8));
  CHECK(found.cotangents[0] == Approx(-0.024977513 / 6).epsilon(1e-7));
  const std::map<std::string, double> means = means_of(found.metrics);
  CHECK(means.at("reward_chosen") == Approx(0.1));
  CHECK(means.at("reward_rejected") == Approx(0));
  CHECK(means.at("reward_margin") == Approx(0.1));
  CHECK(means.at("reward_accuracy") == Approx(2.0 / 3));  // `worse` lies beyond the divergence
  CHECK(means.at("kl") == Approx(0.4));
}

TEST_CASE("an answer that is judged by itself is right past the divergence, and the margin is between both classes") {
  ObjectiveConfig o;
  o.become(ObjectiveType::kto);
  o = with_defaults(o);
  const SequenceSums good{.logp = -5, .reference = -5.3, .tokens = 3}, bad{.logp = -4, .reference = -4.2, .tokens = 2, .desirable = false};
  const std::map<std::string, double> near = means_of(sequence_loss(o, {good, bad}, {.divisor = 2, .divergence = 0.25}).metrics);
  CHECK(near.at("reward_accuracy") == 1);
  CHECK(near.at("reward_margin") == Approx(near.at("reward_chosen") - near.at("reward_rejected")));
  CHECK(near.at("reward_margin") == Approx(0.1 * (0.3 - 0.2)));
  const std::map<std::string, double> far = means_of(sequence_loss(o, {good, bad}, {.divisor = 2, .divergence = 0.4}).metrics);
  CHECK(far.at("reward_accuracy") == 0.5);
}

TEST_CASE("the likelihood may be that of the whole chosen text") {
  ObjectiveConfig o;
  o.become(ObjectiveType::cpo);
  o.find<LikelihoodBeside>()->nll_weight = 0.5;
  o = with_defaults(o);
  SequenceSums chosen{.logp = -6, .tokens = 3, .other_logp = -10, .other_tokens = 5};
  const SequenceSums rejected{.logp = -4, .tokens = 2};
  const StepScale scale{.divisor = 2};
  const SequenceLoss whole = sequence_loss(o, {chosen, rejected}, scale);
  chosen.other_logp = 0, chosen.other_tokens = 0;
  const SequenceLoss answer = sequence_loss(o, {chosen, rejected}, scale);
  CHECK(answer.loss - whole.loss == Approx(0.5 * (6.0 / 3 - 16.0 / 8)));
  CHECK(whole.other_cotangents[0] == Approx(-0.5 / 8 / 2));
  CHECK(whole.other_cotangents[1] == 0);
  CHECK(answer.cotangents[0] - whole.cotangents[0] == Approx(-0.5 / 2 * (1.0 / 3 - 1.0 / 8)));
}

TEST_CASE("the likelihood's mean may be over the tokens of all chosen answers") {
  const ObjectiveConfig objective = config(ObjectiveType::cpo, [](ObjectiveConfig& o) {
    o.find<LikelihoodBeside>()->nll_weight = 0.5;
    o.find<LikelihoodBeside>()->nll_mean = NllMean::token;
  });
  const SequenceLoss found = sequence_loss(objective, {kChosen, kRejected, kRejected, kChosen}, {.divisor = 2, .chosen_tokens = 10});
  const PairLoss first = objective_of(ObjectiveType::cpo).pair(objective, kChosen, kRejected);
  const PairLoss second = objective_of(ObjectiveType::cpo).pair(objective, kRejected, kChosen);
  CHECK(found.loss / 2 == Approx((first.loss + second.loss) / 2 + 0.5 * (12 + 15) / 10).epsilon(1e-14));
  CHECK(found.cotangents[0] == Approx(first.d_chosen / 2 - 0.05).epsilon(1e-14));
  CHECK(found.cotangents[2] == Approx(second.d_chosen / 2 - 0.05).epsilon(1e-14));
}
