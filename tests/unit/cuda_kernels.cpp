/* The bodies of the CUDA kernels, under the emulation, against the CPU's arithmetic at odd sizes. Every launch runs
 * twice, with the threads of a block in rising and in falling order: a missing barrier gives other bits. */
#include <math.h>

#include <vector>

#include "kernel/cuda/attn.cuh"
#include "kernel/cuda/rows.cuh"

extern "C" {
#include "kernel/kernel.h"
#include "model/cuda_layout.h"
#include "model/tree.h"
}
#include "test.h"

namespace {

uint64_t rng = 7;
float uniform() {
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return (float)(int32_t)(rng >> 32) * 0x1p-31f;
}

std::vector<float> noise(size_t n, float scale = 1) {
    std::vector<float> v(n);
    for (float &x : v) x = uniform() * scale;
    return v;
}

template <typename T> std::vector<T> typed(const std::vector<float> &v) {
    std::vector<T> out(v.size());
    for (size_t i = 0; i < v.size(); i++) from_float(&out[i], v[i]);
    return out;
}

template <typename T> std::vector<float> widened(const std::vector<T> &v) {
    std::vector<float> out(v.size());
    for (size_t i = 0; i < v.size(); i++) out[i] = to_float(v[i]);
    return out;
}

template <typename T> bool same_bits(const std::vector<T> &a, const std::vector<T> &b) {
    return a.size() == b.size() && memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/* Largest difference, as part of the larger of |b| and 1. */
template <typename T> double worst(const std::vector<T> &a, const std::vector<float> &b) {
    double w = 0;
    for (size_t i = 0; i < b.size(); i++) {
        double d = fabs((double)to_float(a[i]) - (double)b[i]) / fmax(1, fabs((double)b[i]));
        if (!(d <= w)) w = d;
    }
    return w;
}

template <typename T> const char *type_name() { return sizeof(T) == 4 ? "f32" : "bf16"; }
/* What rounding to the type alone may cost, and a few float errors. */
template <typename T> double allowed() { return sizeof(T) == 4 ? 2e-6 : 0x1p-8; }

/* Runs `launch` in both orders of threads; the output must be the same. */
template <typename T, typename F> std::vector<T> both_orders(std::vector<T> &out, const F &launch) {
    std::vector<T> start = out;
    emu::machine().backward = true;
    launch();
    std::vector<T> backward = out;
    out = start;
    emu::machine().backward = false;
    launch();
    CHECK(same_bits(out, backward), "the order of threads makes no difference");
    return out;
}

template <typename T> void test_rmsnorm(kernel *kn, size_t rows, size_t n) {
    std::vector<float> x = noise((rows + 2) * n, 3), w = noise(n), want(rows * n);
    std::vector<T> y(rows * n);
    std::vector<uint32_t> which(rows);
    for (size_t r = 0; r < rows; r++) which[r] = (uint32_t)(rows + 1 - r);
    for (int indirect = 0; indirect < 2; indirect++) {
        for (size_t r = 0; r < rows; r++) kernel_rmsnorm(kn, &want[r * n], n, &x[(indirect ? which[r] : r) * n], n, 1, n, w.data(), 1e-6f);
        both_orders(y, [&] { LAUNCH(rmsnorm_rows<T>, (unsigned)rows, ROW_THREADS, 0, 0, y.data(), x.data(), indirect ? which.data() : nullptr, n, w.data(), 1e-6f); });
        CHECK(worst(y, want) < allowed<T>(), "rmsnorm %s, %zu x %zu: %g", type_name<T>(), rows, n, worst(y, want));
    }
}

template <typename T> void test_moves(size_t n) {
    enum { ROWS = 5 };
    std::vector<float> table = noise(9 * n), x(ROWS * n), y(ROWS * n), z(ROWS * n), want(ROWS * n);
    std::vector<T> embed = typed<T>(table);
    std::vector<uint32_t> ids = {8, 0, 3, 3, 7}, from = {1, 2, 4};
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < n; i++) want[r * n + i] = to_float(embed[ids[r] * n + i]);
    LAUNCH(embed_rows<T>, ROWS, ROW_THREADS, 0, 0, x.data(), embed.data(), ids.data(), n);
    CHECK(same_bits(x, want), "embeddings %s of %zu", type_name<T>(), n);
    LAUNCH(gather_rows, 3, ROW_THREADS, 0, 0, y.data(), x.data(), from.data(), n);
    LAUNCH(copy_rows, 3, ROW_THREADS, 0, 0, z.data(), y.data(), n);
    CHECK(memcmp(z.data(), &want[n], n * 4) == 0 && memcmp(&z[n], &want[2 * n], n * 4) == 0 && memcmp(&z[2 * n], &want[4 * n], n * 4) == 0, "rows moved up");
}

template <typename T> void test_heads(kernel *kn, size_t heads, size_t kv, size_t d, bool bias, bool norm, bool interleaved) {
    size_t rows = 7, all = heads + 2 * kv, half = d / 2, positions = 40;
    std::vector<float> qkv = noise(rows * all * d, 2), b = noise(all * d), qn = noise(d), kn_w = noise(d), freq(half), c(positions * half), s(positions * half);
    std::vector<uint32_t> pos = {0, 1, 2, 39, 7, 8, 20}, every(positions);
    for (size_t i = 0; i < positions; i++) every[i] = (uint32_t)i;
    kernel_rope_freqs(freq.data(), half, 1e4);
    kernel_rope_table(c.data(), s.data(), every.data(), positions, freq.data(), half, 1);
    std::vector<float> ref = qkv, rc(rows * half), rs(rows * half);
    kernel_rope_table(rc.data(), rs.data(), pos.data(), rows, freq.data(), half, 1);
    if (bias)
        for (size_t r = 0; r < rows; r++)
            for (size_t i = 0; i < all * d; i++) ref[r * all * d + i] += b[i];
    if (norm) {
        kernel_rmsnorm_heads(kn, ref.data(), all * d, rows, heads, d, qn.data(), 1e-6f);
        kernel_rmsnorm_heads(kn, ref.data() + heads * d, all * d, rows, kv, d, kn_w.data(), 1e-6f);
    }
    kernel_rope(kn, ref.data(), all * d, rows, heads + kv, d, rc.data(), rs.data(), half, interleaved);
    std::vector<T> out(rows * all * d);
    T *q = out.data(), *k = q + rows * heads * d, *v = k + rows * kv * d;
    heads_args a = {};
    a.qkv = qkv.data(), a.bias = bias ? b.data() : nullptr, a.q_norm = norm ? qn.data() : nullptr, a.k_norm = norm ? kn_w.data() : nullptr;
    a.cosine = c.data(), a.sine = s.data(), a.pos = pos.data(), a.rows = rows, a.heads = heads, a.kv_heads = kv, a.head_dim = d, a.eps = 1e-6f, a.interleaved = interleaved;
    both_orders(out, [&] { LAUNCH(heads_rows<T>, (unsigned)((rows * all + 7) / 8), ROW_THREADS, 0, 0, a, q, k, v); });
    std::vector<float> want(out.size());
    for (size_t r = 0; r < rows; r++) {
        memcpy(&want[r * heads * d], &ref[r * all * d], heads * d * 4);
        memcpy(&want[rows * heads * d + r * kv * d], &ref[(r * all + heads) * d], kv * d * 4);
        memcpy(&want[rows * (heads + kv) * d + r * kv * d], &ref[(r * all + heads + kv) * d], kv * d * 4);
    }
    CHECK(worst(out, want) < allowed<T>() * 1.5, "heads %s: %zu + 2 x %zu of %zu%s%s%s: %g", type_name<T>(), heads, kv, d, bias ? ", bias" : "", norm ? ", norm" : "",
          interleaved ? ", interleaved" : "", worst(out, want));
}

template <typename T> void test_swiglu(kernel *kn, size_t n) {
    size_t rows = 3;
    std::vector<float> x = noise(rows * 2 * n, 9), gate(rows * n);
    for (size_t r = 0; r < rows; r++) {
        memcpy(&gate[r * n], &x[r * 2 * n], n * 4);
        kernel_swiglu(kn, &gate[r * n], n, &x[r * 2 * n + n], n, 1, n);
    }
    std::vector<T> y(rows * n);
    LAUNCH(swiglu_rows<T>, dim3((unsigned)((n + 1023) / 1024), (unsigned)rows), ROW_THREADS, 0, 0, y.data(), x.data(), n);
    CHECK(worst(y, gate) < allowed<T>(), "swiglu %s, %zu: %g", type_name<T>(), n, worst(y, gate));
}

void test_lse(size_t vocab, size_t piece, float scale) {
    enum { ROWS = 3, STRIDE = 4 };
    std::vector<float> logits = noise(ROWS * vocab, scale), part(ROWS * piece), found(ROWS * STRIDE, -1);
    std::vector<lse_state> states(ROWS);
    uint32_t last = (uint32_t)vocab - 1;
    std::vector<uint32_t> n_labels = {4, 1, 2}, labels = {0, last, (uint32_t)piece - 1, 5, last, 0, 0, 0, 3, (uint32_t)(piece % vocab), 0, 0};
    LAUNCH(lse_begin, 1, ROW_THREADS, 0, 0, states.data(), ROWS);
    for (size_t first = 0; first < vocab; first += piece) {
        size_t many = vocab - first < piece ? vocab - first : piece;
        for (size_t r = 0; r < ROWS; r++) memcpy(&part[r * many], &logits[r * vocab + first], many * 4);
        both_orders(found, [&] {
            std::vector<lse_state> before = states;
            LAUNCH(lse_piece, ROWS, ROW_THREADS, 0, 0, states.data(), part.data(), first, many, labels.data(), n_labels.data(), STRIDE, found.data());
            if (emu::machine().backward) states = before;
        });
    }
    double w = 0;
    bool exact = true;
    for (size_t r = 0; r < ROWS; r++) {
        w = fmax(w, fabs(states[r].max + log(states[r].sum) - kernel_logsumexp(&logits[r * vocab], vocab)));
        for (size_t l = 0; l < n_labels[r]; l++) exact &= found[r * STRIDE + l] == logits[r * vocab + labels[r * STRIDE + l]];
    }
    CHECK(w < 2e-6, "log-sum-exp over %zu by %zu: %g", vocab, piece, w);
    CHECK(exact && found[5] == -1, "the logits at the labels, and no others");
    CHECK(!states[0].bad && !states[1].bad && !states[2].bad, "all finite");
    part[piece + 3] = vocab % 2 ? NAN : INFINITY;
    LAUNCH(lse_piece, ROWS, ROW_THREADS, 0, 0, states.data(), part.data(), 0, piece, labels.data(), n_labels.data(), STRIDE, found.data());
    CHECK(!states[0].bad && states[1].bad && !states[2].bad, "the row with a NaN or an infinity is known");
}

/* --- attention --- */

/* Prompts over one shared prefix, with a branch inside it, one prompt that is another's beginning, and a stranger. */
std::vector<std::vector<uint32_t>> some_prompts(size_t prefix, size_t n, size_t tail) {
    std::vector<std::vector<uint32_t>> all;
    for (size_t i = 0; i < n; i++) {
        std::vector<uint32_t> p;
        for (size_t k = 0; k < prefix; k++) p.push_back((uint32_t)(k * 7 % 50));
        if (i == 1) p.resize(prefix / 3);
        for (size_t k = 0; k < tail + i % 3; k++) p.push_back((uint32_t)(i * 100 + 60 + k));
        all.push_back(p);
    }
    all.push_back(std::vector<uint32_t>(all[0].begin(), all[0].begin() + (long)(prefix + tail / 2)));
    all.push_back({999, 998, 997});
    return all;
}

/* A row's q, k and v depend on the tokens up to it, as in a model: the same in every batch. */
void row_values(uint64_t path, std::vector<float> &to, size_t row, size_t n) {
    uint64_t before = rng;
    rng = path;
    for (size_t i = 0; i < n; i++) to[row * n + i] = uniform();
    rng = before;
}

struct tree_case {
    tree t = {};
    std::vector<model_prompt> prompts;
    size_t rows = 0;
    std::vector<float> q, k, v;

