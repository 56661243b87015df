// The simulator of one segment. Handlers of instructions are free functions by family (ops_*.cpp); what they share is
// here.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "tracer/context_vars.h"
#include "tracer/device_contexts.h"
#include "tracer/frame.h"
#include "tracer/inference_modes.h"
#include "tracer/owned_objects.h"
#include "tracer/signals.h"
#include "tracer/tracer.h"
#include "tracer/transforms.h"
#include "tracer/world.h"

namespace framejit {

struct CallableRow;

// By the slot of the frame's stack that could not be followed.
using StopsOfStack = std::unordered_map<size_t, TraceStop>;

class Simulator {
 public:
  // `until`: the break point that an earlier, identical run found; the capture ends there. `refused`: the node at which
  // it stops, see TensorHost::begin. `aside`: what of the frame's stack is set aside.
  Simulator(const SegmentStart& start, const TracerServices& services, std::optional<StopTrace> until,
            RefusedNode refused, const StopsOfStack& aside);
  ~Simulator();

  // Runs the segment to its return or to `until`. Throws StopTrace.
  std::unique_ptr<graph::Capture> run();

  // What the pass has come to, after run() threw.
  std::unique_ptr<graph::Capture> take_capture() { return std::move(capture_); }

  // --- state
  World& world() { return world_; }
  const TracerServices& services() const { return services_; }
  PyObject* realise(SymValue& value) { return world_.realise(value); }
  PyObject* hold(SymValue& value) { return world_.hold(value); }
  PyObject* hold_number(SymValue& value) { return world_.hold_number(value); }
  const std::vector<SimFrame*>& frames() const { return frames_; }
  SimFrame& frame() { return *frames_.back(); }

  // --- stopping and raising
  [[noreturn]] void stop(StopReason reason, std::string detail = {});
  // A Python error is set: raises it in the simulation, or stops if the recorder set it to end the trace.
  [[noreturn]] void raise();
  [[noreturn]] void raise(PyObject* type, const std::string& message);
  // Null means a Python error is set. C code may have gone on behind a stop that crosses it.
  Ref check(PyObject* result) {
    Ref made = Ref::steal(result);
    if (!made || crossing_) raise();
    return made;
  }
  void check_status(int status) {
    if (status < 0 || crossing_) raise();
  }
  BreakPoint current_break_point() const;
  // Where the capture could end before C code made this object of the trace. Invalid if that is not known.
  BreakPoint native_origin(PyObject* made) const;

  // Makes the exception that the innermost frame handles the context of one that is raised.
  void chain_context(PyObject* exception);
  void require_nothing_handled();
  // Where the capture could end before this exception was raised in the trace; null if it was not.
  const BreakPoint* raised_at(PyObject* exception) const;
  // Ends the capture there: what follows needs the traceback.
  [[noreturn]] void stop_before_raise(StopReason reason, const BreakPoint& point);
  // exception.__traceback__ = traceback
  void set_traceback(PyObject* exception, SymValue traceback);

  // The slot's value; in the segment's frame, wrapped at the first read.
  SymValue& slot(SimFrame& frame, int32_t index);

  // --- recording
  // Before anything that may run tensor operators: tells the recorder the user's line.
  void mark_location();
  std::string location_text();
  // torch.is_grad_enabled() when the capture began: True, False, or null without torch.
  PyObject* initial_grad_mode() const { return initial_grad_mode_.get(); }
  // What a real call gave back: tensors must be fakes.
  SymValue from_real(Ref result);
  // The same for what an attribute read of an object of the program gave, where no source says how to read it again.
  SymValue from_outside(Ref result);

