#include "core/config/secrets.h"

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
