#include "core/data/rows/rows.h"

#include "core/data/read/sources.h"
#include "core/data/rows/common_columns.h"
#include "core/job/node.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

const RowOptions kOptions{true, 100};

// Returns the faults of a row as "line:col message", or its meaning as text.
std::string meaning(const std::string& text, RowFormat format, const RowOptions& options = kOptions) {
  const SourceRow source{1, 1, text};
  RowFaults faults;
  const auto row = convert_row(parse_row(source, "f"), format, options, faults);
  std::vector<std::string> lines;
  for (const RowFault& fault : faults) lines.push_back(place_of(source, fault.pointer) + " " + fault.message);
  if (!row) return join(lines, "\n");
  if (const auto* chat = std::get_if<ChatRow>(&*row)) {
    std::string flags;
    for (TurnTraining training : chat->training) flags += "?+-"[static_cast<int>(training)];
    return dump_json(chat->messages) + " " + flags +
           (chat->tools.is_null() ? "" : " tools " + dump_json(chat->tools)) +
           (chat->prompt_messages ? " prompt " + std::to_string(chat->prompt_messages) : "");
  }
  if (const auto* pair = std::get_if<PairRow>(&*row))
    return "[" + pair->prompt + "][" + pair->completion + "]";
  if (const auto* document = std::get_if<TextRow>(&*row)) return "<" + document->text + ">";
  if (const auto* prompt = std::get_if<PromptRow>(&*row))
    return "?" + prompt->text + (prompt->chat.messages.empty() ? "" : dump_json(prompt->chat.messages));
  if (const auto* answers = std::get_if<AnswersRow>(&*row)) {
    std::string all;
    for (const auto& answer : answers->answers) {
      all += (all.empty() ? "" : " ") + answer.name + ":";
      if (const auto* pair = std::get_if<PairRow>(&answer.row))
        all += "[" + pair->prompt + "][" + pair->completion + "]";
      else
        for (const Json& turn : std::get<ChatRow>(answer.row).messages)
          all +=
              turn["role"].get<std::string>().substr(0, 1) + "=" + turn["content"].get<std::string>() + ";";
      if (const auto* chat = std::get_if<ChatRow>(&answer.row)) all += std::to_string(chat->prompt_messages);
    }
    return all;
  }
  const auto& tokens = std::get<TokensRow>(*row);
  return dump_json(tokens.ids) + dump_json(tokens.supervised);
}

Detected detection(const std::vector<std::string>& rows) {
  std::vector<LocatedRow> located;
  for (size_t i = 0; i < rows.size(); ++i)
    located.push_back({parse_row({1, 1, rows[i]}, "f"), static_cast<int64_t>(i) + 1});
  return detect_format(located, "f.jsonl");
}
RowFormat detected(const std::vector<std::string>& rows) { return detection(rows).format; }

}  // namespace

TEST_CASE("messages keep what templates read and lose flags and nulls") {
  CHECK(
      meaning(
          R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u", "name": null},
        {"role": "assistant", "content": "a", "weight": 0}, {"role": "user", "content": [{"type": "text", "text": "x"},
        {"type": "text", "text": "y"}]}, {"role": "assistant", "content": "b", "train": true, "reasoning": "r"}]})",
          RowFormat::messages) ==
      R"([{"role":"system","content":"s"},{"role":"user","content":"u"},{"role":"assistant","content":"a"},)"
      R"({"role":"user","content":"xy"},{"role":"assistant","content":"b","reasoning":"r"}] ??-?+)");
}

TEST_CASE("tool calls get the shape that templates expect") {
  CHECK(
      meaning(
          R"({"messages": [{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function",
        "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}, {"role": "tool", "tool_call_id": "c1", "content":
        "42"}, {"role": "assistant", "tool_calls": [{"name": "g", "arguments": {"y": 2}}]}],
        "tools": "[{\"type\": \"function\"}]"})",
          RowFormat::messages) ==
      R"([{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":)"
      R"({"x":1}}}]},{"role":"tool","tool_call_id":"c1","content":"42"},{"role":"assistant","tool_calls":)"
      R"([{"type":"function","function":{"name":"g","arguments":{"y":2}}}]}] ??? tools [{"type":"function"}])");
}

// A template may print a call whole, and Python keeps the order of keys; TRL takes nulls out
// (remove_none_values).
TEST_CASE("tool calls keep the row's order and lose the nulls that tables make") {
  const auto calls = [](const std::string& list) {
    return meaning(R"({"messages": [{"role": "assistant", "content": null, "tool_calls": )" + list + "}]}", RowFormat::messages);
  };
  const std::string start = R"([{"role":"assistant","content":null,"tool_calls":[)";
  CHECK(calls(R"([{"function": {"arguments": {"b": 1, "a": null, "c": [null, {"d": null}]}, "name": "f"}, "index": 0, "id": null}])") ==
        start + R"({"function":{"arguments":{"b":1,"c":[null,{}]},"name":"f"},"index":0}]}] ?)");
  CHECK(calls(R"([{"arguments": "{\"a\": null}", "name": "f"}])") ==
        start + R"({"type":"function","function":{"arguments":{"a":null},"name":"f"}}]}] ?)");  // a text that somebody wrote
  CHECK(calls(R"("[{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": null}}, \"id\": null}]")") ==
        start + R"({"function":{"name":"f","arguments":{"a":null}}}]}] ?)");
  CHECK(meaning(R"({"messages": [{"role": "user", "content": "q"}], "tools": "[{\"name\": \"f\", \"parameters\": {\"default\": null}}]"})",
                RowFormat::messages) == R"([{"role":"user","content":"q"}] ? tools [{"type":"function","function":{"name":"f","parameters":{"default":null}}}])");
  CHECK(meaning(R"({"messages": [{"role": "user", "content": "q"}], "tools": [{"name": "f", "description": null, "parameters": {"to": null}}]})",
                RowFormat::messages) == R"([{"role":"user","content":"q"}] ? tools [{"type":"function","function":{"name":"f","parameters":{}}}])");
  CHECK(meaning(R"({"messages": [{"role": "user", "content": "q"}], "tools": ["{\"name\": \"f\", \"parameters\": {\"default\": null}}", {"name": "g", "parameters": {"to": null}}]})",
                RowFormat::messages) == R"([{"role":"user","content":"q"}] ? tools [{"type":"function","function":{"name":"f","parameters":{"default":null}}},)"
                                        R"({"type":"function","function":{"name":"g","parameters":{}}}])");
  CHECK_THAT(calls(R"([{"name": "f", "arguments": "{\"a\": 99999999999999999999}"}])"),
             Catch::Contains("arguments: the integer 99999999999999999999 does not fit 64 bits, expected it as a text"));
  CHECK_THAT(calls(R"([{"name": "f", "arguments": "{\"a\": 1e400}"}])"), Catch::Contains("arguments: the number 1e400 does not fit 64 bits, expected it as a text"));
  for (const char* arguments : {R"({"a": [12345678901234567890]})", R"("{\"a\": 12345678901234567890}")"})
    CHECK_THAT(calls(R"([{"name": "f", "arguments": )" + std::string(arguments) + "}]"),
               Catch::Contains("arguments: the integer 12345678901234567890 is above 2^63 - 1"));
}

TEST_CASE("sharegpt speakers become roles") {
  CHECK(meaning(R"({"system": "s", "tools": [], "conversations": [{"from": "human", "value": "q"}, {"from":
        "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": 1}}"}, {"from": "observation", "value":
        "7"}, {"from": "gpt", "value": "a", "weight": 0}]})",
                RowFormat::sharegpt) ==
        R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"",)"
        R"("tool_calls":[{"type":"function","function":{"name":"f","arguments":{"x":1}}}]},)"
        R"({"role":"tool","content":"7"},{"role":"assistant","content":"a"}] ????-)");
  CHECK(meaning(R"({"conversation": [{"role": "user", "content": "q"}]})", RowFormat::sharegpt) ==
        R"([{"role":"user","content":"q"}] ?)");
}

