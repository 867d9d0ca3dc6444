// Defines the coverage callback for programs that link code instrumented for the fuzz driver and do
// not use its coverage.
extern "C" void __sanitizer_cov_trace_pc() {}
