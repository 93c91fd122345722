//! The copies of a kernel along an execution of its control flow: numbers are computed, data is not.

mod flight;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use octile_mosaic::{Function, Module, Op, Type, Value, types::DYNAMIC};

use super::{
    kernel::{Ends, bounds, kernel_function, written_name},
    program::{Block, Kind, Step},
    region::Region,
};
use crate::{
    flight::{Copy, Flight, Touch},
    source::Place,
};

/// Why a kernel could not be executed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExecuteError {
    /// Control flow depends on data.
    #[error("at {0} the kernel decides by a value that is not in its text")]
    Unknown(Place),
    /// A loop that does not end, or a very large grid.
    #[error("the kernel has too many steps to be executed here")]
    TooLong,
    /// Nothing to execute.
    #[error("there is no kernel")]
    NoKernel,
}

/// Steps after which an execution is given up: some seconds.
const MOST_STEPS: u64 = 50_000_000;
/// Semaphores, places and races beyond which nothing is noted any more.
const MOST: usize = 4096;

/// All copies between two buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExecutedRoute {
    /// The argument they read, for example `%w_q`.
    pub source: String,
    /// The argument they write.
    pub target: String,
    /// How many were started.
    pub starts: u64,
    /// Bytes they move, without padding.
    pub bytes: u64,
    /// Distinct places that they write, of those that exist.
    pub depth: usize,
    /// Whether one was in flight while a product was made.
    pub overlaps_multiply: bool,
    /// The first operation that reads a place while one of them is on its way there.
    pub read_too_early: Option<Place>,
    /// The first start.
    pub place: Place,
}

/// What an execution showed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Execution {
    /// Copies.
    pub routes: Vec<ExecutedRoute>,
    /// Semaphores that copies signal.
    pub semaphores: usize,
    /// Copies and waits whose semaphore could not be followed.
    pub unresolved: u64,
    /// Loads and stores, while a copy was in flight, whose place could not be followed.
    pub unresolved_accesses: u64,
    /// Accesses that have no order with a copy in flight, as sentences, each with its place.
    pub races: Vec<(Place, String)>,
    /// Copies that nobody waits for and waits without a copy, as sentences, each with its place.
    pub faults: Vec<(Place, String)>,
}

