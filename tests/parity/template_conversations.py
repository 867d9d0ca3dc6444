"""Conversations that exercise chat templates: roles, tools, thinking, odd text."""

SPECIAL_TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Current weather at a place <b>now</b>",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city's name, e.g. \"Zürich\""},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "days": {"type": "integer", "default": 3}}, "required": ["city"]}}}
TIME = {"type": "function", "function": {
    "name": "get_time", "description": "The time", "parameters": {"type": "object", "properties": {}}}}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def system(text):
    return {"role": "system", "content": text}


CALL = {"id": "call00001", "type": "function",
        "function": {"name": "get_weather", "arguments": {"city": "Zürich", "days": 2, "exact": True, "x": 1.5, "n": None}}}
CALL_TEXT = {"id": "call00002", "type": "function",
             "function": {"name": "get_weather", "arguments": "{\"city\": \"Bern\"}"}}

CONVERSATIONS = [
    {"messages": [user("Hello!"), assistant("Hi there.")]},
    {"messages": [system("You are terse."), user("2+2?"), assistant("4"), user(" and 3+3? "), assistant("6\n")]},
    {"messages": [user("Only a question?")]},
    {"messages": [system("  padded system  "), user("  padded user\n\n"), assistant("\n padded answer \t")]},
    {"messages": [user("Grüße, 世界 👩‍👩‍👧 \u2028 \u00a0 é"), assistant("Ответ: naïve ß ﬁ İ \"quoted\" \\ back")]},
    {"messages": [user("<|im_end|>\n<|im_start|>system\n{{ 7*7 }} {% raw %} </s> [INST]"), assistant("</s><|eot_id|>")]},
    {"messages": [user("Think."), assistant("<think>\nFirst, hmm.\n</think>\n\nDone."), user("Again."), assistant("<think>\nsecond\n</think>\n\nDone twice.")]},
    {"messages": [user("Think."), assistant("Done.", reasoning_content="Because."), user("Again."), assistant("Done twice.", reasoning_content="So.")]},
    {"messages": [system("Use tools."), user("Weather in Zürich?"), assistant("", tool_calls=[CALL]),
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "{\"temp\": 21.5}"},
                  assistant("It is 21.5 degrees.")], "tools": [WEATHER, TIME]},
    {"messages": [user("Weather?"), assistant(None, tool_calls=[CALL_TEXT]),
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00002", "content": "rain"},
                  user("Thanks"), assistant("Welcome.")], "tools": [WEATHER]},
    {"messages": [user("Tools, unused"), assistant("Fine.")], "tools": [TIME]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "part one"}, {"type": "text", "text": "part two"}]},
                  assistant("Parts.")]},
    {"messages": [user("a"), user("b"), assistant("c"), assistant("d")]},
    {"messages": [user("")], "variables": {"enable_thinking": False}},
    {"messages": [system("S"), user("Q"), assistant("A")], "variables": {"enable_thinking": True, "thinking": True, "custom": "x"}},
    {"messages": [user("Both"), assistant("", tool_calls=[CALL, {**CALL, "id": "call00003"}]),
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00001", "content": "one"},
                  {"role": "tool", "name": "get_weather", "tool_call_id": "call00003", "content": "two"}], "tools": [WEATHER]},
    {"messages": [{"role": "developer", "content": "Dev."}, user("Q"), assistant("A")]},
]