TEST_CASE("alpaca rows become a conversation, or Alpaca's prompt without a template") {
  const std::string row =
      R"({"instruction": "i", "input": "x", "output": "o", "system": "s", "history": [["q", "a"]]})";
  CHECK(
      meaning(row, RowFormat::alpaca) ==
      R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"},)"
      R"({"role":"user","content":"i\nx"},{"role":"assistant","content":"o"}] ?????)");
  CHECK(meaning(R"({"instruction": "i", "input": "", "output": "o"})", RowFormat::alpaca) ==
        R"([{"role":"user","content":"i"},{"role":"assistant","content":"o"}] ??)");
  CHECK(meaning(R"({"instruction": "i", "input": null, "output": "o"})", RowFormat::alpaca, {false, 0}) ==
        "[Below is an instruction that describes a task. Write a response that appropriately completes the "
        "request.\n\n### Instruction:\ni\n\n### Response:][o]");
  CHECK(meaning(row, RowFormat::alpaca, {false, 0}) ==
        "1:1 system or history in an alpaca row, expected neither: the model has no chat template");
}

TEST_CASE("pairs, texts and tokens") {
  CHECK(meaning(R"({"prompt": "p", "completion": " c"})", RowFormat::prompt_completion) == "[p][ c]");
  CHECK(meaning(
            R"({"prompt": [{"role": "user", "content": "p"}], "completion": [{"role": "assistant", "content":
        "c"}]})",
            RowFormat::prompt_completion) ==
        R"([{"role":"user","content":"p"},{"role":"assistant","content":"c"}] ?? prompt 1)");
  CHECK(meaning(R"({"text": "t", "n": 1})", RowFormat::text) == "<t>");
  CHECK(meaning(R"({"input_ids": [1, 2, 3]})", RowFormat::tokens) == "[1,2,3][1,1,1]");
  CHECK(meaning(R"({"input_ids": [9, 1, 2], "labels": [-100, -100, 2], "attention_mask": [0, 1, 1]})",
                RowFormat::tokens) == "[1,2][0,1]");
  CHECK(meaning(R"({"text": "t", "ids": [1, 2], "mask": [0, 1]})", RowFormat::tokens) == "[1,2][0,1]");
}

TEST_CASE("the format is what the rows of a file look like") {
  CHECK(detected({R"({"messages": []})"}) == RowFormat::messages);
  CHECK(detected({R"({"conversations": []})"}) == RowFormat::sharegpt);
  CHECK(detected({R"({"instruction": "", "input": "", "output": ""})"}) == RowFormat::alpaca);
  CHECK(detected({R"({"prompt": "", "completion": ""})"}) == RowFormat::prompt_completion);
  CHECK(detected({R"({"text": ""})"}) == RowFormat::text);
  CHECK(detected({R"({"input_ids": [], "text": ""})"}) == RowFormat::tokens);
  CHECK(detected({R"({"messages": null, "text": "x"})"}) == RowFormat::text);
  CHECK(detected({"7", R"({"oops": 1})", R"({"text": ""})"}) ==
        RowFormat::text);  // the odd ones are reported as faulty rows
  CHECK(detected({R"({"text": ""})", R"({"messages": []})", R"({"messages": []})"}) == RowFormat::messages);
  CHECK(detected({R"({"text": ""})", R"({"messages": []})"}) == RowFormat::text);
  CHECK(error_of([] { detected({R"({"title": "", "body": ""})"}); }) ==
        "f.jsonl:1: the row has the keys title, body, expected messages, conversations, instruction and "
        "output, "
        "prompt and completion, text, input_ids, or chosen and rejected");
  CHECK(error_of([] { detected({"[1]"}); }) ==
        "f.jsonl:1: the row is a list, expected messages, conversations, instruction and output, prompt and "
        "completion, text, input_ids, or chosen and rejected");
  CHECK(error_of([] { detected({}); }) == "f.jsonl: holds no rows, expected at least one");
}

