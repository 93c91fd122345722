//! State of a run, and the checked memory accesses that operations are built from.

use std::{collections::HashMap, sync::Arc};

use super::{
    Options, Outcome, SimulateError, Tensor,
    budget::Budget,
    copies::Copies,
    devices::Link,
    element::{Element, read_floats, read_integers, write_floats, write_integers},
    finding::{Agent, Findings, Note, Print, Site, Trouble},
    memory::Buffer,
    mxu::Mxus,
    ops::RandomBits,
    program::{Block, Code, Program, Step, Unrunnable},
    timeline::Clock,
    undefined::Undefined,
    value::{Data, Value},
    view::{Region, View},
    writers::{Group, ParallelGrid},
};
use crate::{
    ir::Place,
    limits::{ELEMENTS_PER_OPERATION, MAX_EVENTS, MAX_RUNNING_DEPTH},
    types::MemorySpace,
};

/// Why a run stops before the kernel ends.
#[derive(Debug)]
pub(crate) enum Stop {
    /// A finding that would halt the chip.
    Halted,
    /// An illegal operation that is not a memory or semaphore defect.
    Fault(Option<Place>, String),
    /// Operands or results that do not match the kernel.
    Operands(String),
    /// A tensor of the program around a kernel is needed that could not be computed.
    Missing(Arc<Unrunnable>),
    /// A kernel cannot run.
    Unrunnable(Unrunnable),
}

impl From<Stop> for SimulateError {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Halted => Self::Fault { place: None, message: "the run was halted".to_owned() },
            Stop::Fault(place, message) => Self::Fault { place, message },
            Stop::Operands(message) => Self::Operands(message),
            Stop::Missing(why) => Self::Unrunnable(Unrunnable::clone(&why)),
            Stop::Unrunnable(why) => Self::Unrunnable(why),
        }
    }
}

/// DMAs in flight that one access is compared with, charged as one operation.
pub(super) const COPIES_PER_OPERATION: usize = 16;

/// A running kernel.
pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program,
    pub(crate) options: &'a Options<'a>,
    pub(crate) frame: Vec<Value>,
    /// Values yielded by the last block.
    pub(crate) yielded: Vec<Value>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) copies: Copies,
    pub(crate) findings: Findings,
    pub(crate) clock: Clock,
    /// Extents of the grid.
    pub(crate) grid: Vec<usize>,
    /// Current grid step.
    pub(crate) step: Vec<i64>,
    /// Vectors with uninitialized elements, by slot of the frame.
    pub(crate) undefined: HashMap<u32, Undefined>,
    /// Parallel dimensions of the grid, and the group of the current step.
    pub(crate) parallel: ParallelGrid,
    pub(crate) group: Group,
    /// What the kernel printed.
    pub(crate) prints: Vec<Print>,
    /// The stand-in for the chip's random bits.
    pub(crate) random: RandomBits,
    /// State of the MXUs, if the kernel controls them itself.
    pub(super) mxus: Mxus,
    /// Changes of memory and semaphores so far: a loop iteration without any can be repeated for ever.
    pub(crate) changes: u64,
    /// Names and outcomes of the kernels that the surrounding module has called.
    pub(crate) kernels: Vec<(Arc<str>, Outcome)>,
    pub(super) scratch: Vec<u8>,
    /// Current block nesting depth.
    depth: usize,
    /// Remaining budget.
    pub(crate) budget: Budget,
    /// The other devices, if the kernel communicates.
    pub(crate) link: Option<Link>,
    /// The kernel's barrier semaphore, if it has one.
    pub(crate) barrier: Option<View>,
    /// What the run showed that matters for reading its result.
    pub(crate) notes: Vec<Note>,
    /// Operations of the other devices.
    pub(crate) elsewhere: u64,
}

impl<'a> Machine<'a> {
    pub(crate) fn new(program: &'a Program, options: &'a Options<'a>, inputs: &[Tensor]) -> Self {
        Self {
            program,
            options,
            frame: Vec::new(),
            yielded: Vec::new(),
            buffers: Vec::new(),
            copies: Copies::default(),
            findings: Findings::default(),
            clock: Clock::new(options.rates, options.events),
            grid: Vec::new(),
            step: Vec::new(),
            undefined: HashMap::new(),
            parallel: ParallelGrid::default(),
            group: 0,
            prints: Vec::new(),
            random: RandomBits::default(),
            mxus: Mxus::default(),
            changes: 0,
            kernels: Vec::new(),
            scratch: Vec::new(),
            depth: 0,
            budget: Budget::new(options.bytes_for(inputs)),
            link: None,
            barrier: None,
            notes: Vec::new(),
            elsewhere: 0,
        }
    }

