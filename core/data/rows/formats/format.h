#pragma once
// The functions that the converters of row formats share. Each converter takes a row that is an
// object and either returns its meaning or adds faults.
#include <optional>
#include <string>
#include <string_view>

#include "core/data/rows/rows.h"

namespace forge {

using Converter = Row(const Json& row, const RowOptions& options, RowFaults& faults);
Converter convert_messages, convert_sharegpt, convert_alpaca, convert_prompt_completion,
    convert_text, convert_tokens, convert_preference, convert_kto, convert_reward, convert_prompt;

// Returns the member called `key`, or nullptr if it is absent or null, or `object` is none.
const Json* member(const Json& object, const std::string& key);
// Returns the kind of a value in words: "a text", "a list", ….
std::string kind_of(const Json& value);
// Adds the fault "WHAT is a text, expected EXPECTED" of a value unless it is `good`; returns
// `good`.
bool expect(bool good, const std::string& pointer, std::string_view what, const Json& value,
            std::string_view expected, RowFaults& faults);
std::vector<std::string> keys_of(const Json& object);
// Returns the value that a text holds as JSON; nothing if it is no JSON.
std::optional<Json> json_in(const std::string& text);

// Adds a fault for a turn of a speaker that no format knows: one fault for a name, with the `roles`
// that would say who it is. `expected` are the names that the format knows.
void refuse_speaker(const std::string& name, const char* what, const std::string& pointer,
                    const std::vector<std::string>& expected, RowFaults& faults);

// The keys under which a turn names its speaker and holds its text; empty where none is likely.
struct TurnNames {
  std::string speaker, text;
};
// Returns keys by words that data sets use for both: {"speaker", "text"}, {"author", "message"}.
TurnNames likely_turn_names(const Json& turn);
// Adds a fault for a turn that lacks the key `speaker` or `text` and has a likely one in its place:
// one fault for the same names, with the `columns` that would read them. Returns the keys that the
// turn has for both; nothing if it has no such fault.
std::optional<TurnNames> refuse_turn_names(const Json& turn, const char* speaker, const char* text,
                                           const std::string& pointer, RowFaults& faults);

// Returns the first integer in the value that fits 64 bits without a sign only; empty if there is
// none.
std::string wide_integer(const Json& value);

// Returns a text member. Adds a fault and returns "" if it is not a text, or absent although
// `required`.
std::string text_member(const Json& object, const std::string& key, const std::string& pointer, bool required,
                        RowFaults& faults);

// Appends the turns of a list of {"role", "content"} to `chat`.
void append_messages(const Json& list, const std::string& pointer, ChatRow& chat, RowFaults& faults);
// True for a key of a turn that says whether it is trained: `train`, `training`, `loss`,
// `loss_mask`, `step_loss_mask`, `weight` or `loss_weight`.
bool is_training_flag(const std::string& key);
// Returns whether the turn is trained, as its flags say.
TurnTraining training_flag(const Json& turn, const std::string& role, const std::string& pointer,
                           RowFaults& faults);
// Appends one turn of ShareGPT's {"from", "value"}.
void append_entry(const Json& entry, const std::string& pointer, ChatRow& chat, RowFaults& faults);
void append_turn(ChatRow& chat, const std::string& role, const std::string& content,
                 TurnTraining training = TurnTraining::by_role);
// Returns the value without members that are null, at any depth, as TRL passes it to templates:
// tables have null for absent members.
Json without_nulls(Json value);
// Origin of a value's nulls: those of a table stand for absent members; those of a text of JSON
// were written.
enum class Nulls { of_table, written };
// Returns a call in the shape that templates expect: {"type": "function", "function": {"name",
// "arguments": an object}}.
Json normalise_tool_call(const Json& call, const std::string& pointer, RowFaults& faults, Nulls nulls = Nulls::of_table);
// Returns a list of calls; `calls` may be a text that holds one as JSON.
Json tool_calls(const Json& calls, const std::string& pointer, RowFaults& faults, Nulls nulls = Nulls::of_table);
// Returns `tools` or `functions` as a list of {"type": "function", "function": {…}}; also from a
// text that holds such a list, and from bare schemas.
Json tools_member(const Json& row, RowFaults& faults);
// Returns a conversation with the row's tools and its system prompt, unless `turns` begin with the
// same one.
ChatRow start_chat(const Json& row, const Json* turns, RowFaults& faults);
// Returns the value of a label: true or false, 1 or 0, also as words.
std::optional<bool> label_value(const Json& label);

}  // namespace forge
