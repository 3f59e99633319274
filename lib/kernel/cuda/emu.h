/* emu.h: a small CUDA on the host, for tests: blocks run one after the other, the threads of a block as fibers that
 * change at barriers and warp operations only. What a device would leave undefined ends the program here: a barrier
 * that not all threads reach, a warp operation that not all lanes reach. A missing barrier shows as a result that
 * depends on the order of threads (set backward), a missing wait as stale data: asynchronous copies happen when they
 * are waited for (backward: at once). One host thread at a time. */
#ifndef ANYJEV_CUDA_EMU_H
#define ANYJEV_CUDA_EMU_H

#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include <functional>
#include <memory>
#include <vector>

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

struct float4 {
    float x, y, z, w;
};

struct uint2 {
    uint32_t x, y;
};

namespace emu {

enum { STACK = 64 * 1024, SLOT = 32, WARP_SIZE = 32, THREADS_MAX = 1024 };

struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    unsigned group;
};

inline void land(const copy &c) {
    if (c.from) memcpy(c.to, c.from, 16);
    else memset(c.to, 0, 16);
}

enum state { READY, AT_BARRIER, AT_WARP, DONE };

struct fiber {
    ucontext_t start;
    jmp_buf at;
    std::unique_ptr<char[]> stack;
    bool started = false;
    state is = DONE;
    const char *what = ""; /* the operation that it waits in */
    unsigned thread = 0, turn = 0, group = 0;
    std::vector<copy> copies;
};

struct warp {
    unsigned char slot[2][WARP_SIZE][SLOT];
};

class machine_t {
public:
    dim3 grid, block, block_at;
    bool backward = false;
    size_t launches = 0;

    unsigned char *dynamic() { return dynamic_.data() + align_; }
    fiber &self() { return *fibers_[current_]; }
    warp &own_warp() { return warps_[current_ / WARP_SIZE]; }
    unsigned thread() const { return current_; }

    void run(dim3 g, dim3 b, size_t shared_bytes, const std::function<void()> &body) {
        if (b.y != 1 || b.z != 1 || b.x == 0 || b.x > THREADS_MAX || b.x % WARP_SIZE) die("a block is one row of whole warps", "");
        if (g.x == 0 || g.y == 0 || g.y > 65535 || g.z == 0 || g.z > 65535) die("a grid without blocks, or with too many", "");
        launches++;
        grid = g, block = b, body_ = &body;
        while (fibers_.size() < b.x) {
            fibers_.emplace_back(new fiber);
            fibers_.back()->stack.reset(new char[STACK]);
        }
        warps_.resize((b.x + WARP_SIZE - 1) / WARP_SIZE);
        for (unsigned z = 0; z < g.z; z++)
            for (unsigned y = 0; y < g.y; y++)
                for (unsigned x = 0; x < g.x; x++) {
                    block_at = dim3(x, y, z);
                    /* Shared memory begins with anything: NaNs, so that its use shows. */
                    dynamic_.assign(shared_bytes + 64, 0xff);
                    align_ = (64 - (uintptr_t)dynamic_.data() % 64) % 64;
                    run_block(b.x);
                }
    }

    /* Called by a fiber: goes on when all threads of the block (or lanes of the warp) have come. */
    void wait(state at, const char *what) {
        fiber &f = self();
        f.is = at;
        f.what = what;
        to_scheduler(f);
    }

    [[noreturn]] void die(const char *what, const char *where) {
        fprintf(stderr, "emulation: %s %s (block %u, thread %u)\n", what, where, block_at.x, current_);
        abort();
    }

private:
    std::vector<std::unique_ptr<fiber>> fibers_;
    std::vector<warp> warps_;
    std::vector<unsigned char> dynamic_;
    size_t align_ = 0;
    const std::function<void()> *body_ = nullptr;
    unsigned current_ = 0;
    ucontext_t scheduler_ctx_;
    jmp_buf scheduler_;

/* swapcontext asks the kernel for the signal mask each time; setjmp does not, but the address sanitizer follows only
 * the former. */
#if defined(__SANITIZE_ADDRESS__)
    void to_scheduler(fiber &f) { swapcontext(&f.start, &scheduler_ctx_); }
    void to_fiber(fiber &f) { swapcontext(&scheduler_ctx_, &f.start); }
#else
    void to_scheduler(fiber &f) {
        if (!_setjmp(f.at)) _longjmp(scheduler_, 1);
    }
    void to_fiber(fiber &f) {
        if (_setjmp(scheduler_)) return;
        if (f.started) _longjmp(f.at, 1);
        f.started = true;
        setcontext(&f.start);
    }
#endif

