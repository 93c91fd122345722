//! Follows the DMAs of a kernel along its control flow. Scalars are evaluated as the interpreter does; data
//! is not.

mod access;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use octile_mosaic::{Function, Op, Type, Value, types::DYNAMIC};

use super::{
    MosaicKernel,
    kernel::{DmaOperands, kernel_function, place, written_name},
    memory_box::MemoryBox,
    program::{Action, KernelBlock, KernelStep},
};
use crate::{
    flight::{Flight, PendingDma, Touch},
    limits::{MAX_KERNEL_STEPS, MAX_TRACKED},
    source::Place,
};

/// Why a kernel could not be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ExecuteError {
    /// Control flow depends on data.
    #[error("the control flow at {0} depends on data")]
    DataDependent(Place),
    /// A loop that does not end, or a very large grid.
    #[error("the kernel takes more than {MAX_KERNEL_STEPS} steps")]
    TooManySteps,
    /// The module has no function.
    #[error("the module defines no kernel")]
    NoKernel,
}

/// All DMAs between two buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedRoute {
    /// The source argument, for example `%w_q`.
    pub source: String,
    /// The destination argument.
    pub target: String,
    /// Number of DMAs started.
    pub starts: u64,
    /// Bytes moved, without padding.
    pub bytes: u64,
    /// Number of buffer slots: distinct offsets written, of those inside the destination.
    pub depth: usize,
    /// Whether one was in flight during a matmul.
    pub overlaps_multiply: bool,
    /// The first operation that reads a slot while a DMA is still writing it.
    pub read_too_early: Option<Place>,
    /// Where the first one is started.
    pub place: Place,
}

/// The DMAs, waits and races of one execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// DMAs by source and destination.
    pub routes: Vec<ExecutedRoute>,
    /// Number of semaphores that DMAs signal.
    pub semaphores: usize,
    /// DMAs and waits whose semaphore could not be resolved.
    pub unresolved: u64,
    /// Loads and stores whose address could not be resolved while a DMA was in flight.
    pub unresolved_accesses: u64,
    /// Data races with DMAs in flight, one sentence each.
    pub races: Vec<(Place, String)>,
    /// DMAs that are never waited for, and waits without a DMA, one sentence each.
    pub faults: Vec<(Place, String)>,
}

impl Execution {
    /// Executes a kernel over its whole grid.
    pub fn of(kernel: &MosaicKernel) -> Result<Self, ExecuteError> {
        let function = kernel_function(&kernel.module).ok_or(ExecuteError::NoKernel)?;
        let body = KernelBlock::new(&function.body, function);
        let mut machine = KernelRun::new(function);
        let grid = &kernel.grid;
        if grid.iter().any(|&bound| bound <= 0) {
            return Ok(machine.finish());
        }
        let mut step = vec![0i64; grid.len()];
        loop {
            for (argument, at) in function.body.arguments.iter().zip(&step) {
                machine.set(*argument, Some(*at));
            }
            machine.spend(1)?;
            machine.block(&body)?;
            // The last grid dimension runs fastest.
            let Some(next) = (0..grid.len())
                .rev()
                .find(|&d| step.get(d).zip(grid.get(d)).is_some_and(|(s, b)| s + 1 < *b))
            else {
                return Ok(machine.finish());
            };
            for (dimension, at) in step.iter_mut().enumerate().skip(next) {
                *at = if dimension == next { *at + 1 } else { 0 };
            }
        }
    }
}

type SemaphoreKey = (Value, Vec<i64>);

#[derive(Default)]
struct Semaphore {
    held: i64,
    starved: Option<Place>,
    last_start: Option<Place>,
}

#[derive(Default)]
struct Route {
    starts: u64,
    bytes: u64,
    places: BTreeSet<Vec<i64>>,
    overlaps_multiply: bool,
    read_too_early: Option<Place>,
    first: Option<Place>,
}

/// Where a DMA in flight was started, and between which buffers.
#[derive(Clone, Copy)]
struct Started {
    route: (Value, Value),
    at: Place,
}

