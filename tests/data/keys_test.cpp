#include "core/data/rows/keys.h"

#include "core/data/read/sources.h"
#include "core/lib/base/text.h"
#include "tests/test.h"

using namespace forge;

namespace {

// Returns "unread, unread | key: message; …"; the messages are cut at their first comma or colon.
std::string keys_of(const std::string& text, RowFormat format, Stated stated = Stated::nothing,
                    bool has_template = true) {
  const Json row = parse_row({1, 1, text}, "f");
  std::vector<std::string> unread, said;
  RowFaults faults;
  check_keys(row, {format, stated, has_template, [](const std::string& key) { return key == "name"; }},
             unread, faults);
  for (const RowFault& fault : faults) {
    CHECK(!fault.key.empty());
    said.push_back(fault.message.substr(0, fault.message.find_first_of(",:")));
  }
  return join(unread, ", ") + (said.empty() ? "" : " | " + join(said, "; "));
}

constexpr const char* kTurns =
    R"("messages": [{"role": "user", "content": "what is it"}, {"role": "assistant", "content": "a long answer"}])";

std::string chat_with(const std::string& more, Stated stated = Stated::nothing) {
  return keys_of("{" + std::string(kTurns) + ", " + more + "}", RowFormat::messages, stated);
}

std::string pair_with(const std::string& more, Stated stated = Stated::nothing) {
  return keys_of(R"({"prompt": "the question", "completion": "the answer", )" + more + "}",
                 RowFormat::prompt_completion, stated);
}

}  // namespace

TEST_CASE("keys that say nothing to a model are named, blank ones are not there") {
  CHECK(chat_with(R"("id": 1, "source": "web", "note": null, "tags": [], "context": "", "images": [])") ==
        "id, source");
  CHECK(chat_with(R"("system": "s", "tools": [1], "functions": [1])") == "");
  CHECK(keys_of(R"({"text": "t", "url": "u", "score": 3.5})", RowFormat::text) == "url, score");
  CHECK(keys_of(R"({"input_ids": [1], "labels": [1], "length": 1})", RowFormat::tokens) == "length");
  CHECK(keys_of(R"({"source": "f", "line": 1, "label": "chosen", "text": "t", "ids": [1], "mask": [1]})",
                RowFormat::tokens) == "");
  CHECK(keys_of(R"({"prompt": "p", "answer": "4", "system": "s"})", RowFormat::prompt) == "");
}

TEST_CASE("keys of turns are named once a row, unless the chat template reads them") {
  CHECK(
      keys_of(R"({"messages": [{"role": "user", "content": "x", "time": 1, "name": "n", "tool_call_id": "c"},
                    {"role": "assistant", "content": "x", "time": 2, "train": true, "loss_weight": 1}]})",
              RowFormat::messages) == "messages[].time");
  CHECK(keys_of(R"({"conversations": [{"from": "human", "value": "x", "name": "n", "weight": 0}]})",
                RowFormat::sharegpt) == "conversations[].name");
  CHECK(keys_of(R"({"messages": [{"role": "user", "content": "x", "images": ["a.png"]}]})",
                RowFormat::messages) == " | images is not text");
}

TEST_CASE("what the model would be told is refused where no field takes it") {
  CHECK(chat_with(R"("context": "the sky", "system_prompt": "s", "choices": ["a"])") ==
        " | context is not read in messages rows; system_prompt is not read in messages rows; "
        "choices is not read in messages rows");
  CHECK(pair_with(R"("system": "be kind", "tools": [{"name": "f"}])") ==
        " | system is not read in prompt_completion rows; tools is not read in prompt_completion rows");
  CHECK(keys_of(
            R"({"prompt": [{"role": "user", "content": "q"}], "completion": [{"role": "assistant", "content":
                    "a"}], "system": "s"})",
            RowFormat::prompt_completion) == "");
  CHECK(keys_of(R"({"instruction": "i", "output": "o", "tools": [{"name": "f"}]})", RowFormat::alpaca,
                Stated::nothing, false) == " | tools is not read in alpaca rows");
  CHECK(chat_with(R"("context": "the sky")", Stated::format) == " | context is not read in messages rows");
  CHECK(chat_with(R"("context": "the sky")", Stated::fields) == "context");
  CHECK(chat_with(R"("image": "a.png")", Stated::format) == " | image is not text");
}