    static void enter();

    void begin(unsigned i) {
        fiber &f = *fibers_[i];
        getcontext(&f.start);
        f.start.uc_stack.ss_sp = f.stack.get();
        f.start.uc_stack.ss_size = STACK;
        f.start.uc_link = nullptr;
        makecontext(&f.start, enter, 0);
        f.started = false;
        f.is = READY;
        f.thread = i;
        f.turn = f.group = 0;
        f.copies.clear();
    }

    bool release_warp(unsigned first, unsigned n) {
        const char *what = fibers_[first]->what;
        for (unsigned i = first; i < first + n; i++)
            if (fibers_[i]->is != AT_WARP) return false;
        for (unsigned i = first; i < first + n; i++)
            if (fibers_[i]->what != what) die("lanes of a warp meet in different operations:", what);
        for (unsigned i = first; i < first + n; i++) fibers_[i]->is = READY;
        return true;
    }

    void run_block(unsigned n) {
        for (unsigned i = 0; i < n; i++) begin(i);
        for (;;) {
            unsigned done = 0, barrier = 0;
            bool moved = false;
            for (unsigned k = 0; k < n; k++) {
                current_ = backward ? n - 1 - k : k;
                fiber &f = *fibers_[current_];
                if (f.is != READY) continue;
                to_fiber(f);
                moved = true;
            }
            for (unsigned i = 0; i < n; i++) {
                done += fibers_[i]->is == DONE;
                barrier += fibers_[i]->is == AT_BARRIER;
            }
            if (done == n) return;
            for (unsigned w = 0; w < n; w += WARP_SIZE) moved |= release_warp(w, WARP_SIZE);
            if (barrier == n) {
                for (unsigned i = 0; i < n; i++) fibers_[i]->is = READY;
                moved = true;
            }
            if (!moved) die("not all threads reach", fibers_[stuck(n)]->what);
        }
    }

    unsigned stuck(unsigned n) const {
        for (unsigned i = 0; i < n; i++)
            if (fibers_[i]->is == AT_BARRIER || fibers_[i]->is == AT_WARP) return i;
        return 0;
    }

    friend void enter_body();
    void body() {
        (*body_)();
        fiber &f = self();
        f.is = DONE;
        to_scheduler(f);
    }
};

inline machine_t &machine() {
    static machine_t m;
    return m;
}

inline void enter_body() { machine().body(); }
inline void machine_t::enter() { enter_body(); }

template <typename F> void launch(dim3 g, dim3 b, size_t shared_bytes, const F &f) { machine().run(g, b, shared_bytes, std::function<void()>(f)); }

/* Every lane gives `bytes` bytes and then may read what the others gave. Two sets of slots alternate: a lane can be
 * one operation ahead of the slowest, never two. */
inline const unsigned char (*exchange(const void *give, size_t bytes, const char *what))[SLOT] {
    machine_t &m = machine();
    unsigned turn = m.self().turn++ & 1;
    memcpy(m.own_warp().slot[turn][m.thread() % WARP_SIZE], give, bytes);
    m.wait(AT_WARP, what);
    return m.own_warp().slot[turn];
}

} // namespace emu

#define gridDim (emu::machine().grid)
#define blockDim (emu::machine().block)
#define blockIdx (emu::machine().block_at)
#define threadIdx (dim3(emu::machine().thread(), 0, 0))
#define __launch_bounds__(...)

inline void __syncthreads() { emu::machine().wait(emu::AT_BARRIER, "__syncthreads"); }
inline void __syncwarp() { emu::machine().wait(emu::AT_WARP, "__syncwarp"); }

template <typename T> T __shfl_xor_sync(unsigned, T v, int d) {
    static_assert(sizeof(T) <= emu::SLOT, "a slot holds it");
    unsigned lane = emu::machine().thread() % emu::WARP_SIZE;
    T out;
    memcpy(&out, emu::exchange(&v, sizeof v, "shfl_xor")[lane ^ (unsigned)d], sizeof out);
    return out;
}

template <typename T> T __shfl_sync(unsigned, T v, int from) {
    T out;
    memcpy(&out, emu::exchange(&v, sizeof v, "shfl")[from], sizeof out);
    return out;
}

inline bool __any_sync(unsigned, bool v) {
    unsigned char c = v, any = 0;
    const unsigned char(*all)[emu::SLOT] = emu::exchange(&c, 1, "any");
    for (int i = 0; i < emu::WARP_SIZE; i++) any |= all[i][0];
    return any;
}

#endif
