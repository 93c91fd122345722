//! Collective instructions of a warpgroup: wgmma and register reallocation.

use std::collections::VecDeque;

use super::{
    FaultKind, World,
    cluster::Cluster,
    program::{Registers, WARPGROUP_THREADS},
    step::Flow,
    warp::{LANES, Warp},
};

/// Warps of a warpgroup.
pub(super) const WARPS: usize = WARPGROUP_THREADS / LANES;

/// A collective instruction, with the operands on which the four warps must agree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Joint {
    pub(super) at: usize,
    /// Descriptors of a wgmma, and whether it accumulates.
    pub(super) operands: Option<(u64, u64, bool)>,
}

impl Joint {
    /// One without operands.
    pub(super) fn at(at: usize) -> Self {
        Self { at, operands: None }
    }
}

/// Four adjacent warps.
#[derive(Debug, Default)]
pub(super) struct Warpgroup {
    /// Collective instructions that some warps have executed and others have not.
    ahead: VecDeque<Joint>,
    /// How many of them each warp has executed.
    done: [usize; WARPS],
    /// Whether threads have exited.
    is_broken: bool,
}

impl Cluster {
    /// Refuses a collective instruction that differs from what the other warps of the warpgroup execute at
    /// this point. It does not block: a diverging warp is found by its next collective instruction.
    pub(super) fn join_warpgroup(
        &mut self,
        warp: &Warp,
        joint: Joint,
        world: &World<'_>,
    ) -> Result<(), FaultKind> {
        let cta = self.cta(warp.cta)?;
        let from_here = cta.warps.len() - warp.index / WARPS * WARPS;
        if from_here < WARPS {
            return Err(FaultKind::IncompleteWarpgroup { warps: from_here });
        }
        let group = &mut cta.warpgroups[warp.index / WARPS];
        let done = &mut group.done[warp.index % WARPS];
        match group.ahead.get(*done) {
            Some(other) if other.at != joint.at => return Err(diverged(*other, world)),
            Some(other) if other.operands != joint.operands => return Err(FaultKind::WarpOperandsDiffer),
            Some(_) => {}
            None if group.is_broken => return Err(FaultKind::WarpgroupExited),
            None => group.ahead.push_back(joint),
        }
        *done += 1;
        if group.done.iter().all(|&done| done > 0) {
            group.ahead.pop_front();
            group.done.iter_mut().for_each(|done| *done -= 1);
        }
        Ok(())
    }

    /// Threads exit: they must have executed what the other warps of their warpgroup have.
    pub(super) fn exit_warpgroup(&mut self, warp: &Warp, world: &World<'_>) -> Result<(), FaultKind> {
        let group = &mut self.cta(warp.cta)?.warpgroups[warp.index / WARPS];
        group.is_broken = true;
        match group.ahead.get(group.done[warp.index % WARPS]) {
            Some(missed) => Err(diverged(*missed, world)),
            None => Ok(()),
        }
    }

    /// Releases registers to the CTA's pool, or claims them and blocks until there are enough. A warp that
    /// exits releases none.
    pub(super) fn set_registers(
        &mut self,
        warp: &mut Warp,
        at: usize,
        wanted: Registers,
        world: &mut World<'_>,
    ) -> Result<Flow, FaultKind> {
        let (has, free) = (warp.registers, &mut self.cta(warp.cta)?.free_registers);
        match wanted {
            Registers::Down(to) if to <= has => {
                *free += (has - to) * LANES;
                world.events += 1;
            }
            Registers::Up(to) if to >= has => match free.checked_sub((to - has) * LANES) {
                Some(left) => *free = left,
                None => return Ok(Flow::Held),
            },
            _ => return Err(FaultKind::WrongDirection { has }),
        }
        let (Registers::Down(to) | Registers::Up(to)) = wanted;
        warp.registers = to;
        self.join_warpgroup(warp, Joint::at(at), world)?;
        Ok(Flow::Next)
    }
}

fn diverged(other: Joint, world: &World<'_>) -> FaultKind {
    let other = &world.launch.program.code[other.at];
    FaultKind::WarpgroupDiverged { line: other.line, text: other.text.clone() }
}