  // --- calls (calls.cpp, functions.cpp, classes.cpp, builtins_*.cpp)
  SymValue call(SymValue callable, CallArgs args, bool plain = false);
  SymValue call(SymValue callable, std::initializer_list<SymValue> args);
  SymValue call_function(PyObject* function, CallArgs args, bool plain);
  // As call_function, past the table of callables.
  SymValue follow_function(PyObject* function, CallArgs args, bool plain);
  // The function inside of a mark that keeps torch.compile out of it, if this is one.
  std::optional<SymValue> marked_function(PyObject* function);
  // Of a weak reference of the program.
  SymValue referent(PyObject* reference);
  SymValue call_builtin(PyObject* callable, CallArgs args);
  SymValue call_builtin_itself(PyObject* callable, CallArgs args);
  [[noreturn]] void raise_key_error(PyObject* key);
  // A function of torch that computes from its arguments alone; `target`: what is called for it.
  SymValue call_torch(PyObject* target, PyObject* callable, CallArgs args);
  SymValue call_type(PyTypeObject* type, CallArgs args);
  SymValue call_module(PyObject* module, CallArgs args, bool plain);
  // type.__call__(type, ...).
  SymValue construct(PyTypeObject* type, CallArgs args);
  // The real call: all arguments are relied on.
  SymValue call_real(PyObject* callable, CallArgs& args);
  // The same of C code that is not torch's, without_python.
  SymValue call_c(PyObject* callable, CallArgs& args);
  // The same where other objects stand for some of the program's. What C refuses is refused in its order and its words
  // by the interpreter.
  SymValue call_with_stand_ins(PyObject* callable, CallArgs& args);
  // Runs C code. Where it enters Python code, as a special method, the trace stops before this instruction.
  template <class Body>
  SymValue without_python(Body body) {
    SymValue result = body();
    require_none_refused();
    return result;
  }
  SymValue call_row(const CallableRow& row, PyObject* callable, CallArgs args);
  SymValue call_outside_dict_method(PyObject* descriptor, CallArgs args);
  void replace_outside_item(PyObject* dict, PyObject* key, const SymValue& value);
  // functools.lru_cache
  SymValue call_cache(PyObject* cache, CallArgs args);
  SymValue call_getter(PyObject* getter, CallArgs args);
  SymValue unfold_partial(const SymValue& partial, CallArgs& args);
  SymValue as_c_callback(SymValue value, bool gives_truth = false);
  SymValue as_c_iterable(SymValue value);
  // A real dict of a mapping's items, read in the simulation.
  Ref snapshot_dict(const SymValue& mapping);
  Ref snapshot_dict_items(PyObject* mapping);
  Py_ssize_t stored_length(PyObject* obj);
  SymValue stored_item(PyObject* obj, Py_ssize_t index);
  bool rely_on_stored_items(PyObject* tuple);
  void require_hash_in_c(PyObject* key);
  Ref keys_of_outside(PyObject* mapping);
  bool has_hooks(PyObject* module);
  bool has_global_hooks();
  bool is_compiled(PyObject* module, PyObject* name);
  bool is_filled(PyObject* table, graph::SourceId source);
  // Calls the special method if the type has it in Python code; empty if it has none.
  std::optional<SymValue> call_special(PyObject* self, const char* name, std::initializer_list<SymValue> args);
  SymValue run_frame(SimFrame& frame);
  // Hands the exception to the frame's innermost handler around `pc`. False: there is none.
  bool unwind(SimFrame& frame, const PythonRaised& raised);
  std::unique_ptr<SimFrame> make_frame(PyObject* function, CallArgs args);
  // Runs a generator's frame to its next yield; null when it returned.
  std::optional<SymValue> resume_generator(SimFrame& frame, SymValue sent);
  // Raises an exception where the generator stands; what follows is as for resume_generator.
  std::optional<SymValue> throw_into_generator(SimFrame& frame, PyObject* exception);
  std::optional<SymValue> run_generator(SimFrame& frame);

