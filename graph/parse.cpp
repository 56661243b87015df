#include "graph/parse.h"

#include <charconv>
#include <cmath>
#include <deque>
#include <limits>

#include "base/check.h"
#include "graph/control_flow.h"
#include "graph/number.h"

namespace framejit::graph {
namespace {

struct Failure {
  ParseError error;
};

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' || c == ':' || c == '$' || c == '<' ||
         c == '>';
}

// Characters with a position. Errors are thrown inside this file only.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}

  [[noreturn]] void fail(const std::string& message) const {
    ParseError error;
    size_t line_begin = 0;
    error.line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i)
      if (text_[i] == '\n') {
        ++error.line;
        line_begin = i + 1;
      }
    error.column = static_cast<int>(at_ - line_begin) + 1;
    error.message = message;
    throw Failure{error};
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool done() const { return at_ >= text_.size(); }
  size_t position() const { return at_; }
  void go_back(size_t position) { at_ = position; }
  void skip_spaces() {
    while (peek() == ' ') ++at_;
  }
  void skip_blank() {
    while (peek() == ' ' || peek() == '\n') ++at_;
  }
  bool accept(std::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }
  bool starts_with(std::string_view token) const { return text_.substr(at_, token.size()) == token; }
  void expect(std::string_view token) {
    skip_spaces();
    if (!accept(token)) fail(fmt::format("expected '{}', got {}", token, here()));
  }
  std::string_view word() {
    size_t begin = at_;
    while (is_word(peek())) ++at_;
    if (begin == at_) fail(fmt::format("expected a word, got {}", here()));
    return text_.substr(begin, at_ - begin);
  }
  std::string_view until(std::string_view stops) {
    size_t begin = at_;
    while (!done() && stops.find(peek()) == std::string_view::npos) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::string_view rest_of_line() { return until("\n"); }
  std::string here() const {
    if (done()) return "the end";
    return peek() == '\n' ? "the end of the line" : fmt::format("'{}'", text_.substr(at_, 12));
  }
  int64_t integer() {
    int64_t v = 0;
    auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), v);
    if (error != std::errc{}) fail(fmt::format("expected an integer, got {}", here()));
    at_ = static_cast<size_t>(end - text_.data());
    return v;
  }
  // An integer or, when it has a point, an exponent, or is inf or nan, a float.
  Operand number() {
    size_t begin = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '.' || peek() == '-' || peek() == '+') ++at_;
    std::string_view text = text_.substr(begin, at_ - begin);
    if (text.find_first_of(".en") == std::string_view::npos) {
      at_ = begin;
      return Operand::integer(integer());
    }
    if (text == "inf") return Operand::real(std::numeric_limits<double>::infinity());
    if (text == "-inf") return Operand::real(-std::numeric_limits<double>::infinity());
    if (text == "nan") return Operand::real(std::nan(""));
    double v = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (error != std::errc{} || end != text.data() + text.size()) {
      at_ = begin;
      fail(fmt::format("expected a number, got {}", here()));
    }
    return Operand::real(v);
  }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

class Parser {
 public:
  Parser(Cursor& in, KnowsOperator knows) : in_(in), knows_(knows) {}

  Graph run() {
    Graph graph = read_graph();
    in_.skip_blank();
    if (!in_.done()) in_.fail(fmt::format("expected the end, got {}", in_.here()));
    return graph;
  }

  Graph read_graph() {
    in_.skip_blank();
    in_.expect("graph");
    in_.expect("@");
    graph_.set_name(std::string(in_.until(" (")));
    read_inputs();
    in_.expect("{");
    while (true) {
      in_.skip_blank();
      if (in_.accept("return")) break;
      if (in_.starts_with("graph "))
        read_body();
      else if (in_.accept("under("))
        read_state();
      else
        read_node();
    }
    read_outputs();
    in_.skip_blank();
    in_.expect("}");
    return std::move(graph_);
  }

 private:
  struct Result {
    ResultMeta meta;
    ValueId alias;
    bool has_alias = false;
  };

  void read_body() {
    auto body = std::make_shared<const Graph>(Parser(in_, knows_).read_graph());
    const std::string& name = body->name();
    if (!bodies_.emplace(name, SubgraphId(graph_.subgraph_count())).second)
      in_.fail(fmt::format("expected a new graph, got @{} again", name));
    graph_.add_subgraph(std::move(body));
  }

  Operand body_operand() {
    in_.expect("@");
    const std::string name(in_.until(",)] \n"));
    auto found = bodies_.find(name);
    if (found == bodies_.end()) in_.fail(fmt::format("expected a graph that stands before, got @{}", name));
    return Operand::subgraph(found->second);
  }