TEST_CASE("every fault of a row is named with its place") {
  struct Case {
    RowFormat format;
    const char* row;
    const char* faults;
  };
  const Case cases[] = {
      {RowFormat::messages, R"([1])", "1:1 the row is a list, expected an object"},
      {RowFormat::messages, R"("hi")", "1:1 the row is a text, expected an object"},
      {RowFormat::messages, R"({"message": []})", "1:1 messages is missing, expected a list of messages"},
      {RowFormat::messages, R"({"messages": "hi"})", "1:14 messages is a text, expected a list of messages"},
      {RowFormat::messages, R"({"messages": []})", "1:14 messages is empty, expected at least one message"},
      {RowFormat::messages, R"({"messages": [3]})",
       "1:15 a message is the number 3, expected an object with role and content"},
      {RowFormat::messages, R"({"messages": [{"content": "x"}]})", "1:15 role is missing, expected a text"},
      {RowFormat::messages, R"({"messages": [{"role": "usr", "content": "x"}]})",
       "1:24 unknown role \"usr\", expected system, developer, user, assistant, tool, function (did you mean "
       "\"user\"?)"},
      {RowFormat::messages, R"({"messages": [{"role": 1, "content": "x"}]})",
       "1:24 role is the number 1, expected a text"},
      {RowFormat::messages, R"({"messages": [{"role": "user"}]})",
       "1:15 content is missing, expected a text"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": null}]})",
       "1:15 content is null, expected a text"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": 5}]})",
       "1:43 content is the number 5, expected a text or text parts"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
       "1:44 a part of type \"image_url\", expected text parts only"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": ["x"]}]})",
       "1:44 content holds a text, expected a part with a type"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": "x", "weight": 1}]})",
       "1:58 weight on a turn of \"user\", expected it on an assistant's turn only"},
      {RowFormat::messages, R"({"messages": [{"role": "assistant", "content": "x", "train": "yes"}]})",
       "1:62 train is a text, expected true, false, 0 or 1"},
      {RowFormat::messages, R"({"messages": [{"role": "assistant", "tool_calls": {}}]})",
       "1:51 tool_calls is an object, expected a list of calls"},
      {RowFormat::messages,
       R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": {}}}]}]})",
       "1:65 name is missing, expected a text"},
      {RowFormat::messages,
       R"({"messages": [{"role": "assistant", "tool_calls": [{"name": "f", "arguments": "{x"}]}]})",
       "1:79 arguments is a text that is not JSON (syntax error while parsing object key - invalid literal; last "
       "read: '{x'; expected string literal), expected an object"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "content": "x"}], "tools": 1})",
       "1:59 tools is the number 1, expected a list of tools"},
      {RowFormat::messages, R"({"messages": [{"role": "user"}, {"role": "asistant", "content": 1}]})",
       "1:15 content is missing, expected a text\n"
       "1:42 unknown role \"asistant\", expected system, developer, user, assistant, tool, function (did you "
       "mean "
       "\"assistant\"?)\n"
       "1:65 content is the number 1, expected a text or text parts"},
      // A speaker is named once, with the role that it likely has.
      {RowFormat::messages,
       R"({"messages": [{"role": "Agent", "content": "x"}, {"role": "gpt", "content": "y"}, {"role": "Agent", "content": "z"}]})",
       "1:24 unknown role \"Agent\", expected system, developer, user, assistant, tool, function; say who it is: "
       "roles: {Agent: assistant}\n"
       "1:59 unknown role \"gpt\", expected system, developer, user, assistant, tool, function; say who it is: "
       "roles: {gpt: assistant}"},
      // Names of turns are a file's own, and named once, beside the roles of its speakers.
      {RowFormat::sharegpt, R"({"conversation": [{"speaker": "Customer", "text": "x"}, {"speaker": "gpt", "text": "y"}]})",
       "1:19 a turn has speaker and text, expected from and value; name them: columns: {from: speaker, value: text}\n"
       "1:31 unknown speaker \"Customer\", expected human, gpt, system, function_call, observation; say who it is: "
       "roles: {Customer: user}"},
      {RowFormat::messages, R"({"messages": [{"author": "user", "line: ": "x"}, {"author": "assistant", "line: ": "y"}]})",
       "1:15 a turn has author and line: , expected role and content; name them: columns: {content: \"line: \", role: author}"},
      {RowFormat::messages, R"({"messages": [{"role": "user", "text": "x"}, {"role": "assistant", "text": "y"}]})",
       "1:15 a turn has text, expected content; name them: columns: {content: text}"},
      // Nothing of these says which is which.
      {RowFormat::messages, R"({"messages": [{"role": "user", "name": "x"}]})", "1:15 content is missing, expected a text"},
      {RowFormat::sharegpt, R"({"conversations": [{"user": "x", "bot": "y"}]})",
       "1:20 from is missing, expected a text\n1:20 value is missing, expected a text"},
      // Capitals come with all rows, unlike a slip.
      {RowFormat::messages, R"({"messages": [{"role": "User", "content": "x"}, {"role": " ASSISTANT", "content": "y"}]})",
       "1:24 unknown role \"User\", expected system, developer, user, assistant, tool, function; say who it is: "
       "roles: {User: user}\n"
       "1:58 unknown role \" ASSISTANT\", expected system, developer, user, assistant, tool, function; say who it is: "
       "roles: {\" ASSISTANT\": assistant}"},
      {RowFormat::sharegpt, R"({"x": 1})", "1:1 conversations is missing, expected a list of turns"},
      {RowFormat::sharegpt, R"({"conversations": []})",
       "1:19 conversations is empty, expected a list of turns"},
      {RowFormat::sharegpt, R"({"conversations": [{"from": "humn", "value": "x"}]})",
       "1:29 unknown speaker \"humn\", expected human, gpt, system, function_call, observation (did you "
       "mean "
       "\"human\"?)"},
      {RowFormat::sharegpt, R"({"conversations": [{"from": "gpt"}]})",
       "1:20 value is missing, expected a text"},
      {RowFormat::sharegpt, R"({"conversations": [{"from": "function_call", "value": "f[x]"}]})",
       "1:55 the value of a function call is not JSON, expected {\"name\": …, \"arguments\": …}"},
      {RowFormat::alpaca, R"({"instruction": "i", "ouput": "o"})",
       "1:1 output is missing, expected a text (did you mean \"ouput\"?)"},
      {RowFormat::alpaca, R"({"instruction": ["i"], "output": "o"})",
       "1:17 instruction is a list, expected a text"},
      {RowFormat::alpaca, R"({"instruction": "i", "output": "o", "history": [["q"]]})",
       "1:49 an entry of history, expected two texts: [question, answer]"},
      {RowFormat::prompt_completion, R"({"prompt": "p"})", "1:1 completion is missing, expected a text"},
      {RowFormat::prompt_completion, R"({"prompt": [], "completion": []})",
       "1:12 prompt is empty, expected at least one message\n1:30 completion is empty, expected at least one "
       "message"},
      {RowFormat::prompt_completion, R"({"prompt": [{"role": "user", "content": "x"}], "completion": "c"})",
       "1:12 prompt is a list, expected a text"},
      {RowFormat::text, R"({"text": 1.5})", "1:10 text is the number 1.5, expected a text"},
      {RowFormat::text, R"({"txt": "a"})", "1:1 text is missing, expected a text (did you mean \"txt\"?)"},
      {RowFormat::tokens, R"({"labels": []})", "1:1 input_ids is missing, expected a list of whole numbers"},
      {RowFormat::tokens, R"({"input_ids": []})", "1:15 input_ids is empty, expected at least one token"},
      {RowFormat::tokens, R"({"input_ids": [1, 100]})",
       "1:19 input_ids[1] is the number 100, expected a whole number from 0 to 99"},
      {RowFormat::tokens, R"({"input_ids": [1, -1]})",
       "1:19 input_ids[1] is the number -1, expected a whole number from 0 to 99"},
      {RowFormat::tokens, R"({"input_ids": [1, 1.5]})",
       "1:19 input_ids[1] is the number 1.5, expected a whole number from 0 to 99"},
      {RowFormat::tokens, R"({"input_ids": [18446744073709551615]})",
       "1:16 input_ids[0] is the number 18446744073709551615, expected a whole number from 0 to 99"},
      {RowFormat::tokens, R"({"input_ids": [1, 2], "labels": [1]})",
       "1:33 labels has 1 values, expected 2, one a token"},
      {RowFormat::tokens, R"({"input_ids": [1, 2], "labels": [2, -100]})",
       "1:34 labels[0] is 2, expected -100 or 1 as in input_ids: labels are not shifted"},
      {RowFormat::tokens, R"({"input_ids": [1, 2], "labels": [1, 2], "mask": [1, 0]})",
       "1:53 mask and labels disagree about token 1, expected one of them: leave the other out with ignore"},
      {RowFormat::tokens, R"({"input_ids": [1, 2], "loss_mask": [1]})",
       "1:36 loss_mask has 1 values, expected 2, one a token"},
      {RowFormat::tokens, R"({"input_ids": [1], "completion_mask": [0.5]})",
       "1:40 completion_mask[0] is the number 0.5, expected a whole number from 0 to 1"},
      {RowFormat::tokens, R"({"input_ids": [1], "mask": [2]})",
       "1:29 mask[0] is the number 2, expected a whole number from 0 to 1"},
  };
  for (const Case& test : cases) CHECK(meaning(test.row, test.format) == test.faults);
}