  // --- bodies of control flow (bodies.cpp). Both of two run in the trace where the program runs one, or the same one
  // again and again: what is done there besides operators on tensors would be done too often or not at all.
  template <class Run>
  auto in_body(Run&& run) {
    ++body_depth_;
    struct Leave {
      Simulator& sim;
      ~Leave() { sim.leave_body(); }
    } leave{*this};
    return run();
  }
  bool is_in_body() const { return body_depth_ > 0; }
  // Of a checkpointed function, which the interpreter would call again in the backward.
  template <class Run>
  auto in_checkpoint(Run&& run) {
    struct Leave {
      bool& inside;
      ~Leave() { inside = false; }
    } leave{in_checkpoint_ = true};
    return in_body(std::forward<Run>(run));
  }
  bool is_in_checkpoint() const { return in_checkpoint_; }
  // What a checkpointed function sets it has put back when it ends. A body inside of it may be one that does not run.
  bool may_set_state() const { return in_checkpoint_ && body_depth_ == 1; }
  // It is new, and nothing outside of this body can have it: it may be changed here.
  void note_made_in_body(PyObject* obj) { made_in_body_.try_emplace(obj, Ref::borrow(obj), body_depth_); }
  void note_made_in_body(const SimFrame& frame, const Instruction& instr);
  // `result` of a call; of a call of its type (list, zip) it is new.
  SymValue made_by(PyObject* callable, SymValue result);
  bool is_made_in_body(PyObject* obj) const {
    const auto found = made_in_body_.find(obj);
    return found != made_in_body_.end() && found->second.second == body_depth_;
  }
  void leave_body();
  // Each stops in a body where what is about to run could have effects.
  void require_pure(SimFrame& frame, const Instruction& instr);
  void require_pure(const CallableRow& row, PyObject* self, CallArgs& args);
  void require_pure_builtin(PyObject* key, PyObject* self, CallArgs& args);
  void require_no_iterator(const SymValue& value);
  [[noreturn]] void refuse_in_body(const std::string& what);

  // --- the backward of a torch.autograd.Function (backwards.cpp), followed when the forward is. It runs later, and in
  // captured form without Python: besides what a body may not do, it may not look at what only then is known. What it
  // reads of the program is noted, for who runs it to look whether that still holds.
  template <class Run>
  auto in_backward(std::vector<FrozenRead>& reads, Run&& run) {
    struct Leave {
      Simulator& sim;
      std::vector<FrozenRead>* before;
      bool was_frozen;
      ~Leave() {
        sim.frozen_reads_ = before;
        sim.world_.set_frozen(was_frozen);
      }
    } leave{*this, std::exchange(frozen_reads_, &reads), world_.set_frozen(true)};
    return in_body(std::forward<Run>(run));
  }
  bool is_in_backward() const { return frozen_reads_ != nullptr; }
  void note_frozen(FrozenRead::Kind kind, PyObject* holder, PyObject* name, PyObject* found);
  // Of what C code of torch told of tensors, or of its state.
  void require_frozen_answer(std::string_view name, PyObject* answer);
  void require_frozen_answer(PyObject* callable, const CallArgs& args, PyObject* answer);
  // The context of a call that is a node of autograd's graph: it stands for what no recipe makes.
  void seal_context(PyObject* context);
  bool is_sealed_context(PyObject* obj) const { return sealed_contexts_.count(obj) != 0; }

  // --- objects (attributes.cpp, items.cpp, iteration.cpp, operators.cpp)
  SymValue load_attr(const SymValue& owner, PyObject* name);
  SymValue load_attr(const SymValue& owner, const char* name);
  // Empty instead of AttributeError.
  std::optional<SymValue> find_attr(const SymValue& owner, PyObject* name);
  SymValue generic_load_attr(const SymValue& owner, PyObject* name, bool with_getattr_hook);
  std::optional<SymValue> generic_find_attr(PyObject* obj, PyObject* name);
  // Of the instance alone.
  std::optional<SymValue> find_in_instance(PyObject* obj, PyObject* name);
  SymValue load_super_attr(PyTypeObject* type, const SymValue& self, PyObject* name);
  void store_attr(const SymValue& owner, PyObject* name, SymValue value);
  void generic_store_attr(const SymValue& owner, PyObject* name, SymValue value);
  void delete_attr(const SymValue& owner, PyObject* name);
  void generic_delete_attr(PyObject* obj, PyObject* name);
  // That the overlay of writes knows what the object's dictionary, which may be null, holds.
  void require_own_dict(PyObject* obj, PyObject* dict);
  void write_overlay(PyObject* obj, PyObject* dict, PyObject* name, Ref value);
  // Whether the trace has put something else there, or taken it away.
  bool is_written(PyObject* obj, PyObject* dict, PyObject* name);
  // `dict`: the instance's, if it has one and the name lies there.
  void write_outside_attr(PyObject* obj, PyObject* dict, PyObject* name, const SymValue& value);
  // What the type's method-resolution order has, guarded; null if nothing.
  PyObject* lookup_type(PyTypeObject* type, PyObject* name);
  // The same for a caller that hands out what is no descriptor by read_from_class.
  PyObject* lookup_attribute(PyTypeObject* type, PyObject* name);
  SymValue read_from_class(PyTypeObject* type, PyObject* name, PyObject* found);
  SymValue found_in_class(PyObject* descriptor);
  SymValue bind(PyObject* descriptor, const SymValue& owner);
  void require_read_in_place(PyObject* descriptor, PyObject* obj, PyObject* value);