TEST_CASE("what another shape would train on is refused unless the job states the format") {
  CHECK(keys_of(R"({"text": "t", "prompt": "ask"})", RowFormat::text) ==
        " | prompt is not read in text rows");
  CHECK(keys_of(R"({"text": "t", "prompt": "ask"})", RowFormat::text, Stated::format) == "prompt");
  CHECK(keys_of(R"({"text": "t", "role": "assistant"})", RowFormat::text) ==
        " | role is not read in text rows");
  CHECK(
      chat_with(R"("score": 0.5, "rank": "2", "rating": "good", "label": true)") ==
      "rating | score is not read in messages rows; rank is not read in messages rows; label is not read in "
      "messages rows");
  CHECK(chat_with(R"("score": 0.5)", Stated::format) == "score");
  CHECK(pair_with(R"("label": 7)") == "label");
  CHECK(chat_with(R"("ranks": [2, 1])") == " | ranks is not read in messages rows");
  CHECK(pair_with(R"("weight": 0.5)") == " | weight is not read in prompt_completion rows");
  CHECK(pair_with(R"("train": false)") == " | train is not read in prompt_completion rows");
  CHECK(pair_with(R"("weight": 1, "train": true, "loss_weight": "heavy")") == "weight, train, loss_weight");
}

TEST_CASE("text that is read elsewhere, or that repeats it, changes nothing") {
  CHECK(chat_with(R"("prompt": "what is it")") == "prompt");
  CHECK(keys_of(R"({"instruction": "Add.", "output": "3", "prompt": "### Add. ###"})", RowFormat::alpaca) ==
        "prompt");
  CHECK(keys_of(R"({"instruction": "Add.", "output": "3", "prompt": "Do it."})", RowFormat::alpaca) ==
        " | prompt is not read in alpaca rows");
  // An answer taken from the context does not contain the context.
  CHECK(chat_with(R"("context": "it is a long answer")") == " | context is not read in messages rows");
  CHECK(
      keys_of(
          R"({"chosen": [{"role": "assistant", "content": "good"}], "rejected": [{"role": "assistant", "content":
                    "bad"}], "messages": [{"role": "assistant", "content": "good"}]})",
          RowFormat::preference) == "messages");
  CHECK(pair_with(R"("answer": "another one")") == " | answer is not read in prompt_completion rows");
}

TEST_CASE("the mark of a picture is refused where a question has it, and XML is not one") {
  const auto faults = [](const Row& row) {
    RowFaults faults;
    check_placeholders(row, faults);
    return faults.size();
  };
  CHECK(faults(PairRow{"<image>\nwhat is it", "a cat"}) == 1);
  CHECK(faults(PairRow{"read <image>a.png</image>", "done"}) == 0);
  CHECK(faults(PairRow{"which token?", "it is <image>"}) == 0);
  CHECK(faults(TextRow{"<image>"}) == 0);
  CHECK(faults(ChatRow{Json::array({{{"role", "user"}, {"content", "what <image>"}}}), nullptr, {}, 0}) == 1);
}

TEST_CASE("keys are known in any spelling, and under their other names") {
  for (const char* key :
       {"SYSTEM", "System", "Context", "sys_prompt", "systemPrompt", "System Prompt", "documents",
        "chat_history", "chatHistory", "Chat-History", "passage", "retrieved_docs"}) {
    CAPTURE(key);
    CHECK(chat_with("\"" + std::string(key) + R"(": "the sky is green")") ==
          " | " + std::string(key) + " is not read in messages rows");
  }
  CHECK(chat_with(R"("image_path": "a.png", "Images": ["b.png"], "video-url": "c")") ==
        " | image_path points to what is not text; Images is not text; video-url points to what is not text");
  CHECK(keys_of(R"({"messages": [{"role": "user", "content": "x", "image_url": "a.png"}]})",
                RowFormat::messages) == " | image_url points to what is not text");
  CHECK(pair_with(R"("Answer": "another one", "Weight": 0.5, "Rating": 2)") ==
        " | Answer is not read in prompt_completion rows; Weight is not read in prompt_completion rows; "
        "Rating is not read in prompt_completion rows");
  // Keys that are harmless in well-known data sets.
  CHECK(chat_with(R"("video_id": "x", "evidence": "the first page", "title": "a longer title")") ==
        "video_id, evidence, title");
  CHECK(pair_with(R"("document": 17)") == "document");
  CHECK(keys_of(R"({"text": "t", "image_url": "a.png", "document": "d"})", RowFormat::text) ==
        "image_url, document");
}

