//! Matrix products, and what warps do with 8 x 8 matrices.

use std::ops::Range;

use octile_core::E4m3;

use super::{
    World,
    cluster::Cluster,
    step::{address, resolve},
    warp::{LANES, Warp},
    warpgroups::Joint,
};
use crate::{
    FaultKind,
    memory::{Access, Agent, Clock, Lane, Shared, Thread, UNIT, swizzled},
    program::{Product, SharedAt, Value, Word},
};

/// A product that was started and not yet waited for.
#[derive(Debug)]
pub(super) struct StartedProduct {
    pub(super) product: Product,
    /// Where it was started.
    pub(super) at: usize,
    a: u64,
    b: u64,
    adds: bool,
    /// What it adds to, register by register, unless that comes from the product before it.
    sums: Option<Vec<[u32; LANES]>>,
    clock: Clock,
    time: u32,
    /// Groups that were closed before it was started.
    group: u64,
}

/// What registers hold that the tensor cores work on.
const POISON: [u32; LANES] = [u32::MAX; LANES];

/// Depth of a product, in values and in bytes.
const DEPTH: usize = 32;
/// Rows of A that a warp of the warpgroup multiplies.
const WARP_ROWS: usize = 16;

impl Cluster {
    /// Hands a product to the tensor cores. Its registers may not be used until it is waited for.
    pub(super) fn start_product(
        &mut self,
        warp: &mut Warp,
        product: &Product,
        at: usize,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        if !warp.has_fenced_products {
            return Err(FaultKind::ProductNotFenced);
        }
        let adds = warp.holds(product.adds, warp.live());
        let (a, b) = (warp.same_wide(product.a)?, warp.same_wide(product.b)?);
        if adds != 0 && adds != warp.live() {
            return Err(FaultKind::OperandsDiffer);
        }
        self.join_warpgroup(warp, Joint { at, operands: Some((a, b, adds != 0)) }, world)?;
        let known = warp.known(warp.live());
        let access = warp.access(Lane::SEVERAL, &known);
        let shared = &self.block(warp.block)?.shared;
        for at in units(a, warp_rows(warp))?.chain(units(b, 0..product.sums.len() * 2)?) {
            shared.require_fenced(at, UNIT, warp.live(), access)?;
        }
        drop(known);
        let goes_on = warp.products.back().is_some_and(|last| last.product.sums == product.sums);
        let sums = if goes_on {
            None
        } else {
            if adds != 0 {
                product.sums.iter().for_each(|&word| warp.written.use_word_of(word, warp.live()));
            }
            Some(product.sums.iter().map(|&word| warp.exchange(word, POISON)).collect())
        };
        let (clock, time) = warp.start_product();
        warp.await_words(&product.sums);
        let (product, group, adds) = (product.clone(), warp.product_groups, adds != 0);
        warp.products.push_back(StartedProduct { product, at, a, b, adds, sums, clock, time, group });
        Ok(())
    }

    /// Carries out started products until at most `pending` groups are left.
    pub(super) fn multiply(&mut self, warp: &mut Warp, pending: u64) -> Result<(), FaultKind> {
        warp.has_fenced_products = false;
        while warp.products.front().is_some_and(|first| first.group + pending < warp.product_groups) {
            let started = warp.products.pop_front().expect("there is one");
            let shared = &mut self.block(warp.block)?.shared;
            let access = Access::of_engine(Agent::products(warp.in_cluster), started.time, &started.clock);
            let a = rows(shared, started.a, warp_rows(warp), access)?;
            let b = rows(shared, started.b, 0..started.product.sums.len() * 2, access)?;
            let mut sums = started.sums.expect("the first of those that go on has them");
            for (index, sums) in sums.iter_mut().enumerate() {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let row = lane / 4 + 8 * (index / 2 % 2);
                    let column = index / 4 * 8 + lane % 4 * 2 + index % 2;
                    let before = if started.adds { f32::from_bits(*sum) } else { 0.0 };
                    *sum = (before + dot(&a[row], &b[column])).to_bits();
                }
            }
            warp.finish_products(started.time);
            warp.have_words(&started.product.sums);
            match warp.products.front_mut().filter(|next| next.sums.is_none()) {
                Some(next) => next.sums = Some(sums),
                None => started.product.sums.iter().zip(sums).for_each(|(&word, sums)| {
                    warp.exchange(word, sums);
                }),
            }
        }
        Ok(())
    }

    /// Stores 8 x 8 matrices of 16-bit values: the lanes hold two of a row each, and name where rows go.
    pub(super) fn store_matrices(
        &mut self,
        warp: &mut Warp,
        at: SharedAt,
        values: &[Value; 4],
    ) -> Result<(), FaultKind> {
        warp.touch(warp.live());
        let known = warp.known(warp.live());
        for (matrix, &value) in values.iter().enumerate() {
            for row in 0..8 {
                let (rank, place) = resolve(warp, address(warp, at, matrix * 8 + row));
                if !place.is_multiple_of(16) {
                    return Err(FaultKind::Misaligned { address: place as u64, alignment: 16 });
                }
                for pair in 0..4 {
                    let lane = row * 4 + pair;
                    let (bytes, thread) =
                        (warp.value(value, lane).to_le_bytes(), Thread { warp: warp.in_cluster, lane });
                    let access = warp.access(Lane::new(lane), &known);
                    self.block(rank)?.shared.store(place + 4 * pair, &bytes, thread, access)?;
                }
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

/// The bits of a descriptor that say how an operand lies, and what they must be: the 128-byte swizzle, with its pattern where addresses have it.
const LAYOUT: u64 = 0xffff_c000_0000_0000;
const SWIZZLED: u64 = 1 << 62;

/// The rows of A that this warp of its warpgroup multiplies.
fn warp_rows(warp: &Warp) -> Range<usize> {
    let first = warp.index % 4 * WARP_ROWS;
    first..first + WARP_ROWS
}

/// The addresses of rows of an operand that a descriptor names, two units for each.
fn units(descriptor: u64, rows: Range<usize>) -> Result<impl Iterator<Item = usize>, FaultKind> {
    // They count in units.
    let field = |shift: u32| ((descriptor >> shift) & 0x3fff) as usize * UNIT;
    let (start, group) = (field(0), field(32));
    if descriptor & LAYOUT != SWIZZLED {
        return Err(FaultKind::Descriptor { descriptor });
    }
    let lines = rows.map(move |row| start + row / 8 * group + row % 8 * 128);
    Ok(lines.flat_map(|line| [swizzled(line), swizzled(line + UNIT)]))
}

/// The values of rows of an operand.
fn rows(
    shared: &mut Shared,
    descriptor: u64,
    rows: Range<usize>,
    access: Access<'_>,
) -> Result<Vec<[f32; DEPTH]>, FaultKind> {
    let mut values = vec![[0.0; DEPTH]; rows.len()];
    for (at, values) in units(descriptor, rows)?.zip(values.as_flattened_mut().chunks_mut(UNIT)) {
        for (value, &code) in values.iter_mut().zip(shared.read(at, UNIT, access)?) {
            *value = E4m3::from_bits(code).to_f32();
        }
    }
    Ok(values)
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
