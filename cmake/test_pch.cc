// The precompiled header of the test programs hangs on this program. It is one because programs and
// libraries differ in their position-independence flags, and a header must match its users.
int main() { return 0; }