TEST_CASE("a speaker's role is proposed in words that YAML reads back") {
  for (const char* name : {"Kunde", "### Human:", "[AI]", "Speaker: A", "{bot}", "yes", "null", "7", "a #b", "\"q\"", "Ärztin"}) {
    CAPTURE(name);
    const std::string turn = R"({"role": )" + dump_json(Json(name)) + R"(, "content": "x"})";
    const std::string fault = meaning(R"({"messages": [)" + turn + "]}", RowFormat::messages);
    const size_t begin = fault.find("roles: "), end = fault.rfind('}');
    REQUIRE(begin != std::string::npos);
    const Node read = parse_yaml(fault.substr(begin, end + 1 - begin), "hint");
    const Node* roles = read.find("roles");
    REQUIRE((roles && roles->is_map()));
    REQUIRE(roles->find(name));
    CHECK(roles->find(name)->scalar == "user");
  }
  CHECK(columns_text({{"output", "null"}, {"input", "b: c"}}) == R"({input: "b: c", output: "null"})");
}

TEST_CASE("preference pairs come in the shapes of three trainers") {
  const auto pair = [](const char* row) { return meaning(row, RowFormat::preference); };
  CHECK(pair(R"({"prompt": "p", "chosen": "a", "rejected": "b"})") == "chosen:[p][a] rejected:[p][b]");
  CHECK(pair(R"({"chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                 "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})") ==
        "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(pair(R"({"prompt": "q", "chosen": [{"role": "assistant", "content": "a"}],
                 "rejected": [{"role": "assistant", "content": "b"}]})") ==
        "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(
      pair(
          R"({"prompt": "q", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                 "rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})") ==
      "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(pair(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                 "rejected_response": "b"})") == "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(pair(R"({"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "a"},
                 "rejected": {"from": "gpt", "value": "b"}})") == "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(pair(R"({"chosen": "a", "rejected": "a"})") ==
        "1:29 chosen and rejected are the same, expected two answers");
  CHECK(pair(R"({"chosen": "a", "rejected": ["b"]})") == "1:29 rejected is a list, expected a text");
  CHECK(pair(R"({"chosen": "a"})") == "1:1 rejected is missing, expected a text");
  CHECK(pair(R"({"chosen": [], "rejected": []})") ==
        "1:12 chosen is empty, expected messages\n1:28 rejected is empty, expected messages");
  CHECK(
      pair(
          R"({"chosen": [{"role": "user", "content": "q"}], "rejected": [{"role": "assistant", "content": "b"}]})") ==
      "1:13 chosen does not end with an assistant's turn");
}

TEST_CASE("what two texts begin with is their prompt") {
  const auto pair = [](const char* row) { return meaning(row, RowFormat::preference); };
  CHECK(pair(R"({"chosen": "\n\nHuman: a b\n\nAssistant: yes it is", "rejected": "\n\nHuman: a b\n\nAssistant: yes no"})") ==
        "chosen:[\n\nHuman: a b\n\nAssistant:][ yes it is] rejected:[\n\nHuman: a b\n\nAssistant:][ yes no]");
  CHECK(pair(R"({"chosen": "Q: a\nthe cat", "rejected": "Q: a\nthey"})") ==
        "chosen:[Q: a\n][the cat] rejected:[Q: a\n][they]");
  CHECK(pair(R"({"chosen": "the red cat", "rejected": "the red cap"})") ==
        "chosen:[the red][ cat] rejected:[the red][ cap]");
  CHECK(pair(R"({"chosen": "日本語", "rejected": "日本酒"})") == "chosen:[][日本語] rejected:[][日本酒]");
  CHECK(pair(R"({"prompt": "a prompt that is long", "chosen": "a prompt that is long yes", "rejected":
                 "a prompt that is long no"})") ==
        "chosen:[a prompt that is long][ yes] rejected:[a prompt that is long][ no]");
}

