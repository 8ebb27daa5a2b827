#pragma once

// Checks of our own promises, on in release builds too.
//
//   MARU_CHECK(pages > 0) << "region " << id;
//   MARU_CHECK_EQ(free + used, total);
//   MARU_DCHECK(IsSorted(pages));      // compiled, but not evaluated, where NDEBUG is set
//
// Never for bytes that another process, a file or a socket supplied: those get a validator that
// returns DataLoss. A failure goes to the process's handler; the default writes one line to
// standard error and aborts. A handler may throw (the simulator does), but not return.

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace maru {

struct CheckFailure {
  const char* file;
  int line;
  std::string condition;
  std::string message;  // what was streamed in, with both values for MARU_CHECK_EQ and the like

  // "file:line: check failed: condition (message)"
  std::string ToString() const;
};

using CheckHandler = void (*)(const CheckFailure& failure);

// Returns the former handler; null stands for the default one. Thread-safe.
CheckHandler SetCheckHandler(CheckHandler handler);

// Calls the handler; aborts if it returns.
[[noreturn]] void FailCheck(const CheckFailure& failure);

namespace internal {

// Collects the message. Takes text, numbers, enums, pointers, strong ids (by their value) and
// whatever has ToString().
class CheckMessage {
 public:
  CheckMessage(const char* file, int line, std::string condition)
      : failure_{file, line, std::move(condition), {}} {}

  template <typename T>
  CheckMessage& operator<<(const T& value) {
    Append(failure_.message, value);
    return *this;
  }

  const CheckFailure& failure() const { return failure_; }

  template <typename T>
  static void Append(std::string& out, const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      out += value ? "true" : "false";
    } else if constexpr (std::is_same_v<T, char>) {
      out += value;
    } else if constexpr (std::is_enum_v<T>) {
      Append(out, static_cast<std::int64_t>(value));
    } else if constexpr (std::integral<T> || std::floating_point<T>) {
      out += std::to_string(value);
    } else if constexpr (std::is_null_pointer_v<T>) {
      out += "null";
    } else if constexpr (std::convertible_to<const T&, std::string_view>) {
      out += std::string_view(value);
    } else if constexpr (std::is_pointer_v<T>) {
      AppendPointer(out, static_cast<const void*>(value));
    } else if constexpr (requires { out += value.ToString(); }) {
      out += value.ToString();
    } else if constexpr (requires { Append(out, value.value()); }) {
      Append(out, value.value());
    } else {
      out += "(value)";
    }
  }

 private:
  static void AppendPointer(std::string& out, const void* pointer);

  CheckFailure failure_;
};

// Ends the expression that streams the message; binds weaker than <<.
struct CheckFailer {
  [[noreturn]] void operator&(const CheckMessage& message) const { FailCheck(message.failure()); }
};

template <typename A, typename B>
[[gnu::noinline, gnu::cold]] std::unique_ptr<std::string> CompareText(const A& a, const B& b,
                                                                      const char* condition) {
  auto text = std::make_unique<std::string>(condition);
  *text += ", with ";
  CheckMessage::Append(*text, a);
  *text += " and ";
  CheckMessage::Append(*text, b);
  return text;
}

#define MARU_INTERNAL_COMPARE(name, op)                                                     \
  template <typename A, typename B>                                                         \
  inline std::unique_ptr<std::string> name(const A& a, const B& b, const char* condition) { \
    if (a op b) [[likely]]                                                                  \
      return nullptr;                                                                       \
    return CompareText(a, b, condition);                                                    \
  }
MARU_INTERNAL_COMPARE(CompareEq, ==)
MARU_INTERNAL_COMPARE(CompareNe, !=)
MARU_INTERNAL_COMPARE(CompareLt, <)
MARU_INTERNAL_COMPARE(CompareLe, <=)
MARU_INTERNAL_COMPARE(CompareGt, >)
MARU_INTERNAL_COMPARE(CompareGe, >=)
#undef MARU_INTERNAL_COMPARE

}  // namespace internal
}  // namespace maru

#define MARU_CHECK(condition)                       \
  __builtin_expect(static_cast<bool>(condition), 1) \
      ? (void)0                                     \
      : ::maru::internal::CheckFailer() &           \
            ::maru::internal::CheckMessage(__FILE__, __LINE__, #condition)

// The switch keeps a following else from binding to the macro's if.
#define MARU_INTERNAL_CHECK_OP(name, op, a, b)                                      \
  switch (0)                                                                        \
  case 0:                                                                           \
  default:                                                                          \
    if (auto maru_check_text = ::maru::internal::name((a), (b), #a " " #op " " #b); \
        maru_check_text == nullptr) [[likely]] {                                    \
    } else                                                                          \
      ::maru::internal::CheckFailer() &                                             \
          ::maru::internal::CheckMessage(__FILE__, __LINE__, std::move(*maru_check_text))

#define MARU_CHECK_EQ(a, b) MARU_INTERNAL_CHECK_OP(CompareEq, ==, a, b)
#define MARU_CHECK_NE(a, b) MARU_INTERNAL_CHECK_OP(CompareNe, !=, a, b)
#define MARU_CHECK_LT(a, b) MARU_INTERNAL_CHECK_OP(CompareLt, <, a, b)
#define MARU_CHECK_LE(a, b) MARU_INTERNAL_CHECK_OP(CompareLe, <=, a, b)
#define MARU_CHECK_GT(a, b) MARU_INTERNAL_CHECK_OP(CompareGt, >, a, b)
#define MARU_CHECK_GE(a, b) MARU_INTERNAL_CHECK_OP(CompareGe, >=, a, b)
// REQUIRES: status is a Status.
#define MARU_CHECK_OK(status) MARU_CHECK((status).ok()) << (status).ToString()

#ifdef NDEBUG
#define MARU_INTERNAL_DCHECK(check) \
  while (false) check
#else
#define MARU_INTERNAL_DCHECK(check) check
#endif

#define MARU_DCHECK(condition) MARU_INTERNAL_DCHECK(MARU_CHECK(condition))
#define MARU_DCHECK_EQ(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_EQ(a, b))
#define MARU_DCHECK_NE(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_NE(a, b))
#define MARU_DCHECK_LT(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_LT(a, b))
#define MARU_DCHECK_LE(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_LE(a, b))
#define MARU_DCHECK_GT(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_GT(a, b))
#define MARU_DCHECK_GE(a, b) MARU_INTERNAL_DCHECK(MARU_CHECK_GE(a, b))
