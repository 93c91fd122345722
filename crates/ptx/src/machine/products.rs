//! Matrix products, and what warps do with 8 x 8 matrices.

use octile_core::E4m3;

use super::{
    cluster::Cluster,
    step::{address, resolve},
    warp::{LANES, Warp},
};
use crate::{
    FaultKind,
    memory::{Access, Agent, Clock, Lane, Shared, swizzled},
    program::{Product, SharedAt, Value, Word},
};

/// A product that was started and not yet seen to be over.
#[derive(Debug)]
pub(super) struct StartedProduct {
    product: Product,
    a: u64,
    b: u64,
    adds: bool,
    clock: Clock,
    /// Groups that were closed before it was started.
    group: u64,
}

/// Depth of a product, in values and in bytes.
const DEPTH: usize = 32;
/// Rows of A that a warp of the warpgroup multiplies.
const WARP_ROWS: usize = 16;

pub(super) fn start(warp: &mut Warp, product: &Product) {
    let clock = warp.start_product();
    warp.products.push_back(StartedProduct {
        product: product.clone(),
        a: warp.wide(product.a, 0),
        b: warp.wide(product.b, 0),
        adds: warp.holds(product.adds) & 1 == 1,
        clock,
        group: warp.product_groups,
    });
}

/// Learns that all products are over that are no longer among the started.
pub(super) fn wait(warp: &mut Warp) {
    warp.finish_products(warp.finished_products);
}

impl Cluster {
    /// Carries out started products until at most `pending` groups are left.
    pub(super) fn multiply(&mut self, warp: &mut Warp, pending: u64) -> Result<(), FaultKind> {
        while warp.products.front().is_some_and(|first| first.group + pending < warp.product_groups) {
            let started = warp.products.pop_front().expect("there is one");
            let shared = &mut self.block(warp.block)?.shared;
            let agent = Agent::products(warp.in_cluster);
            let access = Access { agent, lane: Lane::SEVERAL, clock: &started.clock };
            let columns = started.product.sums.len() * 2;
            let first_row = warp.index % 4 * WARP_ROWS;
            let a = rows(shared, started.a, first_row..first_row + WARP_ROWS, access)?;
            let b = rows(shared, started.b, 0..columns, access)?;
            warp.finished_products = started.clock.of(agent);
            for (index, &word) in started.product.sums.iter().enumerate() {
                for lane in 0..LANES {
                    let row = lane / 4 + 8 * (index / 2 % 2);
                    let column = index / 4 * 8 + lane % 4 * 2 + index % 2;
                    let before = if started.adds { f32::from_bits(warp.word(word, lane)) } else { 0.0 };
                    warp.set(word, lane, (before + dot(&a[row], &b[column])).to_bits());
                }
            }
        }
        Ok(())
    }

    /// Stores 8 x 8 matrices of 16-bit values: the lanes hold two of a row each, and name where rows go.
    pub(super) fn store_matrices(
        &mut self,
        warp: &mut Warp,
        at: SharedAt,
        values: &[Value],
    ) -> Result<(), FaultKind> {
        warp.touched = warp.live();
        for (matrix, &value) in values.iter().enumerate() {
            for row in 0..8 {
                let (rank, place) = resolve(warp, address(warp, at, matrix * 8 + row));
                if !place.is_multiple_of(16) {
                    return Err(FaultKind::Misaligned { address: place as u64, alignment: 16 });
                }
                let bytes: Vec<u8> =
                    (0..4).flat_map(|pair| warp.value(value, row * 4 + pair).to_le_bytes()).collect();
                let shared = &mut self.block(rank)?.shared;
                let clock = &warp.known(warp.live());
                let access = Access { agent: warp.agent(), lane: Lane::SEVERAL, clock };
                shared.store(place, &bytes, warp.in_cluster, access)?;
            }
        }
        Ok(())
    }
}

fn dot(a: &[f32; DEPTH], b: &[f32; DEPTH]) -> f32 {
    let mut sums = [0.0; 8];
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum()
}

/// Rows of an operand that a descriptor names.
fn rows(
    shared: &mut Shared,
    descriptor: u64,
    rows: std::ops::Range<usize>,
    access: Access<'_>,
) -> Result<Vec<[f32; DEPTH]>, FaultKind> {
    const UNIT: usize = 16;
    let field = |shift: u32| ((descriptor >> shift) & 0x3fff) as usize * UNIT;
    let (start, group) = (field(0), field(32));
    if descriptor >> 62 != 1 {
        return Err(FaultKind::Descriptor { descriptor });
    }
    rows.map(|row| {
        let line = start + row / 8 * group + row % 8 * 128;
        let mut values = [0.0; DEPTH];
        for (unit, values) in values.chunks_mut(UNIT).enumerate() {
            let codes = shared.read_by_engine(swizzled(line + unit * UNIT), UNIT, access)?;
            for (value, &code) in values.iter_mut().zip(codes) {
                *value = E4m3::from_bits(code).to_f32();
            }
        }
        Ok(values)
    })
    .collect()
}

/// Transposes the matrix that the warp holds.
pub(super) fn transpose(warp: &mut Warp, to: Word, value: Value) {
    let held: [u32; LANES] = std::array::from_fn(|lane| warp.value(value, lane));
    let element = |row: usize, column: usize| held[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff;
    for lane in 0..LANES {
        let (row, column) = (lane / 4, lane % 4 * 2);
        warp.set(to, lane, element(column, row) | element(column + 1, row) << 16);
    }
}