TEST_CASE("tools and calls come in the shapes of several interfaces") {
  const auto tools = [](const std::string& list) {
    return meaning(R"({"messages": [{"role": "user", "content": "q"}], )" + list + "}", RowFormat::messages);
  };
  const std::string start = R"([{"role":"user","content":"q"}] ? tools )";
  const std::string wrapped = R"([{"type":"function","function":{"name":"f","parameters":{}}}])";
  CHECK(tools(R"("tools": [{"name": "f", "parameters": {}}])") == start + wrapped);
  CHECK(tools(R"("tools": [{"type": "function", "name": "f", "parameters": {}}])") == start + wrapped);
  CHECK(tools(R"("tools": [{"name": "f", "input_schema": {}}])") == start + wrapped);
  CHECK(tools(R"("tools": "[{\"name\": \"f\", \"parameters\": {}}]")") == start + wrapped);
  CHECK(tools(R"("functions": [{"name": "f", "parameters": {}}])") == start + wrapped);
  CHECK(tools(R"("tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}])") == start + wrapped);
  CHECK(tools(R"("tools": [7])") == "1:60 a tool is the number 7, expected an object with its name and parameters");
  CHECK(meaning(R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments":
                    "{}"}}]})",
                RowFormat::messages) ==
        R"([{"role":"assistant","content":null,"tool_calls":[{"type":"function","function":{"name":"f",)"
        R"("arguments":{}}}]}] ?)");
  CHECK(meaning(R"({"instruction": "q", "tool_calls": "[{\"name\": \"f\", \"arguments\": {}}]"})",
                RowFormat::alpaca) ==
        R"([{"role":"user","content":"q"},{"role":"assistant","content":"","tool_calls":[{"type":"function",)"
        R"("function":{"name":"f","arguments":{}}}]}] ??)");
}

TEST_CASE("a system prompt beside turns is their first") {
  CHECK(meaning(R"({"system": "s", "messages": [{"role": "user", "content": "q"}]})", RowFormat::messages) ==
        R"([{"role":"system","content":"s"},{"role":"user","content":"q"}] ??)");
  CHECK(meaning(R"({"system": "s", "messages": [{"role": "system", "content": "s"}]})", RowFormat::messages) ==
        R"([{"role":"system","content":"s"}] ?)");
  CHECK(meaning(R"({"system": "s", "messages": [{"role": "system", "content": "t"}]})", RowFormat::messages) ==
        "1:12 system differs from the system turn that the conversation begins with, expected one of them");
  CHECK(meaning(R"({"system": "s", "prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant",
                    "content": "a"}]})",
                RowFormat::prompt_completion) ==
        R"([{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}] ??? prompt 2)");
}

TEST_CASE("turns have parts, flags and exchanges") {
  CHECK(meaning(R"({"messages": [{"role": "user", "content": [{"type": "text", "value": "x"}, {"type": "input_text",
                    "text": "y"}]}, {"role": "assistant", "content": "a", "loss_weight": 0.0}]})",
                RowFormat::messages) == R"([{"role":"user","content":"xy"},{"role":"assistant","content":"a"}] ?-)");
  CHECK(meaning(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", RowFormat::messages) ==
        "1:63 weight is the number 0.5, expected 0 or 1: a turn is trained or not, examples carry no weights");
  CHECK(meaning(R"({"conversation": [{"input": "q", "output": "a"}, {"input": "r", "output": "b"}]})",
                RowFormat::sharegpt) ==
        R"([{"role":"user","content":"q"},{"role":"assistant","content":"a"},{"role":"user","content":"r"},)"
        R"({"role":"assistant","content":"b"}] ????)");
}

TEST_CASE("labels, scores and prompts") {
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "label": true})", RowFormat::kto) ==
        "desirable:[p][c]");
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "label": 0})", RowFormat::kto) == "undesirable:[p][c]");
  CHECK(meaning(R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}],
                   "kto_tag": false})",
                RowFormat::kto) == "undesirable:u=q;a=a;1");
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "label": "good"})", RowFormat::kto) ==
        "1:45 label is \"good\", expected true or false, 1 or 0");
  CHECK(meaning(R"({"prompt": "p", "completion": "c"})", RowFormat::kto) ==
        "1:1 label is missing, expected true or false");
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "score": 0.5})", RowFormat::reward) ==
        "score 0.5:[p][c]");
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "score": "x"})", RowFormat::reward) ==
        "1:45 score is a text, expected a number");
  CHECK(meaning(R"({"prompt": "p", "answer": 4})", RowFormat::prompt) == "?p");
  CHECK(meaning(R"({"prompt": [{"role": "user", "content": "q"}]})", RowFormat::prompt) ==
        R"(?[{"role":"user","content":"q"}])");
  CHECK(meaning(R"({"prompt": [{"role": "assistant", "content": "q"}]})", RowFormat::prompt) ==
        "1:13 the prompt ends with an assistant's turn, expected a turn that it answers");
  CHECK(meaning(R"({"prompt": ""})", RowFormat::prompt) == "1:12 prompt is empty, expected a text");
}