  SymValue get_item(SymValue container, SymValue key);
  void set_item(SymValue container, SymValue key, SymValue value);
  void delete_item(SymValue container, SymValue key);
  bool contains(SymValue container, SymValue item);
  SymValue binary(bytecode::BinaryKind kind, bool in_place, SymValue left, SymValue right);
  SymValue unary(bytecode::UnaryKind kind, SymValue operand);
  SymValue compare(bytecode::CompareKind kind, SymValue left, SymValue right);
  // Numbers of the graph, see numbers.cpp. Of the one element of a tensor; none where that is not followed.
  std::optional<SymValue> number_of(PyObject* tensor);
  SymValue add_number(Ref tensor);
  SymValue compute_number(graph::NumberOp op, const std::vector<TensorHost::NumberOperand>& operands);
  // One of the operands is such a number.
  SymValue binary_of_number(bytecode::BinaryKind kind, bool in_place, SymValue left, SymValue right);
  // Of Python numbers in a list, some of them numbers of the graph, from `start` on.
  SymValue sum_of_numbers(PyObject* start, PyObject* numbers);
  SymValue reflected_of_number(bytecode::BinaryKind kind, SymValue number, SymValue tensor);
  SymValue unary_of_number(bytecode::UnaryKind kind, SymValue number);
  bool is_number(SymValue& value) { return world_.is_number(value); }
  // Of an input and a number that is known: guards the outcome. None for others.
  std::optional<bool> compare_number(int op, SymValue& number, SymValue& other);
  // Whether both are the same such number, or read from one place; whether one is such a number, and the other is no
  // float.
  bool is_one_number(SymValue& left, SymValue& right);
  bool is_apart_from_number(SymValue& number, SymValue& other);
  // Whether one is what the frame holds and cannot be followed, and the other is None.
  bool is_apart_from_aside(SymValue& aside, SymValue& other);
  // The fake that is the number as a tensor.
  PyObject* number_tensor(PyObject* number);
  // Whether a method of a builtin container moves them about alone. Stops where one that does not is called of a
  // container that holds some: C code might be half through when it comes to one.
  bool moves_numbers(PyObject* container, PyObject* method);
  // Before a function of torch is called: what it takes for them, also in tuples and lists.
  Ref given_number(PyObject* obj);
  // The same with floats in the place of numbers, for code that looks at types alone.
  Ref with_some_floats(PyObject* obj);
  void give_numbers(PyObject* callable, CallArgs& args);
  // The protocols of operators, for operands with methods in Python. NotImplemented is a value among others.
  SymValue operator_method(PyObject* self, const char* name, SymValue other);
  SymValue binary_by_methods(const char* method, const char* reflected, SymValue left, SymValue right);
  SymValue compare_by_slots(int op, SymValue left, SymValue right);
  SymValue compare_by_slot(int op, SymValue left, SymValue right);
  SymValue compare_as_object(int op, SymValue left, SymValue right);
  bool is_same(SymValue left, SymValue right);
  // The operator `is`, also of plain data, which all else compares by value.
  bool is_identical(SymValue left, SymValue right);
  // C code compares them, with what they contain: objects that differ by identity alone stay apart.
  void rely_on_comparison(PyObject* a, PyObject* b, int depth = 0);
  // C code compares the item with each of the container.
  void rely_on_search(PyObject* container, PyObject* item);
  bool truth(SymValue& value);
  Py_ssize_t length(SymValue& value);
  SymValue get_iter(SymValue iterable);
  SymValue native_iter(PyObject* items);
  // Empty at the end; then the value of a StopIteration that was raised is in `stop_value`.
  std::optional<SymValue> next(SymValue& iterator, SymValue* stop_value = nullptr);
  // What stands for the items of a container of the program while the trace iterates: `view` of the container,
  // iterated, gives the same.
  struct Snapshot {
    PyObject* container;
    PyObject* view;  // iter, or a method such as dict.items
  };
  void note_snapshot(PyObject* items, PyObject* container, PyObject* view);
  const Snapshot* snapshot(PyObject* items) const;
  // All items, as list() takes them: the iterable is asked how many it expects to give.
  std::vector<SymValue> collect(SymValue iterable);
  std::vector<SymValue> collect_starred(SymValue iterable);
  // PEP 424: what the program's own __len__ or __length_hint__ do.
  void ask_length_hint(SymValue iterable);
  // As PySequence_Fast: what a slice of a list is set to, what texts are joined.
  SymValue as_fast_sequence(SymValue items);

