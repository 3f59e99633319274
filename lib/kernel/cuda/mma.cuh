/* mma.cuh: the tensor-core operations that the attention kernel is made of, in PTX, and the same on the host by the
 * definitions of the PTX manual (which lane holds which element), so that the emulation tests the indices too. */
#ifndef ANYJEV_CUDA_MMA_CUH
#define ANYJEV_CUDA_MMA_CUH

#include "kernel/cuda/port.h"

/* c[16][8] += a[16][16] b[16][8], spread over a warp. With g = lane / 4 and t = lane % 4:
 * a: {rows g, g + 8, g, g + 8} x {columns 2t.. , 2t.., 2t + 8.., 2t + 8..}, two neighbours each;
 * b: rows {2t.., 2t + 8..} of column g; c: (g, 2t), (g, 2t + 1), (g + 8, 2t), (g + 8, 2t + 1). */
DEVICE void mma_bf16(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
#ifdef CUDA_EMULATION
    struct {
        uint32_t a[4], b[2];
    } own = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, *all[WARP];
    static_assert(sizeof own <= emu::SLOT, "a slot holds it");
    const unsigned char(*slots)[emu::SLOT] = emu::exchange(&own, sizeof own, "mma");
    for (int i = 0; i < WARP; i++) all[i] = (decltype(&own))(void *)slots[i];
    int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    for (int i = 0; i < 4; i++) {
        int row = g + (i < 2 ? 0 : 8), col = 2 * t + i % 2;
        float sum = c[i];
        for (int k = 0; k < 16; k++) {
            uint32_t ra = all[row % 8 * 4 + k % 8 / 2]->a[row / 8 + k / 8 * 2], rb = all[col * 4 + k % 8 / 2]->b[k / 8];
            sum += bits_float(ra >> (k % 2 * 16) << 16) * bits_float(rb >> (k % 2 * 16) << 16);
        }
        c[i] = sum;
    }
#else
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

/* Four 8 x 8 matrices of 16-bit elements from shared memory: lane 8i + r points at row r of matrix i (16-byte aligned);
 * register i of a lane gets elements (g, 2t) and (g, 2t + 1) of matrix i, transposed (2t, g) and (2t + 1, g). */
template <bool TRANSPOSED> DEVICE void load_matrices(uint32_t r[4], const void *row) {
#ifdef CUDA_EMULATION
    if ((uintptr_t)row % 16) emu::machine().die("a row of ldmatrix is not aligned", "");
    const unsigned char(*slots)[emu::SLOT] = emu::exchange(&row, sizeof row, TRANSPOSED ? "ldmatrix.trans" : "ldmatrix");
    int g = (int)threadIdx.x % WARP / 4, t = (int)threadIdx.x % 4;
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (int j = 0; j < 2; j++) {
            int y = TRANSPOSED ? 2 * t + j : g, x = TRANSPOSED ? g : 2 * t + j;
            const uint16_t *at;
            memcpy(&at, slots[8 * i + y], sizeof at);
            pair[j] = at[x];
        }
        r[i] = (uint32_t)pair[0] | (uint32_t)pair[1] << 16;
    }
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(row);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
#endif
}

/* 16 bytes from global to shared memory, or 16 zero bytes; there after copy_wait. */
DEVICE void copy16(void *to, const void *from, bool there) {
#ifdef CUDA_EMULATION
    emu::copy c = {to, there ? from : nullptr, emu::machine().self().group};
    if (emu::machine().backward) emu::land(c); /* the earliest time that it may come; otherwise the latest */
    else emu::machine().self().copies.push_back(c);
#else
    uint32_t at = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(there ? 16 : 0) : "memory");
#endif
}

DEVICE void copy_commit() {
#ifdef CUDA_EMULATION
    emu::machine().self().group++;
#else
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/* Waits until at most PENDING of this thread's groups are on their way. */
template <int PENDING> DEVICE void copy_wait() {
#ifdef CUDA_EMULATION
    emu::fiber &f = emu::machine().self();
    std::vector<emu::copy> later;
    for (const emu::copy &c : f.copies) {
        if (c.group + PENDING >= f.group) later.push_back(c);
        else emu::land(c);
    }
    f.copies.swap(later);
#else
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}

#endif
