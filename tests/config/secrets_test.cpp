#include "core/job/secrets.h"

#include "core/job/job.h"
#include "tests/test.h"

using namespace forge;

namespace {

const std::vector<Secret> kSecrets{{"A_TOKEN", "s3cret"}, {"B_TOKEN", "s3cret-longer"}, {"C_KEY", "with \"quotes\""}};

Environment environment_of(const std::vector<Secret>& secrets) {
  return [secrets](const std::string& name) -> std::optional<std::string> {
    for (const Secret& secret : secrets)
      if (secret.variable == name) return secret.value;
    return std::nullopt;
  };
}

}  // namespace

TEST_CASE("secrets are hidden in texts, lists and names, the longest first") {
  CHECK(hide_secrets(std::string("/x/s3cret-longer/s3cret"), kSecrets) == "/x/***/***");
  const Json json{{"path", "a/s3cret"}, {"list", {"with \"quotes\"", 3}}, {"s3cret", true}};
  CHECK(dump_json(hide_secrets(json, kSecrets)) == R"({"path":"a/***","list":["***",3],"***":true})");
}

TEST_CASE("what is passed on shows no token by its shape, and no user of a URL") {
  const auto shown = [](const std::string& text) { return redacted(text); };
  const std::string token = "hf_aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3";
  CHECK(shown("/models/" + token + "/base") == "/models/***/base");
  CHECK(shown("key=" + token + ".") == "key=***.");
  CHECK(shown("sk-proj-a_b-aB3dE5fG7hI9jK1lM3nO5") == "***");
  CHECK(shown("https://me:pass@host/a@b and http://token@host") == "https://***@host/a@b and http://***@host");
  for (const char* plain : {"https://host/a@b", "hf_transformers_checkpoint_v2", "sk-learn", "AKIA", "a://b", "eyJ", "mail@host", "x_hf_aB3dE5fG7hI9jK1lM3"})
    CHECK(shown(plain) == plain);
  CHECK(redacted(std::string("/x/s3cret/y"), kSecrets) == "/x/***/y");
  CHECK(dump_json(redacted(Json{{"a", {token, 3}}})) == R"({"a":["***",3]})");
}

TEST_CASE("the variables of a sealed plan are known where they are set") {
  const Json sealed = seal_secrets(Json{{"path", "/x/s3cret"}}, {kSecrets[0], kSecrets[1]});
  const std::vector<Secret> found = sealed_secrets(sealed, environment_of({kSecrets[0]}));
  REQUIRE(found.size() == 1);
  CHECK(found[0].value == "s3cret");
  CHECK(sealed_secrets(Json::object(), environment_of({})).empty());
}

TEST_CASE("credentials in a job's headers are secrets, without the scheme before them") {
  Job job;
  job.rewards.emplace_back(HttpReward());
  job.rewards[0].find<HttpReward>()->headers = {{"Authorization", "Bearer my-pass-word"}, {"X-Api-Key", "k3ys"}, {"X-Debug", "true"}, {"X-Session", "0123456789"},
                            {"Content-Type", "application/json"}, {"Accept", "application/json"}, {"X-Known", "Bearer s3cret-longer"}};
  job.rollout.server.headers = {{"Cookie", "id=77; path=elsewhere"}};
  std::vector<Secret> secrets = kSecrets;
  add_header_secrets(job, secrets);
  std::vector<std::string> added;
  for (size_t i = kSecrets.size(); i < secrets.size(); ++i) {
    CHECK(secrets[i].variable.empty());
    added.push_back(secrets[i].value);
  }
  CHECK(added == std::vector<std::string>{"my-pass-word", "k3ys", "0123456789", "id=77; path=elsewhere"});
  CHECK(redacted(std::string("got Bearer my-pass-word"), secrets) == "got Bearer ***");
  // Without a variable nothing could read it again.
  const Json plan{{"headers", {{"Authorization", "Bearer my-pass-word"}}}};
  CHECK(seal_secrets(plan, {{"", "my-pass-word"}}) == plan);
  const Json sealed = seal_secrets(plan, secrets);
  CHECK(sealed["headers"] == plan["headers"]);
  CHECK(sealed["secrets"] == Json{"A_TOKEN", "B_TOKEN", "C_KEY"});
}

TEST_CASE("what is stored names the variables, and comes back where they are set") {
  const Json plan{{"job", {{"prompt", "key s3cret: {question}"}, {"path", "/x/s3cret-longer"}}}, {"steps", 3}};
  const Json sealed = seal_secrets(plan, kSecrets);
  CHECK(dump_json(sealed).find("s3cret") == std::string::npos);
  CHECK(sealed["job"]["prompt"] == "key ${env:A_TOKEN}: {question}");
  CHECK(unseal_secrets(sealed, environment_of(kSecrets), "plan.json") == plan);
  CHECK(seal_secrets(plan, {}) == plan);
  CHECK(unseal_secrets(plan, environment_of({}), "plan.json") == plan);
  CHECK_THAT(error_of([&] { unseal_secrets(sealed, environment_of({kSecrets[0]}), "plan.json"); }),
             Catch::Contains("plan.json: needs environment variables that are not set: B_TOKEN, C_KEY"));
}
