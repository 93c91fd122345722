//! The state of a run, and the checked accesses to memory that operations are made of.

use super::{
    Options, Outcome,
    copies::{Copies, Copy, SemaphoreId},
    element::{Element, read_floats, read_integers, write_floats, write_integers},
    finding::{Agent, Findings, Site, Trouble},
    memory::Buffer,
    program::{Block, Code, Program, Step},
    timeline::Clock,
    value::{Data, Value},
    view::View,
};
use crate::ir::Place;

/// Why a run ends before the kernel does.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A finding after which the chip would not go on.
    Halted,
    /// Something that the kernel must not do and that is no finding about memory or semaphores.
    Fault(Option<Place>, String),
}

/// How deeply functions may call one another.
const MAX_CALLS: usize = 64;

/// A running kernel.
pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program,
    pub(crate) options: &'a Options<'a>,
    pub(crate) frame: Vec<Value>,
    /// What the last block handed back.
    pub(crate) yielded: Vec<Value>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) copies: Copies,
    pub(crate) findings: Findings,
    pub(crate) clock: Clock,
    /// The step of the grid.
    pub(crate) step: Vec<i64>,
    /// What came of the kernels that a module around them has called.
    pub(crate) kernels: Vec<Outcome>,
    scratch: Vec<u8>,
    calls: usize,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(program: &'a Program, options: &'a Options<'a>) -> Self {
        Self {
            program,
            options,
            frame: Vec::new(),
            yielded: Vec::new(),
            buffers: Vec::new(),
            copies: Copies::default(),
            findings: Findings::default(),
            clock: Clock::new(options.rates, options.events),
            step: Vec::new(),
            kernels: Vec::new(),
            scratch: Vec::new(),
            calls: 0,
        }
    }

    /// Adds a buffer; gives the view of all of it.
    pub(crate) fn allocate(&mut self, buffer: Buffer) -> View {
        let view = buffer.view(self.buffers.len());
        self.buffers.push(buffer);
        view
    }

    pub(crate) fn run(&mut self, block: &Block) -> Result<(), Stop> {
        for step in &block.steps {
            (step.exec)(self, step)?;
        }
        Ok(())
    }

    /// Calls a function; gives what it returns.
    pub(crate) fn call(
        &mut self,
        code: &Code,
        arguments: impl Iterator<Item = Value>,
    ) -> Result<Vec<Value>, Stop> {
        if self.calls == MAX_CALLS {
            return Err(Stop::Fault(None, format!("calls nest more than {MAX_CALLS} levels deep")));
        }
        self.calls += 1;
        let outer = std::mem::replace(&mut self.frame, vec![Value::Unset; code.slots]);
        for (&slot, value) in code.body.arguments.iter().zip(arguments) {
            self.frame[slot as usize] = value;
        }
        let ran = self.run(&code.body);
        self.frame = outer;
        self.calls -= 1;
        ran.map(|()| std::mem::take(&mut self.yielded))
    }

    pub(crate) fn value(&self, step: &Step, operand: usize) -> &Value {
        &self.frame[step.operands[operand] as usize]
    }

    /// The value of an operand, moved out where nobody needs it afterwards.
    pub(crate) fn take(&mut self, step: &Step, operand: usize) -> Value {
        let slot = &mut self.frame[step.operands[operand] as usize];
        match operand < 64 && step.last >> operand & 1 == 1 {
            true => std::mem::take(slot),
            false => slot.clone(),
        }
    }

    pub(crate) fn integer(&self, step: &Step, operand: usize) -> i64 {
        match self.value(step, operand) {
            Value::Integer(value) => *value,
            other => unreachable!("{} takes an integer, not {other:?}", step.name),
        }
    }

    pub(crate) fn vector(&mut self, step: &Step, operand: usize) -> Data {
        match self.take(step, operand) {
            Value::Vector(data) => data,
            // A scalar is a vector of one.
            Value::Float(value) => Data::Float(value),
            Value::Integer(value) => Data::Integer(value as i32),
            other => unreachable!("{} takes a vector, not {other:?}", step.name),
        }
    }

    pub(crate) fn view(&self, step: &Step, operand: usize) -> &View {
        match self.value(step, operand) {
            Value::View(view) => view,
            other => unreachable!("{} takes a memref, not {other:?}", step.name),
        }
    }

    pub(crate) fn set(&mut self, step: &Step, value: Value) {
        self.frame[step.results[0] as usize] = value;
    }

    pub(crate) fn core_site(&self, step: &Step) -> Site {
        Site::new(Agent::Core, step.place, &step.name, &self.step)
    }

    /// Refuses a view that leaves its buffer.
    pub(crate) fn inside(&mut self, view: &View, site: impl FnOnce(&Self) -> Site) -> Result<(), Stop> {
        let Some(outside) = &view.outside else { return Ok(()) };
        let trouble = Trouble::OutOfBounds {
            buffer: self.buffers[view.buffer].name.clone(),
            dimension: outside.dimension,
            index: outside.index,
            size: outside.size,
            extent: outside.extent,
            access: site(self),
        };
        self.findings.add(trouble);
        Err(Stop::Halted)
    }

    /// The core reads `view`.
    pub(crate) fn load(&mut self, step: &Step, view: &View) -> Result<Data, Stop> {
        self.inside(view, |m| m.core_site(step))?;
        let racing = self.races(view, false, step);
        let buffer = &self.buffers[view.buffer];
        if racing.is_empty() && !buffer.is_written(view) {
            let (area, read) = (buffer.area(view), self.core_site(step));
            self.findings.add(Trouble::ReadOfUnwritten { area, read });
        }
        let data = self.peek(view);
        self.let_land(&racing);
        Ok(data)
    }

    /// The contents of `view`, without any check.
    pub(crate) fn peek(&self, view: &View) -> Data {
        let buffer = &self.buffers[view.buffer];
        match view.element {
            Some(Element::Float(float)) => {
                let mut values = Vec::with_capacity(view.elements());
                view.runs(|offset, len| read_floats(float, &buffer.bytes[offset..][..len], &mut values));
                Data::floats(values)
            }
            Some(Element::Integer(size)) => {
                let mut values = Vec::with_capacity(view.elements());
                view.runs(|offset, len| read_integers(size, &buffer.bytes[offset..][..len], &mut values));
                Data::integers(values)
            }
            None => unreachable!("semaphores are not loaded"),
        }
    }

    /// The core writes `view`.
    pub(crate) fn store(&mut self, step: &Step, view: &View, data: &Data) -> Result<(), Stop> {
        self.inside(view, |m| m.core_site(step))?;
        let racing = self.races(view, true, step);
        let buffer = &mut self.buffers[view.buffer];
        let mut at = 0;
        match (view.element, data) {
            (Some(Element::Float(float)), Data::Floats(values)) => view.runs(|offset, len| {
                let count = len / view.unit();
                write_floats(float, &values[at..at + count], &mut buffer.bytes[offset..][..len]);
                at += count;
            }),
            (Some(Element::Float(float)), Data::Float(value)) => {
                let values = vec![*value; view.dims.last().map_or(1, |dim| dim.extent)];
                view.runs(|offset, len| {
                    for piece in buffer.bytes[offset..][..len].chunks_mut(values.len() * view.unit()) {
                        write_floats(float, &values, piece);
                    }
                });
            }
            (Some(Element::Integer(size)), data) => {
                let values = data.to_integers(view.elements());
                view.runs(|offset, len| {
                    let count = len / size;
                    write_integers(size, &values[at..at + count], &mut buffer.bytes[offset..][..len]);
                    at += count;
                });
            }
            (element, data) => unreachable!("{} stores {data:?} to {element:?}", step.name),
        }
        buffer.mark(view, true);
        self.let_land(&racing);
        Ok(())
    }

    /// Copies whose end the core does not know and that this access meets. Each is a finding.
    fn races(&mut self, view: &View, writes: bool, step: &Step) -> Vec<usize> {
        if !self.options.races || self.copies.in_flight.is_empty() {
            return Vec::new();
        }
        let region = self.buffers[view.buffer].region(view);
        let meets = |other: &View, other_region| other.buffer == view.buffer && region.overlaps(other_region);
        let mut racing = Vec::new();
        let mut troubles = Vec::new();
        for (&number, copy) in &self.copies.in_flight {
            let area = || self.buffers[view.buffer].area(view);
            let (site, semaphore) = (|| copy.site(), || self.semaphore_name(copy.semaphore));
            let access = || self.core_site(step);
            if meets(&copy.target, &copy.writes) {
                troubles.push(match writes {
                    true => Trouble::WriteDuringCopyIn {
                        area: area(),
                        copy: site(),
                        write: access(),
                        semaphore: semaphore(),
                    },
                    false => Trouble::ReadDuringCopyIn {
                        area: area(),
                        copy: site(),
                        read: access(),
                        semaphore: semaphore(),
                    },
                });
            } else if writes && meets(&copy.source, &copy.reads) {
                troubles.push(Trouble::OverwrittenDuringCopyOut {
                    area: area(),
                    copy: site(),
                    write: access(),
                    semaphore: semaphore(),
                });
            } else {
                continue;
            }
            racing.push(number);
        }
        troubles.into_iter().for_each(|trouble| self.findings.add(trouble));
        racing
    }

    /// Copies that lost a race move their bytes now, after the access that they met.
    fn let_land(&mut self, racing: &[usize]) {
        for &number in racing {
            self.move_bytes(number);
            self.copies.forgive(number);
        }
    }

    /// Starts a copy.
    pub(crate) fn start_copy(
        &mut self,
        source: View,
        target: View,
        semaphore: SemaphoreId,
        agent: Agent,
        place: Option<Place>,
    ) -> Result<(), Stop> {
        let (reads, writes) =
            (self.buffers[source.buffer].region(&source), self.buffers[target.buffer].region(&target));
        let bytes = (target.elements() * target.unit()) as u64;
        let label = self.buffers[if is_far(&self.buffers[source.buffer]) { &source } else { &target }.buffer]
            .name
            .clone();
        let ends = self.clock.copy(bytes, place.map(|place| place.line), &label);
        let step = self.step.clone();
        let bytes = bytes as i64;
        let copy =
            Copy { agent, source, target, reads, writes, semaphore, bytes, place, step, moved: false, ends };
        let site = |_: &Self| copy.site();
        self.inside(&copy.source, site)?;
        self.inside(&copy.target, site)?;
        if self.options.races {
            self.race_with_copies(&copy);
        }
        self.copies.start(copy);
        Ok(())
    }

    /// A new copy against those in flight.
    fn race_with_copies(&mut self, copy: &Copy) {
        let mut racing = Vec::new();
        let mut troubles = Vec::new();
        let meet = |a: &View, a_region: &super::view::Region, b: &View, b_region| {
            a.buffer == b.buffer && a_region.overlaps(b_region)
        };
        for (&number, other) in &self.copies.in_flight {
            let semaphore = self.semaphore_name(other.semaphore);
            let target_area = self.buffers[copy.target.buffer].area(&copy.target);
            let (earlier, later) = (other.site(), copy.site());
            if meet(&copy.target, &copy.writes, &other.target, &other.writes) {
                let (area, copy, write) = (target_area, earlier, later);
                troubles.push(Trouble::WriteDuringCopyIn { area, copy, write, semaphore });
            } else if meet(&copy.target, &copy.writes, &other.source, &other.reads) {
                let (area, copy, write) = (target_area, earlier, later);
                troubles.push(Trouble::OverwrittenDuringCopyOut { area, copy, write, semaphore });
            } else if meet(&copy.source, &copy.reads, &other.target, &other.writes) {
                let area = self.buffers[copy.source.buffer].area(&copy.source);
                troubles.push(Trouble::ReadDuringCopyIn { area, copy: earlier, read: later, semaphore });
            } else {
                continue;
            }
            racing.push(number);
        }
        troubles.into_iter().for_each(|trouble| self.findings.add(trouble));
        self.let_land(&racing);
    }

    /// Moves the bytes of a copy that has not moved them yet.
    fn move_bytes(&mut self, number: usize) {
        let Some(copy) = self.copies.in_flight.get(&number).filter(|copy| !copy.moved) else { return };
        let (source, target) = (copy.source.clone(), copy.target.clone());
        self.scratch.clear();
        self.buffers[source.buffer].gather(&source, &mut self.scratch);
        let written = self.buffers[source.buffer].is_written(&source);
        self.buffers[target.buffer].scatter(&target, &self.scratch);
        if !written {
            self.spread_unwritten(&source, &target);
        }
        self.copies.arrive(number);
    }

    /// A copy of what was never written is still unwritten, element by element.
    fn spread_unwritten(&mut self, source: &View, target: &View) {
        let shape = source.shape();
        let Some((&last, outer)) = shape.split_last() else {
            return self.buffers[target.buffer].mark(target, false);
        };
        let rows: usize = outer.iter().product();
        let sizes: Vec<usize> = outer.iter().map(|_| 1).chain([last]).collect();
        for row in 0..rows {
            let mut rest = row;
            let mut start: Vec<i64> = vec![0; shape.len()];
            for dimension in (0..outer.len()).rev() {
                start[dimension] = (rest % outer[dimension]) as i64;
                rest /= outer[dimension];
            }
            let source = source.slice(start.iter().copied(), &sizes);
            if !self.buffers[source.buffer].is_written(&source) {
                let target = target.slice(start.into_iter(), &sizes);
                self.buffers[target.buffer].mark(&target, false);
            }
        }
    }

    /// Takes `amount` from a semaphore, letting copies that signal it end until it holds so much.
    pub(crate) fn wait(&mut self, id: SemaphoreId, amount: i64, site: Site) -> Result<(), Stop> {
        while self.copies.count(id) < amount {
            match self.copies.oldest_pending(id) {
                Some(number) => self.move_bytes(number),
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
        self.copies.consume(id, amount);
        Ok(())
    }

    /// Lets every copy that was started end, and reports semaphores that are not zero.
    pub(crate) fn settle(&mut self) {
        let pending: Vec<usize> = self.copies.in_flight.keys().copied().collect();
        pending.into_iter().for_each(|number| self.move_bytes(number));
        let semaphores = std::mem::take(&mut self.copies.semaphores);
        for (id, semaphore) in semaphores {
            self.report_left_over(id, &semaphore);
        }
    }

    /// Ends the life of the buffers from number `first` on, and of their semaphores.
    pub(crate) fn release(&mut self, first: usize) {
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
        self.buffers.truncate(first);
    }

    fn report_left_over(&mut self, id: SemaphoreId, semaphore: &super::copies::Semaphore) {
        if semaphore.count != 0 {
            let signalled_by = semaphore.recent.iter().cloned().collect();
            let semaphore_name = self.semaphore_name(id);
            let count = semaphore.count;
            self.findings.add(Trouble::SemaphoreLeftOver { semaphore: semaphore_name, count, signalled_by });
        }
    }

    /// `arg14[0, 2]`.
    pub(crate) fn semaphore_name(&self, (buffer, index): SemaphoreId) -> String {
        let buffer = &self.buffers[buffer];
        if buffer.shape.is_empty() {
            return buffer.name.clone();
        }
        let mut rest = index;
        let indices = super::view::row_major(&buffer.shape, 1).into_iter().map(|dim| {
            let index = rest / dim.stride;
            rest %= dim.stride;
            index
        });
        format!("{}[{}]", buffer.name, crate::types::join(indices, ", "))
    }
}

fn is_far(buffer: &Buffer) -> bool {
    use crate::types::MemorySpace;
    matches!(buffer.space, MemorySpace::Hbm | MemorySpace::Any)
}
