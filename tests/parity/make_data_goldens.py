"""Writes tests/data/goldens: a tiny tokenizer with several chat templates, rows of data, and their
ids and loss masks by transformers.

    python tests/parity/make_data_goldens.py          (needs transformers, tokenizers, jinja2)

Run it by hand when the goldens must change. If a template marks {% generation %}, the mask is
apply_chat_template(return_assistant_tokens_mask=True). If it does not, the mask is found from
prefixes of the conversation: an assistant turn is what rendering up to and including it adds to
rendering up to it with the generation prompt; a token is trained if its first character lies there.
"""
import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "data" / "goldens"

CORPUS = [
    "The cat sat on the mat. What is the capital of France? Paris is the capital of France.",
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face. You are terse.",
    "Define: OCEAN, n. A body of water occupying about two-thirds of a world made for man, who has no gills.",
    "user assistant system tool function name arguments weather city Bierce wrote 3 of 12 naïve café entries 🙂.",
] * 4

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}"
    "{{ message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# The answer follows its header without a newline and ends with eos: words straddle the boundaries.
PLAIN = (
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'assistant' %}{{ ' ASSISTANT:' + "
    "message['content'] + eos_token }}{% else %}{{ message['role'] | upper + ': ' + message['content'] }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ ' ASSISTANT:' }}{% endif %}")
# Keeps thoughts only after the user's last question, as Qwen3 does.
FORGETS = (
    "{% set ns = namespace(last=-1) %}{% for message in messages %}{% if message['role'] == 'user' %}"
    "{% set ns.last = loop.index0 %}{% endif %}{% endfor %}{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' and loop.index0 > ns.last %}"
    "{{ '<think>\n' + message.get('reasoning_content', '') + '\n</think>\n\n' }}{% endif %}"
    "{{ message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
TEMPLATES = {"smollm2": SMOLLM2, "marked": MARKED, "plain": PLAIN}


def turn(role, content, **more):
    return {"role": role, "content": content, **more}


CONVERSATIONS = [
    [turn("user", "Define: OCEAN"), turn("assistant", "n. A body of water.")],
    [turn("system", "You are terse."), turn("user", "What is the capital of France?"), turn("assistant", "Paris."),
     turn("user", "naïve café 🙂?"), turn("assistant", "🙂 café\n\n  naïve ")],
    [turn("user", "The cat"), turn("assistant", "sat"), turn("user", "on"), turn("assistant", "the mat."),
     turn("user", "What?"), turn("assistant", "")],
    [turn("user", " leading and trailing "), turn("assistant", " a "), turn("assistant", "two in a row")],
    [turn("user", "a\n\n\nb"), turn("assistant", "x"), turn("user", "not answered")],
    [turn("system", ""), turn("user", ""), turn("assistant", "12345 日本語 ß")],
]
THOUGHTS = [
    [turn("user", "What is the capital of France?"),
     turn("assistant", "Paris.", reasoning_content="The user wants a city."),
     turn("user", "The cat"), turn("assistant", "", reasoning_content="weather?"), turn("tool", "3 of 12"),
     turn("assistant", "sat on the mat.", reasoning_content="Terse."), turn("user", "on"),
     turn("assistant", "What?", reasoning_content="")],
]


def train_tokenizer(bos):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|begin|>"]
    trainer = trainers.BpeTrainer(vocab_size=420, special_tokens=[AddedToken(s, special=True) for s in specials],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(CORPUS, trainer)
    if bos:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin|> $A", special_tokens=[("<|begin|>", tokenizer.token_to_id("<|begin|>"))])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|begin|>", eos_token="<|endoftext|>",
                                   pad_token="<|endoftext|>")


def trained_turns(messages, train_on):
    assistants = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
    if train_on == "last_assistant":
        return assistants[-1:]
    if train_on == "completion":
        last_user = max(i for i, m in enumerate(messages) if m["role"] == "user")
        return [i for i in assistants if i > last_user]
    return assistants


def chat_case(tokenizer, template, messages, train_on):
    render = lambda part, prompt=False: tokenizer.apply_chat_template(
        part, chat_template=template, tokenize=False, add_generation_prompt=prompt)
    text = render(messages)
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    ids = encoded["input_ids"]
    ranges = []
    for i in trained_turns(messages, train_on):
        before, after = render(messages[:i], True), render(messages[:i + 1])
        assert text.startswith(before) and text.startswith(after), template
        ranges.append((len(before), len(after)))
    if train_on == "all":
        ranges = [(0, len(text))]
    mask = [int(any(b <= start < e for b, e in ranges)) for start, _ in encoded["offset_mapping"]]
    if "generation %}" in template and train_on != "all":
        both = tokenizer.apply_chat_template(messages, chat_template=template, return_dict=True,
                                             return_assistant_tokens_mask=True)
        assert both["input_ids"] == ids
        marked = both["assistant_masks"]
        # transformers marks every turn; the markers leave out the newline after the end of the
        # turn.
        mask = [m if t else 0 for m, t in zip(marked, mask)]
    mask[0] = 0
    return text, ids, mask


def turn_cases(tokenizer, template, messages):
    """Returns every assistant turn after the conversation up to it, as a model reads it when it
    answers.
    """
    for i in trained_turns(messages, "assistant"):
        _, ids, mask = chat_case(tokenizer, template, messages[:i + 1], "last_assistant")
        yield {"ids": ids, "mask": mask}


def main():
    OUTPUT.mkdir(parents=True, exist_ok=True)
    plain, with_bos = train_tokenizer(False), train_tokenizer(True)
    for name, tokenizer in (("tokenizer", plain), ("tokenizer_bos", with_bos)):
        folder = OUTPUT / name
        folder.mkdir(exist_ok=True)
        tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
        config = {"bos_token": "<|begin|>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
                  "tokenizer_class": "PreTrainedTokenizerFast"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    for name, template in {**TEMPLATES, "forgets": FORGETS}.items():
        (OUTPUT / f"{name}.jinja").write_text(template)

    cases = []
    for name, template in TEMPLATES.items():
        for messages in CONVERSATIONS:
            for train_on in ("assistant", "last_assistant", "completion", "all"):
                text, ids, mask = chat_case(plain, template, messages, train_on)
                cases.append({"template": name, "train_on": train_on, "row": {"messages": messages}, "text": text,
                              "ids": ids, "mask": mask})
    turns = [{"template": name, "row": {"messages": messages}, "examples": list(turn_cases(plain, template, messages))}
             for name, template in {**TEMPLATES, "forgets": FORGETS}.items() for messages in CONVERSATIONS + THOUGHTS]
    eos = plain.eos_token_id
    documents = []
    for name, tokenizer, head in (("tokenizer", plain, []), ("tokenizer_bos", with_bos, [plain.convert_tokens_to_ids(
            "<|begin|>")])):
        for prompt, completion in (("What is the capital of France?", " Paris."), ("Define: OC", "EAN, n."),
                                   ("", "the mat"), ("the cat", "")):
            encoded = tokenizer(prompt + completion, add_special_tokens=False, return_offsets_mapping=True)
            mask = [int(start >= len(prompt)) for start, _ in encoded["offset_mapping"]]
            ids, mask = head + encoded["input_ids"] + [eos], [0] * len(head) + mask + [1]
            mask[0] = 0
            assert tokenizer(prompt + completion)["input_ids"] == ids[:-1]
            documents.append({"tokenizer": name, "row": {"prompt": prompt, "completion": completion}, "ids": ids,
                              "mask": mask})
            documents.append({"tokenizer": name, "row": {"text": prompt + completion}, "ids": ids,
                              "mask": [0 if i == 0 or ids[i] == (head or [-1])[0] else 1 for i in range(len(ids))]})
    for name, rows in (("chats", cases), ("turns", turns), ("documents", documents)):
        (OUTPUT / f"{name}.jsonl").write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(len(cases), "chats,", len(turns), "chats by turns,", len(documents), "documents")


if __name__ == "__main__":
    main()
