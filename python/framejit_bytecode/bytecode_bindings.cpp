// Bindings of bytecode/: rows and listings of decoded code for people and tests, re-assembly, and the opcode tables.
#include "python/framejit_bytecode/bytecode_bindings.h"

#include <string>

#include "base/check.h"
#include "base/py_ref.h"
#include "bytecode/code_builder.h"
#include "bytecode/decoder.h"
#include "bytecode/listing.h"
#include "bytecode/opcode_table.h"

namespace framejit {
namespace {

using namespace bytecode;

// Runs `body`, which returns a Ref or null with an exception set; an InternalError becomes RuntimeError.
template <class Body>
PyObject* guarded(Body body) {
  try {
    return body().release();
  } catch (const InternalError& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  } catch (const std::exception& error) {
    PyErr_Format(PyExc_RuntimeError, "unexpected C++ exception: %s", error.what());
  }
  return nullptr;
}

PyObject* as_code(PyObject* arg) {
  if (PyCode_Check(arg)) return arg;
  PyErr_Format(PyExc_TypeError, "expected a code object, got %s", Py_TYPE(arg)->tp_name);
  return nullptr;
}

class List {
 public:
  List() : list_(Ref::steal(PyList_New(0))) { FJ_CHECK(list_, "out of memory"); }
  void add(const Ref& item) { FJ_CHECK(item && PyList_Append(list_.get(), item.get()) == 0, "out of memory"); }
  Ref take() { return std::move(list_); }

 private:
  Ref list_;
};

class Dict {
 public:
  Dict() : dict_(Ref::steal(PyDict_New())) { FJ_CHECK(dict_, "out of memory"); }
  void set(const char* key, const Ref& value) {
    FJ_CHECK(value && PyDict_SetItemString(dict_.get(), key, value.get()) == 0, "out of memory");
  }
  void set(const char* key, long value) { set(key, Ref::steal(PyLong_FromLong(value))); }
  void set(const char* key, const char* text) { set(key, Ref::steal(PyUnicode_FromString(text))); }
  Ref take() { return std::move(dict_); }

