/*
 * shim_export_tables.c - proves that a private table is recognized by its GUID, that one
 * which is not known ends the idle proof and the single order, and which libraries are
 * known by their file names.
 */
#include <criterion/criterion.h>

#include <string.h>

#include "shim/link/known_functions.h"
#include "shim/link/libraries.h"
#include "shim/order/export_tables.h"
#include "shim/order/single_order.h"

/* The runtime's own, as its bytes lie in memory. */
static const CUuuid runtime = {{0x6b, (char)0xd5, (char)0xfb, 0x6c, 0x5b, (char)0xf4,
                                (char)0xe7, 0x4a, (char)0x89, (char)0x87, (char)0xd9,
                                0x39, 0x12, (char)0xfd, (char)0x9d, (char)0xf9}};
static const CUuuid nobodys = {{0}};

Test(export_tables, a_guid_is_written_in_memory_order)
{
    char guid[GS_GUID_BYTES];
    gs_export_table_guid(&runtime, guid);
    cr_assert_str_eq(guid, "6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
    gs_export_table_guid(&nobodys, guid);
    cr_assert_str_eq(guid, "00000000-0000-0000-0000-000000000000");
}

Test(export_tables, only_those_known_keep_what_is_proven)
{
    struct gs_export_table table =
        gs_export_table_find("6bd5fb6c-5bf4-e74a-8987-d93912fd9df9");
    cr_assert(!table.ends_proof && !table.ends_order && table.purpose[0]);
    table = gs_export_table_find("0ca50b8c-1004-929a-89a7-d0df10e77286");
    cr_assert(!table.ends_proof && table.ends_order, "it makes contexts");
    table = gs_export_table_find("9af0707b-8e2d-d84c-8e4e-b994c82ddc35");
    cr_assert(table.ends_proof && table.ends_order, "video launches");
    table = gs_export_table_find("6bd5fb6c-5bf4-e74a-8987-d93912fd9dfa");
    cr_assert(table.ends_proof && table.ends_order && !table.purpose[0], "unknown");
}

static const char *const guids[] = {
#define GS_EXPORT_TABLE(guid, purpose, counts, order, seen) guid,
#include "shim/order/export_tables.def"
};
static const char *const sources[] = {
#define GS_EXPORT_TABLE(guid, purpose, counts, order, seen) seen,
#include "shim/order/export_tables.def"
};

/* A row that could not be found would end the proof for every program. */
Test(export_tables, every_row_is_a_guid_and_has_a_source)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(guids); i++) {
        cr_assert_eq(strlen(guids[i]), GS_GUID_BYTES - 1);
        cr_assert_eq(strspn(guids[i], "0123456789abcdef-"), GS_GUID_BYTES - 1);
        cr_assert(guids[i][8] == '-' && guids[i][13] == '-' && guids[i][18] == '-' &&
                  guids[i][23] == '-');
        cr_assert(sources[i][0] != '\0', "%s", guids[i]);
        for (size_t j = 0; j < i; j++) {
            cr_assert_str_neq(guids[i], guids[j]);
        }
    }
}

Test(export_tables, a_known_one_ends_nothing)
{
    gs_export_table_given(&runtime);
    cr_assert(gs_known_proof_holds());
    gs_export_table_given(&nobodys);
    cr_assert_not(gs_known_proof_holds());
    cr_assert_str_eq(gs_known_ended_by(),
                     "private table 00000000-0000-0000-0000-000000000000");
}

Test(export_tables, the_purpose_is_named)
{
    const CUuuid video = {{(char)0x9a, (char)0xf0, 0x70, 0x7b, (char)0x8e, 0x2d,
                           (char)0xd8, 0x4c, (char)0x8e, 0x4e, (char)0xb9, (char)0x94,
                           (char)0xc8, 0x2d, (char)0xdc, 0x35}};
    gs_export_table_given(&video);
    cr_assert_str_eq(gs_known_ended_by(),
                     "private table 9af0707b-8e2d-d84c-8e4e-b994c82ddc35 (optical flow "
                     "and video)");
}

/* It counts, and may make contexts: the single order of lazy frees alone ends, by its
 * name. */
Test(export_tables, one_that_makes_contexts_is_named)
{
    const CUuuid contexts = {{0x0c, (char)0xa5, 0x0b, (char)0x8c, 0x10, 0x04, (char)0x92,
                              (char)0x9a, (char)0x89, (char)0xa7, (char)0xd0, (char)0xdf,
                              0x10, (char)0xe7, 0x72, (char)0x86}};
    cr_assert_str_eq(gs_single_order_ended_by(), "");
    gs_export_table_given(&contexts);
    cr_assert(gs_known_proof_holds());
    cr_assert_str_eq(
        gs_single_order_ended_by(),
        "private table 0ca50b8c-1004-929a-89a7-d0df10e77286 (makes contexts)");
    gs_export_table_given(&nobodys);
    cr_assert(strstr(gs_single_order_ended_by(), "0ca50b8c") != NULL, "the first stays");
}

Test(libraries, are_known_by_the_beginning_of_the_file_name)
{
    cr_assert_eq(gs_library_kind("/usr/lib/libnvoptix.so.1"), GS_LIBRARY_LAUNCHES);
    cr_assert_eq(gs_library_kind("libnvcuvid.so.550.163.01"), GS_LIBRARY_LAUNCHES);
    cr_assert_eq(gs_library_kind("/x/libnvidia-encode.so"), GS_LIBRARY_LAUNCHES);
    cr_assert_eq(gs_library_kind("/x/libnvidia-opticalflow.so.1"), GS_LIBRARY_LAUNCHES);
    cr_assert_eq(gs_library_kind("/x/libgdrapi.so.2"), GS_LIBRARY_MAPS);
    cr_assert_eq(gs_library_kind("/x/libnvshmem_host.so.3"), GS_LIBRARY_MAPS);
    cr_assert_eq(gs_library_kind("/libnvoptix.so.1/libfoo.so"), 0);
    cr_assert_eq(gs_library_kind("/x/mylibnvoptix.so.1"), 0);
    cr_assert_eq(gs_library_kind("libnvidia-ml.so.1"), 0);
    cr_assert_eq(gs_library_kind(""), 0);
}
