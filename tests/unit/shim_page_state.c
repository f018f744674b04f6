/*
 * shim_page_state.c - proves that the state of a mapping is read, and restored to what it
 * was when it was made; and that memory which cannot be restored is named.
 */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "gs_base.h"
#include "shim/host/page_state.h"

#define BYTES (4 * GS_MIB)
#define MADE  (GS_PAGES_KNOWN | GS_PAGES_PRIVATE)

static uint64_t map_pages(void)
{
    void *memory =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(memory, MAP_FAILED);
    return (uintptr_t)memory;
}

static void advise(uint64_t addr, size_t bytes, int advice)
{
    cr_assert_eq(madvise((void *)(uintptr_t)addr, bytes, advice), 0);
}

Test(page_state, is_read_of_the_mapping_around_an_address)
{
    uint64_t addr = map_pages();

    cr_expect_eq(gs_page_state_read(addr), MADE);
    advise(addr, BYTES, MADV_DONTFORK);
    cr_expect_eq(gs_page_state_read(addr + BYTES - 1), MADE | GS_PAGES_NO_FORK);
    advise(addr, BYTES, MADV_WIPEONFORK);
    advise(addr, BYTES, MADV_DONTDUMP);
    cr_expect_eq(gs_page_state_read(addr),
                 GS_PAGES_KNOWN | GS_PAGES_NO_FORK | GS_PAGES_WIPED | GS_PAGES_NO_DUMP);
    cr_expect_eq(gs_page_state_read(1), 0, "nothing is mapped there");
}

Test(page_state, is_restored_to_what_was_made)
{
    unsigned made = MADE | GS_PAGES_NO_FORK;
    uint64_t addr = map_pages();

    advise(addr, BYTES, MADV_DONTFORK);
    advise(addr + GS_MIB, GS_MIB, MADV_DONTDUMP);
    advise(addr, GS_MIB, MADV_WIPEONFORK);
    cr_assert_eq(mprotect((void *)(uintptr_t)addr, GS_MIB, PROT_NONE), 0);
    cr_expect(gs_page_state_restore(addr, BYTES, made));
    for (size_t at = 0; at < BYTES; at += GS_MIB) {
        cr_expect_eq(gs_page_state_read(addr + at), made, "at %zu", at);
        *(volatile char *)(uintptr_t)(addr + at) = 1;
    }
}

/* Without it the next owner's pages are read ahead of, or merged, as the last one asked:
 * no byte differs, so only this sees it. */
Test(page_state, advice_on_reading_and_merging_is_restored)
{
    static const struct {
        int advice;
        unsigned state;
    } given[] = {{MADV_RANDOM, GS_PAGES_READ},
                 {MADV_SEQUENTIAL, GS_PAGES_READ},
                 {MADV_MERGEABLE, GS_PAGES_MERGED}};
    uint64_t addr = map_pages();

    for (size_t i = 0; i < GS_ARRAY_LEN(given); i++) {
        if (madvise((void *)(uintptr_t)(addr + GS_MIB), GS_MIB, given[i].advice) != 0)
            continue; /* a kernel without page merging */
        cr_expect_eq(gs_page_state_read(addr + GS_MIB), MADE | given[i].state, "%zu", i);
        cr_expect(gs_page_state_restore(addr, BYTES, MADE));
        cr_expect_eq(gs_page_state_read(addr + GS_MIB), MADE, "%zu", i);
    }
}

Test(page_state, unknown_changes_the_protection_alone)
{
    uint64_t addr = map_pages();

    advise(addr, BYTES, MADV_DONTFORK);
    cr_assert_eq(mprotect((void *)(uintptr_t)addr, BYTES, PROT_READ), 0);
    cr_expect(gs_page_state_restore(addr, BYTES, 0));
    cr_expect_eq(gs_page_state_read(addr), MADE | GS_PAGES_NO_FORK);
    *(volatile char *)(uintptr_t)addr = 1;
}

Test(page_state, pages_that_a_policy_has_placed_are_not_restored)
{
    uint64_t addr = map_pages();
    unsigned long node = 1;

    if (syscall(SYS_mbind, addr + 2 * GS_MIB, 2 * GS_MIB, 2, &node, 8ul, 0u) != 0)
        cr_skip_test("no NUMA policies here");
    cr_expect_not(gs_page_state_restore(addr, BYTES, GS_PAGES_KNOWN));
}

/* The next owner's bytes would end in the file, or with a signal behind its end. */
Test(page_state, a_file_in_place_of_the_pages_is_found)
{
    static const int kinds[] = {MAP_PRIVATE | MAP_FIXED, MAP_SHARED | MAP_FIXED};
    uint64_t addr = map_pages();
    int file = memfd_create("file", 0);
    unsigned made = gs_page_state_read(addr);
    void *part = (void *)(uintptr_t)(addr + GS_MIB);

    cr_assert(gs_page_state_restore(addr, BYTES, made));
    cr_assert_geq(file, 0);
    for (size_t i = 0; i < GS_ARRAY_LEN(kinds); i++) {
        cr_assert_eq(mmap(part, 4096, PROT_READ | PROT_WRITE, kinds[i], file, 0), part);
        cr_expect_not(gs_page_state_restore(addr, BYTES, made));
    }
}

/* A driver whose mappings are a device's or a file's: nothing can be told. */
Test(page_state, shared_mappings_are_restored_as_they_are)
{
    void *memory =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    cr_assert_neq(memory, MAP_FAILED);
    unsigned made = gs_page_state_read((uintptr_t)memory);
    cr_expect_eq(made, GS_PAGES_KNOWN);
    cr_expect(gs_page_state_restore((uintptr_t)memory, BYTES, made));
}

Test(page_state, memory_that_is_gone_is_not_restored)
{
    uint64_t addr = map_pages();

    cr_assert_eq(munmap((void *)(uintptr_t)addr, BYTES), 0);
    cr_expect_not(gs_page_state_restore(addr, BYTES, GS_PAGES_KNOWN));
}

/* Alone sees: a guard that stays where the next owner's bytes are to be. */
Test(page_state, guards_and_protection_are_removed)
{
    uint64_t addr = map_pages();

    if (madvise((void *)(uintptr_t)addr, GS_MIB, 102 /* MADV_GUARD_INSTALL */) != 0)
        cr_skip_test("no MADV_GUARD_INSTALL here");
    cr_expect(gs_page_state_restore(addr, BYTES, MADE));
    *(volatile char *)(uintptr_t)addr = 1;
    advise(addr, GS_MIB, 102);
    cr_assert_eq(mprotect((void *)(uintptr_t)addr, BYTES, PROT_NONE), 0);
    cr_expect(gs_page_state_give_access(addr, BYTES));
    *(volatile char *)(uintptr_t)addr = 1;
    cr_assert_eq(munmap((void *)(uintptr_t)addr, BYTES), 0);
    cr_expect_not(gs_page_state_give_access(addr, BYTES));
}
