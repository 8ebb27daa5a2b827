#include "native/keys.h"

#include "layout/number_key.h"
#include "native/waits.h"

namespace maru::python {

namespace nb = nanobind;

namespace {

std::string NumberKeyOf(nb::handle number) {
  const unsigned long long unsigned_number = PyLong_AsUnsignedLongLong(number.ptr());
  if (PyErr_Occurred() == nullptr) return layout::NumberKey(uint64_t{unsigned_number});
  PyErr_Clear();
  const long long signed_number = PyLong_AsLongLong(number.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_SetString(PyExc_OverflowError, "a key that is a number is from -2**63 to 2**64 - 1");
    throw nb::python_error();
  }
  return layout::NumberKey(int64_t{signed_number});
}

}  // namespace

Key::Key(nb::handle key) {
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (text == nullptr) throw nb::python_error();  // UnicodeEncodeError, a ValueError
    view_ = {text, static_cast<size_t>(size)};
    return;
  }
  if (PyBytes_Check(key.ptr())) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(key.ptr(), &bytes, &size) != 0) throw nb::python_error();
    view_ = {bytes, static_cast<size_t>(size)};
    return;
  }
  if (PyLong_Check(key.ptr()) && !PyBool_Check(key.ptr())) {
    number_ = NumberKeyOf(key);
    view_ = number_;
    return;
  }
  PyErr_Format(PyExc_TypeError, "a key is str, bytes or int, not %R", Py_TYPE(key.ptr()));
  throw nb::python_error();
}

Keys::Keys(nb::handle iterable) {
  PyObject* const given = iterable.ptr();
  // Of bytes-likes each byte would be a number.
  if (PyUnicode_Check(given) || PyBytes_Check(given) || PyByteArray_Check(given) ||
      PyMemoryView_Check(given)) {
    PyErr_SetString(PyExc_TypeError, "keys is a list of keys, not one key");
    throw nb::python_error();
  }
  // A tuple of our own: another thread may change a list while this one waits.
  objects_ = nb::borrow<nb::tuple>(Calling([&] { return PySequence_Tuple(given); }));
  views_.reserve(objects_.size());
  for (nb::handle key : objects_) {
    if (PyLong_Check(key.ptr())) {
      views_.push_back(numbers_.emplace_front(key).view());
    } else {
      views_.push_back(Key(key).view());
    }
  }
}

}  // namespace maru::python
