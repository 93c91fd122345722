//! Loads of values and stores of codes and scales.

use octile_core::{FloatKind, plan::hopper::QuantizePlan};

use crate::hopper::ptx::{B32, B64, F32, Global, Policy, Pred, Ptx};

/// Bytes of a vector load.
const CHUNK_BYTES: u32 = 16;

/// Addresses of values, codes and scales.
pub(super) struct Rows {
    kind: FloatKind,
    vectors: bool,
    x: B64,
    codes: B64,
    scales: B64,
    /// Bytes from row to row of x.
    x_stride: B32,
    codes_stride: B32,
    pub(super) m: B32,
    k: B32,
    pub(super) warp: B32,
    pub(super) lane: B32,
    float_policy: Policy,
    code_policy: Policy,
}

/// 16 bytes of adjacent values, and whether they lie inside the matrix.
pub(super) struct Chunk {
    values: Values,
    exists: Pred,
    /// Address of their codes.
    codes: Global,
}

/// Values as loaded.
#[derive(Clone, Copy)]
pub(super) enum Values {
    /// Eight 16-bit floats, packed in pairs.
    Pairs([B32; 4]),
    /// Four 32-bit floats.
    Wide([F32; 4]),
}

/// The largest magnitude so far.
#[derive(Clone, Copy)]
pub(super) enum Largest {
    /// Of the low and the high halves; the signs are arbitrary.
    Pair(B32),
    /// Of single values.
    Wide(F32),
}

impl Rows {
    pub(super) fn new(ptx: &mut Ptx, plan: &QuantizePlan) -> Self {
        let QuantizePlan { kind, vectors, tuning, .. } = *plan;
        let stride = ptx.number("x_stride");
        let thread = ptx.thread();
        Self {
            kind,
            vectors,
            x: ptx.pointer("x"),
            codes: ptx.pointer("codes"),
            scales: ptx.pointer("scales"),
            x_stride: ptx.mul(stride, kind.bytes() as u32),
            codes_stride: ptx.number("codes_stride"),
            m: ptx.number("m"),
            k: ptx.number("k"),
            warp: ptx.shr(thread, 5),
            lane: ptx.and(thread, 31),
            float_policy: ptx.policy(tuning.floats),
            code_policy: ptx.policy(tuning.codes),
        }
    }

    /// Values of a chunk.
    pub(super) fn chunk_values(&self) -> u32 {
        CHUNK_BYTES / self.kind.bytes() as u32
    }

    /// Loads `count` chunks of a row, `apart` columns from one to the next; 0 beyond the matrix.
    pub(super) fn load(&self, ptx: &mut Ptx, row: B32, column: B32, count: u32, apart: u32) -> Vec<Chunk> {
        let bytes = self.kind.bytes() as u32;
        let (x_row, code_row) =
            (ptx.mad_wide(row, self.x_stride, self.x), ptx.mad_wide(row, self.codes_stride, self.codes));
        let (x, codes) = (ptx.mad_wide(column, bytes, x_row), ptx.mad_wide(column, 1, code_row));
        let in_rows = ptx.lt(row, self.m);
        let load = |index: u32| {
            let first = ptx.add(column, index * apart);
            let in_columns = ptx.lt(first, self.k);
            let exists = ptx.both(in_rows, in_columns);
            let at = Global(x, index * apart * bytes);
            let values = if self.vectors {
                let bits = ptx.stream_load_16_if(at, exists, self.float_policy);
                match self.kind {
                    FloatKind::F32 => Values::Wide(bits.map(|bits| ptx.as_float(bits))),
                    FloatKind::Bf16 | FloatKind::F16 => Values::Pairs(bits),
                }
            } else {
                self.load_singly(ptx, at, first, in_rows)
            };
            Chunk { values, exists, codes: Global(codes, index * apart) }
        };
        (0..count).map(load).collect()
    }

