#pragma once
// Compares two mathematical answers.
#include "core/reward/math_node.h"

namespace forge {

// True if two answers have the same value. Numbers are compared exactly where both are exact, else
// in long double. Like in math-verify, a number written with a point equals one that rounds to the
// same six decimals. Formulas with unknowns are equal when they agree at six points. Sets and
// unions have no order; tuples and intervals do, with their brackets. `x = 5` answers 5.
// `tolerance` is relative to the reference.
bool same_math(const MathAnswer& reference, const MathAnswer& answer, double tolerance);

}  // namespace forge
