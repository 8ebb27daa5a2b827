#include "native/keys.h"

namespace maru::python {

namespace nb = nanobind;

std::string_view KeyOf(nb::handle key) {
  if (PyUnicode_Check(key.ptr())) {
    Py_ssize_t size = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(key.ptr(), &size);
    if (text == nullptr) throw nb::python_error();  // UnicodeEncodeError, a ValueError
    return {text, static_cast<size_t>(size)};
  }
  if (PyBytes_Check(key.ptr())) {
    char* bytes = nullptr;
    Py_ssize_t size = 0;
    if (PyBytes_AsStringAndSize(key.ptr(), &bytes, &size) != 0) throw nb::python_error();
    return {bytes, static_cast<size_t>(size)};
  }
  PyErr_Format(PyExc_TypeError, "a key is str or bytes, not %R", Py_TYPE(key.ptr()));
  throw nb::python_error();
}

Keys::Keys(nb::handle iterable) {
  if (PyUnicode_Check(iterable.ptr()) || PyBytes_Check(iterable.ptr())) {
    PyErr_SetString(PyExc_TypeError, "keys is a list of keys, not one key");
    throw nb::python_error();
  }
  // A tuple of our own: another thread may change a list while this one waits.
  objects_ = nb::steal<nb::tuple>(PySequence_Tuple(iterable.ptr()));
  if (!objects_.is_valid()) throw nb::python_error();
  views_.reserve(objects_.size());
  for (nb::handle key : objects_) views_.push_back(KeyOf(key));
}

}  // namespace maru::python
