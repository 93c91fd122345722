//! What the four warps of a warpgroup must do alike: matrix products, and the handing over of registers.

use std::collections::VecDeque;

use super::{
    World,
    cluster::Cluster,
    step::Flow,
    warp::{LANES, Warp},
};
use crate::{
    FaultKind,
    program::{Registers, WARPGROUP_THREADS},
};

/// Warps of a warpgroup.
pub(super) const WARPS: usize = WARPGROUP_THREADS / LANES;

/// An instruction that four warps execute as one: where it is, and the operands on which they must agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    pub(super) at: usize,
    /// Descriptors of a product, and whether it adds.
    pub(super) operands: Option<(u64, u64, bool)>,
}

impl Joint {
    /// One without such operands.
    pub(super) fn at(at: usize) -> Self {
        Self { at, operands: None }
    }
}

/// Four warps in a row.
#[derive(Debug, Default)]
pub(super) struct Warpgroup {
    /// What some of them have executed and others have not.
    ahead: VecDeque<Joint>,
    /// How far each of them is in that.
    done: [usize; WARPS],
    /// Whether threads have left.
    is_broken: bool,
}

impl Cluster {
    /// Refuses what the other warps of the warpgroup do not execute as well, at the same point among all such instructions. Nobody waits
    /// for it: a warp that goes its own way is found out by what it does next.
    pub(super) fn join_warpgroup(
        &mut self,
        warp: &Warp,
        joint: Joint,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let block = self.block(warp.block)?;
        let from_here = block.warps.len() - warp.index / WARPS * WARPS;
        if from_here < WARPS {
            return Err(FaultKind::NoWarpgroup { warps: from_here });
        }
        let group = &mut block.warpgroups[warp.index / WARPS];
        let done = &mut group.done[warp.index % WARPS];
        match group.ahead.get(*done) {
            Some(other) if other.at != joint.at => return Err(not_together(*other, world)),
            Some(other) if other.operands != joint.operands => return Err(FaultKind::WarpsDiffer),
            Some(_) => {}
            None if group.is_broken => return Err(FaultKind::WarpgroupLeft),
            None => group.ahead.push_back(joint),
        }
        *done += 1;
        if group.done.iter().all(|&done| done > 0) {
            group.ahead.pop_front();
            group.done.iter_mut().for_each(|done| *done -= 1);
        }
        Ok(())
    }

    /// Threads leave: what the others of their warpgroup have executed they must have, too.
    pub(super) fn leave_warpgroup(&mut self, warp: &Warp, world: &World<'_>) -> Result<(), FaultKind> {
        let group = &mut self.block(warp.block)?.warpgroups[warp.index / WARPS];
        group.is_broken = true;
        match group.ahead.get(group.done[warp.index % WARPS]) {
            Some(missed) => Err(not_together(*missed, world)),
            None => Ok(()),
        }
    }

    /// Gives registers to the block's pool, or waits until it holds enough and takes them. What a warp has when it leaves is gone with it.
    pub(super) fn set_registers(
        &mut self,
        warp: &mut Warp,
        at: usize,
        wanted: Registers,
        world: &mut World<'_>,
    ) -> Result<Flow, FaultKind> {
        let (has, free) = (warp.registers, &mut self.block(warp.block)?.free_registers);
        match wanted {
            Registers::Down(to) if to <= has => {
                *free += (has - to) * LANES;
                world.events += 1;
            }
            Registers::Up(to) if to >= has => match free.checked_sub((to - has) * LANES) {
                Some(left) => *free = left,
                None => return Ok(Flow::Held),
            },
            _ => return Err(FaultKind::OtherWay { has }),
        }
        let (Registers::Down(to) | Registers::Up(to)) = wanted;
        warp.registers = to;
        self.join_warpgroup(warp, Joint::at(at), world)?;
        Ok(Flow::Next)
    }
}

fn not_together(other: Joint, world: &World<'_>) -> FaultKind {
    let other = &world.launch.program.code[other.at];
    FaultKind::NotTogether { line: other.line, text: other.text.clone() }
}
