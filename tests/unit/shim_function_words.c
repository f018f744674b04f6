/*
 * shim_function_words.c - proves that exactly the words of a stopped process that hold a
 * function's address are replaced: also in memory that the process has made read-only;
 * none in memory that is to stay, and none that is not a whole word.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gs_page_scan.h"
#include "shim/tools/reader/function_words.h"

/* No address that anything else has. */
#define FIRST  UINT64_C(0x5a5a1234567890a0)
#define SECOND UINT64_C(0x5a5a1234567890b0)
#define BACK   UINT64_C(0x6b6b000000000010)

#define PAGE_WORDS (4096 / sizeof(uint64_t))

static uint64_t
    *pages; /* shared with nobody: written, skipped, read-only, never touched */

static uint64_t *page(int i)
{
    return pages + i * (int)PAGE_WORDS;
}

/* A child that has the pages and sleeps. */
static pid_t start(void)
{
    pages =
        mmap(NULL, 5 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert(pages != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 3; i++) {
            page(i)[0] = FIRST;
            page(i)[PAGE_WORDS - 1] = SECOND;
            page(i)[7] = FIRST + 1;
            memcpy((char *)&page(i)[9] + 3, &(uint64_t){FIRST}, sizeof(uint64_t));
        }
        page(3)[20] = FIRST;
        (void)mprotect(page(2), 4096, PROT_READ);
        (void)raise(SIGSTOP);
        _exit(page(0)[0] == BACK && page(0)[PAGE_WORDS - 1] == BACK + 1 &&
                      page(0)[7] == FIRST + 1 && page(1)[0] == FIRST &&
                      page(2)[PAGE_WORDS - 1] == BACK + 1 && page(3)[20] == FIRST
                  ? 0
                  : 1);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    return child;
}

Test(function_words, replaces_words_alone)
{
    pid_t child = start();
    struct gs_function_pair pairs[] = {
        {SECOND, BACK + 1}, {FIRST, BACK}, {FIRST, BACK + 2}};
    const uintptr_t skipped = (uintptr_t)page(1);
    const struct gs_function_area area = {skipped, skipped + 4096};
    const struct gs_function_stack stack = {.stack = (uintptr_t)&page(3)[10]};
    struct gs_function_words words = {.pairs = pairs,
                                      .pair_count = GS_ARRAY_LEN(pairs),
                                      .skipped = &area,
                                      .skipped_count = 1,
                                      .stacks = &stack,
                                      .stack_count = 1};
    struct gs_function_words_result result;
    int status;

    gs_function_words_sort(&words);
    cr_assert_eq(words.pair_count, 2u, "of two pairs for one address the first counts");
    cr_expect_null(gs_function_words_scan(child, &words, false, &result));
    cr_expect_geq(result.found, 2u);
    cr_expect_eq(result.replaced, 0u);
    const uint64_t found = result.found; /* the pairs themselves may be on its stack */
    cr_expect_null(gs_function_words_scan(child, &words, true, &result));
    cr_expect_eq(result.found, found);
    cr_expect_eq(result.replaced, found);
    cr_expect_null(gs_function_words_scan(child, &words, true, &result));
    cr_expect_eq(result.found, 0u);
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "the child has other words");
}

