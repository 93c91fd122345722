//! Loads, stores and atomics.

use super::{
    FaultKind, World,
    cluster::Cluster,
    memory::{Lane, Thread},
    program::{At, GlobalAt, SharedAt, Value, Word},
    step::{address, resolve},
    warp::{Warp, lanes},
};

pub(super) fn global_address(warp: &Warp, at: GlobalAt, lane: usize) -> u64 {
    warp.wide(at.base, lane).wrapping_add(at.offset)
}

pub(super) fn aligned(address: u64, alignment: usize) -> Result<(), FaultKind> {
    if address.is_multiple_of(alignment as u64) {
        Ok(())
    } else {
        Err(FaultKind::Misaligned { address, alignment })
    }
}

impl Cluster {
    pub(super) fn load(
        &mut self,
        warp: &mut Warp,
        active: u32,
        (to, at, bytes): (&[Word], At, usize),
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let count = to.len() * bytes;
        if matches!(at, At::Shared(_)) {
            warp.touch(active);
        }
        for lane in lanes(active) {
            let loaded = match at {
                At::Shared(at) => {
                    let (rank, place) = resolve(warp, address(warp, at, lane));
                    aligned(place as u64, count)?;
                    let known = warp.known(1 << lane);
                    self.cta(rank)?.shared.read(place, count, warp.access(Lane::new(lane), &known))?
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, count)?;
                    warp.require_previous_done(active, place, world.device)?;
                    world.device.bytes(place, count, self.index)?
                }
            };
            for (&to, loaded) in to.iter().zip(loaded.chunks(bytes)) {
                let value = loaded.iter().rev().fold(0, |value, &byte| value << 8 | u32::from(byte));
                warp.set(to, lane, value);
            }
        }
        Ok(())
    }

    pub(super) fn store(
        &mut self,
        warp: &mut Warp,
        active: u32,
        (from, at, bytes): (&[Value], At, usize),
        world: &mut World<'_>,
    ) -> Result<(), FaultKind> {
        if matches!(at, At::Shared(_)) {
            warp.touch(active);
        }
        let mut stored = Vec::with_capacity(from.len() * bytes);
        for lane in lanes(active) {
            stored.clear();
            for &from in from {
                stored.extend_from_slice(&warp.value(from, lane).to_le_bytes()[..bytes]);
            }
            match at {
                At::Shared(at) => {
                    let (rank, place) = resolve(warp, address(warp, at, lane));
                    aligned(place as u64, stored.len())?;
                    let shared = &mut self.cta(rank)?.shared;
                    let (thread, known) = (Thread { warp: warp.in_cluster, lane }, warp.known(1 << lane));
                    shared.store(place, &stored, thread, warp.access(Lane::new(lane), &known))?;
                }
                At::Global(at) => {
                    let place = global_address(warp, at, lane);
                    aligned(place, stored.len())?;
                    warp.require_previous_done(active, place, world.device)?;
                    world.device.write(place, &stored, self.index)?;
                }
            }
        }
        world.events += 1;
        Ok(())
    }

    pub(super) fn atomic_max(
        &mut self,
        warp: &mut Warp,
        active: u32,
        to: Word,
        at: SharedAt,
        value: Value,
    ) -> Result<(), FaultKind> {
        warp.touch(active);
        for lane in lanes(active) {
            let (rank, place) = resolve(warp, address(warp, at, lane));
            aligned(place as u64, 4)?;
            let (value, thread) = (warp.value(value, lane), Thread { warp: warp.in_cluster, lane });
            let known = warp.known(1 << lane);
            let access = warp.access(Lane::new(lane), &known);
            let old = self.cta(rank)?.shared.raise(place, value, thread, access)?;
            drop(known);
            warp.set(to, lane, old);
        }
        Ok(())
    }
}
