/*
 * shim_warmup.c - proves that GPUSHIM_WARMUP is read item by item: what is right is
 * taken, what is wrong is named once, and no text does harm.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "shim/heaps/warmup.h"

/* What the parser complained about, an item a line. */
struct complaints {
    char text[4096];
    unsigned count;
};

static void complain(void *self, const char *item, size_t length, const char *problem)
{
    struct complaints *complaints = self;
    size_t used = strlen(complaints->text);

    complaints->count++;
    cr_assert(*problem);
    snprintf(complaints->text + used, sizeof(complaints->text) - used, "%.*s\n",
             (int)length, item);
}

static struct gs_warmup_list list;
static struct complaints complaints;

static void parse(const char *text)
{
    memset(&list, 0xa5, sizeof(list));
    memset(&complaints, 0, sizeof(complaints));
    gs_warmup_parse(text, &list, complain, &complaints);
}

static void expect_item(size_t index, size_t bytes, unsigned count)
{
    cr_assert_lt(index, list.count);
    cr_expect_eq(list.items[index].bytes, bytes);
    cr_expect_eq(list.items[index].count, count);
}

Test(warmup, reads_sizes_and_counts)
{
    parse("4K:50,64KiB:20, 1m:10 ,777:1");
    cr_assert_eq(list.count, 4);
    expect_item(0, 4096, 50);
    expect_item(1, 65536, 20);
    expect_item(2, GS_MIB, 10);
    expect_item(3, 777, 1);
    cr_expect_eq(complaints.count, 0);
}

Test(warmup, an_empty_list_is_no_mistake)
{
    parse("");
    cr_expect_eq(list.count, 0);
    cr_expect_eq(complaints.count, 0);
    parse("4K:1,");
    cr_expect_eq(list.count, 1);
    cr_expect_eq(complaints.count, 0, "nor is a comma at the end");
}

Test(warmup, names_each_wrong_item_and_takes_the_others)
{
    parse("x,4K:1,8K,:3,4K:,0:5,4K:0,4K:1000001,-1:2,1M:2x,,9:9");
    cr_assert_eq(list.count, 2);
    expect_item(0, 4096, 1);
    expect_item(1, 9, 9);
    cr_expect_str_eq(complaints.text, "x\n8K\n:3\n4K:\n0:5\n4K:0\n4K:1000001\n-1:2\n"
                                      "1M:2x\n\n");
}

Test(warmup, takes_as_many_items_as_there_is_room_for)
{
    char text[4096] = "";

    for (unsigned i = 0; i < GS_WARMUP_ITEMS + 3; i++)
        strcat(text, "4K:2,");
    parse(text);
    cr_expect_eq(list.count, GS_WARMUP_ITEMS);
    cr_expect_eq(complaints.count, 3);
}

Test(warmup, sizes_beyond_all_memory_are_refused)
{
    parse("99999999999999999999:1,16777216T:1,9223372036854775808:1");
    cr_expect_eq(list.count, 0);
    cr_expect_eq(complaints.count, 3);
}

Test(warmup, no_text_does_harm)
{
    uint64_t state = 88172645463325252u;
    static const char letters[] = "0123456789KMGT:,,: x\xff%";

    for (int round = 0; round < 20000; round++) {
        char text[80];
        size_t length;

        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        length = state % sizeof(text);
        for (size_t i = 0; i < length; i++) {
            state ^= state << 13, state ^= state >> 7, state ^= state << 17;
            text[i] = letters[state % (sizeof(letters) - 1)];
        }
        text[length ? length - 1 : 0] = '\0';
        parse(text);
        for (size_t i = 0; i < list.count; i++)
            cr_assert(list.items[i].bytes > 0 && list.items[i].count > 0 &&
                      list.items[i].count <= GS_WARMUP_COUNT_MAX);
    }
}

/* ---- a file of an earlier run ---------------------------------------------------------
 */

static void read_file_of(const char *content, size_t length)
{
    char path[] = "/tmp/gpushim-warmup.XXXXXX", value[64];
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, content, length), (ssize_t)length);
    close(fd);
    snprintf(value, sizeof(value), "@%s", path);
    memset(&list, 0xa5, sizeof(list));
    memset(&complaints, 0, sizeof(complaints));
    gs_warmup_read(value, &list, complain, &complaints);
    unlink(path);
}

Test(warmup, a_file_has_a_list)
{
    static const char *const contents[] = {"4K:50,1M:2", "GPUSHIM_WARMUP=4K:50,1M:2\n",
                                           "4K:50, 1M:2 \r\n\n", "4K:50,\n1M:2\n",
                                           "4K:50,\r\n\t1M:2,\r\n"};

    for (size_t i = 0; i < GS_ARRAY_LEN(contents); i++) {
        read_file_of(contents[i], strlen(contents[i]));
        cr_expect_eq(complaints.count, 0, "%s", contents[i]);
        cr_expect_eq(list.count, 2, "%s", contents[i]);
        expect_item(1, 1 << 20, 2);
    }
    parse("4K:50");
    gs_warmup_read("4K:50", &list, complain, &complaints);
    cr_expect_eq(list.count, 1);
}

Test(warmup, a_file_that_is_none_is_said_once)
{
    static const char *const names[] = {"@", "@/nonexistent/list", "@/tmp", "@/dev/null"};
    static char large[70000];

    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        memset(&complaints, 0, sizeof(complaints));
        gs_warmup_read(names[i], &list, complain, &complaints);
        cr_expect_eq(complaints.count, 1, "%s", names[i]);
        cr_expect_eq(list.count, 0, "%s", names[i]);
    }
    memset(large, '4', sizeof(large));
    read_file_of(large, sizeof(large));
    cr_expect_eq(complaints.count, 1);
    cr_expect_eq(list.count, 0);
    read_file_of("", 0);
    cr_expect_eq(complaints.count, 0, "an empty file is an empty list");
    cr_expect_eq(list.count, 0);
    read_file_of("4K:1\0 8K:1", 10);
    cr_expect_leq(list.count, 1);
}