TEST_CASE("the larger shape is meant, and two readings are an error that names them") {
  CHECK(detected({R"({"prompt": "p", "chosen": "a", "rejected": "b"})"}) == RowFormat::preference);
  CHECK(detected({R"({"messages": [], "rejected_response": "b"})"}) == RowFormat::preference);
  CHECK(detected({R"({"conversations": [], "chosen": {}, "rejected": {}})"}) == RowFormat::preference);
  CHECK(detected({R"({"prompt": "p", "completion": "c", "label": true})"}) == RowFormat::kto);
  CHECK(detected({R"({"prompt": "p", "completion": "c", "label": 3})"}) == RowFormat::prompt_completion);
  CHECK(detected({R"({"prompt": "p", "completion": "c", "label": 0})"}) == RowFormat::kto);
  CHECK(detected({R"({"prompt": "p", "completion": "c", "label": "true"})"}) == RowFormat::kto);
  CHECK(detected({R"({"prompt": "p", "completion": "c", "label": 1})",
                  R"({"prompt": "p", "completion": "c", "label": 2})"}) == RowFormat::prompt_completion);
  CHECK(detected({R"({"instruction": "add", "output": "two", "text": "### add ### two"})"}) == RowFormat::alpaca);
  CHECK(detected({R"({"messages": [{"content": "a"}], "chosen": [{"content": "a"}], "rejected": []})"}) ==
        RowFormat::preference);
  CHECK(detected({R"({"instruction": "a", "output": "b", "conversations": [{"value": "a"}, {"value": "b"}]})"}) ==
        RowFormat::sharegpt);
  CHECK(detected({R"({"messages": [], "label": false})"}) == RowFormat::kto);
  CHECK(detected({R"({"messages": [], "prompt": "p"})"}) == RowFormat::messages);
  CHECK(detected({R"({"prompt": "p", "answer": "4"})"}) == RowFormat::prompt);
  CHECK(detected({R"({"prompt": "p"})", R"({"prompt": "p"})", R"({"prompt": "p", "completion": "c"})"}) ==
        RowFormat::prompt_completion);
  CHECK(detection({R"({"text": "a"})", "7", R"({"text": "b"})"}).reason == "2 of the first 3 rows have text");
  CHECK(error_of([] {
          detected({R"({"text": "a"})", R"({"messages": [], "text": "x"})"});
        }) ==
        "f.jsonl:2: the row could be messages (it has messages) or text (it has text), expected one reading");
  CHECK(error_of([] { detected({R"({"instruction": "", "output": "", "text": ""})"}); }) ==
        "f.jsonl:1: the row could be alpaca (it has instruction and output) or text (it has text), expected "
        "one "
        "reading");
  CHECK(
      error_of([] { detected({R"({"messages": [], "chosen": [], "rejected": []})"}); }) ==
      "f.jsonl:1: the row could be messages (it has messages) or preference (it has a chosen and a rejected "
      "answer), expected one reading");
}

TEST_CASE("common columns are taken where only one reading is possible, and proposed else") {
  const auto columns = [](const char* row) {
    const Detected found = detection({row});
    return std::string(name_of(found.format)) + " " + columns_text(found.columns);
  };
  const auto hint = [](const char* row) {
    try {
      detection({row});
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("no error");
  };
  CHECK(columns(R"({"question": "q", "answer": "a"})") == "alpaca {instruction: question, output: answer}");
  CHECK(columns(R"({"input": "q", "output": "a"})") == "alpaca {instruction: input}");
  CHECK(columns(R"({"human": "q", "assistant": "a"})") == "alpaca {instruction: human, output: assistant}");
  CHECK(columns(R"({"problem": "q", "solution": "a", "level": 3})") ==
        "alpaca {instruction: problem, output: solution}");
  CHECK(columns(R"({"instruction": "q", "context": "c", "response": "a"})") ==
        "alpaca {input: context, output: response}");
  CHECK(columns(R"({"instruction": "q", "input": "i", "response": "a"})") == "alpaca {output: response}");
  CHECK(columns(R"({"instruction": "q", "output": "a", "system_prompt": "s"})") == "alpaca {system: system_prompt}");
  CHECK(columns(R"({"question": "q", "chosen": "a", "rejected": "b"})") == "preference {prompt: question}");
  CHECK(columns(R"({"chat": [{"role": "user", "content": "q"}]})") == "messages {messages: chat}");
  CHECK(columns(R"({"dialog": [{"from": "human", "value": "q"}]})") == "sharegpt {conversations: dialog}");
  CHECK(columns(R"({"messages": [{"from": "human", "value": "q"}]})") == "sharegpt {conversations: messages}");
  CHECK(columns(R"({"messages": [{"role": "user", "content": "q", "from": "x", "value": "y"}]})") == "messages {}");
  CHECK(hint(R"({"dialogue": [{"speaker": "A", "text": "q"}, {"speaker": "B", "text": "a"}], "id": 4})") ==
        "map them: columns: {conversations: dialogue, from: speaker, value: text}");
  CHECK(hint(R"({"passages": [{"title": "A", "text": "q"}], "edges": [{"from": "A", "to": "B"}]})").find("conversations") ==
        std::string::npos);
  // A CSV's header with a blank after its comma: the name is written such that YAML reads it back.
  CHECK(hint(R"({"article": "q", " summary": "a"})") == R"(map them: columns: {instruction: article, output: " summary"})");
  CHECK(hint(R"({"article": "q", "summary": "a"})") == "map them: columns: {instruction: article, output: summary}");
  CHECK(hint(R"({"question": "q", "answer": "a", "response": "b"})") ==
        "map them: columns: {instruction: question, output: response}, or columns: {instruction: question, output: answer}");
  CHECK(hint(R"({"question": "q", "answer": 4})") == "map them: prompt: \"{question}\\n\" and completion: \"{answer}\"");
  CHECK(hint(R"({"prompt": "q", "response": "a"})") ==
        "as a conversation, columns: {instruction: prompt, output: response}; word for word, columns: {completion: response}");
}

TEST_CASE("for an encoder-decoder a document beside its summary is a pair, where only one reading is possible") {
  const auto columns = [](const std::string& json) { return columns_text(detect_format({{parse_row({1, 1, json}, "f"), 1}}, "f", true).columns); };
  CHECK(columns(R"({"document": "d", "summary": "s", "id": 3})") == "{completion: summary, prompt: document}");
  CHECK(columns(R"({"text": "d", "summary": "s"})") == "{completion: summary, prompt: text}");
  CHECK(columns(R"({"input": "d", "target": "s"})") == "{completion: target, prompt: input}");
  CHECK(columns(R"({"question": "q", "context": "c", "answer": "a"})") == "{input: context, instruction: question, output: answer}");
  // Two columns may be the source, and nothing says which is meant.
  CHECK_THROWS_AS(columns(R"({"article": "d", "dialogue": "e", "summary": "s"})"), Error);
  // A decoder's job does not take these columns: nothing says what to do with the document.
  CHECK_THROWS_AS(detect_format({{parse_row({1, 1, R"({"document": "d", "summary": "s"})"}, "f"), 1}}, "f"), Error);
}

TEST_CASE("for an encoder-decoder instructions have no other words, and labels are the answer to input_ids") {
  const auto read = [](const std::string& json, RowFormat format) {
    RowFaults faults;
    const std::optional<Row> row = convert_row(parse_row({1, 1, json}, "f"), format, {.has_template = false, .source = true}, faults);
    return std::make_pair(row, faults.empty() ? "" : faults[0].message);
  };
  const auto pair = read(R"({"instruction": "Sum up.", "input": "a b", "output": "c"})", RowFormat::alpaca).first;
  CHECK(std::get<PairRow>(*pair).prompt == "Sum up.\na b");
  const auto tokens = read(R"({"input_ids": [5, 6, 0], "attention_mask": [1, 1, 0], "labels": [7, 8, 9, -100]})", RowFormat::tokens).first;
  CHECK(std::get<TokensRow>(*tokens).ids == std::vector<int32_t>{5, 6, 7, 8, 9});
  CHECK(std::get<TokensRow>(*tokens).supervised == std::vector<uint8_t>{4, 4, 1, 1, 1});
  CHECK_THAT(read(R"({"input_ids": [5], "labels": [7, -100, 9]})", RowFormat::tokens).second, Catch::StartsWith("labels[1] is -100 within an answer"));
  CHECK_THAT(read(R"({"input_ids": [5]})", RowFormat::tokens).second, Catch::StartsWith("labels holds no token") || Catch::StartsWith("holds no token"));
}

TEST_CASE("rows that mean the same have the same content") {
  auto content = [](const char* row, RowFormat format) {
    RowFaults faults;
    return content_of(convert_row(parse_row({1, 1, row}, "f"), format, kOptions, faults).value());
  };
  const std::string base = content(
      R"({"id": 1, "messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]})",
      RowFormat::messages);
  CHECK(
      content(
          R"({"messages": [{"content": "q", "role": "user"}, {"role": "assistant", "content": "a"}], "id": 2})",
          RowFormat::messages) == base);
  CHECK(content(R"({"instruction": "q", "output": "a"})", RowFormat::alpaca) == base);
  CHECK(content(R"({"instruction": "q", "output": "b"})", RowFormat::alpaca) != base);
}

TEST_CASE("masks of tokens rows are read under every name, and all of them together") {
  const auto trained = [](const std::string& more) {
    RowFaults faults;
    const auto row = convert_row(parse_row({1, 1, R"({"input_ids": [5, 6, 7], )" + more + "}"}, "f"),
                                 RowFormat::tokens, kOptions, faults);
    REQUIRE(row);
    std::string text;
    for (const uint8_t one : std::get<TokensRow>(*row).supervised) text += one ? '1' : '0';
    return text;
  };
  for (const char* key : kTokenMasks)
    CHECK(trained("\"" + std::string(key) + R"(": [0, 1, false])") == "010");
  CHECK(trained(R"("completion_mask": [0, 1, 1], "assistant_masks": [1, 0, 1])") == "001");
  CHECK(trained(R"("labels": [-100, 6, -100], "loss_mask": [1, 1, 0])") == "010");
}

TEST_CASE("OpenAI's pairs and LLaMA-Factory's judged instructions are read") {
  CHECK(
      meaning(
          R"({"input": {"messages": [{"role": "user", "content": "q"}], "tools": [], "parallel_tool_calls": true},
                    "preferred_output": [{"role": "assistant", "content": "a"}],
                    "non_preferred_output": [{"role": "assistant", "content": "b"}]})",
          RowFormat::preference) == "chosen:u=q;a=a;1 rejected:u=q;a=b;1");
  CHECK(meaning(R"({"input": {"messages": [{"role": "user", "content": 5}]},
"preferred_output": [{"role": "assistant", "content": "a"}], "non_preferred_output": [{"role": "robot", "content": "b"}]})",
                RowFormat::preference) ==
        "1:53 content is the number 5, expected a text or text parts\n"
        "2:96 unknown role \"robot\", expected system, developer, user, assistant, tool, function; say who it is: "
        "roles: {robot: user}, or assistant");
  CHECK(meaning(R"({"instruction": "i", "input": "x", "output": "o", "kto_tag": false})", RowFormat::kto) ==
        "undesirable:u=i\nx;a=o;1");
  CHECK(meaning(R"({"prompt": "p", "completion": "c", "label": -1})", RowFormat::kto) ==
        "1:45 label is the number -1, expected true or false, 1 or 0");
}