  SymValue load_global(const SimFrame& frame, PyObject* name);
  // That a frame which begins or goes on will find the builtins that it has now (frame_builtins.cpp).
  void rely_on_builtins(const SimFrame& frame);
  // At a break: the rest of a frame would take what the trace has put into its module.
  void require_same_builtins();
  // A name of a module dictionary, guarded by key; empty if there is none.
  std::optional<SymValue> read_namespace(PyObject* dict, PyObject* name);
  // The function and the self of a bound method; of one of the program, guarded.
  std::pair<SymValue, SymValue> method_parts(PyObject* method);
  // Where the search of a super object starts, and its self.
  std::pair<PyTypeObject*, SymValue> super_parts(PyObject* super);
  SymValue load_cell(PyObject* cell, PyObject* name);
  // What isinstance() and super() rely on.
  void guard_bases(PyTypeObject* type);
  [[noreturn]] void raise_unbound_cell(PyObject* name);
  void store_cell(PyObject* cell, SymValue value);

  bool is_tensor(PyObject* obj) const { return services_.host.is_tensor(obj); }
  // An object whose special methods C code would run as Python code outside of the simulation.
  bool has_python_specials(PyObject* obj);
  // A tensor whose class the program has given a special method of its own.
  bool has_own_special(PyObject* obj, const char* name);
  // Stops if C code that looks into these arguments could run Python code or see what is not guarded.
  // `numbers`: what is called takes numbers of the graph as they are, or moves them alone.
  void require_plain(const CallArgs& args, PyObject* callable, bool numbers = false);
  // Stops if C code that hashes and compares this object could run Python code.
  void require_plain_key(PyObject* key);
  // C code hashes it: what of it is the program's is another object in other calls than other keys, as it is now.
  // Whether some of it is.
  bool rely_on_key(PyObject* key);
  // The keys of a container, or the items of what a container is made of.
  bool rely_on_keys(PyObject* container);
  // `seen`: frozen sets that were gone through. Sets within sets share their parts, and hash once.
  using SeenSets = std::unordered_set<PyObject*>;
  bool rely_on_key(PyObject* key, SeenSets& seen);
  bool rely_on_keys(PyObject* container, SeenSets& seen);
  void rely_on_made_keys(PyObject* obj);
  // Where one is looked up, if it is a container of keys.
  void rely_on_lookup(PyObject* container, PyObject* key);
  PyObject* rely_on_given_keys(PyObject* callable, CallArgs& args);
  bool was_key(PyObject* obj) const { return keys_.count(obj) != 0; }
  // Something whose C-level attributes and iteration the simulation cannot see into: a file, an outside iterator.
  bool is_outside_opaque(PyObject* obj);

  bool is_instance(PyObject* obj, PyObject* type);
  // What the trace relies on is kept from changing by registering a class with an ABC.
  void rely_on_registrations();
  // Of a C function without arguments, which each call asks again.
  Ref rely_on_answer(PyObject* question);

