#pragma once
// Compares two mathematical answers.
//
// Six points, positive and negative, take the place of a computer algebra system and of the
// time-outs that it needs. Formulas that agree within 1e-12 at all of them cannot be told apart.
// tests/reward/hard_cases_test.cpp lists the differences from math-verify.
#include "core/learn/reward/math_node.h"

namespace forge {

// True if two answers have the same value. Numbers are compared exactly where both are exact, else
// in long double. Like in math-verify, a number written with a point equals one that rounds to the
// same six decimals. Formulas with unknowns are equal when they agree at six points. Sets and
// unions have no order; tuples and intervals do, with their brackets. `x = 5` answers 5.
// `tolerance` is relative to the reference.
bool same_math(const MathAnswer& reference, const MathAnswer& answer, double tolerance);

}  // namespace forge