TEST_CASE("what says which tokens are trained is read or refused, never counted") {
  const auto tokens = [](const std::string& more, Stated stated = Stated::nothing) {
    return keys_of(R"({"input_ids": [1, 2], )" + more + "}", RowFormat::tokens, stated);
  };
  CHECK(tokens(R"("loss_mask": [0, 1], "assistant_masks": [0, 1])") == "");
  CHECK(tokens(R"("prompt_mask": [1, 0])") == " | prompt_mask is not read in tokens rows");
  CHECK(tokens(R"("Loss-Mask": [1, 0])", Stated::format) == " | Loss-Mask is not read in tokens rows");
  CHECK(tokens(R"("loss_weights": [1, 0.5], "weight": 2)") ==
        " | loss_weights is not read in tokens rows; weight is not read in tokens rows");
  CHECK(
      tokens(
          R"("special_tokens_mask": [1, 0], "global_attention_mask": [1, 0], "token_type_ids": [0, 0], "score": 3.5)") ==
      "special_tokens_mask, global_attention_mask, token_type_ids, score");
  const auto turn = [](const std::string& more) {
    return keys_of(
        R"({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", )" + more +
            "}]}",
        RowFormat::messages, Stated::format);
  };
  CHECK(turn(R"("step_loss_mask": 0, "loss_mask": 1)") == "");
  CHECK(turn(R"("mask": true, "train_detail": [{"begin_offset": 0, "end_offset": 3, "train": false}])") ==
        " | mask is not read in turns; train_detail is not read in turns");
  CHECK(turn(R"("mask": null, "train_detail": [])") == "");
}

TEST_CASE("answers that the row itself calls bad are refused, and classes are not") {
  const auto alpaca = [](const std::string& more, Stated stated = Stated::nothing) {
    return keys_of(R"({"instruction": "the question", "output": "the answer", )" + more + "}",
                   RowFormat::alpaca, stated);
  };
  for (const char* more :
       {R"("label": "bad")", R"("is_correct": false)", R"("desirable": 0)", R"("Rank": false)",
        R"("verdict": "incorrect")", R"("correct": "no")", R"("Rating": 2)"}) {
    CAPTURE(more);
    CHECK_THAT(alpaca(more), Catch::Contains(" is not read in alpaca rows"));
    CHECK(alpaca(more, Stated::format).find('|') == std::string::npos);
  }
  // Classes of GLUE and BoolQ, answers that Stack Exchange did not accept.
  for (const char* more :
       {R"("label": 0)", R"("label": "negative")", R"("label": "no")", R"("is_correct": true)",
        R"("accepted": false)", R"("correct": "B")", R"("quality": 0)"})
    CHECK(alpaca(more).find('|') == std::string::npos);
  // A row with a label of its own already states its quality.
  CHECK(keys_of(R"({"prompt": "p", "completion": "c", "label": true, "rating": 2})", RowFormat::kto) ==
        "rating");
}

TEST_CASE("a preference whose own scores or label say the opposite is refused") {
  const auto pair = [](const std::string& more, Stated stated = Stated::nothing) {
    return keys_of(R"({"prompt": "p", "chosen": "a", "rejected": "b", )" + more + "}", RowFormat::preference,
                   stated);
  };
  CHECK(pair(R"("label": 0)") == " | label is 0 next to chosen and rejected");
  CHECK(pair(R"("label": 1)") == "label");
  CHECK(pair(R"("score_chosen": 2, "score_rejected": 8.5)") == "score_rejected | score_chosen is 2");
  CHECK(pair(R"("chosen-rating": "2", "rejected-rating": "4")") == "rejected-rating | chosen-rating is 2");
  CHECK(pair(R"("score_chosen": 2, "score_rejected": 8.5)", Stated::format) ==
        "score_chosen, score_rejected");
  // Ties, and values that are lower where the answer is better.
  CHECK(
      pair(
          R"("score_chosen": 8, "score_rejected": 8, "chosen_rank": 1, "rejected_rank": 2, "chosen_logps": -9, "rejected_logps": -3)")
          .find('|') == std::string::npos);
}
