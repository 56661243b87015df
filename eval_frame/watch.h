// What the interpreter keeps that tells of changes: versions of dictionaries and types, and watchers of dictionaries;
// and of what kind a dictionary's keys are.
//
// All functions need the GIL. None leaves a Python error.
#pragma once

#include <Python.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Nonzero while what the type's method-resolution order gives for any name is what it was when the same value was seen.
uint64_t framejit_type_version(const PyTypeObject* type);

// Whether each change of the dictionary changes its version, and reaches those who watch it. In 3.13 an instance writes
// its attributes past a dictionary that shares its values; see framejit_dict_own_values.
int framejit_dict_tells(PyObject* dict);
// Gives an exact dictionary that shares its instance's values a table of its own, from where on it tells of changes.
// Keys, values and order stay. Returns whether it tells.
int framejit_dict_own_values(PyObject* dict);
// Nonzero: the table is of a kind that has no other keys than exact strings. Zero before 3.11, which tells of no kinds.
int framejit_dict_is_of_text(PyObject* dict);

// Called before the change is made; must not run Python code. `gone`: the dictionary is being freed.
typedef void (*FramejitDictChanged)(PyObject* dict, int gone);
// Takes one of the interpreter's few watcher slots. Returns its number, or -1: there are no watchers in this version,
// or no slot is free. One callback per process.
int framejit_dict_watcher_add(FramejitDictChanged changed);
// Returns whether the dictionary is watched now. Only in the interpreter that gave the slot.
int framejit_dict_watch(int watcher, PyObject* dict);
void framejit_dict_unwatch(int watcher, PyObject* dict);

#ifdef __cplusplus
}  // extern "C"
#endif
