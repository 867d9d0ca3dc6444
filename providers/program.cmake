# The half without torch: the facts that the program tells the plan of each provider.
forge_library(forge_providers
  SOURCES
    providers/gpu_speed.cpp providers/providers.cpp providers/fused/arena.cpp providers/fused/bind/attention.cpp providers/fused/bind/experts.cpp providers/fused/bind/folded.cpp
    providers/fused/bind/fp8.cpp providers/fused/bind/gates.cpp providers/fused/bind/heads.cpp providers/fused/bind/lora.cpp providers/fused/bind/norms.cpp
    providers/fused/bind/products.cpp providers/fused/bind/rows.cpp providers/fused/fused_plan.cpp providers/fused/gpu_launches.cpp
    providers/fused/experts.cpp providers/fused/linear.cpp providers/fused/offloaded.cpp providers/fused/ops.cpp
    providers/fused/planned_call.cpp providers/fused/products.cpp providers/fused/step_weights.cpp providers/fused/weights_ahead.cpp
    providers/aten/aten_plan.cpp providers/fused/workspace.cpp
  LINKS forge_plan forge_kernel_choices)
# The kernels' abilities and launches, as the plan must know them.
forge_library(forge_kernel_choices
  SOURCES kernels/attention/attention_choice.cpp kernels/attention/attention_launches.cpp kernels/lora/lora_launches.cpp
  LINKS forge_base)
