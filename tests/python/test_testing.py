"""framejit.testing: cases per mode, marks, modes by environment, comparison with eager, leaks."""

import contextvars
import os
import random
import subprocess
import sys
import textwrap
import unittest

import pytest
import torch

import framejit
from framejit import testing

NAMES = [mode.name for mode in testing.modes()]
TOTAL = [0]
VARIABLE = contextvars.ContextVar("VARIABLE")


def run(case_class):
    """The unittest.TestResult of all tests of a class."""
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case_class).run(result)
    return result


def names(case_class):
    return sorted(unittest.defaultTestLoader.getTestCaseNames(case_class))


def in_all_modes(*methods):
    return sorted(f"{method}__{mode}" for method in methods for mode in NAMES)


def failures(result):
    """{name of the test: text} of all that failed or had an error."""
    return {test._testMethodName: text for test, text in result.failures + result.errors}


def check_all_pass(case_class):
    result = run(case_class)
    assert failures(result) == {} and result.testsRun + len(result.skipped) > 0
    return result


def test_modes_are_named_after_kind_and_backend():
    assert {"sot_aten", "full_graph_aten"} <= set(NAMES)
    assert all(mode.full_graph == mode.name.startswith("full_graph_") for mode in testing.modes())
    assert all(mode.name.endswith("_" + mode.backend) for mode in testing.modes())


def test_each_method_becomes_one_case_a_mode():
    class Case(testing.ToStaticTestCase):
        def test_a(self):
            pass

        def test_a_b(self):
            pass

        def helper(self):
            pass

    assert names(Case) == in_all_modes("test_a", "test_a_b")
    assert not hasattr(Case, "test_a") and hasattr(Case, "helper")


def test_case_runs_in_the_mode_that_it_is_named_after():
    seen = []

    class Case(testing.ToStaticTestCase):
        def test_a(self):
            seen.append((self._testMethodName, self.mode.name))
            assert isinstance(self.to_static(lambda x: x), framejit.StaticFunction)

    check_all_pass(Case)
    assert sorted(seen) == sorted((f"test_a__{name}", name) for name in NAMES)


def test_inherited_methods_have_cases_and_can_be_replaced_or_taken_out():
    seen = []

    class Mixin:
        def test_mixed(self):
            seen.append("mixed")

    class Base(testing.ToStaticTestCase):
        def test_a(self):
            seen.append("a")

        def test_b(self):
            seen.append("b")

    class Case(Mixin, Base):
        test_b = None

        def test_a(self):
            seen.append("other a")

    assert names(Base) == in_all_modes("test_a", "test_b")
    assert names(Case) == in_all_modes("test_a", "test_mixed")
    check_all_pass(Case)
    assert set(seen) == {"mixed", "other a"}


def test_disabled_mode_is_skipped_with_its_reason():
    class Case(testing.ToStaticTestCase):
        @testing.disable("full_graph_aten", reason="prints")
        def test_a(self):
            assert not self.mode.full_graph or self.mode.backend != "aten"

        def test_a_b(self):
            pass

    ((test, reason),) = check_all_pass(Case).skipped
    assert test._testMethodName == "test_a__full_graph_aten"
    assert reason == "full_graph_aten: prints"


def test_skipped_case_runs_no_setup():
    class Case(testing.ToStaticTestCase):
        def setUp(self):
            raise RuntimeError("not wanted")

        @testing.disable(reason="no mode")
        def test_a(self):
            pass

    assert len(check_all_pass(Case).skipped) == len(NAMES)


def test_expected_failure():
    class Case(testing.ToStaticTestCase):
        @testing.expect_failure("full_graph_*", reason="prints")
        def test_a(self):
            assert not self.mode.full_graph

        def test_a_b(self):
            pass

    result = check_all_pass(Case)
    assert {test._testMethodName for test, _ in result.expectedFailures} == {
        f"test_a__{name}" for name in NAMES if name.startswith("full_graph_")
    }
    assert all("expected failure: prints" in text for _, text in result.expectedFailures)


def test_unexpected_success_is_no_success():
    class Case(testing.ToStaticTestCase):
        @testing.expect_failure("sot_aten", reason="was broken once")
        def test_a(self):
            pass

    result = run(Case)
    assert [test._testMethodName for test in result.unexpectedSuccesses] == ["test_a__sot_aten"]
    assert not result.wasSuccessful()


def test_class_is_marked_as_a_whole_and_its_base_is_not():
    class Base(testing.ToStaticTestCase):
        def test_a(self):
            pass

    @testing.disable("full_graph_*", reason="no")
    class Case(Base):
        def test_b(self):
            pass

    class Later(Case):
        def test_c(self):
            pass

    full_graph = sum(name.startswith("full_graph_") for name in NAMES)
    assert [len(check_all_pass(case).skipped) for case in (Base, Case, Later)] == [0, 2 * full_graph, 3 * full_graph]


