#pragma once
// What the converters of row formats share. Each takes a row that is an object and either returns its meaning
// or adds faults.
#include <optional>
#include <string>

#include "core/data/rows.h"

namespace forge {

Row convert_messages(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_sharegpt(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_alpaca(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_prompt_completion(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_text(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_tokens(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_preference(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_kto(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_reward(const Json& row, const RowOptions& options, RowFaults& faults);
Row convert_prompt(const Json& row, const RowOptions& options, RowFaults& faults);

// The member called `key`, or nullptr when it is absent or null.
const Json* member(const Json& object, const std::string& key);
// "a text", "a list", …: what a value is, in words.
std::string kind_of(const Json& value);

// A text member. Adds a fault and returns "" when it is not a text, or absent although `required`.
std::string text_member(const Json& object, const std::string& key, const std::string& pointer, bool required,
                        RowFaults& faults);

// Appends the turns of a list of {"role", "content"} to `chat`.
void append_messages(const Json& list, const std::string& pointer, ChatRow& chat, RowFaults& faults);
// What `train`, `training`, `loss` or `weight` on a turn say.
TurnTraining training_flag(const Json& turn, const std::string& role, const std::string& pointer,
                           RowFaults& faults);
// One turn of ShareGPT's {"from", "value"}.
void append_entry(const Json& entry, const std::string& pointer, ChatRow& chat, RowFaults& faults);
void append_turn(ChatRow& chat, const std::string& role, const std::string& content,
                 TurnTraining training = TurnTraining::by_role);
// Calls in the shape that templates expect: {"type": "function", "function": {"name", "arguments": an
// object}}.
Json normalise_tool_call(const Json& call, const std::string& pointer, RowFaults& faults);
// Tools as a list; also from a text that holds one.
Json tools_member(const Json& row, RowFaults& faults);

}  // namespace forge
