# shellcheck shell=bash
#
# share.sh - which of the tests that repeat others under one more setting a run does: all, or one of several
# shares, so that a few runs in a row do all of them. Sourced by scripts/test and the runners of tests/.
#
#   TEST_SHARE=K/N   the Kth of N shares, 1 the first

if [[ -n ${TEST_SHARE-} && ! $TEST_SHARE =~ ^[1-9][0-9]*/[1-9][0-9]*$ ]]; then
  echo "${0##*/}: TEST_SHARE=$TEST_SHARE: not K/N, the Kth of N shares" >&2
  exit 2
fi

# in_share INDEX: the test of this number is in the share.
in_share() { [[ -z ${TEST_SHARE-} ]] || [[ $((($1 + 1) % ${TEST_SHARE#*/})) -eq $((${TEST_SHARE%/*} % ${TEST_SHARE#*/})) ]]; }
