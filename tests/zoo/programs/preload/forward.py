"""forward.py DRIVER - the C source of a driver that has the functions of DRIVER. At its first call it opens the file
that FORWARD_TO names, to which all go on: what is made once serves other build folders."""
import subprocess
import sys

HEAD = """\
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const names[] = {%s};
#define COUNT (sizeof names / sizeof *names)
static void *table[COUNT];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void)
{
    const char *driver = getenv("FORWARD_TO");
    void *handle = driver ? dlopen(driver, RTLD_NOW | RTLD_LOCAL) : NULL;

    if (!handle) {
        fprintf(stderr, "forward: FORWARD_TO: %%s\\n", driver ? dlerror() : "not set");
        abort();
    }
    for (unsigned i = 0; i < COUNT; i++)
        table[i] = dlsym(handle, names[i]);
}

void *forward_to(unsigned long number)
{
    pthread_once(&once, load);
    return table[number];
}
"""

# The six registers of arguments are kept while forward_to looks; then the call goes on.
FUNCTION = """\
__asm__(".text\\n.globl {name}\\n.type {name},@function\\n{name}: endbr64\\n"
        "push %rdi\\n push %rsi\\n push %rdx\\n push %rcx\\n push %r8\\n push %r9\\n sub $8,%rsp\\n"
        "mov ${number},%edi\\n call forward_to@PLT\\n add $8,%rsp\\n"
        "pop %r9\\n pop %r8\\n pop %rcx\\n pop %rdx\\n pop %rsi\\n pop %rdi\\n jmp *%rax\\n"
        ".size {name},.-{name}\\n");
"""

driver = sys.argv[1]
listed = subprocess.run(["nm", "-D", "--defined-only", driver], check=True, capture_output=True, text=True).stdout
names = [line.split()[2].partition("@")[0] for line in listed.splitlines() if " T cu" in line and "cudasim" not in line]
print(HEAD % ", ".join(f'"{name}"' for name in names))
for number, name in enumerate(names):
    print(FUNCTION.format(name=name, number=number))
