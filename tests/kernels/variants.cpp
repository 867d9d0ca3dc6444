#include <algorithm>

#include "core/lib/base/error.h"
#include "tests/kernels/case.h"

namespace forge::kernel_test {
namespace {

Operand& named(Case& c, const std::string& name) {
  auto found =
      std::find_if(c.operands.begin(), c.operands.end(), [&](const Operand& o) { return o.name == name; });
  FORGE_CHECK(found != c.operands.end(), "a case of " + c.op + " has no operand " + name);
  return *found;
}

void remove(Case& c, const std::string& name) {
  std::erase_if(c.operands, [&](const Operand& o) { return o.name == name; });
}

}  // namespace

Case over(Case c, const std::string& output, const std::string& input) {
  const Operand above = named(c, output);
  Operand& under = named(c, input);
  FORGE_CHECK(
      above.role == Role::out && above.store == under.store && above.value.sizes() == under.value.sizes(),
      output + " cannot lie over " + input);
  under.role = Role::in_out;
  under.tolerance = above.tolerance;
  c.name += ", " + output + " over " + input;
  c.placed_over[output] = input;
  c.oracle = [=, inner = c.oracle](const Tensors& in) {
    Tensors out = inner(in);
    for (const char* which : {"", ".size", ".between"})
      if (auto found = out.extract(output + which)) {
        found.key() = input + which;
        out.insert(std::move(found));
      }
    return out;
  };
  remove(c, output);
  return c;
}

Case not_wanted(Case c, const std::string& output) {
  FORGE_CHECK(named(c, output).role != Role::in, output + " is no output");
  c.name += ", no " + output;
  c.placed_over[output] = "";
  remove(c, output);
  return c;
}

void add_alone(std::vector<Case>& cases, const Case& c) {
  Case gaps = c;
  gaps.name += ", gaps of their own";
  int64_t laid_operands = 0;
  for (size_t i = 0; i < c.operands.size(); ++i) {
    const Operand& operand = c.operands[i];
    if (operand.store == Store::i64 || operand.store == Store::i32 || operand.value.numel() == 0) continue;
    Case moved = c;
    moved.name += ", " + operand.name + " alone misaligned";
    moved.operands[i].offset = 1;
    cases.push_back(moved);
    if (!operand.has_stride) continue;
    gaps.operands[i].row_gap = kWideGap * ++laid_operands;
    Case spread = c;
    spread.name += ", " + operand.name + " alone with gaps";
    spread.operands[i].row_gap = 5;
    cases.push_back(spread);
  }
  if (laid_operands > 0) cases.push_back(gaps);
}

}  // namespace forge::kernel_test
