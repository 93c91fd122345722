//! Copies in flight, and the accesses that have no order with them.

use octile_mosaic::{Op, Type, Value};

use super::{MOST, Machine, SemaphoreKey, place};
use crate::{
    mosaic::{kernel::written_name, program::Access, region::Region},
    source::Place,
};

/// A copy that nobody has waited for yet.
pub(super) struct InFlight {
    pub(super) semaphore: SemaphoreKey,
    pub(super) route: (Value, Value),
    pub(super) bytes: i64,
    pub(super) source: Region,
    pub(super) target: Region,
    pub(super) started: Place,
}

/// What an access does to a copy in flight.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Conflict {
    ReadsTarget,
    WritesTarget,
    WritesSource,
}

impl Machine<'_> {
    /// Takes the copies out of flight that a wait for so many bytes waited for, in the order of their starts.
    pub(super) fn land(&mut self, key: &SemaphoreKey, bytes: i64) {
        let landed = self.semaphores.get(key).map_or(0, |semaphore| semaphore.landed);
        let mut landed = landed.saturating_add(bytes);
        let mut waiting = false;
        self.in_flight.retain(|copy| {
            waiting |= copy.semaphore == *key && copy.bytes > landed;
            let lands = copy.semaphore == *key && !waiting;
            if lands {
                landed -= copy.bytes;
            }
            !lands
        });
        if let Some(semaphore) = self.semaphores.get_mut(key) {
            semaphore.landed = if waiting { landed } else { 0 };
        }
    }

    /// A load from memory or a store to it: `load base[index]`, `store value, base[index]`.
    pub(super) fn access(&mut self, op: &Op, access: Access) {
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
        match region {
            Some(region) if access.dense => self.touch(place(op), &region, access.writes),
            // What a mask or a stride leaves out is not looked at.
            Some(region) => self.touch(place(op), &region.first_element(), access.writes),
            None => self.unresolved_accesses += 1,
        }
    }

    /// Memory is read or written: what is in flight there has no order with it.
    pub(super) fn touch(&mut self, at: Place, region: &Region, writes: bool) {
        for copy in &self.in_flight {
            let on_target = copy.target.overlaps(region);
            let on_source = if writes { copy.source.overlaps(region) } else { Some(false) };
            let conflict = match (on_target, on_source) {
                (Some(true), _) if writes => Conflict::WritesTarget,
                (Some(true), _) => Conflict::ReadsTarget,
                (_, Some(true)) => Conflict::WritesSource,
                (None, _) | (_, None) => {
                    self.unresolved_accesses += 1;
                    continue;
                }
                _ => continue,
            };
            if let Some(route) = self.routes.get_mut(&copy.route)
                && conflict == Conflict::ReadsTarget
            {
                route.read_too_early.get_or_insert(at);
            }
            let name = |value: Value| written_name(self.function, value).unwrap_or_default();
            let (line, started) = (at.line, copy.started.line);
            let (source, target) = (name(copy.route.0), name(copy.route.1));
            let says = match conflict {
                Conflict::ReadsTarget => {
                    format!("line {line} reads {target} while the copy of line {started} is still writing it")
                }
                Conflict::WritesTarget => {
                    format!("line {line} writes {target} while the copy of line {started} is writing it")
                }
                Conflict::WritesSource => format!(
                    "line {line} overwrites {source} while the copy of line {started} is still reading it"
                ),
            };
            if self.races.len() < MOST && !self.races.iter().any(|(_, known)| *known == says) {
                self.races.push((at, says));
            }
        }
    }
}
