// Tests the chat template of a model, in use and as it is stored with the result.
#include "core/run/model_text.h"

#include "core/lib/base/file.h"
#include "core/run/export_files.h"
#include "tests/test.h"

namespace forge {
namespace {

const std::string kTiny = std::string(FORGE_SOURCE_DIR) + "/tests/fixtures/tiny-llama";
constexpr const char* kTemplates =
    R"([{"name": "default", "template": "{{ messages[0].content }}"},
        {"name": "tool_use", "template": "{{ tools[0].name }} {{ messages[0].content }}"}])";

// Writes the tiny model's tokenizer with its own configuration.
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
  const ModelText named = open_model_text(folder.path(), {"chatml"});
  CHECK(text_of(named.chat_template->render(messages, tools, false)) ==
        text_of(named.chat_template->render(messages, nullptr, false)));
}

TEST_CASE("the template that was trained with is stored beside the result") {
  const TemporaryFolder model, result;
  write_model(model, kTemplates);
  write_tokenizer_files(model.path(), {}, result.path());
  CHECK(!file_exists(result.path("chat_template.jinja")));
  CHECK(text_in(result.path("tokenizer_config.json")) == text_in(model.path("tokenizer_config.json")));

  model.write("chat_template.jinja", "the base's own");
  model.write("additional_chat_templates/tool_use.jinja", "the base's own for tools");
  const TemporaryFolder own, named;
  write_tokenizer_files(model.path(), {}, own.path());
  CHECK(text_in(own.path("chat_template.jinja")) == "the base's own");
  CHECK(text_in(own.path("additional_chat_templates/tool_use.jinja")) == "the base's own for tools");
  write_tokenizer_files(model.path(), {"chatml"}, named.path());
  CHECK(text_in(named.path("chat_template.jinja")) == bundled_template("chatml").text);
  CHECK(!file_exists(named.path("additional_chat_templates/tool_use.jinja")));
}

TEST_CASE("between two turns stands what the template writes there, whatever the turn was") {
  const TemporaryFolder folder;
  std::filesystem::copy(kTiny + "/tokenizer.json", folder.path("tokenizer.json"));
  std::filesystem::copy(kTiny + "/tokenizer_config.json", folder.path("tokenizer_config.json"));
  const auto between = [&](const std::string& source, int32_t ended_by) {
    folder.write("own.jinja", source);
    const ModelText text = open_model_text(folder.path(), {folder.path("own.jinja")});
    const Json messages = {{{"role", "user"}, {"content", "6*7?"}}};
    return text.tokenizer.decode(between_turns(text, messages, {{"role", "tool"}, {"content", "42"}}, ended_by));
  };
  const ModelText tiny = open_model_text(folder.path());
  const int32_t eos = *tiny.tokenizer.eos_id();
  const std::string end = tiny.tokenizer.decode(std::vector<int32_t>{eos});
  const std::string plain = "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}{{ eos_token }}{% endfor %}"
                            "{% if add_generation_prompt %}<assistant>{% endif %}";
  CHECK(between(plain, -1) == end + "<tool>42" + end + "<assistant>");
  CHECK(between(plain, eos) == "<tool>42" + end + "<assistant>");  // the model ended its turn itself
  CHECK_THROWS_WITH(between(plain, eos + 1), Catch::Contains("ends an assistant's turn with another token"));
  CHECK_THROWS_WITH(between("{% for m in messages %}{% if m.role != 'assistant' %}{{ m.content }}{% endif %}{% endfor %}", -1),
                    Catch::Contains("leaves out an assistant's turn"));
  CHECK_THROWS_AS(between("{{ raise_exception('no tools') }}", -1), Error);
}

TEST_CASE("template variables reach the template, and the stored one keeps them") {
  const Json messages = {{{"role", "user"}, {"content", "hello"}}}, tools = {{{"name", "search"}}};
  const std::string reads = "{{ deep }} {{ 'thinks' if thinking else 'does not' }} {{ messages[0].content }}";
  const TemporaryFolder model, result;
  write_model(model,
              dump_json({{{"name", "default"}, {"template", "  {% if true %}\n" + reads + "{% endif %}"}},
                         {{"name", "tool_use"}, {"template", "tools: " + reads}}}));
  const auto shown = [&](const std::string& folder, const TemplateChoice& choice, const Json& with_tools) {
    return text_of(open_model_text(folder, choice).chat_template->render(messages, with_tools, false));
  };
  const TemplateChoice choice{"auto",
                              {{"thinking", true}, {"deep", std::string("a \"b\"\n<|im_end|> %} é")}}};
  const std::string expected = "a \"b\"\n<|im_end|> %} é thinks hello";
  CHECK(shown(model.path(), {}, nullptr) == " does not hello");
  CHECK(shown(model.path(), choice, nullptr) == expected);
  CHECK(shown(model.path(), choice, tools) == "tools: " + expected);
  CHECK(open_model_text(model.path(), choice).chat_template->sources() !=
        open_model_text(model.path()).chat_template->sources());

  write_model(result, dump_json("unused"));
  write_tokenizer_files(model.path(), choice, result.path());
  CHECK(shown(result.path(), {}, nullptr) == expected);
  CHECK(shown(result.path(), {}, tools) == "tools: " + expected);
  // A server may still override this.
  CHECK(shown(result.path(), {"auto", {{"thinking", false}}}, nullptr) ==
        "a \"b\"\n<|im_end|> %} é does not hello");

  CHECK(shown(model.path(), {.folder = result.path()}, nullptr) ==
        expected);  // an adapter's beside its base
  CHECK(shown(model.path(), {.folder = result.path()}, tools) == "tools: " + expected);

  // Special tokens come with every tokenizer.
  CHECK(with_variables("{{ bos_token }}", {{"bos_token", std::string("<s>")}}) ==
        "{%- set bos_token = \"<s>\" %}\n{{ bos_token }}");

  const auto refused = [&](const std::string& name) {
    try {
      open_model_text(model.path(), {"auto", {{name, true}}});
    } catch (const Error& error) {
      return std::string(error.kind() == ErrorKind::job ? error.what() : "another kind");
    }
    return std::string("accepted");
  };
  CHECK(refused("thinkin").find("uses no thinkin (did you mean \"thinking\"?)") != std::string::npos);
  CHECK(refused("messages").find("every conversation gives its own messages") != std::string::npos);
}

}  // namespace forge
