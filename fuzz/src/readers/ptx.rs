//! PTX, as the parser, the simulator and the checks read it.

use octile_ptx::{
    ir::Module,
    simulate::{DeviceMemory, KernelArgument, Launch, LaunchConfig, ParameterKind, Program, TensorMap},
};

use super::{facts, text};

/// Instructions that a kernel may execute: enough for every branch of a small one.
const MAX_INSTRUCTIONS: u64 = 20_000;
/// Bytes of device memory behind every pointer, and of a CTA's shared memory.
const BYTES: usize = 1 << 12;

/// Parses, verifies and prints PTX, reads it into facts, and runs it on the simulator.
pub fn ptx(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let (module, _) = Module::parse_lossy(text);
    let _ = (module.verify(), module.to_string(), facts(bytes));
    // CTAs that write the same address race, so a kernel may finish only where it has one.
    Program::parse(text).is_ok_and(|program| run(&program, 2) || run(&program, 1))
}

/// Launches this many clusters of as many CTAs, of up to one warpgroup; returns whether the kernel finishes.
fn run(program: &Program, clusters: u32) -> bool {
    let mut device = DeviceMemory::default();
    let arguments = program.parameters.iter().map(|(_, kind)| {
        let address = device.allocate(vec![0x38; BYTES]);
        let map = TensorMap { address, element: 1, size: (64, 64), stride: 64, boxes: (64, 8) };
        match kind {
            ParameterKind::Number => KernelArgument::Number(3),
            ParameterKind::Pointer => KernelArgument::Pointer(address),
            ParameterKind::TensorMap => KernelArgument::TensorMap(map),
        }
    });
    let threads = (program.max_threads / 32 * 32).clamp(32, 128);
    let launch = Launch {
        program,
        arguments: arguments.collect(),
        config: LaunchConfig {
            grid: (clusters * clusters, 1),
            threads: threads as u32,
            cluster: clusters,
            shared_bytes: BYTES as u32,
        },
        resident_clusters: clusters as usize,
        seed: 1,
        max_instructions: MAX_INSTRUCTIONS,
    };
    threads <= program.max_threads && launch.run(&mut device).is_ok()
}
