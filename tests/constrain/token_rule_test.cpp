#include "core/lib/text/grammar/token_rule.h"

#include <cmath>
#include <random>

#include "core/lib/schema/json_schema.h"
#include "core/lib/schema/schema_grammar.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::string kTiny = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";

// Writes the likeliest allowed token at each position, under random logits.
std::string write(TokenRule& rule, const Tokenizer& tokenizer, int64_t most, std::mt19937& random, int32_t stop) {
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()));
  std::vector<int32_t> ids;
  ConstrainedText text = rule.begin();
  for (int64_t left = most; left > 0; --left) {
    for (float& logit : logits) logit = static_cast<float>(random() % 10000) / 1000;
    rule.restrict(text, left, logits);
    const auto best = std::max_element(logits.begin(), logits.end());
    REQUIRE(std::isfinite(*best));
    const auto id = static_cast<int32_t>(best - logits.begin());
    if (id == stop) break;
    ids.push_back(id);
    rule.take(text, id);
    if (rule.must_end(text)) break;
  }
  return tokenizer.decode(ids);
}

}  // namespace

TEST_CASE("texts of any number of tokens are whole and valid") {
  const Tokenizer tokenizer = open_tokenizer(kTiny);
  std::mt19937 random(3);
  for (const char* text : {R"({"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "array", "items": {"type": "number"}}}, "required": ["name", "n"]})",
                           R"({})", R"({"type": "string", "minLength": 4, "maxLength": 9})"}) {
    const Json schema = parse_json(text, "test", ErrorKind::data);
    const JsonSchema judge(schema, "schema");
    TokenRule rule(tokenizer, schema_grammar(schema, "schema"), {*tokenizer.eos_id()});
    for (int64_t most = rule.shortest(); most < rule.shortest() + 60; ++most) {
      const std::string answer = write(rule, tokenizer, most, random, *tokenizer.eos_id());
      INFO(most << " tokens: " << answer);
      REQUIRE(judge.problem(parse_json(answer, "test", ErrorKind::data)) == "");
    }
  }
}

TEST_CASE("choices are written to the end, also one that begins another") {
  const Tokenizer tokenizer = open_tokenizer(kTiny);
  std::mt19937 random(4);
  const std::vector<std::string> choices{"yes", "yes, but", "no", "Où?"};
  TokenRule rule(tokenizer, choice_grammar(choices), {*tokenizer.eos_id()});
  CHECK(rule.shortest() == 2);
  std::map<std::string, int> seen;
  for (int i = 0; i < 200; ++i) ++seen[write(rule, tokenizer, 2 + i % 12, random, *tokenizer.eos_id())];
  CHECK(seen.size() == choices.size());
  for (const auto& [answer, count] : seen) CHECK(std::count(choices.begin(), choices.end(), answer) == 1);
}

TEST_CASE("a number that is none stays one, a token that is ruled out can still be the only one") {
  const Tokenizer tokenizer = open_tokenizer(kTiny);
  TokenRule rule(tokenizer, choice_grammar({"7"}), {*tokenizer.eos_id()});
  std::vector<float> logits(static_cast<size_t>(tokenizer.vocab_size()), -INFINITY);
  rule.restrict(rule.begin(), 1, logits);
  CHECK(std::count_if(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }) == 1);
  std::fill(logits.begin(), logits.end(), NAN);
  rule.restrict(rule.begin(), 1, logits);
  CHECK(std::none_of(logits.begin(), logits.end(), [](float x) { return std::isfinite(x); }));
}
