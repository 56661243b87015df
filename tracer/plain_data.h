// What kinds of objects there are for a trace: data that is what it equals, constants that are themselves, and all
// else.
#pragma once

#include <Python.h>

#include <functional>

namespace framejit {

// Immutable data whose equality says all: None, numbers, strings, bytes, torch.dtype and the like, tuples and
// frozensets of these.
bool is_plain_data(PyObject* obj);
// Plain data that other objects may equal: not interned, and none of those that the interpreter keeps one of.
bool has_equals(PyObject* plain);
// A number that equals none, itself included.
bool is_nan(PyObject* plain);
// Objects that are what they are by identity, and immutable as far as the trace goes: types, functions, modules, enum
// members.
bool is_identity_constant(PyObject* obj);
bool is_member_of_enumeration(PyObject* obj);
// What a program can make and drop. The types of C code stay; a method of an object is made anew by each look.
bool worth_watching(PyObject* obj);
// A type with arguments that typing made.
bool is_typing_alias(PyObject* obj);
// A type with arguments that the interpreter made, list[int], or a union of types, int | str. None on Pythons without.
bool is_generic_alias(PyObject* obj);  // of that very type
bool is_kind_of_generic_alias(PyObject* obj);
bool is_type_union(PyObject* obj);
// Registers a type whose instances are compared by identity as constants (torch.dtype, torch.device ...).
void add_plain_type(PyTypeObject* type, bool by_identity);
// Whether it holds for plain data or for something in the tuples, frozensets and slices within it.
bool any_within(PyObject* plain, const std::function<bool(PyObject*)>& holds);

}  // namespace framejit
