/*
 * Proves that Rust's names of both manglings become readable, without the hashes of a
 * build, and that damaged ones end as no name, without a fault.
 */
#include "tracker/names/demangle.h"
#include "tracker/names/rust_name.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *linkage, *readable;
} names[] = {
    {"_RNvC6_123foo3bar", "123foo::bar"},
    {"_RNvCsjpAybgbvQ1r_4hold4take", "hold::take"},
    {"_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
     "utf8_idents::საჭმელად_გემრიელი_სადილი"},
    {"_RNvNtCsjpAybgbvQ1r_4holdu8mtal_bpau9rpte_6oae", "hold::métal::répète"},
    {"_RNCNCNgCs6DXkGYLi8lr_2cc5spawn00B5_", "cc::spawn::{closure#0}::{closure#0}"},
    {"_RNCINkXs25_NgCsbmNqQUJIY6D_4core5sliceINyB9_4IterhENuNgNoBb_4iter8iterator8"
     "Iterator9rpositionNCNgNpB9_6memchr7memrchrs_0E0Bb_",
     "<core::slice::Iter<u8> as core::iter::iterator::Iterator>::rposition::"
     "<core::slice::memchr::memrchr::{closure#1}>::{closure#0}"},
    {"_RINbNbCskIICzLVDPPb_5alloc5alloc8box_freeDINbNiB4_5boxed5FnBoxuEp6OutputuEL_ECs1i"
     "opQbuBiw2_3std",
     "alloc::alloc::box_free::<dyn alloc::boxed::FnBox<(), Output = ()>>"},
    {"_RNvMC0INtC8arrayvec8ArrayVechKj7b_E3new", "<arrayvec::ArrayVec<u8, 123>>::new"},
    {"_RMCs4fqI2P2rA04_13const_genericINtB0_4BoolKb1_E", "<const_generic::Bool<true>>"},
    {"_RMCs4fqI2P2rA04_13const_genericINtB0_4CharKc76_E", "<const_generic::Char<'v'>>"},
    {"_RMCs4fqI2P2rA04_13const_genericINtB0_6SignedKsn98_E",
     "<const_generic::Signed<-152>>"},
    {"_RC3foo.llvm.9D1C9369", "foo"},
    {"_ZN4hold4take17h0123456789abcdefE", "hold::take"},
    {"_ZN4hold13m$u00e9$tal3put17h0123456789abcdefE.llvm.12", NULL},
    {"_ZN49_$LT$hold..Pool$LT$T$GT$$u20$as$u20$hold..Buf$GT$4fill17h0123456789abcdefE",
     "<hold::Pool<T> as hold::Buf>::fill"},
    {"_ZN4hold4take17h0123456789abcdexE", NULL}, /* C++ */
    {"_ZN4hold4takeEv", NULL},
};

Test(rust_names, are_readable)
{
    for (size_t i = 0; i < GS_ARRAY_LEN(names); i++) {
        char *readable = gs_rust_demangle(names[i].linkage);

        if (names[i].readable == NULL) {
            cr_expect(readable == NULL || strstr(readable, "17h") == NULL, "%s",
                      names[i].linkage);
        } else {
            cr_expect_str_eq(readable != NULL ? readable : "none", names[i].readable);
            cr_expect(gs_rust_is_name(names[i].linkage));
        }
        free(readable);
    }
}

/* Under a sanitizer every read out of bounds would show. Seeds are fixed. */
Test(rust_names, damaged_ones_are_survived)
{
    unsigned seed = 20261128;
    char copy[256];

    for (unsigned round = 0; round < 200000; round++) {
        const char *name = names[(unsigned)rand_r(&seed) % GS_ARRAY_LEN(names)].linkage;
        size_t length = strlen(name);

        memcpy(copy, name, length + 1);
        for (int flips = rand_r(&seed) % 4; flips >= 0; flips--) {
            size_t at = 2 + (size_t)rand_r(&seed) % (length - 2);

            if (rand_r(&seed) % 3 == 0)
                copy[at] = "BNCIMXYsu_0129EKDFpR"[rand_r(&seed) % 20];
            else if (rand_r(&seed) % 3 == 0)
                copy[at] = (char)(1 + rand_r(&seed) % 255);
            else
                copy[at] = '\0';
        }
        free(gs_rust_demangle(copy));
    }
}

/* References that unfold to a huge text end at a limit. */
Test(rust_names, bombs_end, .timeout = 20)
{
    char bomb[4096] = "_RIC1a";
    size_t used = strlen(bomb);

    strcpy(bomb + used, "TuuE");
    used += 4;
    for (unsigned i = 0; i < 40; i++) /* each a pair of the one before */
        used += (size_t)sprintf(bomb + used, "TB%c_B%c_E", (char)('0' + i % 10), '4');
    strcpy(bomb + used, "E");
    free(gs_rust_demangle(bomb));
    memset(bomb, 'R', sizeof(bomb) - 1);
    memcpy(bomb, "_RIC1a", 6);
    bomb[sizeof(bomb) - 1] = '\0';
    cr_expect_null(gs_rust_demangle(bomb));
}
