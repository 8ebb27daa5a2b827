#include <maru/log.h>
#include <maru/result.h>
#include <maru/status.h>

#include <cstdio>

maru::Result<int> Halve(int n) {
  if (n % 2 != 0) return maru::InvalidArgument("odd");
  return n / 2;
}

int main() {
  maru::SetLogSink(nullptr);
  std::printf("%d %s\n", *Halve(84), Halve(3).status().ToString().c_str());
}
