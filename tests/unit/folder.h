/*
 * folder.h - a folder of a test's own, in /tmp:
 *   TestSuite(name, .init = enter_folder, .fini = remove_folder);
 */
#ifndef GS_TEST_FOLDER_H
#define GS_TEST_FOLDER_H

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[] = "/tmp/gpushim-unit.XXXXXX";

static inline void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

/* Makes the folder the current one. */
static inline void enter_folder(void)
{
    make_folder();
    cr_assert_eq(chdir(folder), 0);
}

static inline void remove_folder(void)
{
    char command[64];

    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    cr_assert_eq(system(command), 0);
}

#endif