    /// Loads a chunk value by value, at any alignment.
    fn load_singly(&self, ptx: &mut Ptx, at: Global, column: B32, in_rows: Pred) -> Values {
        let exists = |ptx: &mut Ptx, offset: u32| {
            let column = ptx.add(column, offset);
            let in_columns = ptx.lt(column, self.k);
            ptx.both(in_rows, in_columns)
        };
        match self.kind {
            FloatKind::F32 => Values::Wide([0, 1, 2, 3].map(|offset| {
                let exists = exists(ptx, offset);
                ptx.load_global_f32_if(Global(at.0, at.1 + 4 * offset), exists)
            })),
            FloatKind::Bf16 | FloatKind::F16 => Values::Pairs([0, 2, 4, 6].map(|offset| {
                let [low, high] = [offset, offset + 1].map(|offset| {
                    let exists = exists(ptx, offset);
                    ptx.load_global_b16_if(Global(at.0, at.1 + 2 * offset), exists)
                });
                ptx.join_halves(low, high)
            })),
        }
    }

    /// The largest magnitude of some chunks.
    pub(super) fn largest(&self, ptx: &mut Ptx, chunks: &[Chunk]) -> Largest {
        let pairs = chunks.iter().flat_map(|chunk| match chunk.values {
            Values::Pairs(pairs) => pairs.to_vec(),
            Values::Wide(_) => Vec::new(),
        });
        if let Some(pair) = pairs.reduce(|a, b| ptx.max_abs_pairs(self.kind, a, b)) {
            return Largest::Pair(pair);
        }
        let mut max = ptx.float(0.0);
        for chunk in chunks {
            if let Values::Wide(values) = chunk.values {
                for value in values {
                    let magnitude = ptx.abs_f32(value);
                    max = ptx.max_f32(max, magnitude);
                }
            }
        }
        Largest::Wide(max)
    }

    /// The largest of `lanes` neighbouring lanes, as a float, in each of them.
    pub(super) fn largest_of_lanes(&self, ptx: &mut Ptx, largest: Largest, lanes: u32) -> F32 {
        match largest {
            Largest::Wide(value) => ptx.max_of_lanes(value, lanes),
            Largest::Pair(pair) => {
                let pair = ptx.max_abs_pairs_of_lanes(self.kind, pair, lanes);
                self.larger_half(ptx, pair)
            }
        }
    }

    /// The larger magnitude of a pair.
    pub(super) fn larger_half(&self, ptx: &mut Ptx, pair: B32) -> F32 {
        let magnitudes = ptx.and(pair, 0x7fff_7fff);
        let [low, high] = ptx.halves(magnitudes).map(|half| ptx.widen(self.kind, half));
        ptx.max_f32(low, high)
    }

    /// Quantizes a chunk and stores its codes. Rows of codes are padded to a multiple of 16.
    pub(super) fn store(&self, ptx: &mut Ptx, chunk: &Chunk, inverse: F32) {
        let values: Vec<F32> = match chunk.values {
            Values::Wide(values) => values.to_vec(),
            Values::Pairs(pairs) => {
                let halves: Vec<_> = pairs.into_iter().flat_map(|pair| ptx.halves(pair)).collect();
                halves.into_iter().map(|half| ptx.widen(self.kind, half)).collect()
            }
        };
        let scaled: Vec<F32> = values.into_iter().map(|value| ptx.mul_f32(value, inverse)).collect();
        let codes: Vec<B32> = scaled
            .chunks(4)
            .map(|four| {
                let (low, high) = (ptx.pack_e4m3(four[0], four[1]), ptx.pack_e4m3(four[2], four[3]));
                ptx.join_halves(low, high)
            })
            .collect();
        ptx.stream_store_if(chunk.codes, &codes, chunk.exists, self.code_policy);
    }

    /// Stores the scale of a block or token group; `row` is its index along M.
    pub(super) fn store_scale(&self, ptx: &mut Ptx, row: B32, quant_k: B32, scale: F32, stores: Pred) {
        let (row_stride, k_stride) = (ptx.number("scale_row"), ptx.number("scale_k"));
        let (row_bytes, k_bytes) = (ptx.shl(row_stride, 2), ptx.shl(k_stride, 2));
        let of_row = ptx.mad_wide(row, row_bytes, self.scales);
        let at = ptx.mad_wide(quant_k, k_bytes, of_row);
        ptx.store_global_f32_if(Global(at, 0), scale, stores);
    }
}