def test_marks_of_unittest_and_pytest_stay():
    class Case(testing.ToStaticTestCase):
        @unittest.skip("never")
        def test_a(self):
            pass

        @pytest.mark.slow
        @testing.disable("sot_aten", reason="no")
        def test_b(self):
            pass

    assert len(check_all_pass(Case).skipped) == len(NAMES) + 1
    assert all(getattr(Case, name).pytestmark[0].name == "slow" for name in in_all_modes("test_b"))


@pytest.mark.parametrize("decorator", [testing.disable, testing.expect_failure])
def test_wrong_marks_are_refused(decorator):
    with pytest.raises(ValueError, match="no mode 'sot_nothing'; there are .*sot_aten"):
        decorator("sot_nothing", reason="no")
    with pytest.raises(TypeError, match="reason"):
        decorator("sot_aten")
    with pytest.raises(TypeError, match="reason"):
        decorator("sot_aten", reason="")
    with pytest.raises(TypeError, match="no ToStaticTestCase"):
        decorator("sot_aten", reason="no")(unittest.TestCase)


@pytest.mark.parametrize("text", ["sot_aten", "sot_*", "sot_aten, full_graph_aten", "*_aten", ""])
def test_environment_picks_modes(monkeypatch, text):
    monkeypatch.setenv("FRAMEJIT_TEST_MODES", text)

    class Case(testing.ToStaticTestCase):
        def test_a(self):
            pass

    kinds = {"sot_aten": ["sot"], "sot_*": ["sot"]}.get(text, ["sot", "full_graph"])
    chosen = [name for name in NAMES if name.startswith(tuple(kinds)) and (name.endswith("aten") or text in ("", "sot_*"))]
    assert names(Case) == sorted(f"test_a__{name}" for name in chosen)


def test_unknown_mode_in_the_environment_is_refused(monkeypatch):
    monkeypatch.setenv("FRAMEJIT_TEST_MODES", "sot_aten,ast_aten")
    with pytest.raises(ValueError, match="FRAMEJIT_TEST_MODES: no mode 'ast_aten'"):

        class Case(testing.ToStaticTestCase):
            def test_a(self):
                pass


def test_mode_is_active_before_setup_and_each_case_is_seeded():
    seen = []

    class Case(testing.ToStaticTestCase):
        def setUp(self):
            assert self.mode.name in NAMES
            self.x = torch.rand(2)
            seen.append((random.random(), self.x.tolist()))

        def test_a(self):
            pass

        def test_b(self):
            pass

    before = torch.get_rng_state(), random.getstate()
    with framejit.enable_to_static_guard(False):
        check_all_pass(Case)
        assert not framejit.testing._C.set_enabled(False)
    assert len(seen) == 2 * len(NAMES) and all(entry == seen[0] for entry in seen)
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == random.getstate()


LEAKS = {
    "enable_to_static": lambda: framejit.enable_to_static(False),
    "grad": lambda: torch.set_grad_enabled(False),
    "default dtype": lambda: torch.set_default_dtype(torch.float64),
    "default device": lambda: torch.set_default_device("meta"),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "autocast": lambda: torch.set_autocast_enabled("cpu", True),
}


@pytest.mark.parametrize("name", LEAKS)
@pytest.mark.parametrize("where", ["test", "setUp", "tearDown", "failing test", "expected to fail"])
def test_leak_fails_the_case_and_is_put_back(name, where):
    class Case(testing.ToStaticTestCase):
        def setUp(self):
            if where == "setUp":
                LEAKS[name]()

        def tearDown(self):
            if where == "tearDown":
                LEAKS[name]()

        @unittest.skipIf(where == "expected to fail", "the other")
        def test_a(self):
            if "test" in where:
                LEAKS[name]()
            assert where != "failing test"

        @unittest.skipIf(where != "expected to fail", "the other")
        @testing.expect_failure(reason="does not work")
        def test_b(self):
            LEAKS[name]()
            assert False

    before = testing.Switches()
    result = run(Case)
    assert before.changes() == []
    assert len(failures(result)) == len(NAMES)
    assert all(f"leaves behind: {name} was " in text for _, text in result.failures[where == "failing test" :: 2])


def test_switch_that_tear_down_or_a_cleanup_puts_back_is_no_leak():
    class Case(testing.ToStaticTestCase):
        def setUp(self):
            torch.set_default_dtype(torch.float64)
            torch.set_grad_enabled(False)
            self.addCleanup(torch.set_grad_enabled, True)

        def tearDown(self):
            torch.set_default_dtype(torch.float32)

        def test_a(self):
            y = self.check(lambda x: x + 1, torch.ones(2))
            assert y.dtype == torch.float64

    check_all_pass(Case)


def in_one_case(body):
    """Run `body(self)` as a test in mode sot_aten; returns the text of its failure, or ''."""

    @testing.disable(*(name for name in NAMES if name != "sot_aten") or ("sot_*",), reason="one is enough")
    class Case(testing.ToStaticTestCase):
        def test_a(self):
            body(self)

    return failures(run(Case)).get("test_a__sot_aten", "")


def wrong_backend(module, inputs):
    return lambda *args: tuple(output * 2 for output in module.forward(*args))


