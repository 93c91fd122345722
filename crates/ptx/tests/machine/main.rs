//! Small kernels: what is right runs, and one mistake is found out.

mod any;
mod engines;
mod faults;
mod races;
mod warpgroups;

use octile_ptx::simulate::{
    Coverage, DeviceMemory, Fault, FaultKind, KernelArgument, Launch, LaunchConfig, Program,
};

/// A kernel with a pointer `out` and this body.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n\n.extern .shared .align 1024 .b8 shared_memory[];\n\n\
         .visible .entry k(\n\t.param .u64 out\n)\n.maxntid 256, 1, 1\n{{\n\
         \t.reg .b16 %h<9>;\n\t.reg .b32 %r<40>;\n\t.reg .b64 %rd<9>;\n\t.reg .f32 %f<9>;\n\t.reg .pred %p<9>;\n\
         \tmov.u32 %r1, shared_memory;\n\tmov.u32 %r2, %tid.x;\n\tmad.lo.u32 %r3, %r2, 4, %r1;\n\
         \tld.param.u64 %rd1, [out];\n\tshr.u32 %r4, %r2, 5;\n\tsetp.eq.u32 %p1, %r2, 0;\n\
         \tgriddepcontrol.wait;\n\
         {body}\n\tret;\n}}\n"
    )
}

/// Runs it in blocks of two warps with 1 KiB of shared memory, and gives the first word of the result.
fn run_in(clusters: usize, cluster: usize, kernel: &str) -> Result<(u32, Coverage), Fault> {
    run_seeded(5, clusters, cluster, kernel)
}

/// As [`run_in`], in one block of so many threads.
fn run_block(threads: usize, kernel: &str) -> Result<(u32, Coverage), Fault> {
    launch(5, (1, 1, threads), kernel)
}

/// As [`run_in`], in the order of events that a seed stands for.
fn run_seeded(seed: u64, clusters: usize, cluster: usize, kernel: &str) -> Result<(u32, Coverage), Fault> {
    launch(seed, (clusters, cluster, 64), kernel)
}

fn launch(seed: u64, blocks: (usize, usize, usize), kernel: &str) -> Result<(u32, Coverage), Fault> {
    launch_within(1 << 20, seed, blocks, kernel)
}

/// As [`run_seeded`], with so many instructions and threads.
fn launch_within(
    max_instructions: u64,
    seed: u64,
    (clusters, cluster, threads): (usize, usize, usize),
    kernel: &str,
) -> Result<(u32, Coverage), Fault> {
    let program = Program::parse(kernel).unwrap_or_else(|error| panic!("{error}"));
    let mut global = DeviceMemory::default();
    let out = global.allocate(vec![0; 256]);
    let launch = Launch {
        program: &program,
        config: LaunchConfig {
            grid: ((clusters * cluster) as u32, 1),
            threads: threads as u32,
            shared_bytes: 1024,
            cluster: cluster as u32,
        },
        resident_clusters: 2,
        arguments: vec![KernelArgument::Pointer(out)],
        seed,
        max_instructions,
    };
    let outcome = launch.run(&mut global)?;
    let bytes = global.read(out).expect("it was allocated");
    Ok((u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]), outcome))
}

/// As [`run_in`], in one block.
fn run(body: &str) -> Result<u32, Fault> {
    run_in(1, 1, &kernel(body)).map(|(word, _)| word)
}

/// Why a body is wrong.
fn fault(body: &str) -> FaultKind {
    run(body).expect_err("the program is wrong").kind
}