    /// Allocates an uninitialized buffer within the budget; returns a view of all of it.
    pub(crate) fn allocate(
        &mut self,
        name: &str,
        space: MemorySpace,
        shape: &[usize],
        element: Option<Element>,
        place: Option<Place>,
    ) -> Result<View, Stop> {
        let no_room =
            |message| Stop::Fault(place, format!("cannot allocate {name} of shape {shape:?}: {message}"));
        self.budget.take_buffer(space, Buffer::footprint(shape, element)).map_err(no_room)?;
        let buffer = Buffer::poisoned(name.to_owned(), space, shape, element);
        Ok(self.add(buffer.map_err(|error| no_room(error.to_string()))?))
    }

    /// Allocates a buffer with the contents of an operand, whose memory it shares until it is written.
    pub(crate) fn allocate_filled(
        &mut self,
        name: &str,
        space: MemorySpace,
        tensor: &Tensor,
    ) -> Result<View, Stop> {
        let (shape, element) = (&tensor.shape, tensor.element);
        let no_room =
            |message| Stop::Fault(None, format!("cannot allocate {name} of shape {shape:?}: {message}"));
        self.budget.take_buffer(space, Buffer::footprint(shape, Some(element))).map_err(no_room)?;
        Ok(self.add(Buffer::filled(name.to_owned(), space, shape, element, tensor.bytes.clone())))
    }

    fn add(&mut self, buffer: Buffer) -> View {
        let view = buffer.view(self.buffers.len());
        self.buffers.push(buffer);
        self.deliver_early(&view);
        view
    }

    /// Operations executed so far.
    pub(crate) fn operations(&self) -> u64 {
        self.budget.spent() + self.clock.operations()
    }

    /// Charges operations that are not steps: called kernels, loop iterations.
    pub(crate) fn count_operations(&mut self, operations: u64) {
        self.budget.spend(operations);
    }

    pub(crate) fn run(&mut self, block: &Block) -> Result<(), Stop> {
        if self.depth == MAX_RUNNING_DEPTH {
            let message = format!("calls and blocks nest more than {MAX_RUNNING_DEPTH} levels deep");
            return Err(Stop::Fault(block.steps.first().and_then(|step| step.place), message));
        }
        // An empty block is still entered, possibly forever.
        self.within_budget(|m| match block.steps.first() {
            Some(step) => m.core_site(step),
            None => Site::new(Agent::Core, None, "block", &m.step),
        })?;
        self.depth += 1;
        let ran = block.steps.iter().try_for_each(|step| {
            self.budget.spend(1);
            self.within_budget(|m| m.core_site(step))?;
            if self.clock.is_full() {
                let message = format!("the timeline exceeds {MAX_EVENTS} events: run without a trace");
                return Err(Stop::Fault(step.place, message));
            }
            if self.undefined.is_empty() {
                return (step.exec)(self, step);
            }
            self.watch_undefined(step);
            (step.exec)(self, step)
        });
        self.depth -= 1;
        ran
    }

    /// Stops the run if the operation budget is spent, before an operation of known cost.
    pub(crate) fn check_budget(&mut self, step: &Step) -> Result<(), Stop> {
        self.within_budget(|m| m.core_site(step))
    }

    /// Stops the run when the operation budget is spent.
    #[inline]
    fn within_budget(&mut self, site: impl FnOnce(&Self) -> Site) -> Result<(), Stop> {
        let operations = self.options.max_operations;
        if self.operations().saturating_add(self.elsewhere) <= operations {
            return Ok(());
        }
        let trouble = Trouble::OutOfOperations { operations, site: site(self) };
        self.findings.add(trouble);
        Err(Stop::Halted)
    }

    /// Reserves memory for a function's values.
    pub(crate) fn take_values(&mut self, code: &Code) -> Result<(), Stop> {
        let taken = self.budget.take(code.bytes);
        taken.map_err(|message| {
            Stop::Fault(None, format!("cannot allocate the values of a function: {message}"))
        })
    }

    /// Calls a function and returns its results.
    pub(crate) fn call(
        &mut self,
        code: &Code,
        arguments: impl Iterator<Item = Value>,
    ) -> Result<Vec<Value>, Stop> {
        self.take_values(code)?;
        // Fills a new frame slot by slot.
        self.budget.spend((code.slots / ELEMENTS_PER_OPERATION) as u64);
        let outer = std::mem::replace(&mut self.frame, vec![Value::Unset; code.slots]);
        let undefined = std::mem::take(&mut self.undefined);
        for (&slot, value) in code.body.arguments.iter().zip(arguments) {
            self.frame[slot as usize] = value;
        }
        let ran = self.run(&code.body);
        self.frame = outer;
        self.undefined = undefined;
        self.budget.give_back(code.bytes);
        ran.map(|()| std::mem::take(&mut self.yielded))
    }

