//! Runs the files of `filetests/ptx`: each holds the body of a kernel and what is expected of it.
//!
//! `runner` describes the form of a file.

#[path = "../../../filetests/runner.rs"]
mod runner;

use std::collections::BTreeSet;

use octile_ptx::simulate::{DeviceMemory, Fault, KernelArgument, Launch, LaunchConfig, Program, TensorMap};

/// The kernel around a body, in one line, so that the lines of a body keep their numbers. `%r1` is the start
/// of shared memory, `%r2` the thread, `%r3` the thread's word of shared memory, `%r4` the warp, `%p1` holds
/// in thread 0; `%rd1` is the pointer `out`, `%rd2` the tensor map of a matrix of 8 rows x 128 bytes that
/// starts with the number 7.
const PROLOGUE: &str = ".visible .entry test(.param .u64 out, .param .align 64 .b8 map[128]) \
    .maxntid 384, 1, 1 .minnctapersm 1 { .reg .b16 %h<9>; .reg .b32 %r<40>; .reg .b64 %rd<9>; \
    .reg .f32 %f<9>; .reg .pred %p<9>; mov.u32 %r1, shared_memory; mov.u32 %r2, %tid.x; \
    mad.lo.u32 %r3, %r2, 4, %r1; shr.u32 %r4, %r2, 5; setp.eq.u32 %p1, %r2, 0; ld.param.u64 %rd1, [out]; mov.b64 %rd2, map;";

/// `// run: simulate threads=128`
struct Case {
    ctas: u32,
    cluster: u32,
    threads: u32,
    shared_bytes: u32,
    seeds: u64,
}

impl Case {
    fn new(run: &str) -> Self {
        let options = run.strip_prefix("simulate").expect("the first line is `// run: simulate`");
        let mut case = Self { ctas: 1, cluster: 1, threads: 64, shared_bytes: 1024, seeds: 8 };
        for option in options.split_whitespace() {
            let (name, value) = option.split_once('=').expect("an option is `name=value`");
            let value: u32 = value.parse().expect("the value of an option is a number");
            match name {
                "ctas" => case.ctas = value,
                "cluster" => case.cluster = value,
                "threads" => case.threads = value,
                "shared" => case.shared_bytes = value,
                "seeds" => case.seeds = value.into(),
                _ => panic!("there is no option `{name}`"),
            }
        }
        case
    }

    /// What comes of the kernel with every seed: one outcome in full, or the kinds of several.
    fn outcome(&self, lines: &[&str]) -> String {
        let body = lines.iter().skip(1).map(|line| format!("{line}\n"));
        let text = format!("{PROLOGUE}\n{}ret;\n}}\n", body.collect::<String>());
        let program = match Program::parse(&text) {
            Ok(program) => program,
            Err(error) => return error.to_string(),
        };
        let (outcomes, kinds): (BTreeSet<_>, BTreeSet<_>) =
            (0..self.seeds).map(|seed| self.run(&program, seed)).unzip();
        let outcomes = if outcomes.len() == 1 { outcomes } else { kinds };
        outcomes.into_iter().collect::<Vec<_>>().join(" or ")
    }

    /// The outcome of a run, and its kind.
    fn run(&self, program: &Program, seed: u64) -> (String, String) {
        let mut device = DeviceMemory::default();
        let mut matrix = vec![0; 1024];
        matrix[0] = 7;
        let (out, address) = (device.allocate(vec![0; 256]), device.allocate(matrix));
        let map = TensorMap { address, element: 1, size: (128, 8), stride: 128, boxes: (128, 8) };
        let &Self { ctas, cluster, threads, shared_bytes, .. } = self;
        let launch = Launch {
            program,
            config: LaunchConfig { grid: (ctas, 1), threads, cluster, shared_bytes },
            arguments: vec![KernelArgument::Pointer(out), KernelArgument::TensorMap(map)],
            resident_clusters: 2,
            seed,
            max_instructions: 1 << 20,
        };
        match launch.run(&mut device) {
            Ok(_) => {
                let word = |at: u64| {
                    let bytes = device.read(at).expect("it was allocated");
                    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
                };
                (format!("out {} matrix {}", word(out), word(address)), "ok".to_owned())
            }
            Err(Fault { line, kind, .. }) => {
                let name = format!("{kind:?}");
                let name = name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
                // Line 1 is the prologue; a deadlock is not at one line.
                let outcome =
                    if name == "Deadlock" { kind.to_string() } else { format!("line {line}: {kind}") };
                (outcome, name.to_owned())
            }
        }
    }
}

#[test]
fn files_behave_as_stated() {
    runner::check_files("ptx", "ptx", 20, |options, lines| Case::new(options).outcome(lines));
}