  // --- what decides at the end of the pass where it should have ended (autograd_calls.cpp)
  // An operator that runs code of the program when the graph runs is called next.
  void note_custom_operator();
  // Such an operator runs once: a graph that has it cannot run again in the interpreter, which is how a failure comes
  // to be where the program sees it, with the effects before it.
  void require_unobserved_operators();
  uint64_t initial_global_state() const { return initial_global_state_; }

  // Global-state setters called in the trace, in order: callable and arguments.
  void record_state_call(PyObject* setter, const std::vector<PyObject*>& args);
  const std::vector<std::pair<Ref, Ref>>& state_calls() const { return state_calls_; }
  // `before`: the default dtype that the call changed.
  void note_default_dtype(PyObject* before, PyObject* setter, PyObject* now);
  // What the trace last set it to, by which function; empty where that is what it was at first.
  std::pair<Ref, Ref> default_dtype_call() const {
    return default_dtype_call_.second.get() == initial_default_dtype_.get() ? std::pair<Ref, Ref>()
                                                                            : default_dtype_call_;
  }
  ContextVars& context_vars() { return context_vars_; }
  DeviceContexts& device_contexts() { return device_contexts_; }
  Transforms& transforms() { return transforms_; }
  InferenceModes& inference_modes() { return inference_modes_; }
  // What C code made may turn out to be impossible to build again at a break: the break then lies before the call.
  void note_native_origin(PyObject* made);
  // An instance that Python code which was run for real has given to the trace alone.
  void note_made(PyObject* made) { made_.insert(keep(Ref::borrow(made))); }
  // Of the dictionary of an object that the trace made, as the program has read it: that object. Null for others.
  PyObject* owner_of_dict(PyObject* dict) const {
    auto it = dict_owners_.find(dict);
    return it == dict_owners_.end() ? nullptr : it->second;
  }
  // Keeps an object alive until the capture ends (borrowed references in handlers point to it).
  PyObject* keep(Ref obj) {
    kept_.push_back(std::move(obj));
    return kept_.back().get();
  }

  void refuse_finalizer(PyTypeObject* type);
  // Whether the object's end can be seen: by __del__, by what a real generator has left to do, by a weak reference.
  bool has_finalizer(PyObject* obj) const;

  // Proxies point to the simulator until the capture ends.
  void adopt_proxy(PyObject* proxy);
  void drop_proxies();
  std::unordered_set<PyObject*>& made_constants() { return world_.made_constants(); }

  // Dictionaries of globals written in the trace: see World's overlay, keyed by the dictionary itself.
  void store_global(PyObject* globals, PyObject* name, Ref value);

 private:
  friend struct ProxyCall;
  friend class RecipeBuilder;
  PyObject* find_in_type(PyTypeObject* type, PyObject* name);
  // Asked behind each instruction and each look into a type.
  void require_none_refused() {
    if (!refused_frame_.empty()) stop_at_refused();
  }
  [[noreturn]] void stop_at_refused();
  void step(SimFrame& frame);
  void note_line(const SimFrame& frame);
  // Stops before an instruction by which the segment's frame lets go of an object with a finalizer.
  void watch_finalizers();
  void require_finalizers_held();
  bool is_held_by_frames(PyObject* obj) const;
  // Stops before a weak reference is asked whose object may have ended with what the segment's frame has let go of.
  void require_referents_known();
  // Something from outside is about to let go of this.
  void require_survives(PyObject* replaced);
  void require_item_survives(PyObject* container, PyObject* key);
  void require_items_survive(PyObject* container);
  void refuse_hole_after_clear(PyObject* dict);
  SymValue call_container_method(PyObject* method, PyObject* args, PyObject* keywords);
  // Closes the generators that nothing refers to any more, as their deallocation would.
  void close_dropped_generators();
  // Lets go of what C code made and nothing else refers to: an iterator may be what holds a generator. True: of some.
  bool forget_native_origins();
  // The segment's frame ends: its locals die before the capture does.
  void drop_locals(SimFrame& root);
  // A traceback keeps the frames that an exception left, and what they hold: these are not closed before the end.
  void keep_generators();
  [[noreturn]] void stop_before(PyObject* generator);
  // Stops where closing one that still stands would be seen.
  void require_no_open_generator();
  void note_callee(PyObject* code);
  void prepare_root();
  SymValue wrap_stack(PyObject* real, size_t index);
  [[noreturn]] void end_at(size_t level);
  void note_left_slots(const SimFrame& root);
  void finish_return(SymValue value, const SimFrame& root);
  void finish_break();
  Ref rebind_builtin(PyObject* callable);
  BreakPoint raise_origin();
  graph::LocationId location_of(size_t frame_index);

