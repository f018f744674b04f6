"""test_suite.py MODULE... - tests that a package has of itself, by its own authors. Prints each test's name and how it
ended: most that launch a kernel end with a failure over the simulated device, and with the library the same have to.
"""
# zoo: prints passed: [1-9][0-9]+ of [0-9]+
import io
import sys
import unittest
import warnings

warnings.simplefilter("ignore")


class Outcomes(unittest.TestResult):
    """Prints each test and how it ended."""

    def __init__(self):
        super().__init__()
        self.passed = 0

    def addSuccess(self, test):
        self.passed += 1
        print("passed", test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print("skipped", test.id())

    def _ended(self, how, test, error):
        print(how, test.id(), error[0].__name__)

    def addFailure(self, test, err):
        self._ended("failed", test, err)

    def addError(self, test, err):
        self._ended("error", test, err)


def main():
    outcomes, errors = Outcomes(), sys.stderr
    sys.stderr = io.StringIO()  # the tests' own remarks: some have times
    suite = unittest.defaultTestLoader.loadTestsFromNames(sys.argv[1:])
    count = suite.countTestCases()
    suite.run(outcomes)
    sys.stderr = errors
    print("passed:", outcomes.passed, "of", count)


if __name__ == "__main__":  # some tests spawn processes, which import this file
    main()
