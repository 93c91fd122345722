//! DMA lifecycle: start, race detection, waits, and the end of life of buffers and semaphores.

use super::{
    copies::{Copy, Semaphore, SemaphoreId, copy_site},
    finding::{Agent, Site, Trouble},
    machine::{COPIES_PER_OPERATION, Machine, Stop},
    memory::Buffer,
    view::{Region, View},
};
use crate::{ir::Place, limits::MAX_COPIES, types::MemorySpace};

impl Machine<'_> {
    /// Lets DMAs that lost a race move their bytes now, after the access they overlapped.
    pub(super) fn let_land(&mut self, racing: &[usize]) {
        for &number in racing {
            self.move_bytes(number);
            self.copies.forgive(number);
        }
    }

    /// Lets time pass: the oldest DMA in flight completes. Returns whether there was one.
    pub(crate) fn pass_time(&mut self) -> bool {
        let oldest = self.copies.in_flight.iter().find(|(_, copy)| !copy.moved).map(|(&number, _)| number);
        if let Some(number) = oldest {
            self.changes += 1;
            self.move_bytes(number);
        }
        oldest.is_some()
    }

    /// Starts a DMA.
    pub(crate) fn start_copy(
        &mut self,
        source: View,
        target: View,
        semaphore: SemaphoreId,
        agent: Agent,
        place: Option<Place>,
    ) -> Result<(), Stop> {
        self.changes += 1;
        let in_flight = self.copies.in_flight.len();
        if in_flight >= MAX_COPIES {
            let message = format!("more than {MAX_COPIES} DMAs in flight without a wait");
            return Err(Stop::Fault(place, message));
        }
        self.budget.spend((in_flight / COPIES_PER_OPERATION) as u64);
        self.inside(&source, |m| copy_site(&agent, place, &m.step))?;
        self.inside(&target, |m| copy_site(&agent, place, &m.step))?;
        // An empty DMA, as of a slice of dynamic size, signals nothing that a wait could observe.
        if target.elements() == 0 {
            return Ok(());
        }
        self.race_with_remote(&source, false, |m| copy_site(&agent, place, &m.step));
        self.race_with_remote(&target, true, |m| copy_site(&agent, place, &m.step));
        let (reads, writes) =
            (self.buffers[source.buffer].region(&source), self.buffers[target.buffer].region(&target));
        let bytes = target.bytes();
        let far = if is_far(&self.buffers[source.buffer]) { &source } else { &target };
        let label = self.buffers[far.buffer].name.clone();
        let ends = self.clock.copy(bytes as u64, place.map(|place| place.line), &label);
        let (step, bytes) = (self.step.clone(), bytes as i64);
        let copy =
            Copy { agent, source, target, reads, writes, semaphore, bytes, place, step, moved: false, ends };
        if self.options.races {
            self.race_with_copies(&copy);
        }
        self.copies.start(copy);
        Ok(())
    }

    /// Checks a new DMA for races with those in flight.
    fn race_with_copies(&mut self, copy: &Copy) {
        let mut racing = Vec::new();
        let mut troubles = Vec::new();
        let meet = |a: &View, a_region: &Region, b: &View, b_region| {
            a.buffer == b.buffer && a_region.overlaps(b_region)
        };
        for (&number, other) in &self.copies.in_flight {
            let semaphore = || self.semaphore_name(other.semaphore);
            let area = |view: &View| self.buffers[view.buffer].area(view);
            troubles.push(if meet(&copy.target, &copy.writes, &other.target, &other.writes) {
                Trouble::WriteDuringCopyIn {
                    area: area(&copy.target),
                    copy: other.site(),
                    write: copy.site(),
                    semaphore: semaphore(),
                }
            } else if meet(&copy.target, &copy.writes, &other.source, &other.reads) {
                Trouble::OverwrittenDuringCopyOut {
                    area: area(&copy.target),
                    copy: other.site(),
                    write: copy.site(),
                    semaphore: semaphore(),
                }
            } else if meet(&copy.source, &copy.reads, &other.target, &other.writes) {
                Trouble::ReadDuringCopyIn {
                    area: area(&copy.source),
                    copy: other.site(),
                    read: copy.site(),
                    semaphore: semaphore(),
                }
            } else {
                continue;
            });
            racing.push(number);
        }
        troubles.into_iter().for_each(|trouble| self.findings.add(trouble));
        self.let_land(&racing);
    }

    /// Moves the bytes of a DMA, if it has not moved them yet.
    fn move_bytes(&mut self, number: usize) {
        let Some(copy) = self.copies.in_flight.get(&number).filter(|copy| !copy.moved) else { return };
        let (source, target) = (copy.source.clone(), copy.target.clone());
        self.scratch.clear();
        self.buffers[source.buffer].gather(&source, &mut self.scratch);
        let unwritten = self.buffers[source.buffer].unwritten_rows(&source);
        let spoiled = self.buffers[source.buffer].spoiled.clone();
        let buffer = &mut self.buffers[target.buffer];
        buffer.scatter(&target, &self.scratch);
        // A copy of uninitialized elements stays uninitialized.
        let is_spoiled = !unwritten.is_empty();
        unwritten.into_iter().for_each(|row| buffer.mark(&target.row(row), false));
        if let Some(load) = spoiled.filter(|_| is_spoiled) {
            match is_far(buffer) {
                true => self.findings.add(*load),
                false => drop(buffer.spoiled.get_or_insert(load)),
            }
        }
        self.record_copy(number);
        self.copies.arrive(number);
    }

    /// Consumes `amount` from a semaphore, completing DMAs on it until it holds enough.
    pub(crate) fn wait(&mut self, id: SemaphoreId, amount: i64, site: Site) -> Result<(), Stop> {
        while self.copies.count(id) < amount {
            match self.copies.oldest_pending(id) {
                Some(number) => self.move_bytes(number),
                None if self.wait_for_devices(id, amount, &site)? => {}
                None => {
                    let semaphore = self.copies.semaphores.get(&id);
                    let trouble = Trouble::Deadlock {
                        semaphore: self.semaphore_name(id),
                        wait: site,
                        needed: amount,
                        available: self.copies.count(id),
                        signalled_by: semaphore
                            .map(|s| s.recent.iter().cloned().collect())
                            .unwrap_or_default(),
                    };
                    self.findings.add(trouble);
                    return Err(Stop::Halted);
                }
            }
        }
        let on_it = self
            .copies
            .semaphores
            .get(&id)
            .map(|semaphore| semaphore.unordered.as_slice())
            .unwrap_or_default();
        let moved =
            on_it.iter().filter_map(|number| self.copies.in_flight.get(number)).filter(|copy| copy.moved);
        let ends = moved.map(|copy| copy.ends).fold(0.0, f64::max);
        self.clock.wait_until(ends, site.line, "tpu.wait_dma2");
        let held = self.copies.count(id);
        let observed = self.copies.consume(id, amount, self.due_remote_copy(id).is_some());
        self.learn(id, held, amount, &site);
        self.remember_copies(observed)
    }

    /// Completes all DMAs and reports nonzero semaphores.
    pub(crate) fn settle(&mut self) {
        self.settle_remote();
        let pending: Vec<usize> = self.copies.in_flight.keys().copied().collect();
        pending.into_iter().for_each(|number| self.move_bytes(number));
        let semaphores = std::mem::take(&mut self.copies.semaphores);
        for (id, semaphore) in semaphores {
            self.report_left_over(id, &semaphore);
        }
    }

    /// Ends the lifetime of all buffers from number `first` on, and of their semaphores.
    pub(crate) fn release(&mut self, first: usize) {
        self.release_remote(first);
        let ids: Vec<SemaphoreId> = self.copies.semaphores.range((first, 0)..).map(|(id, _)| *id).collect();
        for id in ids {
            while let Some(number) = self.copies.oldest_pending(id) {
                self.move_bytes(number);
            }
            if let Some(semaphore) = self.copies.semaphores.remove(&id) {
                self.report_left_over(id, &semaphore);
                semaphore.unordered.iter().for_each(|number| drop(self.copies.in_flight.remove(number)));
            }
        }
        let gone = |copy: &Copy| copy.source.buffer >= first || copy.target.buffer >= first;
        let numbers: Vec<usize> =
            self.copies.in_flight.iter().filter(|(_, copy)| gone(copy)).map(|(number, _)| *number).collect();
        for number in numbers {
            self.move_bytes(number);
            self.copies.forgive(number);
        }
        for buffer in self.buffers.drain(first..) {
            let bytes = Buffer::footprint(&buffer.shape, buffer.element);
            self.budget.give_back_buffer(buffer.space, bytes.unwrap_or(0));
        }
    }

    fn report_left_over(&mut self, id: SemaphoreId, semaphore: &Semaphore) {
        if semaphore.count != 0 {
            let signalled_by = semaphore.recent.iter().cloned().collect();
            let semaphore_name = self.semaphore_name(id);
            let count = semaphore.count;
            self.findings.add(Trouble::SemaphoreLeftOver {
                semaphore: semaphore_name,
                count,
                signalled_by,
                device: None,
            });
        }
    }

    /// Formats a semaphore, `arg14[0, 2]`.
    pub(crate) fn semaphore_name(&self, (buffer, index): SemaphoreId) -> String {
        let of_ended_scope = || "a semaphore of a scope that has ended".to_owned();
        self.buffers.get(buffer).map_or_else(of_ended_scope, |buffer| buffer.semaphore_name(index))
    }
}

fn is_far(buffer: &Buffer) -> bool {
    matches!(buffer.space, MemorySpace::Hbm | MemorySpace::Any)
}