struct KernelRun<'m> {
    function: &'m Function,
    numbers: Vec<Option<i64>>,
    regions: HashMap<Value, MemoryBox>,
    semaphores: BTreeMap<SemaphoreKey, Semaphore>,
    routes: BTreeMap<(Value, Value), Route>,
    in_flight: Flight<SemaphoreKey, MemoryBox, Started>,
    unresolved: u64,
    races: Vec<(Place, String)>,
    steps: u64,
}

impl<'m> KernelRun<'m> {
    fn new(function: &'m Function) -> Self {
        let memory = function.body.arguments.iter().filter_map(|&argument| match function.ty(argument) {
            Type::MemRef(memref) => Some((argument, MemoryBox::whole(argument, &memref.shape))),
            _ => None,
        });
        Self {
            function,
            numbers: vec![None; function.values.len()],
            regions: memory.collect(),
            semaphores: BTreeMap::new(),
            routes: BTreeMap::new(),
            in_flight: Flight::default(),
            unresolved: 0,
            races: Vec::new(),
            steps: 0,
        }
    }

    fn get(&self, value: Value) -> Option<i64> {
        self.numbers.get(value.index()).copied().flatten()
    }

    fn set(&mut self, value: Value, number: Option<i64>) {
        if let Some(slot) = self.numbers.get_mut(value.index()) {
            *slot = number;
        }
    }

    fn all(&self, values: &[Value]) -> Vec<Option<i64>> {
        values.iter().map(|&value| self.get(value)).collect()
    }

    fn set_all(&mut self, values: &[Value], numbers: &[Option<i64>]) {
        for (index, value) in values.iter().enumerate() {
            self.set(*value, numbers.get(index).copied().flatten());
        }
    }