  void read_inputs() {
    in_.expect("(");
    in_.skip_spaces();
    if (in_.accept(")")) return;
    do {
      in_.skip_spaces();
      uint32_t number = value_number();
      in_.expect(":");
      define(number, graph_.add_input(tensor()));
      in_.skip_spaces();
    } while (in_.accept(","));
    in_.expect(")");
  }

  void read_outputs() {
    std::vector<ValueId> outputs;
    in_.skip_spaces();
    while (in_.peek() == '%' || in_.peek() == 'n') {
      outputs.push_back(in_.accept("none") ? ValueId() : use());
      in_.skip_spaces();
      if (!in_.accept(",")) break;
      in_.skip_spaces();
    }
    graph_.set_outputs(outputs);
  }

  void read_state() {
    NodeState state;
    in_.skip_spaces();
    if (in_.accept("inference=")) {
      state.inference = in_.accept("true");
      if (!*state.inference) in_.expect("false");
      in_.skip_spaces();
      if (in_.accept(",")) in_.skip_spaces();
    }
    if (in_.accept("default_dtype=")) {
      const size_t at = in_.position();
      state.default_dtype = parse_dtype(in_.until(",) \n"));
      in_.go_back(state.default_dtype ? in_.position() : at);
      if (!state.default_dtype) in_.fail(fmt::format("expected a dtype, got {}", in_.here()));
    }
    in_.expect(")");
    graph_.set_new_state(state);
  }

  void read_node() {
    lists_.clear();
    std::vector<uint32_t> numbers;
    while (in_.peek() == '%') {
      numbers.push_back(value_number());
      in_.skip_spaces();
      if (!in_.accept(",")) break;
      in_.skip_spaces();
    }
    if (!numbers.empty()) in_.expect("=");
    in_.skip_spaces();
    const size_t at = in_.position();
    std::string name(in_.word());
    size_t dot = name.find('.');
    if (dot == std::string::npos) in_.fail(fmt::format("expected an operator 'namespace.name', got '{}'", name));
    name.replace(dot, 1, "::");
    const bool own = name == "framejit::constant" || is_control_flow(find_op(name)) || find_number_op(find_op(name));
    if (knows_ && !own && !knows_(name)) {
      in_.go_back(at);
      in_.fail(fmt::format("expected an operator of LibTorch, got '{}'", name));
    }
    std::vector<Operand> operands = read_operands();
    std::vector<ResultMeta> results = read_results(numbers.size(), operands);
    graph_.set_new_recompute(in_.accept(" recompute ") ? static_cast<uint32_t>(in_.integer()) : 0);
    NodeId node = graph_.add_node(intern_op(name), operands, results, read_location());
    for (size_t i = 0; i < numbers.size(); ++i) define(numbers[i], graph_.node(node).result(i));
  }

  std::vector<Operand> read_operands() {
    std::vector<Operand> operands;
    in_.expect("(");
    in_.skip_spaces();
    if (in_.accept(")")) return operands;
    do {
      in_.skip_spaces();
      operands.push_back(operand());
      in_.skip_spaces();
    } while (in_.accept(","));
    in_.expect(")");
    return operands;
  }

  std::vector<ResultMeta> read_results(size_t count, std::span<const Operand> operands) {
    std::vector<ResultMeta> results;
    if (count == 0) return results;
    in_.expect(":");
    for (size_t i = 0; i < count; ++i) {
      if (i) in_.expect(",");
      in_.skip_spaces();
      results.push_back(read_result(operands));
    }
    return results;
  }

  ResultMeta read_result(std::span<const Operand> operands) {
    ResultMeta result;
    if (in_.accept("int")) {
      result.kind = ResultKind::kInt;
    } else if (in_.accept("float")) {
      result.kind = ResultKind::kFloat;
    } else if (in_.accept("bool")) {
      result.kind = ResultKind::kBool;
    } else {
      result.meta = tensor();
      bool view = in_.accept(" view ");
      if (view || in_.accept(" same ")) {
        result.alias = view ? AliasKind::kView : AliasKind::kSame;
        find_alias(use(), operands, result);
      }
    }
    return result;
  }