  // Ends after all objects of the trace are gone: some, like the guard of inference mode, change state when they die.
  struct Session {
    TensorHost* host = nullptr;
    ~Session() {
      if (host) host->end();
    }
  };

  Session session_;
  SegmentStart start_;
  const TracerServices& services_;
  const std::string& refused_frame_;  // services_.gate.refused()
  std::optional<StopTrace> until_;
  const RefusedNode refused_;
  const StopsOfStack& aside_;
  std::unique_ptr<graph::Capture> capture_;
  World world_;
  std::vector<SimFrame*> frames_;
  int body_depth_ = 0;
  bool in_checkpoint_ = false;
  std::array<PyObject*, 4> guarded_hooks_{};  // of all modules: the tables as the trace shows them
  std::unordered_map<PyObject*, std::pair<Ref, int>> made_in_body_;
  std::vector<FrozenRead>* frozen_reads_ = nullptr;
  std::unordered_set<PyObject*> sealed_contexts_;
  uint64_t count_ = 0;
  uint64_t next_forget_ = 0;  // instruction at which natives that the trace dropped are looked for
  std::vector<std::pair<Ref, Ref>> state_calls_;
  std::pair<Ref, Ref> default_dtype_call_;  // setter and dtype
  Ref initial_default_dtype_;
  ContextVars context_vars_;
  DeviceContexts device_contexts_;
  Transforms transforms_;
  InferenceModes inference_modes_;
  std::vector<Ref> kept_;
  struct NativeOrigin {
    Ref made;
    BreakPoint point;
  };
  std::unordered_map<PyObject*, NativeOrigin> native_origins_;  // holds the objects, so that no other has the address
  std::unordered_map<PyObject*, BreakPoint> raise_origins_;
  std::unordered_map<PyObject*, Snapshot> snapshots_;
  Ref initial_grad_mode_;
  uint64_t initial_global_state_ = 0;
  std::optional<BreakPoint> first_custom_operator_;
  std::vector<Ref> proxies_;
  std::unordered_set<PyObject*> keys_;  // objects and tensors of the program that C code has hashed
  std::unordered_map<PyObject*, PyObject*> dict_owners_;
  std::unordered_set<PyObject*> made_;      // instances of classes that calls in the trace made
  std::optional<OwnedObjects> owned_;       // what ends with what the segment's frame held at the start
  std::vector<PyObject*> finalizers_;       // of what it held, what has a finalizer, or of what is behind
  std::vector<PyObject*> hiding_;           // what it held that refers to objects which are not known, and ends with it
  std::vector<PyObject*> open_generators_;  // of the proxies, those that have not ended
  std::unordered_map<PyTypeObject*, bool> specials_;
  std::optional<StopTrace> crossing_;  // a stop on its way through a C function, see proxies.cpp
  size_t raised_for_c_ = 0;            // exceptions of simulated code that C code has been handed
};

// Thrown by step() when the run reaches `until`; caught in run().
struct ReachedBreakPoint {};

using OpHandler = void (*)(Simulator&, SimFrame&, const Instruction&);
OpHandler op_handler(bytecode::SimOp op);

PyObject* builtin(const char* name);

// Stops where C code is handed an instance of a subclass of a builtin data type: it reads what no guard looks at.
void require_no_hidden_data(Simulator& sim, PyObject* obj);

// A method of a type of C code, which has self for its first argument.
bool is_descriptor_of_c(PyObject* method);
// Such a method, or a function of C code. Everything else may come to run Python code, or is None.
bool is_c_method(PyObject* method);

// An interned string that lives as long as the process.
PyObject* interned(const char* text);

}  // namespace framejit