def test_check_returns_the_result_and_keeps_the_effects_of_one_call():
    def append(x, items, *, key):
        items.append(x.sum())
        TOTAL[0] += 1
        x.mul_(2)
        return {key: x + 1}

    def body(case):
        x, items = torch.ones(2), []
        out = case.check(append, x, items, key="k")
        assert out["k"].tolist() == [3, 3] and x.tolist() == [2, 2]
        assert [t.item() for t in items] == [2] and TOTAL == [1]
        case.assertCaptured(graphs=1, breaks=0)

    TOTAL[0] = 0
    assert in_one_case(body) == ""


def test_check_finds_a_wrong_result():
    def body(case):
        case.check(framejit.to_static(lambda x: x + 1, backend=wrong_backend), torch.ones(2))

    text = in_one_case(body)
    assert "sot_aten: the first compiled call differs from eager" in text and "\n+result" in text


def test_check_raises_what_eager_raises():
    def fails(x):
        raise KeyError("missing")

    def body(case):
        with case.assertRaisesRegex(KeyError, "missing"):
            case.check(fails, torch.ones(2))

    assert in_one_case(body) == ""


def test_check_takes_modules_and_leaves_them_as_they_were():
    module = torch.nn.Linear(2, 2)

    def body(case):
        assert case.check(module, torch.ones(1, 2)).shape == (1, 2)
        case.assertCaptured()
        assert "_compiled_call_impl" not in vars(module)

    assert in_one_case(body) == ""


def test_check_keeps_the_captures_of_a_static_function():
    def body(case):
        fn = case.to_static(lambda x: x * 2)
        case.check(fn, torch.ones(2))
        case.assertCaptured(graphs=1)
        case.check(fn, torch.zeros(2))
        case.assertCaptured(graphs=0)

    assert in_one_case(body) == ""


def test_check_repeats_random_numbers():
    def body(case):
        first = case.check(lambda x: x + torch.rand(2), torch.zeros(2))
        torch.manual_seed(case.seed)
        assert torch.equal(first, torch.rand(2))

    assert in_one_case(body) == ""


def test_check_gives_each_run_the_same_switches_and_context():
    def doubled(x):
        torch.set_default_dtype(torch.float64)
        VARIABLE.set(VARIABLE.get() + 1)
        return x + torch.ones(2) * VARIABLE.get()

    def body(case):
        VARIABLE.set(1)
        y = case.check(doubled, torch.ones(2))
        assert y.dtype == torch.float64 and y.tolist() == [3, 3]
        assert torch.get_default_dtype() == torch.float64 and VARIABLE.get() == 2
        torch.set_default_dtype(torch.float32)

    assert in_one_case(body) == ""


@pytest.mark.parametrize("value", [iter([1]), (i for i in range(3))], ids=["iterator", "generator"])
def test_check_refuses_what_cannot_be_put_back(value):
    text = in_one_case(lambda case: case.check(lambda x, items: x + next(items), torch.ones(2), value))
    assert "ValueError: cannot be put back for a second run: " + type(value).__name__ in text


def test_check_refuses_a_changed_history():
    def body(case):
        case.check(lambda x: x.mul_(3), torch.ones(2, requires_grad=True) * 1)

    assert "cannot be put back for a second run: the history of a tensor" in in_one_case(body)


def test_check_refuses_a_backward_through_what_was_there_before():
    def backward(loss):
        loss.backward()

    text = in_one_case(lambda case: case.check(backward, torch.ones(2, requires_grad=True).sum()))
    assert "cannot be put back for a second run: a graph of gradients" in text


def test_break_in_a_full_graph_mode_says_where():
    def breaks(x):
        framejit.graph_break()
        return x + 1

    class Case(testing.ToStaticTestCase):
        @testing.disable("sot_*", reason="breaks may be")
        def test_a(self):
            self.check(breaks, torch.ones(2))

    texts = failures(run(Case))
    assert len(texts) == sum(name.startswith("full_graph") for name in NAMES)
    assert all("GraphBreakError" in text and "test_testing.py" in text for text in texts.values())


SUITE = """
    import torch
    from framejit import testing

    class TestIt(testing.ToStaticTestCase):
        def setUp(self):
            self.x = torch.ones(3)

        def test_good(self):
            self.check(lambda x: x + 1, self.x)

        @testing.disable("full_graph_*", reason="only with breaks")
        def test_good_too(self):
            self.check(lambda x: x + 2, self.x)

        @testing.expect_failure("full_graph_*", reason="not yet")
        def test_broken(self):
            assert not self.mode.full_graph
"""


@pytest.mark.parametrize(
    "command, passed",
    [(["unittest", "-v", "test_suite"], "expected failures=1"), (["pytest", "-q", "-p", "no:cacheprovider"], "1 xfailed")],
)
def test_runs_under_unittest_and_pytest(tmp_path, command, passed):
    (tmp_path / "test_suite.py").write_text(textwrap.dedent(SUITE))
    path = os.pathsep.join(os.path.abspath(folder) for folder in sys.path if folder)
    env = dict(os.environ, PYTHONPATH=path, FRAMEJIT_TEST_MODES="*_aten")
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    text = done.stdout.decode()
    assert done.returncode == 0 and passed in text, text
