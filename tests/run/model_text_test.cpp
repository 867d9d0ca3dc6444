// The chat template of a model, as it is used and as it is stored beside what was trained.
#include "core/run/model_text.h"

#include "core/base/file.h"
#include "core/run/export_files.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string kTiny = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";
constexpr const char* kTemplates =
    R"([{"name": "default", "template": "{{ messages[0].content }}"},
        {"name": "tool_use", "template": "{{ tools[0].name }} {{ messages[0].content }}"}])";

// The tiny model's tokenizer with a configuration of its own.
void write_model(const TemporaryFolder& folder, const std::string& templates) {
  std::filesystem::copy(kTiny + "/tokenizer.json", folder.path("tokenizer.json"));
  Json config = Json::parse(read_file(kTiny + "/tokenizer_config.json", 1 << 20, ErrorKind::environment));
  config["chat_template"] = Json::parse(templates);
  folder.write("tokenizer_config.json", config.dump());
}

std::string text_in(const std::string& path) { return read_file(path, 1 << 20, ErrorKind::environment); }

}  // namespace

TEST_CASE("conversations with tools are rendered by the model's tool_use template") {
  const TemporaryFolder folder;
  write_model(folder, kTemplates);
  const ModelText text = open_model_text(folder.path());
  const Json messages = {{{"role", "user"}, {"content", "hello"}}};
  const Json tools = {{{"name", "search"}}};
  CHECK(text_of(text.chat_template->render(messages, nullptr, false)) == "hello");
  CHECK(text_of(text.chat_template->render(messages, tools, false)) == "search hello");
  CHECK(text_of(text.chat_template->render_for_training({messages, tools}, TrainTurns::all)) ==
        "search hello");
  CHECK(text.chat_template->sources().size() == 2);
  const ModelText named = open_model_text(folder.path(), "chatml");
  CHECK(text_of(named.chat_template->render(messages, tools, false)) ==
        text_of(named.chat_template->render(messages, nullptr, false)));
}

TEST_CASE("the template that was trained with is stored beside the result") {
  const TemporaryFolder model, result;
  write_model(model, kTemplates);
  write_tokenizer_files(model.path(), "auto", result.path());
  CHECK(!file_exists(result.path("chat_template.jinja")));
  CHECK(text_in(result.path("tokenizer_config.json")) == text_in(model.path("tokenizer_config.json")));

  model.write("chat_template.jinja", "the base's own");
  model.write("additional_chat_templates/tool_use.jinja", "the base's own for tools");
  const TemporaryFolder own, named;
  write_tokenizer_files(model.path(), "auto", own.path());
  CHECK(text_in(own.path("chat_template.jinja")) == "the base's own");
  CHECK(text_in(own.path("additional_chat_templates/tool_use.jinja")) == "the base's own for tools");
  write_tokenizer_files(model.path(), "chatml", named.path());
  CHECK(text_in(named.path("chat_template.jinja")) == bundled_template("chatml").text);
  CHECK(!file_exists(named.path("additional_chat_templates/tool_use.jinja")));
}

}  // namespace forge