    tree_case(const std::vector<std::vector<uint32_t>> &ids, size_t q_dim, size_t kv_dim) {
        err e = {};
        std::vector<size_t> need(ids.size(), 1);
        for (size_t i = 0; i < ids.size(); i++) {
            model_prompt p = {};
            p.index = i, p.ids = ids[i].data(), p.n_ids = ids[i].size();
            prompts.push_back(p);
        }
        if (tree_build(&t, prompts.data(), need.data(), ids.size(), &e)) abort();
        rows = t.n_tokens;
        q.resize(rows * q_dim), k.resize(rows * kv_dim), v.resize(rows * kv_dim);
        for (size_t i = 0; i < ids.size(); i++) {
            uint64_t path = 1;
            std::vector<size_t> at = path_rows(i);
            for (size_t p = 0; p < at.size(); p++) {
                path = (path + ids[i][p] + 1) * 6364136223846793005u;
                row_values(path, q, at[p], q_dim);
                row_values(path ^ 1, k, at[p], kv_dim);
                row_values(path ^ 2, v, at[p], kv_dim);
            }
        }
    }
    ~tree_case() { tree_free(&t); }
    tree_case(const tree_case &) = delete;
    tree_case &operator=(const tree_case &) = delete;

    /* The rows of a prompt's tokens, by position. */
    std::vector<size_t> path_rows(size_t prompt) const {
        std::vector<size_t> at(prompts[prompt].n_ids);
        size_t end = at.size();
        for (size_t n = t.leaves[prompt].node; n != TREE_NONE; n = t.nodes[n].parent) {
            for (size_t p = t.nodes[n].pos; p < end; p++) at[p] = t.nodes[n].at + p - t.nodes[n].pos;
            end = t.nodes[n].pos;
        }
        return at;
    }
};

struct shape {
    size_t heads, kv, d, window;
};

template <typename T> using tensor_kernel_of = void (*)(attn_args<T>);

template <typename T> std::vector<T> attend(const tree_case &c, shape s, size_t chunk, size_t tile_rows, tensor_kernel_of<T> tensor) {
    err e = {};
    cuda_plan plan = {};
    if (cuda_plan_make(&plan, &c.t, chunk, tile_rows, s.window, &e)) abort();
    std::vector<T> q = typed<T>(c.q), k = typed<T>(c.k), v = typed<T>(c.v), out(q.size());
    both_orders(out, [&] {
        for (size_t first = 0, i = 0; first < c.rows; first += chunk, i++) {
            attn_args<T> a = {};
            a.q = q.data() + first * s.heads * s.d, a.out = out.data() + first * s.heads * s.d;
            a.k = k.data(), a.v = v.data(), a.pos = plan.out.pos, a.keys = plan.out.keys, a.entries = plan.out.entries;
            a.tiles = plan.out.tiles + plan.out.chunk_tiles[i], a.first_row = first;
            a.heads = s.heads, a.kv_heads = s.kv, a.head_dim = s.d, a.window = s.window;
            a.scale = 4 / sqrtf((float)s.d);
            unsigned tiles = (unsigned)(plan.out.chunk_tiles[i + 1] - plan.out.chunk_tiles[i]);
            size_t group = s.heads / s.kv, together = heads_together(s.heads, s.kv);
            if (tensor) LAUNCH(tensor, dim3(tiles, (unsigned)(s.kv * ((group + together - 1) / together))), TENSOR_THREADS, tensor_shared_bytes((int)s.d), 0, a);
            else LAUNCH(attn_plain<T>, dim3(tiles, (unsigned)s.heads), PLAIN_THREADS, plain_shared_bytes(s.d), 0, a);
        }
    });
    cuda_plan_free(&plan);
    return out;
}

/* The CPU's attention, prompt by prompt, on values rounded to the type. */
template <typename T> std::vector<float> reference(kernel *kn, const tree_case &c, shape s) {
    err e = {};
    size_t q_dim = s.heads * s.d, kv_dim = s.kv * s.d;
    std::vector<float> q = widened(typed<T>(c.q)), k = widened(typed<T>(c.k)), v = widened(typed<T>(c.v)), out(c.rows * q_dim);
    for (size_t i = 0; i < c.prompts.size(); i++) {
        std::vector<size_t> at = c.path_rows(i);
        size_t n = at.size();
        std::vector<float> pq(n * q_dim), pk(n * kv_dim), pv(n * kv_dim), po(n * q_dim);
        for (size_t p = 0; p < n; p++) {
            memcpy(&pq[p * q_dim], &q[at[p] * q_dim], q_dim * 4);
            memcpy(&pk[p * kv_dim], &k[at[p] * kv_dim], kv_dim * 4);
            memcpy(&pv[p * kv_dim], &v[at[p] * kv_dim], kv_dim * 4);
        }
        for (size_t h = 0; h < s.heads; h++) { /* head by head: the CPU refuses very large groups */
            size_t kv_head = h / (s.heads / s.kv);
            kernel_run run = {pk.data() + kv_head * s.d, pv.data() + kv_head * s.d, 0, n, kv_dim, s.d};
            kernel_branch b = {};
            b.q = pq.data() + h * s.d, b.out = po.data() + h * s.d, b.q_stride = b.out_stride = q_dim;
            b.n_rows = n, b.runs = &run, b.n_runs = 1, b.window = s.window;
            if (kernel_attn(kn, &b, 1, 1, 1, s.d, 4 / sqrtf((float)s.d), &e)) abort();
        }
        for (size_t p = 0; p < n; p++) memcpy(&out[at[p] * q_dim], &po[p * q_dim], q_dim * 4);
    }
    return out;
}

template <typename T> void test_attention(kernel *kn, shape s, size_t prefix, size_t n, size_t tail, tensor_kernel_of<T> tensor) {
    const char *how = tensor ? "tensor cores" : type_name<T>();
    size_t q_dim = s.heads * s.d, kv_dim = s.kv * s.d, tile_rows = CUDA_TILE / heads_together(s.heads, s.kv);
    std::vector<std::vector<uint32_t>> ids = some_prompts(prefix, n, tail);
    tree_case all(ids, q_dim, kv_dim);
    std::vector<T> out = attend<T>(all, s, 48, tile_rows, tensor);
    double w = worst(out, reference<T>(kn, all, s));
    CHECK(w < (sizeof(T) == 4 ? 4e-6 : 8e-3), "attention, %s: %zu/%zu heads of %zu, window %zu, %zu + %zu x %zu: %g", how, s.heads, s.kv, s.d, s.window, prefix, n, tail, w);
    CHECK(same_bits(out, attend<T>(all, s, 1000, tile_rows, tensor)), "one chunk: the same bits");
    if (tile_rows > 3) CHECK(same_bits(out, attend<T>(all, s, 29, 3, tensor)), "small tiles: the same bits");
    bool same = true;
    for (size_t i = 0; i < ids.size(); i += 2) {
        tree_case alone({ids[i]}, q_dim, kv_dim);
        std::vector<T> mine = attend<T>(alone, s, 48, tile_rows, tensor);
        std::vector<size_t> at = all.path_rows(i);
        for (size_t p = 0; p < at.size(); p++) same &= memcmp(&mine[p * q_dim], &out[at[p] * q_dim], q_dim * sizeof(T)) == 0;
    }
    CHECK(same, "every prompt alone: the same bits");
}

template <typename T> void test_rows(kernel *kn) {
    for (size_t n : {1, 3, 48, 127, 260, 1030}) test_rmsnorm<T>(kn, 3, n);
    test_moves<T>(50);
    test_moves<T>(515);
    test_heads<T>(kn, 3, 1, 12, false, false, false);
    test_heads<T>(kn, 4, 2, 20, false, true, false);
    test_heads<T>(kn, 5, 5, 64, true, false, true);
    test_heads<T>(kn, 2, 1, 126, true, true, false);
    for (size_t n : {1, 80, 81, 1027, 2048}) test_swiglu<T>(kn, n);
}

void test_bf16() {
    bf16 b;
    const struct {
        uint32_t f;
        uint16_t want;
    } all[] = {{0x3f800000, 0x3f80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f808001, 0x3f81}, {0x7f7fffff, 0x7f80}, {0x7f800001, 0x7fc0}, {0x80000000, 0x8000}};
    for (const auto &a : all) {
        from_float(&b, bits_float(a.f));
        CHECK(b.bits == a.want, "%08x rounds to %04x, nearest even", a.f, b.bits);
    }
}

} // namespace

