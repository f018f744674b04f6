/*
 * shim_ipc_seal.c - sealed handles: what goes in comes out, and nothing else is taken for
 * one.
 */
#include <criterion/criterion.h>
#include <string.h>

#include "shim/ipc/ipc_seal.h"

static unsigned char *bytes_of(CUipcMemHandle *handle)
{
    return (unsigned char *)handle->reserved;
}

/* With so many bytes that are not zero, spread by a stride. */
static struct gs_sealed sealed_of(unsigned used, unsigned stride)
{
    struct gs_sealed sealed = {.offset = 512 * 77, .bytes = 1000};

    for (unsigned i = 0; i < used; i++)
        bytes_of(&sealed.driver)[i * stride % 64] = (unsigned char)(i + 1);
    return sealed;
}

static void expect_round_trip(const struct gs_sealed *sealed)
{
    CUipcMemHandle handle;
    struct gs_sealed found;

    cr_assert_eq(gs_ipc_seal(sealed, &handle), GS_OK);
    cr_assert_eq(gs_ipc_unseal(&handle, &found), GS_OK);
    cr_assert_eq(memcmp(&found.driver, &sealed->driver, sizeof(found.driver)), 0);
    cr_assert_eq(found.offset, sealed->offset);
    cr_assert_eq(found.bytes, sealed->bytes);
}

Test(ipc_seal, round_trip)
{
    for (unsigned used = 0; used <= GS_SEAL_ROOM; used++) {
        struct gs_sealed close = sealed_of(used, 1), spread = sealed_of(used, 27);

        expect_round_trip(&close);
        expect_round_trip(&spread);
    }
}

Test(ipc_seal, ends_of_ranges)
{
    struct gs_sealed sealed = sealed_of(10, 5);

    sealed.offset = (uint64_t)UINT32_MAX * 512;
    sealed.bytes = UINT32_MAX;
    expect_round_trip(&sealed);
    sealed.offset = 0;
    sealed.bytes = 0;
    expect_round_trip(&sealed);
}

Test(ipc_seal, what_does_not_fit)
{
    struct gs_sealed sealed = sealed_of(GS_SEAL_ROOM + 1, 1);
    CUipcMemHandle handle;

    memset(&handle, 0x55, sizeof(handle));
    cr_assert_eq(gs_ipc_seal(&sealed, &handle), GS_ERR_INVALID);
    sealed = sealed_of(4, 1);
    sealed.offset = 511;
    cr_assert_eq(gs_ipc_seal(&sealed, &handle), GS_ERR_INVALID);
    sealed.offset = ((uint64_t)UINT32_MAX + 1) * 512;
    cr_assert_eq(gs_ipc_seal(&sealed, &handle), GS_ERR_INVALID);
    sealed.offset = 512;
    sealed.bytes = (uint64_t)UINT32_MAX + 1;
    cr_assert_eq(gs_ipc_seal(&sealed, &handle), GS_ERR_INVALID);
    for (size_t i = 0; i < sizeof(handle); i++)
        cr_assert_eq(bytes_of(&handle)[i], 0x55, "written on success only");
}

Test(ipc_seal, every_changed_bit_is_seen)
{
    struct gs_sealed sealed = sealed_of(30, 7), found;
    CUipcMemHandle handle;

    cr_assert_eq(gs_ipc_seal(&sealed, &handle), GS_OK);
    for (size_t bit = 0; bit < 8 * sizeof(handle); bit++) {
        bytes_of(&handle)[bit / 8] ^= (unsigned char)(1u << bit % 8);
        cr_assert_eq(gs_ipc_unseal(&handle, &found), GS_ERR_NOT_OURS, "bit %zu", bit);
        bytes_of(&handle)[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    cr_assert_eq(gs_ipc_unseal(&handle, &found), GS_OK);
}

Test(ipc_seal, a_drivers_handle_is_none)
{
    struct gs_sealed sealed = sealed_of(64, 1), found;
    CUipcMemHandle zero;

    memset(&zero, 0, sizeof(zero));
    cr_assert_eq(gs_ipc_unseal(&zero, &found), GS_ERR_NOT_OURS);
    cr_assert_eq(gs_ipc_unseal(&sealed.driver, &found), GS_ERR_NOT_OURS);
}

/* The same block, the same handle: importers compare them byte by byte. */
Test(ipc_seal, is_the_same_each_time)
{
    struct gs_sealed sealed = sealed_of(20, 3);
    CUipcMemHandle first, second;

    memset(&first, 1, sizeof(first));
    memset(&second, 2, sizeof(second));
    cr_assert_eq(gs_ipc_seal(&sealed, &first), GS_OK);
    cr_assert_eq(gs_ipc_seal(&sealed, &second), GS_OK);
    cr_assert_eq(memcmp(&first, &second, sizeof(first)), 0);
    sealed.offset += 512;
    cr_assert_eq(gs_ipc_seal(&sealed, &second), GS_OK);
    cr_assert_neq(memcmp(&first, &second, sizeof(first)), 0);
}