    pub(crate) fn value(&self, step: &Step, operand: usize) -> &Value {
        &self.frame[step.operands[operand] as usize]
    }

    /// Takes the value of an operand; moves it out at its last use.
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
            // A scalar is a one-element vector.
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

    /// Rejects a view that leaves its buffer.
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

    /// Checks and performs a read by the core.
    pub(crate) fn load(&mut self, step: &Step, view: &View) -> Result<Data, Stop> {
        let (data, is_defined) = self.load_undefined(step, view)?;
        if !is_defined {
            let trouble = self.unwritten_trouble(view, self.core_site(step));
            self.findings.add(trouble);
        }
        Ok(data)
    }

    /// Reads memory that may be uninitialized; returns whether all of it was written, or a race was found.
    pub(super) fn load_undefined(&mut self, step: &Step, view: &View) -> Result<(Data, bool), Stop> {
        self.inside(view, |m| m.core_site(step))?;
        let racing = self.races(view, false, step);
        if self.link.is_some() {
            self.race_with_remote(view, false, |m| m.core_site(step));
            self.remember_access(step, view, false)?;
        }
        self.check_read(step, view);
        let is_defined = !racing.is_empty() || self.buffers[view.buffer].is_written(view);
        let data = self.peek(view);
        self.let_land(&racing);
        Ok((data, is_defined))
    }

    /// Reads `view` without checks.
    pub(crate) fn peek(&self, view: &View) -> Data {
        let buffer = &self.buffers[view.buffer];
        if let (Some(_), Some(element)) = (view.packed, view.element) {
            let mut bytes = Vec::with_capacity(view.bytes());
            buffer.gather(view, &mut bytes);
            return Tensor { element, shape: view.shape(), bytes: bytes.into() }.to_data();
        }
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

    /// Checks and performs a write by the core.
    pub(crate) fn store(&mut self, step: &Step, view: &View, data: &Data) -> Result<(), Stop> {
        self.inside(view, |m| m.core_site(step))?;
        self.changes += 1;
        let racing = self.races(view, true, step);
        if self.link.is_some() {
            self.race_with_remote(view, true, |m| m.core_site(step));
            self.remember_access(step, view, true)?;
        }
        self.record_write(step, view);
        let buffer = &mut self.buffers[view.buffer];
        if let (Some(element), Some(_)) = (view.element, &view.packed) {
            buffer.scatter(view, &Tensor::from_data(element, &view.shape(), data).bytes);
            self.let_land(&racing);
            return Ok(());
        }
        let mut at = 0;
        let bytes = Arc::make_mut(&mut buffer.bytes);
        match (view.element, data) {
            (Some(Element::Float(float)), Data::Floats(values)) => view.runs(|offset, len| {
                let count = len / view.unit();
                write_floats(float, &values[at..at + count], &mut bytes[offset..][..len]);
                at += count;
            }),
            (Some(Element::Float(float)), Data::Float(value)) => {
                let values = vec![*value; view.dims.last().map_or(1, |dim| dim.extent)];
                view.runs(|offset, len| {
                    for piece in bytes[offset..][..len].chunks_mut(values.len() * view.unit()) {
                        write_floats(float, &values, piece);
                    }
                });
            }
            (Some(Element::Integer(size)), data) => {
                let values = data.to_integers(view.elements());
                view.runs(|offset, len| {
                    let count = len / size;
                    write_integers(size, &values[at..at + count], &mut bytes[offset..][..len]);
                    at += count;
                });
            }
            (element, data) => unreachable!("{} stores {data:?} to {element:?}", step.name),
        }
        buffer.mark(view, true);
        self.let_land(&racing);
        Ok(())
    }

    /// Reports a race with every unobserved DMA that this access overlaps.
    fn races(&mut self, view: &View, writes: bool, step: &Step) -> Vec<usize> {
        if !self.options.races || self.copies.in_flight.is_empty() {
            return Vec::new();
        }
        let regions = self.buffers[view.buffer].regions(view);
        self.budget.spend((regions.len() * self.copies.in_flight.len() / COPIES_PER_OPERATION) as u64);
        let meets = |other: &View, other_region: &Region| {
            other.buffer == view.buffer && regions.iter().any(|region| region.overlaps(other_region))
        };
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
}