    /// Counts steps. An iteration counts as one even if its body is empty, so that every loop ends.
    fn spend(&mut self, steps: usize) -> Result<(), ExecuteError> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps > MAX_KERNEL_STEPS { Err(ExecuteError::TooManySteps) } else { Ok(()) }
    }

    fn block(&mut self, block: &KernelBlock<'m>) -> Result<(), ExecuteError> {
        block.steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &KernelStep<'m>) -> Result<(), ExecuteError> {
        self.spend(1)?;
        let op = step.op;
        match &step.action {
            Action::Scalar(scalar) => {
                let number = scalar.evaluate(&self.all(&op.operands));
                op.results.iter().for_each(|&result| self.set(result, number));
            }
            Action::Slice => self.view(op, |region, index, shape| Some(region.slice(index, shape))),
            Action::Alias => self.view(op, |region, _, shape| region.squeeze(shape)),
            Action::StartDma => {
                self.spend(self.in_flight.len())?;
                self.start(op);
            }
            Action::WaitDma => {
                self.spend(self.in_flight.len())?;
                self.wait(op);
            }
            Action::Matmul => {
                self.spend(self.in_flight.len())?;
                for copy in self.in_flight.tags() {
                    if let Some(route) = self.routes.get_mut(&copy.route) {
                        route.overlaps_multiply = true;
                    }
                }
            }
            Action::Access(access) => {
                self.spend(self.in_flight.len())?;
                self.access(op, access);
                // Loaded values are data.
                self.set_all(&op.results, &[]);
            }
            Action::Allocate => {
                for &result in &op.results {
                    let region = MemoryBox::whole(result, self.function.ty(result).shape());
                    self.regions.insert(result, region);
                }
            }
            Action::Copy => {
                self.spend(self.in_flight.len())?;
                self.copy(op);
            }
            Action::Opaque => return self.opaque(step),
            Action::Scope => {
                let Some(block) = step.blocks.first() else { return Ok(()) };
                self.block(block)?;
                let yielded = self.all(block.yields);
                self.set_all(&op.results, &yielded);
            }
            Action::If => return self.branch(step),
            Action::For => return self.count(step),
            Action::While => return self.repeat(step),
        }
        Ok(())
    }

    fn view(&mut self, op: &Op, part: impl Fn(&MemoryBox, &[Option<i64>], &[usize]) -> Option<MemoryBox>) {
        let ([base, index @ ..], [result]) = (&op.operands[..], &op.results[..]) else { return };
        let shape = self.function.ty(*result).shape();
        let index = self.all(index);
        // A dynamic extent has no known size.
        let base = self.regions.get(base).filter(|_| !shape.contains(&DYNAMIC));
        match base.and_then(|region| part(region, &index, shape)) {
            Some(region) => self.regions.insert(*result, region),
            None => self.regions.remove(result),
        };
    }

    fn region(&self, value: Option<Value>) -> Option<&MemoryBox> {
        self.regions.get(&value?)
    }

    fn key(&self, semaphore: Option<Value>) -> Option<SemaphoreKey> {
        let region = self.region(semaphore)?;
        Some((region.root, region.place()?))
    }

    /// Bytes at one end of a DMA, without padding.
    fn bytes(&self, end: Option<Value>) -> Option<i64> {
        let element = match self.function.ty(end?).element() {
            Type::Float(float) => float.bits() as i64,
            Type::Integer(bits) => i64::from(*bits),
            _ => return None,
        };
        Some(self.region(end)?.elements().saturating_mul(element) / 8)
    }

    fn start(&mut self, op: &Op) {
        let ends = DmaOperands::of(op);
        let at = place(op);
        let ends_at = self.region(ends.source).cloned().zip(self.region(ends.target).cloned());
        let Some((source, target)) = ends_at else {
            self.unresolved += 1;
            return;
        };
        self.touch(at, &source, Touch::READS);
        self.touch(at, &target, Touch::WRITES);
        let key = (source.root, target.root);
        let bytes = self.bytes(ends.target);
        let exists = target.is_within(self.function.ty(target.root).shape());
        let route = self.routes.entry(key).or_default();
        route.first.get_or_insert(at);
        route.starts += 1;
        route.bytes = route.bytes.saturating_add(bytes.map_or(0, i64::unsigned_abs));
        if exists && route.places.len() < MAX_TRACKED {
            route.places.extend(target.place());
        }
        let tag = Started { route: key, at };
        match ends.source_semaphore {
            None => self.launch(ends.semaphore, bytes, [Some(source), Some(target)], tag),
            // To another device. That device runs the same code: what is sent from here to its memory and its
            // semaphore, another one sends to the same ones here.
            Some(_) => {
                self.launch(ends.source_semaphore, bytes, [Some(source), None], tag);
                self.launch(ends.semaphore, bytes, [None, Some(target)], tag);
            }
        }
    }

    /// Records the ends of a DMA whose completion a semaphore tells.
    fn launch(
        &mut self,
        semaphore: Option<Value>,
        bytes: Option<i64>,
        [source, destination]: [Option<MemoryBox>; 2],
        tag: Started,
    ) {
        let Some((semaphore, amount)) = self.key(semaphore).zip(bytes) else {
            self.unresolved += 1;
            return;
        };
        self.in_flight.start(PendingDma { semaphore: semaphore.clone(), amount, source, destination, tag });
        let Some(ledger) = self.ledger(semaphore) else { return };
        ledger.held = ledger.held.saturating_add(amount);
        ledger.last_start = Some(tag.at);
    }

    fn ledger(&mut self, semaphore: SemaphoreKey) -> Option<&mut Semaphore> {
        let room = self.semaphores.len() < MAX_TRACKED || self.semaphores.contains_key(&semaphore);
        self.unresolved += u64::from(!room);
        room.then(|| self.semaphores.entry(semaphore).or_default())
    }

    fn wait(&mut self, op: &Op) {
        let ends = DmaOperands::of(op);
        let Some((key, bytes)) = self.key(ends.semaphore).zip(self.bytes(ends.target)) else {
            self.lose_track();
            return;
        };
        self.in_flight.wait(&key, bytes);
        self.in_flight.signal(&key, bytes.saturating_neg());
        let Some(ledger) = self.ledger(key) else { return };
        if ledger.held < bytes {
            ledger.starved.get_or_insert(place(op));
        }
        ledger.held = ledger.held.saturating_sub(bytes);
    }

    fn lose_track(&mut self) {
        self.unresolved += 1;
        self.in_flight.lose_wait();
    }

    /// Skips control flow that depends on data. Its results are unknown; it must not start DMAs, wait or
    /// multiply.
    fn give_up(&mut self, step: &KernelStep<'m>) -> Result<(), ExecuteError> {
        if step.acts {
            return Err(ExecuteError::DataDependent(place(step.op)));
        }
        self.in_flight.unresolved += u64::from(step.touches && !self.in_flight.is_empty());
        self.set_all(&step.op.results, &[]);
        Ok(())
    }

    fn branch(&mut self, step: &KernelStep<'m>) -> Result<(), ExecuteError> {
        let condition = step.op.operands.first().and_then(|&condition| self.get(condition));
        let Some(condition) = condition else { return self.give_up(step) };
        let Some(block) = step.blocks.get(usize::from(condition == 0)) else { return Ok(()) };
        self.block(block)?;
        let yielded = self.all(block.yields);
        self.set_all(&step.op.results, &yielded);
        Ok(())
    }

    fn count(&mut self, step: &KernelStep<'m>) -> Result<(), ExecuteError> {
        let [first, end, by, initial @ ..] = &step.op.operands[..] else { return Ok(()) };
        let (Some(mut at), Some(end), Some(by)) = (self.get(*first), self.get(*end), self.get(*by)) else {
            return self.give_up(step);
        };
        let mut carried = self.all(initial);
        let Some(block) = step.blocks.first().filter(|_| by > 0) else { return Ok(()) };
        let Some((counter, arguments)) = block.arguments.split_first() else { return Ok(()) };
        while at < end {
            self.spend(1)?;
            self.set(*counter, Some(at));
            self.set_all(arguments, &carried);
            self.block(block)?;
            carried = self.all(block.yields);
            at = at.saturating_add(by);
        }
        self.set_all(&step.op.results, &carried);
        Ok(())
    }

    fn repeat(&mut self, step: &KernelStep<'m>) -> Result<(), ExecuteError> {
        let [before, after] = &step.blocks[..] else { return Ok(()) };
        let mut carried = self.all(&step.op.operands);
        loop {
            self.spend(1)?;
            self.set_all(before.arguments, &carried);
            self.block(before)?;
            let Some((condition, passed)) = before.yields.split_first() else { return Ok(()) };
            let Some(goes_on) = self.get(*condition) else { return self.give_up(step) };
            let passed = self.all(passed);
            if goes_on == 0 {
                self.set_all(&step.op.results, &passed);
                return Ok(());
            }
            self.set_all(after.arguments, &passed);
            self.block(after)?;
            carried = self.all(after.yields);
        }
    }

    fn finish(self) -> Execution {
        let name = |value: Value| {
            written_name(self.function, value).unwrap_or_else(|| format!("%{}", value.index()))
        };
        let route = |((source, target), route): (&(Value, Value), &Route)| ExecutedRoute {
            source: name(*source),
            target: name(*target),
            starts: route.starts,
            bytes: route.bytes,
            depth: route.places.len(),
            overlaps_multiply: route.overlaps_multiply,
            read_too_early: route.read_too_early,
            place: route.first.unwrap_or(Place { line: 1, column: 1 }),
        };
        let fault = |((root, index), semaphore): (&SemaphoreKey, &Semaphore)| {
            let index: Vec<_> = index.iter().map(i64::to_string).collect();
            let name = match &index[..] {
                [] => name(*root),
                index => format!("{}[{}]", name(*root), index.join(", ")),
            };
            match (semaphore.starved, semaphore.last_start) {
                (Some(at), _) => {
                    Some((at, format!("line {} waits on {name} for a DMA that was never started", at.line)))
                }
                (None, Some(at)) if semaphore.held != 0 => {
                    let says = format!(
                        "{name} holds {} bytes at the end: a DMA was never waited for",
                        semaphore.held
                    );
                    Some((at, says))
                }
                _ => None,
            }
        };
        Execution {
            routes: self.routes.iter().map(route).collect(),
            semaphores: self.semaphores.len(),
            unresolved: self.unresolved,
            unresolved_accesses: self.in_flight.unresolved,
            races: self.races,
            faults: self.semaphores.iter().filter_map(fault).collect(),
        }
    }
}