TEST_CASE("rows that judge or compare otherwise get advice that fits them") {
  const auto advice = [](const char* row) { return detect_format({{parse_row({1, 1, row}, "f"), 1}}, "f"); };
  CHECK(advice(R"({"instruction": "i", "output": "o", "kto_tag": true})").format == RowFormat::kto);
  CHECK(advice(R"({"question": "i", "answer": "o", "kto_tag": true})").format == RowFormat::kto);
  CHECK(advice(R"({"instruction": "i", "output": "o", "label": 1})").format == RowFormat::alpaca);
  CHECK(
      advice(R"({"input": {"messages": []}, "preferred_output": [1], "non_preferred_output": [1]})").format ==
      RowFormat::preference);
  CHECK(advice(R"({"prompt": "p", "completion": "c", "label": -1})").advice ==
        "label is -1 in line 1, expected true or false, 1 or 0: write one of these");
  CHECK(advice(R"({"prompt": "p", "completion": "c", "label": "good"})").advice ==
        "label is \"good\" in line 1, expected true or false, 1 or 0: write one of these");
  CHECK(advice(R"({"instruction": "i", "output": "o", "label": 1})").advice ==
        "write format: kto, which reads label as good or bad");
  CHECK_THAT(
      advice(R"({"prompt": "p", "response_0": "a", "response_1": "b", "better_response_id": 1})").advice,
      Catch::StartsWith("response_0 and response_1 are two answers: write each row's better one by "
                        "better_response_id as chosen"));
  CHECK_THAT(advice(R"({"prompt": "p", "responses": ["a", "b"], "ranks": [2, 1]})").advice,
             Catch::StartsWith("responses holds several answers: write each row's best and worst by ranks as "
                               "chosen and rejected"));
  CHECK(advice(R"({"prompt": "p", "answers": "a", "response": null})").advice == "");
}

