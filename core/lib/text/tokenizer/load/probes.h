#pragma once
// Texts by which two tokenizers are compared.

namespace forge::text {

// Texts on which tokenizers differ: cases, contractions, digits, blanks, alphabets, emoji with
// modifiers, code.
inline constexpr const char* kTokenizerProbes[] = {
    "Hello world", " leading", "trailing ", "  two  blanks\tand\ttabs\n\n\nlines\r\n", "it's we'll THEY'RE don't",
    "3 33 333 3333 33333 3.14159, 1,000,000", "Ünïcödé Straße œuvre İstanbul", "привет мир 你好世界 こんにちは 한국어 العربية हिन्दी",
    "😀 👩‍👩‍👧‍👦 🇩🇪 ✌🏽", "def f(x):\n    return x**2  # €100 != £80\n", "!!!??? ...---... <<>> {}[]() $%&/ \\ ' \"", "a\u00a0b\u2003c",
    "https://example.org/a_b?c=d&e=%20", "CamelCase snake_case kebab-case SHOUT"};

}  // namespace forge::text
