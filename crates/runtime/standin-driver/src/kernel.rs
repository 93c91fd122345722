//! Kernels: parsing and launching them.

use std::{collections::HashSet, sync::Arc};

use octile_ptx::simulate::{DeviceMemory, KernelArgument, Launch, LaunchConfig, Program, TensorMap};

use crate::memory::Memory;

/// A compiled kernel.
pub(crate) struct Kernel {
    pub program: Program,
}

impl Kernel {
    pub(crate) fn compile(ptx: &str) -> Result<Self, String> {
        let program = Program::parse(ptx).map_err(|error| error.to_string())?;
        Ok(Self { program })
    }
}

/// The value of a parameter at launch.
#[derive(Clone, Copy)]
pub(crate) enum Argument {
    /// `None` if it was not encoded; the kernel must not use it.
    Map(Option<TensorMap>),
    Pointer(u64),
    Number(u32),
}

/// A queued kernel.
#[derive(Clone)]
pub(crate) struct Launched {
    pub module: u64,
    pub kernel: Arc<Kernel>,
    pub config: LaunchConfig,
    pub overlaps: bool,
    pub arguments: Vec<Argument>,
}

impl Launched {
    /// The allocations that it can access.
    fn allocations(&self, device: usize, memory: &Memory) -> Result<Vec<u64>, String> {
        let mut starts = Vec::new();
        for ((name, _), argument) in self.kernel.program.parameters.iter().zip(&self.arguments) {
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

    pub(crate) fn entry(&self) -> &str {
        &self.kernel.program.entry
    }

    /// Runs the kernel. `before` are the allocations written by the preceding kernel, which may still run
    /// until this one waits (PDL). Returns what it did.
    pub(crate) fn run(
        &self,
        device: usize,
        memory: &mut Memory,
        before: &HashSet<u64>,
        is_interpreted: bool,
    ) -> Result<Effects, String> {
        let starts = self.allocations(device, memory)?;
        let mut effects = Effects { instructions: UNKNOWN_INSTRUCTIONS, ..Effects::default() };
        if is_interpreted {
            let mut global = DeviceMemory::default();
            let mut places = Vec::new();
            for &start in &starts {
                let bytes = memory.holding(device, start)?.1.to_vec();
                let is_constant = !(self.overlaps && before.contains(&start));
                let place =
                    if is_constant { global.allocate_constant(bytes) } else { global.allocate(bytes) };
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
            let arguments = self.arguments.iter().map(|argument| match *argument {
                Argument::Map(map) => KernelArgument::TensorMap(
                    map.map_or(NO_MAP, |map| TensorMap { address: moved(map.address).unwrap_or(0), ..map }),
                ),
                Argument::Pointer(address) => KernelArgument::Pointer(moved(address).unwrap_or(0)),
                Argument::Number(number) => KernelArgument::Number(number),
            });
            let launch = Launch {
                program: &self.kernel.program,
                config: self.config,
                arguments: arguments.collect(),
                resident_clusters: (4 / self.config.cluster as usize).max(1),
                seed: 1,
                max_instructions: MOST_INSTRUCTIONS,
            };
            let coverage = launch.run(&mut global).map_err(|fault| format!("{}: {fault}", self.entry()))?;
            effects.instructions = coverage.instructions;
            for (start, place) in places {
                let bytes = global.read(place).unwrap_or_default();
                if memory.holding(device, start)?.1 != bytes {
                    effects.changed.insert(start);
                    memory.write(device, start, bytes)?;
                }
            }
        }
        Ok(effects)
    }
}

/// What a kernel did.
#[derive(Default)]
pub(crate) struct Effects {
    /// Allocations that it wrote.
    pub changed: HashSet<u64>,
    /// Warp instructions that it executed.
    pub instructions: u64,
}

/// Nothing is inside.
const NO_MAP: TensorMap = TensorMap { address: 0, element: 1, size: (0, 0), stride: 16, boxes: (1, 1) };

/// What a kernel counts for that is not interpreted.
const UNKNOWN_INSTRUCTIONS: u64 = 10_000;

/// Most instructions of a launch; test kernels take far fewer.
const MOST_INSTRUCTIONS: u64 = 1_000_000_000;
