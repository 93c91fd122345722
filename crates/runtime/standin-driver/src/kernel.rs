//! Kernels: parsing and launching them.

use std::{collections::HashSet, sync::Arc};

use octile_ptx::{Global, Launch, Parameter, Program, TensorMap};

use crate::memory::Memory;

/// Kind of a parameter.
#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Map,
    Pointer,
    Number,
}

/// A compiled kernel.
pub struct Kernel {
    pub program: Program,
    pub kinds: Vec<Kind>,
}

impl Kernel {
    pub fn compile(ptx: &str) -> Result<Self, String> {
        let program = Program::parse(ptx).map_err(|error| error.to_string())?;
        let declared = ptx.lines().map(str::trim).filter(|line| line.starts_with(".param"));
        let kinds: Vec<Kind> = declared
            .map(|line| match line.split_whitespace().nth(1) {
                Some(".u64") => Kind::Pointer,
                Some(".u32") => Kind::Number,
                _ => Kind::Map,
            })
            .collect();
        if kinds.len() != program.parameters.len() {
            return Err(format!(
                "{} parameters are declared, {} read",
                kinds.len(),
                program.parameters.len()
            ));
        }
        Ok(Self { program, kinds })
    }
}

/// The value of a parameter at launch.
#[derive(Clone, Copy)]
pub enum Argument {
    /// `None` if it was not encoded; the kernel must not use it.
    Map(Option<TensorMap>),
    Pointer(u64),
    Number(u32),
}

/// A queued kernel.
#[derive(Clone)]
pub struct Launched {
    pub module: u64,
    pub kernel: Arc<Kernel>,
    pub grid: (usize, usize),
    pub threads: usize,
    pub shared_bytes: usize,
    pub cluster: usize,
    pub overlaps: bool,
    pub arguments: Vec<Argument>,
}

impl Launched {
    /// The allocations that it can access.
    fn allocations(&self, device: usize, memory: &Memory) -> Result<Vec<u64>, String> {
        let mut starts = Vec::new();
        for (name, argument) in self.kernel.program.parameters.iter().zip(&self.arguments) {
            let address = match argument {
                Argument::Map(Some(map)) => map.address,
                Argument::Pointer(address) => *address,
                Argument::Map(None) | Argument::Number(_) => continue,
            };
            let held = memory.holding(device, address);
            let (start, _) = held.map_err(|error| format!("{}: {name}: {error}", self.entry()))?;
            if !starts.contains(&start) {
                starts.push(start);
            }
        }
        Ok(starts)
    }

    pub fn entry(&self) -> &str {
        &self.kernel.program.entry
    }

    /// Runs the kernel. `before` are the allocations written by the preceding kernel, which may still run
    /// until this one waits (PDL). Returns the allocations that this one wrote.
    pub fn run(
        &self,
        device: usize,
        memory: &mut Memory,
        before: &HashSet<u64>,
        is_interpreted: bool,
    ) -> Result<HashSet<u64>, String> {
        let starts = self.allocations(device, memory)?;
        let mut changed = HashSet::new();
        if is_interpreted {
            let mut global = Global::default();
            let mut places = Vec::new();
            for &start in &starts {
                let bytes = memory.holding(device, start)?.1.to_vec();
                let is_settled = !(self.overlaps && before.contains(&start));
                let place = if is_settled { global.allocate_settled(bytes) } else { global.allocate(bytes) };
                places.push((start, place));
            }
            let moved = |address: u64| {
                let (start, place) = places.iter().rfind(|(start, _)| {
                    *start <= address && {
                        memory.holding(device, address).is_ok_and(|(held, _)| held == *start)
                    }
                })?;
                Some(place + (address - start))
            };
            let parameters = self.arguments.iter().map(|argument| match *argument {
                Argument::Map(map) => Parameter::Map(
                    map.map_or(NO_MAP, |map| TensorMap { address: moved(map.address).unwrap_or(0), ..map }),
                ),
                Argument::Pointer(address) => Parameter::Pointer(moved(address).unwrap_or(0)),
                Argument::Number(number) => Parameter::Number(number),
            });
            let launch = Launch {
                program: &self.kernel.program,
                grid: self.grid,
                threads: self.threads,
                shared_bytes: self.shared_bytes,
                cluster: self.cluster,
                resident_clusters: (4 / self.cluster).max(1),
                parameters: parameters.collect(),
                seed: 1,
                most_instructions: MOST_INSTRUCTIONS,
            };
            launch.run(&mut global).map_err(|fault| format!("{}: {fault}", self.entry()))?;
            for (start, place) in places {
                let bytes = global.read(place).unwrap_or_default();
                if memory.holding(device, start)?.1 != bytes {
                    changed.insert(start);
                    memory.write(device, start, bytes)?;
                }
            }
        }
        Ok(changed)
    }
}

/// Nothing is inside.
const NO_MAP: TensorMap = TensorMap { address: 0, element: 1, size: (0, 0), stride: 16, boxes: (1, 1) };

/// Most instructions of a launch; test kernels take far fewer.
const MOST_INSTRUCTIONS: u64 = 1_000_000_000;
