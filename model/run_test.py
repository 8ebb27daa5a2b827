"""The harness itself: each way in which a run of spin can be void or wrong is told from a pass."""

import json
import pathlib
import tempfile
import unittest

import run as harness

COUNTER = """
byte n;
bit too_high;
active proctype P() {
  do
  :: n < 20 -> n++
  :: n == 20 -> break
  od;
  too_high = (n > LIMIT);
  assert(!too_high)
%s
}
"""


harness.OPTIMISE = {True: "-O0", False: "-O0"}


class HarnessTest(unittest.TestCase):
    def outcome(self, expect, defines=("LIMIT=20",), tail="", depth=1000, **fields):
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "counter.pml"
            model.write_text(COUNTER % tail)
            run = harness.Run(file=model, name="counter", defines=defines, expect=expect, **fields)
            return harness.execute(run, keep=False, depth=depth)

    def test_complete_search_passes(self):
        outcome = self.outcome("pass")
        self.assertEqual(outcome.got, "pass")
        self.assertTrue(outcome.as_expected)
        self.assertGreater(outcome.states, 20)

    def test_broken_claim_is_named(self):
        outcome = self.outcome("too_high", defines=("LIMIT=19",))
        self.assertEqual(outcome.got, "too_high")

    def test_another_claim_is_not_as_expected(self):
        outcome = self.outcome("too_low", defines=("LIMIT=19",))
        self.assertFalse(outcome.as_expected)

    def test_knockout_that_does_not_fail_is_not_as_expected(self):
        self.assertFalse(self.outcome("too_high").as_expected)

    def test_truncated_search_is_void(self):
        self.assertTrue(self.outcome("pass", depth=10).got.startswith("void"))

    def test_deadlock_is_an_invalid_end_state(self):
        self.assertEqual(self.outcome("pass", tail="; n == 99").got, "invalid end state")

    def test_statement_that_no_run_reaches_is_named(self):
        dead_code = "; if :: n == 20 -> n = 3 :: n == 77 -> n = 5 fi"
        outcome = self.outcome("pass", tail=dead_code)
        self.assertEqual(outcome.got, "pass")
        texts = [text for _, text in harness.never_reached([outcome], [])]
        self.assertEqual(texts, ["n = 5"])
        self.assertEqual(harness.never_reached([outcome], ["n = 5"]), [])

    def test_model_that_does_not_parse_is_void(self):
        self.assertTrue(self.outcome("pass", tail="; what is this").got.startswith("void: spin"))

    def test_assertion_without_a_claim_is_void(self):
        self.assertTrue(self.outcome("pass", tail="; assert(n == 3)").got.startswith("void"))

    def test_knockout_takes_out_exactly_one_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "m.json"
            table.write_text('{"file": "m.pml", "runs": [{"name": "m", "expect": "claim"}]}')
            with self.assertRaises(SystemExit):
                harness.read_runs(pathlib.Path(folder))

    def test_knockout_brings_its_run_with_the_rule(self):
        with tempfile.TemporaryDirectory() as folder:
            table = pathlib.Path(folder) / "m.json"
            table.write_text(json.dumps({"file": "m.pml", "runs": [
                {"name": "m", "expect": "pass", "defines": ["N=1"]},
                {"name": "a", "expect": "claim", "defines": ["KO_A", "N=1"]},
                {"name": "b", "expect": "claim", "defines": ["KO_B", "N=2"]},
                {"name": "c", "expect": "claim", "defines": ["KO_C", "N=2"]}]}))
            added = [(run.name, run.defines, run.expect)
                     for run in harness.read_runs(pathlib.Path(folder)) if run.kind == "bases"]
            self.assertEqual(added, [("m,N=2", ("N=2",), "pass")])


if __name__ == "__main__":
    unittest.main()
