/*
 * frameless.c - code made at run time whose call frame information gives no canonical
 * frame address, as LuaJIT registers it for exceptions: who unwinds by it with libgcc
 * ends the process. x86-64.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern void __register_frame(void *);
extern int cudaMalloc(void **, size_t), cudaFree(void *);

static void allocate(void)
{
    void *memory = NULL;
    int code = cudaMalloc(&memory, 5000);
    printf("%d %d\n", code, cudaFree(memory));
}

static jmp_buf back;

static void run(void)
{
    void *memory = NULL;
    int code = cudaMalloc(&memory, 5000);
    if (code != 0) {
        printf("%d\n", code);
    }
    longjmp(back, 1);
}

static int start_coroutines(void)
{
    enum { BYTES = 1 << 18 };
    for (uintptr_t i = 0; i < 10; i++) {
        char *stack = aligned_alloc(16, BYTES);
        uintptr_t *top = (uintptr_t *)(void *)(stack + BYTES - 64);
        top[-1] = (uintptr_t)(stack + 64 + 8 * i);
        if (setjmp(back) == 0) {
            __asm__ volatile("mov %0, %%rsp\n\tjmp *%1" : : "r"(top - 1), "r"(run));
        }
    }
    return puts("0 0") < 0;
}

int main(int count, char **words)
{
    (void)words;
    if (count > 1) {
        return start_coroutines();
    }
    /* sub $8, %rsp; call *%rdi; add $8, %rsp; ret */
    static const uint8_t code[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7,
                                   0x48, 0x83, 0xc4, 0x08, 0xc3};
    struct {
        uint32_t cie_bytes, cie_id;
        uint8_t version, augmentation[3], code_align, data_align, ra, length, encoding,
            padding[3];
        uint32_t fde_bytes, fde_id;
        uint64_t start, size;
        uint8_t fde_augmentation, fde_padding[7];
        uint32_t end;
    } __attribute__((packed)) frame = {.cie_id = 0,
                                       .version = 1,
                                       .augmentation = "zR",
                                       .code_align = 1,
                                       .data_align = 0x78,
                                       .ra = 16,
                                       .length = 1,
                                       .encoding = 0};
    static uint8_t kept[sizeof(frame)] __attribute__((aligned(8)));
    uint8_t *made = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof(code));
    frame.cie_bytes = (uint32_t)(offsetof(__typeof__(frame), fde_bytes) - 4);
    frame.fde_bytes = (uint32_t)(offsetof(__typeof__(frame), end) -
                                 offsetof(__typeof__(frame), fde_id));
    frame.fde_id = (uint32_t)offsetof(__typeof__(frame), fde_id);
    frame.start = (uintptr_t)made;
    frame.size = 4096;
    memcpy(kept, &frame, sizeof(frame));
    __register_frame(kept);
    ((void (*)(void (*)(void)))(uintptr_t)made)(allocate);
    return 0;
}
