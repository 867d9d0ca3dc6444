#pragma once
// Builds the tree of a template: Jinja's grammar as of 3.1, with loop controls and
// {% generation %}. Constructs that a chat template cannot use (extends, include, import, block,
// recursive loops) are refused by name.
#include <string_view>

#include "core/lib/text/jinja/ast.h"
#include "core/lib/text/jinja/lexer.h"

namespace forge::jinja {

// Returns the tree. Throws SyntaxFault.
Tree parse_tree(std::string_view source);

}  // namespace forge::jinja