impl Execution {
    /// Executes the kernel of a module, on all of its grid.
    pub fn of(module: &Module) -> Result<Self, ExecuteError> {
        let function = kernel_function(module).ok_or(ExecuteError::NoKernel)?;
        let body = Block::of(&function.body, function);
        let mut machine = Machine::new(function);
        let grid = bounds(function);
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
            // The last dimension is the fastest.
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

/// What there is to say about a copy in flight.
#[derive(Clone, Copy)]
struct Started {
    route: (Value, Value),
    at: Place,
}

struct Machine<'m> {
    function: &'m Function,
    numbers: Vec<Option<i64>>,
    regions: HashMap<Value, Region>,
    semaphores: BTreeMap<SemaphoreKey, Semaphore>,
    routes: BTreeMap<(Value, Value), Route>,
    in_flight: Flight<SemaphoreKey, Region, Started>,
    unresolved: u64,
    races: Vec<(Place, String)>,
    steps: u64,
}

fn place(op: &Op) -> Place {
    op.place.map_or(Place { line: 1, column: 1 }, |at| Place { line: at.line, column: at.column })
}

impl<'m> Machine<'m> {
    fn new(function: &'m Function) -> Self {
        let memory = function.body.arguments.iter().filter_map(|&argument| match function.ty(argument) {
            Type::MemRef(memref) => Some((argument, Region::whole(argument, &memref.shape))),
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

    /// Every iteration costs something, even where its body is empty, so that no loop is endless.
    fn spend(&mut self, steps: usize) -> Result<(), ExecuteError> {
        self.steps = self.steps.saturating_add(steps as u64);
        if self.steps > MOST_STEPS { Err(ExecuteError::TooLong) } else { Ok(()) }
    }

    fn block(&mut self, block: &Block<'m>) -> Result<(), ExecuteError> {
        block.steps.iter().try_for_each(|step| self.step(step))
    }

    fn step(&mut self, step: &Step<'m>) -> Result<(), ExecuteError> {
        self.spend(1)?;
        let op = step.op;
        match &step.kind {
            Kind::Number(compute) => {
                let number = compute.of(&self.all(&op.operands));
                op.results.iter().for_each(|&result| self.set(result, number));
            }
            Kind::Slice => self.view(op, |region, index, shape| Some(region.slice(index, shape))),
            Kind::Squeeze => self.view(op, |region, _, shape| region.squeeze(shape)),
            Kind::Start => {
                self.spend(self.in_flight.len())?;
                self.start(op);
            }
            Kind::Wait => {
                self.spend(self.in_flight.len())?;
                self.wait(op);
            }
            Kind::Multiply => {
                self.spend(self.in_flight.len())?;
                for copy in self.in_flight.tags() {
                    if let Some(route) = self.routes.get_mut(&copy.route) {
                        route.overlaps_multiply = true;
                    }
                }
            }
            Kind::Access(access) => {
                self.spend(self.in_flight.len())?;
                self.access(op, access);
                // What is loaded is data.
                self.set_all(&op.results, &[]);
            }
            Kind::Allocate => {
                for &result in &op.results {
                    let region = Region::whole(result, self.function.ty(result).shape());
                    self.regions.insert(result, region);
                }
            }
            Kind::Copy => {
                self.spend(self.in_flight.len())?;
                self.copy(op);
            }
            Kind::Opaque => return self.opaque(step),
            Kind::Inline => {
                let Some(block) = step.blocks.first() else { return Ok(()) };
                self.block(block)?;
                let yielded = self.all(block.yields);
                self.set_all(&op.results, &yielded);
            }
            Kind::If => return self.branch(step),
            Kind::For => return self.count(step),
            Kind::While => return self.repeat(step),
        }
        Ok(())
    }

    fn view(&mut self, op: &Op, part: impl Fn(&Region, &[Option<i64>], &[usize]) -> Option<Region>) {
        let ([base, index @ ..], [result]) = (&op.operands[..], &op.results[..]) else { return };
        let shape = self.function.ty(*result).shape();
        let index = self.all(index);
        // What is known at run time only has no size here.
        let base = self.regions.get(base).filter(|_| !shape.contains(&DYNAMIC));
        match base.and_then(|region| part(region, &index, shape)) {
            Some(region) => self.regions.insert(*result, region),
            None => self.regions.remove(result),
        };
    }

    fn region(&self, value: Option<Value>) -> Option<&Region> {
        self.regions.get(&value?)
    }

    fn key(&self, semaphore: Option<Value>) -> Option<SemaphoreKey> {
        let region = self.region(semaphore)?;
        Some((region.root, region.place()?))
    }

    /// Bytes of the data at one end of a copy, without padding.
    fn bytes(&self, end: Option<Value>) -> Option<i64> {
        let element = match self.function.ty(end?).element() {
            Type::Float(float) => float.bits() as i64,
            Type::Integer(bits) => i64::from(*bits),
            _ => return None,
        };
        Some(self.region(end)?.elements().saturating_mul(element) / 8)
    }

    fn start(&mut self, op: &Op) {
        let ends = Ends::of(op);
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
        if exists && route.places.len() < MOST {
            route.places.extend(target.place());
        }
        let Some((semaphore, bytes)) = self.key(ends.semaphore).zip(bytes) else {
            self.unresolved += 1;
            return;
        };
        self.in_flight.start(Copy {
            semaphore: semaphore.clone(),
            amount: bytes,
            source,
            destination: target,
            tag: Started { route: key, at },
        });
        let Some(ledger) = self.ledger(semaphore) else { return };
        ledger.held = ledger.held.saturating_add(bytes);
        ledger.last_start = Some(at);
    }

    fn ledger(&mut self, semaphore: SemaphoreKey) -> Option<&mut Semaphore> {
        let room = self.semaphores.len() < MOST || self.semaphores.contains_key(&semaphore);
        self.unresolved += u64::from(!room);
        room.then(|| self.semaphores.entry(semaphore).or_default())
    }

    fn wait(&mut self, op: &Op) {
        let ends = Ends::of(op);
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

    /// What is decided by data must not act; then only what it gives is not known.
    fn give_up(&mut self, step: &Step<'m>) -> Result<(), ExecuteError> {
        if step.acts {
            return Err(ExecuteError::Unknown(place(step.op)));
        }
        self.in_flight.unresolved += u64::from(step.touches && !self.in_flight.is_empty());
        self.set_all(&step.op.results, &[]);
        Ok(())
    }

    fn branch(&mut self, step: &Step<'m>) -> Result<(), ExecuteError> {
        let condition = step.op.operands.first().and_then(|&condition| self.get(condition));
        let Some(condition) = condition else { return self.give_up(step) };
        let Some(block) = step.blocks.get(usize::from(condition == 0)) else { return Ok(()) };
        self.block(block)?;
        let yielded = self.all(block.yields);
        self.set_all(&step.op.results, &yielded);
        Ok(())
    }

    fn count(&mut self, step: &Step<'m>) -> Result<(), ExecuteError> {
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

    fn repeat(&mut self, step: &Step<'m>) -> Result<(), ExecuteError> {
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
            let name = format!("{}[{}]", name(*root), index.join(", "));
            match (semaphore.starved, semaphore.last_start) {
                (Some(at), _) => {
                    Some((at, format!("line {} waits on {name} for a copy that nobody started", at.line)))
                }
                (None, Some(at)) if semaphore.held != 0 => {
                    let says =
                        format!("{name} holds {} bytes at the end: a copy was never awaited", semaphore.held);
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
