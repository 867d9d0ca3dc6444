# The half without torch: the ops of lists, and the kernels' abilities and launches, as the plan
# must know them.
file(GLOB op_sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} kernels/*/*_op.cpp)
forge_library(forge_ops
  SOURCES
    ${op_sources}
    kernels/attention/attention_choice.cpp kernels/attention/attention_launches.cpp kernels/attention/attention_turns.cpp kernels/call/arena.cpp kernels/call/listed_launches.cpp kernels/call/planned_call.cpp
    kernels/call/step_weights.cpp kernels/call/weights_ahead.cpp kernels/experts/expert_balance.cpp kernels/linear/products.cpp
  LINKS forge_list)