  void find_alias(ValueId source, std::span<const Operand> operands, ResultMeta& result) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i].is_value() && operands[i].as_value() == source) {
        result.alias_operand = static_cast<int16_t>(i);
        return;
      }
      if (!operands[i].is(Operand::Kind::kValues)) continue;
      auto list = operands[i].as_values();
      for (size_t k = 0; k < list.size(); ++k)
        if (list[k] == source) {
          result.alias_operand = static_cast<int16_t>(i);
          result.alias_element = static_cast<int16_t>(k);
          return;
        }
    }
    in_.fail("expected an alias of one of the node's operands");
  }

  LocationId read_location() {
    in_.skip_spaces();
    if (!in_.accept("#")) return {};
    in_.skip_spaces();
    std::string_view text = in_.rest_of_line();
    std::string_view function;
    if (size_t in = text.rfind(" in "); in != std::string_view::npos) {
      function = text.substr(in + 4);
      text = text.substr(0, in);
    }
    size_t colon = text.rfind(':');
    int line = 0;
    if (colon == std::string_view::npos ||
        std::from_chars(text.data() + colon + 1, text.data() + text.size(), line).ec != std::errc{})
      in_.fail(fmt::format("expected 'file:line', got '{}'", text));
    return graph_.intern_location(text.substr(0, colon), function, line);
  }

  uint32_t value_number() {
    in_.expect("%");
    return static_cast<uint32_t>(in_.integer());
  }

  ValueId use() {
    uint32_t number = value_number();
    auto found = values_.find(number);
    if (found == values_.end()) in_.fail(fmt::format("expected a defined value, got %{}", number));
    return found->second;
  }

  void define(uint32_t number, ValueId id) {
    if (!values_.emplace(number, id).second) in_.fail(fmt::format("expected a new value, got %{} again", number));
  }

  DimVector int_list() {
    DimVector list;
    in_.expect("[");
    in_.skip_spaces();
    if (in_.accept("]")) return list;
    do {
      in_.skip_spaces();
      list.push_back(in_.integer());
      in_.skip_spaces();
    } while (in_.accept(","));
    in_.expect("]");
    return list;
  }

  // "2x128x256xf32": digits and x, then a type name.
  void sizes_and_dtype(TensorMeta& meta) {
    while (std::isdigit(static_cast<unsigned char>(in_.peek()))) {
      meta.sizes.push_back(in_.integer());
      in_.expect("x");
    }
    std::string_view name = in_.until(",>");
    auto dtype = parse_dtype(name);
    if (!dtype) in_.fail(fmt::format("expected an element type, got '{}'", name));
    meta.dtype = *dtype;
  }

  TensorMeta tensor() {
    in_.skip_spaces();
    if (in_.accept("none")) return TensorMeta::undefined();
    in_.expect("tensor<");
    TensorMeta meta;
    sizes_and_dtype(meta);
    in_.expect(",");
    in_.skip_spaces();
    std::string_view name = in_.until(",>");
    auto device = parse_device(name);
    if (!device) in_.fail(fmt::format("expected a device, got '{}'", name));
    meta.device = *device;
    meta.strides = contiguous_strides(meta.sizes);
    while (in_.accept(", ")) tensor_attribute(meta);
    in_.expect(">");
    return meta;
  }

  void tensor_attribute(TensorMeta& meta) {
    if (in_.accept("strides=")) {
      meta.strides = int_list();
      if (meta.strides.size() != meta.sizes.size())
        in_.fail(fmt::format("expected {} strides, got {}", meta.sizes.size(), meta.strides.size()));
    } else if (in_.accept("offset=")) {
      meta.storage_offset = in_.integer();
    } else if (in_.accept("layout=")) {
      meta.layout = static_cast<Layout>(in_.integer());
    } else if (in_.accept("grad")) {
      meta.requires_grad = true;
    } else if (in_.accept("wrapped")) {
      meta.wrapped_number = true;
    } else {
      in_.fail(fmt::format("expected a tensor attribute, got {}", in_.here()));
    }
  }

  Operand operand() {
    char c = in_.peek();
    if (c == '%') return Operand::value(use());
    if (c == '[') return list_operand();
    if (c == '@') return body_operand();
    if (c == '"') return Operand::string(keep(string_literal()));
    if (std::isdigit(static_cast<unsigned char>(c)) || c == '-') return in_.number();
    return word_operand(in_.word());
  }

  Operand word_operand(std::string_view word) {
    if (word == "none") return Operand::none();
    if (word == "true" || word == "false") return Operand::boolean(word == "true");
    if (word == "inf") return Operand::real(std::numeric_limits<double>::infinity());
    if (word == "nan") return Operand::real(std::nan(""));
    if (word == "complex") return complex_operand();
    if (word == "values") return empty_list(Operand::values({}));
    if (word == "floats") return empty_list(Operand::floats({}));
    if (word == "bools") return empty_list(Operand::bools({}));
    if (word == "scalars") return scalars_operand();
    if (word == "strided") return Operand::layout(Layout::kStrided);
    if (word == "contiguous_format") return Operand::memory_format(MemoryFormat::kContiguous);
    if (word == "preserve_format") return Operand::memory_format(MemoryFormat::kPreserve);
    if (word == "channels_last") return Operand::memory_format(MemoryFormat::kChannelsLast);
    if (word == "channels_last_3d") return Operand::memory_format(MemoryFormat::kChannelsLast3d);
    int number = 0;
    if (bracketed(word, "const<", &number)) return Operand::constant(ConstId(number));
    if (bracketed(word, "layout<", &number)) return Operand::layout(static_cast<Layout>(number));
    if (auto dtype = parse_dtype(word)) return Operand::dtype(*dtype);
    if (auto device = parse_device(word)) return Operand::device(*device);
    in_.fail(fmt::format("expected an operand, got '{}'", word));
  }

  static bool bracketed(std::string_view word, std::string_view prefix, int* number) {
    if (word.substr(0, prefix.size()) != prefix || word.back() != '>') return false;
    const char* last = word.data() + word.size() - 1;
    auto [end, error] = std::from_chars(word.data() + prefix.size(), last, *number);
    return error == std::errc{} && end == last;
  }

  Operand empty_list(Operand list) {
    in_.expect("[");
    in_.expect("]");
    return list;
  }

  Operand complex_operand() {
    in_.expect("(");
    double real = float_value(operand());
    in_.expect(",");
    in_.skip_spaces();
    double imaginary = float_value(operand());
    in_.expect(")");
    auto& parts = floats_.emplace_back(std::vector<double>{real, imaginary});
    return Operand::complex(parts.data());
  }

  double float_value(const Operand& o) {
    if (o.is(Operand::Kind::kInt)) return static_cast<double>(o.as_int());
    if (!o.is(Operand::Kind::kFloat)) in_.fail(fmt::format("expected a number, got a {}", kind_name(o.kind())));
    return o.as_float();
  }

  std::vector<Operand> elements() {
    std::vector<Operand> list;
    in_.expect("[");
    in_.skip_spaces();
    if (in_.accept("]")) return list;
    do {
      in_.skip_spaces();
      list.push_back(operand());
      in_.skip_spaces();
    } while (in_.accept(","));
    in_.expect("]");
    return list;
  }

  Operand scalars_operand() {
    auto& kept = lists_.emplace_back(elements());
    return Operand::scalars(kept);
  }

  // The first element that is not none tells the kind.
  Operand list_operand() {
    std::vector<Operand> list = elements();
    using Kind = Operand::Kind;
    if (list.empty()) return Operand::ints({});
    Kind kind = Kind::kValue;
    for (const Operand& o : list)
      if (!o.is_none()) kind = o.kind();
    for (const Operand& o : list)
      if (o.kind() != kind && !(o.is_none() && kind == Kind::kValue))
        in_.fail(fmt::format("expected a list of {}, got a {} in it", kind_name(kind), kind_name(o.kind())));
    switch (kind) {
      case Kind::kValue: {
        auto& kept = value_lists_.emplace_back();
        for (const Operand& o : list) kept.push_back(o.is_none() ? ValueId() : o.as_value());
        return Operand::values(kept);
      }
      case Kind::kInt: {
        auto& kept = ints_.emplace_back();
        for (const Operand& o : list) kept.push_back(o.as_int());
        return Operand::ints(kept);
      }
      case Kind::kFloat: {
        auto& kept = floats_.emplace_back();
        for (const Operand& o : list) kept.push_back(o.as_float());
        return Operand::floats(kept);
      }
      case Kind::kBool: {
        auto& kept = bools_.emplace_back(std::make_unique<bool[]>(list.size()));
        for (size_t i = 0; i < list.size(); ++i) kept[i] = list[i].as_bool();
        return Operand::bools({kept.get(), list.size()});
      }
      default:
        in_.fail(fmt::format("expected a list of values, ints, floats or bools, got {}", kind_name(kind)));
    }
  }

  std::string string_literal() {
    std::string text;
    in_.expect("\"");
    while (!in_.accept("\"")) {
      if (in_.done()) in_.fail("expected '\"', got the end");
      if (in_.accept("\\n")) {
        text += '\n';
      } else {
        in_.accept("\\");
        text += in_.peek();
        in_.accept(std::string_view(&text.back(), 1));
      }
    }
    return text;
  }

  std::string_view keep(std::string text) { return strings_.emplace_back(std::move(text)); }

  Cursor& in_;
  KnowsOperator knows_;
  Graph graph_;
  std::unordered_map<uint32_t, ValueId> values_;
  std::unordered_map<std::string, SubgraphId> bodies_;
  // Memory behind list operands until add_node copies them.
  std::deque<std::vector<Operand>> lists_;
  std::deque<std::vector<ValueId>> value_lists_;
  std::deque<std::vector<int64_t>> ints_;
  std::deque<std::vector<double>> floats_;
  std::deque<std::unique_ptr<bool[]>> bools_;
  std::deque<std::string> strings_;
};

}  // namespace

std::string ParseError::to_string() const { return fmt::format("{}:{}: {}", line, column, message); }

Result<Graph, ParseError> parse_graph(std::string_view text, KnowsOperator knows) {
  try {
    cond_op(), while_loop_op();  // known with their schemas before a text names them
    Cursor in(text);
    return Parser(in, knows).run();
  } catch (Failure& failure) {
    return Err{std::move(failure.error)};
  }
}

}  // namespace framejit::graph
