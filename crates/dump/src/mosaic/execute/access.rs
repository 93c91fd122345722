//! Accesses that race with DMAs in flight.

use octile_mosaic::{Op, Type, Value};

use super::{ExecuteError, KernelRun, Started};
use crate::{
    flight::{RaceKind, Touch},
    limits::MAX_TRACKED,
    mosaic::{
        kernel::{place, written_name},
        memory_box::MemoryBox,
        program::{Coverage, KernelStep, MemoryAccess},
    },
    source::Place,
};

impl KernelRun<'_> {
    /// A load from memory or a store to it: `load base[index]`, `store value, base[index]`.
    pub(super) fn access(&mut self, op: &Op, access: &MemoryAccess) {
        if self.in_flight.is_empty() {
            return;
        }
        let is_memory = |value: &&Value| matches!(self.function.ty(**value), Type::MemRef(_));
        let base = op.operands.iter().find(is_memory);
        let vector = op.results.iter().chain(&op.operands).map(|&value| self.function.ty(value));
        let shape = vector.filter(|ty| matches!(ty, Type::Vector { .. })).map(Type::shape).next();
        let region = base.and_then(|base| {
            let position = op.operands.iter().position(|operand| operand == base)?;
            let index = self.all(op.operands.get(position + 1..)?);
            Some(self.regions.get(base)?.slice(&index, shape.unwrap_or_default()))
        });
        let Some(region) = region else {
            self.in_flight.unresolved += 1;
            return;
        };
        let certain = Touch { writes: access.writes, certain: true };
        let possible = Touch { writes: access.writes, certain: false };
        let at = place(op);
        match &access.coverage {
            Coverage::Dense => self.touch(at, &region, certain),
            Coverage::Masked => self.touch(at, &region, possible),
            Coverage::Strided(strides) => {
                // The first element is accessed for certain; the others lie somewhere in the bounding box.
                self.touch(at, &region.first_element(), certain);
                self.touch(at, &region.stretched(strides), possible);
            }
            Coverage::Unknown => self.touch(at, &region.somewhere(), possible),
        }
    }

    /// A synchronous copy of one buffer to another.
    pub(super) fn copy(&mut self, op: &Op) {
        let end = |index: usize| self.region(op.operands.get(index).copied()).cloned();
        let Some((source, target)) = end(0).zip(end(1)) else {
            self.in_flight.unresolved += u64::from(!self.in_flight.is_empty());
            return;
        };
        self.touch(place(op), &source, Touch::READS);
        self.touch(place(op), &target, Touch::WRITES);
    }

    /// An operation that is not modelled: it may do anything to the memory that it is given.
    pub(super) fn opaque(&mut self, step: &KernelStep<'_>) -> Result<(), ExecuteError> {
        if step.blocks.iter().flat_map(|block| &block.steps).any(|step| step.acts) {
            return Err(ExecuteError::DataDependent(place(step.op)));
        }
        if step.acts {
            self.lose_track();
        }
        self.in_flight.unresolved += u64::from(step.touches && !self.in_flight.is_empty());
        self.set_all(&step.op.results, &[]);
        Ok(())
    }

    /// Records the races of an access with the DMAs in flight.
    pub(super) fn touch(&mut self, at: Place, region: &MemoryBox, touch: Touch) {
        let Self { in_flight, routes, races, function, .. } = self;
        in_flight.touch(region, touch, |copy: &Started, kind| {
            if let Some(route) = routes.get_mut(&copy.route)
                && kind == RaceKind::ReadsDestination
            {
                route.read_too_early.get_or_insert(at);
            }
            let name = |value: Value| written_name(function, value).unwrap_or_default();
            let (line, started) = (at.line, copy.at.line);
            let (source, target) = (name(copy.route.0), name(copy.route.1));
            let says = match kind {
                RaceKind::ReadsDestination => {
                    format!("line {line} reads {target} while the DMA of line {started} is still writing it")
                }
                RaceKind::WritesDestination => {
                    format!("line {line} writes {target} while the DMA of line {started} is writing it")
                }
                RaceKind::WritesSource => format!(
                    "line {line} overwrites {source} while the DMA of line {started} is still reading it"
                ),
            };
            if races.len() < MAX_TRACKED && !races.iter().any(|(_, known)| *known == says) {
                races.push((at, says));
            }
        });
    }
}