int main() {
    err e = {};
    kernel *kn = nullptr;
    if (kernel_open(&kn, KERNEL_REF, 1, &e)) return 1;
    test_bf16();
    test_rows<float>(kn);
    test_rows<bf16>(kn);
    test_lse(320, 96, 30);
    test_lse(97, 97, 3);
    test_lse(1000, 300, 80);
    test_attention<float>(kn, {4, 2, 20, 0}, 70, 3, 9, nullptr);
    test_attention<float>(kn, {3, 1, 6, 40}, 130, 2, 5, nullptr);
    test_attention<bf16>(kn, {2, 2, 12, 0}, 61, 3, 7, nullptr);
    test_attention<bf16>(kn, {4, 2, 16, 0}, 70, 3, 9, attn_tensor<16>);
    test_attention<bf16>(kn, {7, 1, 16, 0}, 133, 5, 3, attn_tensor<16>);
    test_attention<bf16>(kn, {3, 3, 16, 37}, 129, 2, 33, attn_tensor<16>);
    test_attention<bf16>(kn, {130, 1, 16, 0}, 5, 1, 2, attn_tensor<16>);
    test_attention<bf16>(kn, {2, 1, 64, 0}, 64, 2, 3, attn_tensor<64>);
    test_attention<bf16>(kn, {2, 2, 80, 0}, 66, 2, 3, attn_tensor<80>);
    test_attention<bf16>(kn, {2, 1, 96, 0}, 20, 1, 3, attn_tensor<96>);
    test_attention<bf16>(kn, {4, 1, 128, 0}, 100, 2, 30, attn_tensor<128>);
    kernel_close(kn);
    return test_end();
}
