// An engine's stand-in that links two of CUDA's libraries, which the machine of the test does not
// have.
extern "C" int in_cufile();
extern "C" int in_cusparse_lt();
int main() { return in_cufile() + in_cusparse_lt(); }
