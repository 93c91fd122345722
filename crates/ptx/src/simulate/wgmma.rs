//! wgmma, stmatrix and movmatrix.

use std::ops::Range;

use octile_core::E4m3;

use super::{
    FaultKind, World,
    cluster::Cluster,
    memory::{Agent, Clock, Lane, Shared, SharedAccess, Thread, UNIT, swizzled},
    program::{SharedAt, Value, Wgmma, Word},
    step::{address, resolve},
    warp::{LANES, Warp},
    warpgroups::Joint,
};

/// A wgmma in flight.
#[derive(Debug)]
pub(super) struct PendingWgmma {
    pub(super) wgmma: Wgmma,
    /// The instruction that issued it.
    pub(super) at: usize,
    a: u64,
    b: u64,
    adds: bool,
    /// Accumulators, register by register, unless they come from the wgmma before it.
    sums: Option<Vec<[u32; LANES]>>,
    clock: Clock,
    time: u32,
    /// Groups that were committed before it was issued.
    group: u64,
}

/// Accumulators while a wgmma is in flight.
const POISON: [u32; LANES] = [u32::MAX; LANES];

/// K of a wgmma, in elements and in bytes.
const DEPTH: usize = 32;
/// Rows of A per warp of the warpgroup.
const WARP_ROWS: usize = 16;

impl Cluster {
    /// Issues a wgmma. Its accumulators may not be used until it is waited for.
    pub(super) fn start_wgmma(
        &mut self,
        warp: &mut Warp,
        wgmma: &Wgmma,
        at: usize,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        if !warp.has_fenced_wgmma {
            return Err(FaultKind::WgmmaNotFenced);
        }
        let adds = warp.holds(wgmma.adds, warp.live());
        let (a, b) = (warp.same_wide(wgmma.a)?, warp.same_wide(wgmma.b)?);
        if adds != 0 && adds != warp.live() {
            return Err(FaultKind::LaneOperandsDiffer);
        }
        self.join_warpgroup(warp, Joint { at, operands: Some((a, b, adds != 0)) }, world)?;
        let known = warp.known(warp.live());
        let access = warp.access(Lane::SEVERAL, &known);
        let shared = &self.cta(warp.cta)?.shared;
        for at in units(a, warp_rows(warp))?.chain(units(b, 0..wgmma.sums.len() * 2)?) {
            shared.require_fenced(at, UNIT, warp.live(), access)?;
        }
        drop(known);
        let chains = warp.wgmmas.back().is_some_and(|last| last.wgmma.sums == wgmma.sums);
        let sums = if chains {
            None
        } else {
            if adds != 0 {
                wgmma.sums.iter().for_each(|&word| warp.written.use_word_of(word, warp.live()));
            }
            Some(wgmma.sums.iter().map(|&word| warp.exchange(word, POISON)).collect())
        };
        let (clock, time) = warp.start_wgmma();
        warp.await_words(&wgmma.sums);
        let (wgmma, group, adds) = (wgmma.clone(), warp.wgmma_groups, adds != 0);
        warp.wgmmas.push_back(PendingWgmma { wgmma, at, a, b, adds, sums, clock, time, group });
        Ok(())
    }

    /// Completes wgmmas until at most `pending` groups are in flight.
    pub(super) fn multiply(&mut self, warp: &mut Warp, pending: u64) -> Result<(), FaultKind> {
        warp.has_fenced_wgmma = false;
        while warp.wgmmas.front().is_some_and(|first| first.group + pending < warp.wgmma_groups) {
            let started = warp.wgmmas.pop_front().expect("there is one");
            let shared = &mut self.cta(warp.cta)?.shared;
            let access = SharedAccess::of_async(Agent::wgmmas(warp.in_cluster), started.time, &started.clock);
            let a = rows(shared, started.a, warp_rows(warp), access)?;
            let b = rows(shared, started.b, 0..started.wgmma.sums.len() * 2, access)?;
            let mut sums = started.sums.expect("the first wgmma of a chain has the accumulators");
            for (index, sums) in sums.iter_mut().enumerate() {
                for (lane, sum) in sums.iter_mut().enumerate() {
                    let row = lane / 4 + 8 * (index / 2 % 2);
                    let column = index / 4 * 8 + lane % 4 * 2 + index % 2;
                    let before = if started.adds { f32::from_bits(*sum) } else { 0.0 };
                    *sum = (before + dot(&a[row], &b[column])).to_bits();
                }
            }
            warp.finish_wgmmas(started.time);
            warp.have_words(&started.wgmma.sums);
            match warp.wgmmas.front_mut().filter(|next| next.sums.is_none()) {
                Some(next) => next.sums = Some(sums),
                None => started.wgmma.sums.iter().zip(sums).for_each(|(&word, sums)| {
                    warp.exchange(word, sums);
                }),
            }
        }
        Ok(())
    }

    /// `stmatrix`: stores 8x8 matrices of 16-bit values; each lane holds two of a row, and the address of a
    /// row.
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
                    self.cta(rank)?.shared.store(place + 4 * pair, &bytes, thread, access)?;
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

/// Layout bits of a matrix descriptor, and their value for the 128-byte swizzle with base offset 0.
const LAYOUT: u64 = 0xffff_c000_0000_0000;
const SWIZZLED: u64 = 1 << 62;

/// The rows of A of this warp.
fn warp_rows(warp: &Warp) -> Range<usize> {
    let first = warp.index % 4 * WARP_ROWS;
    first..first + WARP_ROWS
}

/// The addresses of rows of an operand, two 16-byte units each.
fn units(descriptor: u64, rows: Range<usize>) -> Result<impl Iterator<Item = usize>, FaultKind> {
    // Fields count 16-byte units.
    let field = |shift: u32| ((descriptor >> shift) & 0x3fff) as usize * UNIT;
    let (start, group) = (field(0), field(32));
    if descriptor & LAYOUT != SWIZZLED {
        return Err(FaultKind::UnsupportedDescriptor { descriptor });
    }
    let lines = rows.map(move |row| start + row / 8 * group + row % 8 * 128);
    Ok(lines.flat_map(|line| [swizzled(line), swizzled(line + UNIT)]))
}

/// The elements of rows of an operand.
fn rows(
    shared: &mut Shared,
    descriptor: u64,
    rows: Range<usize>,
    access: SharedAccess<'_>,
) -> Result<Vec<[f32; DEPTH]>, FaultKind> {
    let mut values = vec![[0.0; DEPTH]; rows.len()];
    for (at, values) in units(descriptor, rows)?.zip(values.as_flattened_mut().chunks_mut(UNIT)) {
        for (value, &code) in values.iter_mut().zip(shared.read(at, UNIT, access)?) {
            *value = E4m3::from_bits(code).to_f32();
        }
    }
    Ok(values)
}

/// `movmatrix`: transposes the matrix that the warp holds.
pub(super) fn transpose(warp: &mut Warp, to: Word, value: Value) {
    let held: [u32; LANES] = std::array::from_fn(|lane| warp.value(value, lane));
    let element = |row: usize, column: usize| held[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff;
    for lane in 0..LANES {
        let (row, column) = (lane / 4, lane % 4 * 2);
        warp.set(to, lane, element(column, row) | element(column + 1, row) << 16);
    }
}
