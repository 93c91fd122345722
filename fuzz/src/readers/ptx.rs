//! PTX, as read by the simulator and by the checks.

use octile_dump::gpu::Code;
use octile_ptx::{Global, Launch, Parameter, Program, TensorMap};

use super::{facts, text};

/// Instruction limit: enough to reach every branch of a small kernel.
const MOST_INSTRUCTIONS: u64 = 20_000;
/// Bytes of device memory behind every pointer, and of a CTA's shared memory.
const BYTES: usize = 1 << 12;

/// PTX: parsed and executed by the simulator, parsed by the checks.
pub fn ptx(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let _ = (Code::parse_ptx(text), facts(bytes));
    // CTAs that write the same address race, so some kernels finish only with a single CTA.
    Program::parse(text).is_ok_and(|program| run(text, &program, 2) || run(text, &program, 1))
}

/// Launches `clusters` clusters of `clusters` CTAs of up to one warpgroup. Returns whether they finish.
fn run(text: &str, program: &Program, clusters: usize) -> bool {
    let mut global = Global::default();
    let parameters = program.parameters.iter().map(|name| {
        let address = global.allocate(vec![0x38; BYTES]);
        let map = TensorMap { address, element: 1, size: (64, 64), stride: 64, boxes: (64, 8) };
        match text {
            _ if text.contains(&format!(".u32 {name}")) => Parameter::Number(3),
            _ if text.contains(&format!(".u64 {name}")) => Parameter::Pointer(address),
            _ => Parameter::Map(map),
        }
    });
    let launch = Launch {
        program,
        parameters: parameters.collect(),
        grid: (clusters * clusters, 1),
        threads: (program.most_threads / 32 * 32).clamp(32, 128),
        shared_bytes: BYTES,
        cluster: clusters,
        resident_clusters: clusters,
        seed: 1,
        most_instructions: MOST_INSTRUCTIONS,
    };
    launch.threads <= program.most_threads && launch.run(&mut global).is_ok()
}
