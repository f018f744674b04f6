# shellcheck shell=bash disable=SC2154  # what lib.sh sets: apps, shim, build ...
#
# ends.sh - no end without a report, and none before the start.

# ---- another C library -----------------------------------------------------------------

# musl refuses a program with a reference that it cannot resolve: weak ones alone may be glibc's.
ends_references_case() {
  local musl

  need nm
  musl=$(find /usr/lib /lib -path '*musl*/libc.so' 2>/dev/null | head -n 1)
  [[ -n $musl ]] || skip "musl"
  nm -D "$shim" | grep -qE '__(asan|tsan|ubsan|gcov)_' && skip "a build without sanitizers"
  nm -D --undefined-only "$shim" | awk '$1 == "U" { sub(/@.*/, "", $2); print $2 }' | sort >needed
  nm -D --defined-only "$musl" | awk '{ print $3 }' | sort >there
  comm -23 needed there >missing
  [[ ! -s missing ]] || { cat missing && fail "musl has not all that is needed"; }
}
add_case "ends with references that musl has" ends_references_case

# A helper that is linked with musl, started by a program of glibc.
ends_musl_case() {
  need musl-gcc
  cat >hello.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(3);
    waitpid(child, &status, 0);
    printf("hello %d\n", WEXITSTATUS(status));
    fflush(stdout);
    child = vfork();
    if (child == 0) {
        execlp("true", "true", (char *)0);
        _exit(9);
    }
    waitpid(child, &status, 0);
    return system("exit 4") >> 8;
}
C
  musl-gcc hello.c -o hello || fail "musl-gcc"
  same_as_native -- sh -c './hello; echo $?'
  expect_equal "output" $'hello 3\n4' "$(<shim.out)"
  expect_quiet shim
}
add_case "ends of a helper linked with musl" ends_musl_case