/* A thread of Go's runs on stacks of Go's, and comes back to this one. */
Test(function_words, leaves_a_stack_alone_that_its_thread_is_not_on)
{
    enum { PAGE = 4096, VARIABLES = 256 };
    char *memory = mmap(NULL, 3 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *thread = memory + 3 * PAGE - 64;
    uint64_t *on_stack = (uint64_t *)(void *)(memory + PAGE + 64);
    uint64_t *variable = (uint64_t *)(void *)(thread - 64);

    cr_assert_neq(memory, MAP_FAILED);
    cr_assert_eq(mprotect(memory + PAGE, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
    *on_stack = *variable = FIRST;
    pid_t child = fork();
    if (child == 0) {
        (void)raise(SIGSTOP);
        _exit(*on_stack != FIRST ? 1 : *variable != BACK ? 2 : 0);
    }
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    struct gs_function_pair pair = {FIRST, BACK};
    const struct gs_function_stack stack = {.stack = 4096, .thread = (uintptr_t)thread};
    const struct gs_function_words words = {.pairs = &pair,
                                            .pair_count = 1,
                                            .stacks = &stack,
                                            .stack_count = 1,
                                            .tls_bytes = VARIABLES};
    struct gs_function_words_result result;
    cr_expect_null(gs_function_words_scan(child, &words, true, &result));
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "status %d", WEXITSTATUS(status));
    (void)munmap(memory, 3 * PAGE);
}

/* The child's exit status after the words have been replaced once. */
static int status_after(pid_t child, const struct gs_function_words *words,
                        struct gs_function_words_result *result)
{
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_expect_null(gs_function_words_scan(child, words, true, result));
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

/* The words above a page that cannot be accessed, within one mapping. Alone sees them
 * missed. */
Test(function_words, goes_on_after_a_guard_page)
{
    enum { PAGE = 4096, GUARD_INSTALL = 102 /* of madvise, Linux 6.13 */ };
    char *memory =
        mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *word = (uint64_t *)(void *)(memory + 2 * PAGE + 80);
    cr_assert_neq(memory, MAP_FAILED);
    memory[0] = 1;
    *word = FIRST;
    if (madvise(memory + PAGE, PAGE, GUARD_INSTALL) != 0) {
        return;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)madvise(memory + PAGE, PAGE, GUARD_INSTALL); /* not all kernels keep it */
        (void)raise(SIGSTOP);
        _exit(*word != BACK);
    }
    struct gs_function_pair pair = {FIRST, BACK};
    const struct gs_function_words words = {.pairs = &pair, .pair_count = 1};
    struct gs_function_words_result result;
    cr_expect_eq(status_after(child, &words, &result), 0, "the word is missed");
    cr_expect_leq(result.unreadable, (uint64_t)PAGE); /* 6.13 does not tell a guard */
}

/* A stack that the program has made within memory of its own. Alone sees the memory below
 * it left out. */
Test(function_words, finds_words_below_a_stack_without_a_guard)
{
    enum { BYTES = 1 << 20, PAGE = 4096 };
    char *memory =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t *word = (uint64_t *)(void *)(memory + PAGE + 80),
             *on_stack = (uint64_t *)(void *)(memory + BYTES - 8192);
    cr_assert_neq(memory, MAP_FAILED);
    /* The mapping may lie above one that looks like a guard page. */
    cr_assert_eq(mprotect(memory, PAGE, PROT_READ), 0);
    *word = *on_stack = FIRST;
    pid_t child = fork();
    if (child == 0) {
        (void)raise(SIGSTOP);
        _exit(*word != BACK ? 1 : *on_stack != FIRST ? 2 : 0);
    }
    struct gs_function_pair pair = {FIRST, BACK};
    const struct gs_function_stack stack = {.stack = (uintptr_t)memory + BYTES - 16384,
                                            .thread = (uintptr_t)memory + BYTES - 4096};
    const struct gs_function_words words = {
        .pairs = &pair, .pair_count = 1, .stacks = &stack, .stack_count = 1};
    struct gs_function_words_result result;
    int status = status_after(child, &words, &result);
    cr_expect_eq(status, 0, "status %d", WEXITSTATUS(status));
}

/* Sanitizers, virtual machines and runtimes reserve terabytes: read entry by entry, 16 of
 * them take long, in which all threads are stopped. Alone sees that. */
Test(function_words, of_reserved_terabytes_reads_what_is_there, .timeout = 60)
{
    const size_t reserved = (size_t)16 << 40, far = (size_t)9 << 40;
    char *memory = mmap(NULL, reserved, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    struct gs_page_scan call = {.size = sizeof(call)};
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC), status;

    if (memory == MAP_FAILED || pagemap < 0 || ioctl(pagemap, GS_PAGE_SCAN, &call) < 0) {
        cr_skip_test("16 TiB of addresses, and Linux 6.7");
    }
    uint64_t *words[] = {(uint64_t *)(void *)memory, (uint64_t *)(void *)(memory + far)};
    *words[0] = *words[1] = FIRST;
    pid_t child = fork();
    if (child == 0) {
        (void)raise(SIGSTOP);
        _exit(*words[0] != BACK ? 1 : *words[1] != BACK ? 2 : 0);
    }
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    struct gs_function_pair pair = {FIRST, BACK};
    const struct gs_function_words all = {.pairs = &pair, .pair_count = 1};
    struct gs_function_words_result result;
    cr_expect_null(gs_function_words_scan(child, &all, true, &result));
    cr_expect_lt(result.bytes, (uint64_t)4 << 30);
    cr_expect_eq(result.asked, 0u, "%llu pages one by one",
                 (unsigned long long)result.asked);
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "status %d", WEXITSTATUS(status));
    (void)close(pagemap);
    (void)munmap(memory, reserved);
}

Test(function_words, says_that_a_process_has_ended)
{
    struct gs_function_pair pair = {FIRST, BACK};
    const struct gs_function_words words = {.pairs = &pair, .pair_count = 1},
                                   nothing = {.pairs = &pair};
    struct gs_function_words_result result;
    pid_t child = fork();

    if (child == 0) {
        _exit(0);
    }
    (void)waitpid(child, NULL, 0);
    cr_expect_str_eq(gs_function_words_scan(child, &words, true, &result),
                     "it has ended");
    cr_expect_null(gs_function_words_scan(child, &nothing, true, &result));
}

/* Words that stay: another process may use the shared ones. Alone sees those replaced, and
 * words that are left without a count. */
Test(function_words, counts_those_that_are_shared_or_not_aligned)
{
    enum { BYTES = 3 * 4096 };
    char *shared =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *own =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const uint64_t word = FIRST;
    cr_assert(shared != MAP_FAILED && own != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        memcpy(shared + 64, &word, sizeof(word));
        memcpy(shared + 4099, &word, sizeof(word));
        memcpy(own + 8191, &word, sizeof(word)); /* on two pages */
        memcpy(own + 128, &word, sizeof(word));
        (void)raise(SIGSTOP);
        _exit(memcmp(shared + 64, &word, sizeof(word)) != 0             ? 1
              : memcmp(own + 8191, &word, sizeof(word)) != 0            ? 2
              : memcmp(own + 128, &(uint64_t){BACK}, sizeof(word)) != 0 ? 3
                                                                        : 0);
    }
    struct gs_function_pair pair = {FIRST, BACK};
    const uintptr_t self = (uintptr_t)&pair & ~UINT64_C(4095);
    const struct gs_function_area area = {self - 65536,
                                          self + 65536}; /* the pair's stack */
    const struct gs_function_words words = {
        .pairs = &pair, .pair_count = 1, .skipped = &area, .skipped_count = 1};
    struct gs_function_words_result result, left;
    int status;
    cr_assert_eq(waitpid(child, &status, WUNTRACED), child);
    cr_expect_null(gs_function_words_scan(child, &words, true, &result));
    cr_expect_eq(result.found, 1u);
    cr_expect_null(gs_function_words_left(child, &words, &left));
    cr_expect_eq(left.found, 3u, "%llu", (unsigned long long)left.found);
    cr_assert_eq(kill(child, SIGCONT), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0, "status %d", WEXITSTATUS(status));
    (void)munmap(shared, BYTES);
    (void)munmap(own, BYTES);
}