TEST_CASE("own names are proposed of rows whose first one has an empty cell") {
  try {
    detection({R"({"first": null, "second": "b", "number": "12"})", R"({"first": "a", "second": null, "number": "13"})"});
    FAIL("read");
  } catch (const Error& error) {
    CHECK(error.hint() == "map them: columns: {instruction: first, output: second}");
  }
}

TEST_CASE("ids, indices and labels are not proposed as question or answer") {
  const auto hint = [](const std::vector<std::string>& rows) {
    try {
      detection(rows);
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("read");
  };
  CHECK(hint({R"({"id": "q-1", "Frage": "Was ist das?", "Antwort": "Ein Haus.", "sprache": "de"})"}) ==
        "map them: columns: {instruction: Frage, output: Antwort}");
  CHECK(hint({R"({"Unnamed: 0": "r1", "Frage": "Was?", "Antwort": "Ja"})"}) ==
        "map them: columns: {instruction: Frage, output: Antwort}");
  CHECK(hint({R"({"doc_id": "a1", "inhalt": "Ein Text."})"}) ==
        "map them: columns: {text: inhalt} with objective: pretrain");
  CHECK(hint({R"({"uuid": "a1"})"}) == "map them: columns: {text: uuid} with objective: pretrain");
  CHECK(hint({R"({"thema": "Bau", "frage": "Was ist das?", "antwort": "Ein Haus.", "quelle": "Ein Buch."})"}) ==
        "map them: columns: {instruction: frage, output: quelle}, or others of frage, antwort, quelle");
}

TEST_CASE("rows without names get the hint that helps") {
  const auto hint = [](const char* row) {
    try {
      detect_format({{parse_row({1, 1, row}, "f"), 1}}, "f");
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("read");
  };
  CHECK_THAT(hint(R"([{"prompt": "p"}])"), Catch::StartsWith("a line holds a whole array"));
  CHECK(hint(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}])") ==
        "each row is the list of a conversation's turns: write it as an object, {\"messages\": […]}");
  CHECK_THAT(hint(R"([{"from": "human", "value": "q"}])"), Catch::EndsWith("{\"conversations\": […]}"));
  CHECK_THAT(hint(R"(["p", "c"])"), Catch::StartsWith("name the values"));
  CHECK_THAT(hint(R"("p")"), Catch::StartsWith("write each row as an object"));
  CHECK_THAT(hint(R"({"0": {"prompt": "p"}, "1": {"prompt": "q"}})"), Catch::StartsWith("this is pandas' default"));
  CHECK_THAT(hint(R"({"prompt": {"0": "p"}, "completion": {"0": "c"}})"),
             Catch::StartsWith("this is pandas' default"));
  CHECK_THAT(hint(R"({"prompt": ["p", "q"], "completion": ["c", "d"]})"),
             Catch::StartsWith("a dictionary of columns"));
  CHECK(hint(R"({"row_idx": 0, "row": {"question": "q", "answer": "a"}})") ==
        "its values are under row: columns: {instruction: row.question, output: row.answer}");
  CHECK(hint(R"({"row_idx": 0, "row": {"messages": [{"role": "user", "content": "x"}]}})") ==
        "its values are under row: columns: {messages: row.messages}");
  CHECK(
      hint(
          R"({"prompt": [{"role": "user", "content": "x"}], "completion": [{"role": "assistant", "content": "y"}]})") ==
      "read");
  CHECK(hint(R"({"input_ids": [1, 2], "labels": [1, 2]})") == "read");
  CHECK(hint(R"([[{"role": "user", "content": "q"}], [{"role": "user", "content": "r"}]])") ==
        "each row is a list of conversations: write each conversation as a row of its own, {\"messages\": […]}");
  CHECK(hint(R"([{"speaker": "A", "text": "q"}])") ==
        "each row is the list of a conversation's turns: write it as an object, {\"conversations\": […]}");
  CHECK_THAT(hint(R"([{"input": "q", "output": "a"}])"), Catch::StartsWith("each row is the list of a conversation's turns"));
  CHECK_THAT(hint(R"([[{"author": "A", "message": "q"}]])"), Catch::StartsWith("each row is a list of conversations"));
  const auto in_json = [](const std::vector<LocatedRow>& rows) {
    try {
      detect_format(rows, "rows.json");
    } catch (const Error& error) {
      return error.hint();
    }
    return std::string("read");
  };
  CHECK(in_json({{parse_row({1, 1, R"([{"prompt": "p", "completion": "c"}])"}, "f"), 1}}) ==
        "each row is a list of objects: make one list of them, as jq add OLD.json > NEW.json does");
  CHECK(in_json({{parse_row({1, 1, "[]"}, "f"), 1}, {parse_row({1, 1, R"([{"role": "user", "content": "q"}])"}, "f"), 1}}) ==
        "each row is the list of a conversation's turns: write it as an object, {\"messages\": […]}");
  CHECK(hint(R"({"version": 1, "data": {"train": [{"prompt": "p"}]}})") ==
        "the rows are under data.train: write that list alone to a file, as jq '.data.train' does");
}

TEST_CASE("what Python writes in the place of JSON is named, and binary text is refused") {
  const auto problem = [](const SourceRow& row) {
    try {
      parse_row(row, "f");
    } catch (const PlacedError& error) {
      return error.problem();
    }
    return std::string("read");
  };
  CHECK_THAT(problem({1, 1, R"({"prompt": "NaN", "score": NaN})"}), Catch::StartsWith("NaN is not JSON"));
  CHECK_THAT(problem({1, 1, R"({"score": -Infinity})"}), Catch::StartsWith("Infinity is not JSON"));
  CHECK_THAT(problem({1, 1, "{'prompt': 'p', 'done': None}"}), Catch::StartsWith("a Python object"));
  CHECK_THAT(problem({1, 1, R"({"prompt": "p", "done": True})"}), Catch::StartsWith("a Python object"));
  CHECK_THAT(problem({1, 1, R"({"prompt": "it's None", })"}), Catch::StartsWith("syntax error"));
  CHECK_THAT(problem({1, 1, std::string("one\0two", 7), RowKind::text}),
             Catch::StartsWith("a byte of value 0"));
}
