/*
 * elf_dynamic.c - reads the dynamic segment of a file without section headers, as
 * llvm-strip --strip-sections, sstrip and packers leave it, or of an image in memory.
 *
 * The number of dynamic symbols is nowhere stored: the hash table for the loader has it,
 * either as its count of chains, or as the end of its longest chain.
 *
 * Owns:  nothing.   Lock: none.   Design: docs/stacks.md
 */
#include "tracker/names/elf_dynamic.h"

#include <stdlib.h>

#define ENTRIES_MAX 4096u               /* of a dynamic segment */
#define SYMBOLS_MAX ((uint64_t)1 << 24) /* of a dynamic symbol table */
#define PIECE       256u

/* Values of the dynamic segment; 0: absent. */
struct dynamic {
    uint64_t symbols, strings, string_bytes, hash, gnu_hash;
};

/* Returns the offset in the file of an ELF virtual address; UINT64_MAX: not in it. In an
 * image the loader may have turned the values into addresses of memory. */
static uint64_t offset_of(const struct gs_elf_file *file, uint64_t address)
{
    uint64_t first = UINT64_MAX;

    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];

        if (segment->p_type != PT_LOAD) {
            continue;
        }
        if (segment->p_offset == 0) {
            first = segment->p_vaddr;
        }
        if (address - segment->p_vaddr < segment->p_filesz) {
            return segment->p_offset + (address - segment->p_vaddr);
        }
    }
    if (file->image == 0 || first == UINT64_MAX || address < file->image) {
        return UINT64_MAX;
    }
    address = address - file->image + first;
    for (size_t i = 0; i < file->segment_count; i++) {
        const Elf64_Phdr *segment = &file->segments[i];

        if (segment->p_type == PT_LOAD &&
            address - segment->p_vaddr < segment->p_filesz) {
            return segment->p_offset + (address - segment->p_vaddr);
        }
    }
    return UINT64_MAX;
}

static bool read_dynamic(const struct gs_elf_file *file, struct dynamic *out)
{
    const Elf64_Phdr *segment = NULL;
    Elf64_Dyn entry;

    for (size_t i = 0; i < file->segment_count && segment == NULL; i++) {
        if (file->segments[i].p_type == PT_DYNAMIC) {
            segment = &file->segments[i];
        }
    }
    for (size_t i = 0; segment != NULL && i < ENTRIES_MAX &&
                       (i + 1) * sizeof(entry) <= segment->p_filesz;
         i++) {
        if (!gs_elf_file_read(file, segment->p_offset + i * sizeof(entry), &entry,
                              sizeof(entry)) ||
            entry.d_tag == DT_NULL) {
            break;
        }
        if (entry.d_tag == DT_SYMTAB) {
            out->symbols = entry.d_un.d_ptr;
        } else if (entry.d_tag == DT_STRTAB) {
            out->strings = entry.d_un.d_ptr;
        } else if (entry.d_tag == DT_STRSZ) {
            out->string_bytes = entry.d_un.d_val;
        } else if (entry.d_tag == DT_HASH) {
            out->hash = entry.d_un.d_ptr;
        } else if (entry.d_tag == DT_GNU_HASH) {
            out->gnu_hash = entry.d_un.d_ptr;
        }
    }
    return out->symbols != 0 && out->strings != 0 && out->string_bytes != 0;
}

/* Returns the end of the chain that begins with symbol `last`; 0: unreadable. */
static uint64_t chain_end(const struct gs_elf_file *file, uint64_t chains, uint32_t first,
                          uint64_t last)
{
    uint32_t link;

    for (; last < SYMBOLS_MAX; last++) {
        if (!gs_elf_file_read(file, chains + (last - first) * sizeof(link), &link,
                              sizeof(link))) {
            return 0;
        }
        if ((link & 1) != 0) {
            return last + 1;
        }
    }
    return 0;
}

/* The count of symbols by the GNU hash table: buckets after a Bloom filter, then the
 * chains of the symbols from `first` on. */
static uint64_t count_by_gnu_hash(const struct gs_elf_file *file, uint64_t offset)
{
    struct {
        uint32_t buckets, first, bloom_words, shift;
    } head;
    uint32_t piece[PIECE];
    uint64_t at, last = 0;

    if (!gs_elf_file_read(file, offset, &head, sizeof(head)) ||
        head.buckets > SYMBOLS_MAX || head.bloom_words > SYMBOLS_MAX) {
        return 0;
    }
    at = offset + sizeof(head) + (uint64_t)head.bloom_words * sizeof(uint64_t);
    for (uint64_t done = 0; done < head.buckets;) {
        size_t now = head.buckets - done < PIECE ? (size_t)(head.buckets - done) : PIECE;

        if (!gs_elf_file_read(file, at, piece, now * sizeof(*piece))) {
            return 0;
        }
        for (size_t i = 0; i < now; i++) {
            if (piece[i] > last) {
                last = piece[i];
            }
        }
        at += now * sizeof(*piece);
        done += now;
    }
    if (last < head.first) {
        return head.first <= SYMBOLS_MAX ? head.first : 0; /* only undefined symbols */
    }
    return chain_end(file, at, head.first, last);
}

static uint64_t count_symbols(const struct gs_elf_file *file,
                              const struct dynamic *dynamic)
{
    uint64_t offset = dynamic->hash != 0 ? offset_of(file, dynamic->hash) : UINT64_MAX;
    uint32_t head[2];

    if (offset != UINT64_MAX && gs_elf_file_read(file, offset, head, sizeof(head))) {
        return head[1] <= SYMBOLS_MAX ? head[1] : 0;
    }
    offset = dynamic->gnu_hash != 0 ? offset_of(file, dynamic->gnu_hash) : UINT64_MAX;
    return offset != UINT64_MAX ? count_by_gnu_hash(file, offset) : 0;
}

enum gs_status gs_elf_dynamic_make_up(struct gs_elf_file *file)
{
    struct dynamic dynamic = {0};
    uint64_t symbols, strings, count;

    if (file->segment_count == 0) {
        return GS_ERR_IO;
    }
    file->made_up = true;
    if (!read_dynamic(file, &dynamic)) {
        return GS_OK; /* a static program: no names, and it can be read */
    }
    symbols = offset_of(file, dynamic.symbols);
    strings = offset_of(file, dynamic.strings);
    count = count_symbols(file, &dynamic);
    if (symbols == UINT64_MAX || strings == UINT64_MAX || count == 0) {
        return GS_OK;
    }
    file->sections = calloc(2, sizeof(*file->sections));
    if (file->sections == NULL) {
        return GS_ERR_HOST_NOMEM;
    }
    file->sections[0] = (Elf64_Shdr){.sh_type = SHT_DYNSYM,
                                     .sh_offset = symbols,
                                     .sh_size = count * sizeof(Elf64_Sym),
                                     .sh_entsize = sizeof(Elf64_Sym),
                                     .sh_link = 1};
    file->sections[1] = (Elf64_Shdr){
        .sh_type = SHT_STRTAB, .sh_offset = strings, .sh_size = dynamic.string_bytes};
    file->section_count = 2;
    return GS_OK;
}