 private:
  Ref dict_;
};

Ref numbers(const std::vector<int32_t>& values) {
  List list;
  for (int32_t value : values) list.add(Ref::steal(PyLong_FromLong(value)));
  return list.take();
}

Ref position_tuple(const Position& p) {
  return Ref::steal(Py_BuildValue("iiii", p.line, p.end_line, p.column, p.end_column));
}

Ref block_rows(const Decoded& code, InstrIndex i) {
  List rows;
  for (const Block& block : code.blocks(i)) {
    const bool handler = block.kind == Block::Kind::kExceptHandler;
    rows.add(Ref::steal(Py_BuildValue("sii", handler ? "except_handler" : "finally",
                                      handler ? -1 : static_cast<int>(block.handler.value), block.level)));
  }
  return rows.take();
}

Ref instruction_row(const Decoded& code, InstrIndex i) {
  const Instruction& instr = code.at(i);
  Dict row;
  row.set("op", sim_op_name(instr.op));
  row.set("opname", opcode_table(code.version)[instr.opcode].name);
  row.set("arg", instr.arg);
  row.set("aux", instr.aux);
  row.set("extra", instr.extra);
  row.set("raw_arg", static_cast<long>(instr.raw_arg));
  row.set("target", instr.jumps() ? static_cast<long>(instr.target.value) : -1L);
  row.set("offset", static_cast<long>(instr.offset));
  row.set("position", position_tuple(instr.position));
  row.set("depth", code.stack_depth(i));
  row.set("varies", code.state(i).varies);
  row.set("null_slots", numbers(code.null_slots(i)));
  row.set("blocks", block_rows(code, i));
  if (instr.region >= 0) {
    const ExceptionRegion& region = code.regions[instr.region];
    row.set("handler", Ref::steal(Py_BuildValue("iii", static_cast<int>(region.handler.value), region.depth,
                                                static_cast<int>(region.push_lasti))));
  } else {
    row.set("handler", Ref::borrow(Py_None));
  }
  return row.take();
}

PyObject* py_decode(PyObject*, PyObject* arg) {
  if (!as_code(arg)) return nullptr;
  return guarded([&] {
    const DecodedCodePtr code = decode(arg);
    List rows;
    for (uint32_t i = 0; i < code->size(); ++i) rows.add(instruction_row(*code, InstrIndex(i)));
    return rows.take();
  });
}

PyObject* py_instruction_count(PyObject*, PyObject* arg) {
  if (!as_code(arg)) return nullptr;
  return guarded([&] { return Ref::steal(PyLong_FromSize_t(decode(arg)->size())); });
}

PyObject* py_listing(PyObject*, PyObject* arg) {
  if (!as_code(arg)) return nullptr;
  return guarded([&] {
    const std::string text = listing(*decode(arg));
    return Ref::steal(PyUnicode_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
  });
}

PyObject* py_reassemble(PyObject*, PyObject* arg) {
  if (!as_code(arg)) return nullptr;
  return guarded([&] { return reassemble(arg); });
}

Ref slot_names(const DecodedCode& code, const SlotSet& set) {
  List names;
  for (size_t slot = 0; slot < code.slots.size(); ++slot) {
    if (set.contains(slot)) names.add(Ref::borrow(code.slot_name(static_cast<int32_t>(slot)).get()));
  }
  return names.take();
}

PyObject* py_liveness(PyObject*, PyObject* arg) {
  if (!as_code(arg)) return nullptr;
  return guarded([&] {
    const DecodedCodePtr code = decode(arg);
    List rows;
    for (uint32_t i = 0; i < code->size(); ++i) {
      const Ref live = slot_names(*code, code->live_locals(InstrIndex(i)));
      const Ref assigned = slot_names(*code, code->assigned_locals(InstrIndex(i)));
      rows.add(Ref::steal(PyTuple_Pack(2, live.get(), assigned.get())));
    }
    return rows.take();
  });
}

Ref table_rows(Version version) {
  Dict rows;
  const OpcodeTable& table = opcode_table(version);
  for (size_t opcode = 0; opcode < table.size(); ++opcode) {
    if (!table[opcode].name) continue;
    Dict row;
    row.set("number", static_cast<long>(opcode));
    row.set("caches", table[opcode].caches);
    row.set("op", sim_op_name(table[opcode].op));
    row.set("kind", static_cast<long>(table[opcode].kind));
    row.set("jumps", static_cast<long>(is_jump(table[opcode].kind)));
    rows.set(table[opcode].name, row.take());
  }
  return rows.take();
}

PyObject* py_tables(PyObject*, PyObject*) {
  return guarded([] {
    Dict tables;
    for (int v = 0; v < kVersionCount; ++v) {
      const auto version = static_cast<Version>(v);
      tables.set(traits(version).name, table_rows(version));
    }
    return tables.take();
  });
}

PyObject* py_sim_ops(PyObject*, PyObject*) {
  return guarded([] {
    List names;
    for (int op = 0; op < kSimOpCount; ++op) {
      names.add(Ref::steal(PyUnicode_FromString(sim_op_name(static_cast<SimOp>(op)))));
    }
    return names.take();
  });
}

PyObject* py_stack_effect(PyObject*, PyObject* args) {
  const char* name = nullptr;
  unsigned opcode = 0, arg = 0;
  int jump = 0;
  if (!PyArg_ParseTuple(args, "sIIp", &name, &opcode, &arg, &jump)) return nullptr;
  return guarded([&]() -> Ref {
    for (int v = 0; v < kVersionCount; ++v) {
      const auto version = static_cast<Version>(v);
      if (std::string_view(name) != traits(version).name) continue;
      const Instruction instr = canonical(version, static_cast<uint16_t>(opcode), arg, 0);
      return Ref::steal(PyLong_FromLong(stack_effect(instr, jump).delta()));
    }
    PyErr_Format(PyExc_ValueError, "no opcode table for Python %s", name);
    return nullptr;
  });
}

PyMethodDef methods[] = {
    {"decode", py_decode, METH_O, "decode(code) -> list of dicts, one per canonical instruction"},
    {"instruction_count", py_instruction_count, METH_O,
     "instruction_count(code): decodes, and counts the instructions"},
    {"listing", py_listing, METH_O, "listing(code) -> str, one line per canonical instruction"},
    {"reassemble", py_reassemble, METH_O, "reassemble(code) -> an equal code object, decoded and assembled anew"},
    {"liveness", py_liveness, METH_O, "liveness(code) -> list of (live names, assigned names), one per instruction"},
    {"tables", py_tables, METH_NOARGS, "tables() -> {version: {opcode name: row}}"},
    {"sim_ops", py_sim_ops, METH_NOARGS, "sim_ops() -> names of the canonical operations"},
    {"stack_effect", py_stack_effect, METH_VARARGS, "stack_effect(version, opcode, arg, jump) -> int"},
    {nullptr, nullptr, 0, nullptr},
};

}  // namespace

int add_bytecode_bindings(PyObject* module) { return PyModule_AddFunctions(module, methods); }

}  // namespace framejit
