# The half without torch: the facts that the program tells the plan of each provider.
forge_library(forge_providers
  SOURCES
    providers/gpu_speed.cpp providers/providers.cpp providers/fused/fused_plan.cpp providers/aten/aten_plan.cpp
  LINKS forge_plan)
