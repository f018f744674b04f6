/*
 * shim_size_classes.c - proves that GPUSHIM_POOL_SIZE_CLASSES is taken whole or not at
 * all, that its presets are what the guide says, and that no text does harm.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim/limits/size_classes.h"

static struct gs_size_classes classes;

static const char *parse(const char *text)
{
    memset(&classes, 0xa5, sizeof(classes));
    return gs_size_classes_parse(text, &classes);
}

Test(size_classes, reads_a_list)
{
    cr_assert_null(parse("512, 4K ,1MiB"));
    cr_assert_eq(classes.count, 3);
    cr_expect_eq(classes.bytes[0], 512);
    cr_expect_eq(classes.bytes[1], 4 * GS_KIB);
    cr_expect_eq(classes.bytes[2], GS_MIB);
}

Test(size_classes, none_is_no_mistake)
{
    cr_expect_null(parse(""));
    cr_expect_eq(classes.count, 0);
    cr_expect_null(parse("off"));
    cr_expect_eq(classes.count, 0);
}

Test(size_classes, presets_are_what_the_guide_says)
{
    cr_assert_null(parse("stratified"));
    cr_assert_eq(classes.count, 5);
    cr_expect_eq(classes.bytes[0], 256);
    cr_expect_eq(classes.bytes[4], 64 * GS_KIB);
    cr_assert_null(parse("DotCompute"));
    cr_assert_eq(classes.count, 20);
    cr_expect_eq(classes.bytes[0], 4 * GS_KIB);
    cr_expect_eq(classes.bytes[10], 2 * GS_MIB);
    cr_expect_eq(classes.bytes[15], 64 * GS_MIB);
    cr_expect_eq(classes.bytes[19], 512 * GS_MIB);
    for (unsigned i = 1; i < classes.count; i++)
        cr_expect_gt(classes.bytes[i], classes.bytes[i - 1]);
}

Test(size_classes, one_mistake_spoils_the_list)
{
    static const char *const wrong[] = {
        "4K,",   ",4K", "4K,4K",  "8K,4K",         "0,4K", "4K,2T", "big",
        "4K 8K", "-1",  "4K,,8K", "stratified,4K", " ",    "4Q"};

    for (size_t i = 0; i < GS_ARRAY_LEN(wrong); i++) {
        cr_expect_not_null(parse(wrong[i]), "'%s'", wrong[i]);
        cr_expect_eq(classes.count, 0, "'%s'", wrong[i]);
    }
}

Test(size_classes, takes_sixty_four_and_no_more)
{
    char text[1024] = "";

    for (unsigned i = 1; i <= GS_SIZE_CLASSES_MAX + 1; i++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof(text) - used, "%s%u", i > 1 ? "," : "", i * 512);
        if (i == GS_SIZE_CLASSES_MAX) {
            cr_expect_null(parse(text));
            cr_expect_eq(classes.count, GS_SIZE_CLASSES_MAX);
        }
    }
    cr_expect_str_eq(parse(text), "more than 64 sizes");
}

Test(size_classes, no_text_does_harm)
{
    static const char letters[] = "0123456789kMgT, -.:xs\xff";

    srand(7);
    for (unsigned i = 0; i < 20000; i++) {
        char text[96];
        size_t length = (size_t)rand() % (sizeof(text) - 1);

        for (size_t j = 0; j < length; j++)
            text[j] = letters[(size_t)rand() % (sizeof(letters) - 1)];
        text[length] = '\0';
        if (parse(text))
            cr_assert_eq(classes.count, 0);
        for (unsigned j = 0; j < classes.count; j++)
            cr_assert_gt(classes.bytes[j], j ? classes.bytes[j - 1] : 0);
    }
}
