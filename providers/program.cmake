# The half without torch: what the program tells the plan of each provider.
forge_library(forge_providers
  SOURCES
    providers/layer_table.cpp providers/providers.cpp providers/rehearsal.cpp providers/fused/fused_plan.cpp
    providers/reference/reference_plan.cpp providers/reference/rehearsed_layer.cpp
  LINKS forge_plan)
