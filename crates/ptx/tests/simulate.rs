//! Simulations that are not a single file of `filetests/ptx`: many launches of one kernel, and random
//! kernels.

use octile_ptx::simulate::{
    Coverage, DeviceMemory, Fault, FaultKind, KernelArgument, Launch, LaunchConfig, Program,
};
use proptest::prelude::*;

/// A kernel with a pointer `out` and this body.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.3\n.target sm_90a\n.address_size 64\n\n\
         .extern .shared .align 1024 .b8 shared_memory[];\n\n\
         .visible .entry k(\n\t.param .u64 out\n)\n.maxntid 384, 1, 1\n.minnctapersm 1\n{{\n\
         \t.reg .b16 %h<9>;\n\t.reg .b32 %r<40>;\n\t.reg .b64 %rd<9>;\n\t.reg .f32 %f<9>;\n\
         \t.reg .pred %p<9>;\n\
         \tmov.u32 %r1, shared_memory;\n\tmov.u32 %r2, %tid.x;\n\tmad.lo.u32 %r3, %r2, 4, %r1;\n\
         \tld.param.u64 %rd1, [out];\n\tshr.u32 %r4, %r2, 5;\n\tsetp.eq.u32 %p1, %r2, 0;\n\
         \tgriddepcontrol.wait;\n\
         {body}\n\tret;\n}}\n"
    )
}

/// Runs a kernel with 1 KiB of shared memory per CTA.
fn run((ctas, cluster, threads): (u32, u32, u32), kernel: &str) -> Result<Coverage, Fault> {
    let program = Program::parse(kernel).unwrap_or_else(|error| panic!("{error}"));
    let mut device = DeviceMemory::default();
    let out = device.allocate(vec![0; 256]);
    let launch = Launch {
        program: &program,
        config: LaunchConfig { grid: (ctas, 1), threads, shared_bytes: 1024, cluster },
        arguments: vec![KernelArgument::Pointer(out)],
        resident_clusters: 2,
        seed: 5,
        max_instructions: 1 << 14,
    };
    launch.run(&mut device)
}

#[test]
fn a_fault_names_the_line_and_the_thread() {
    let text = kernel("setp.eq.u32 %p2, %r2, 40;\n@%p2 st.shared.b32 [%r1+2000], %r2;");
    let fault = run((1, 1, 64), &text).expect_err("it is outside");
    assert_eq!(
        fault.to_string(),
        "line 26: `@%p2 st.shared.b32 [%r1+2000], %r2` in thread 40 of CTA 0: 4 bytes at offset 2000 \
         are outside the CTA's 1024 bytes of shared memory",
    );
}

#[test]
fn coverage_counts_warp_instructions_and_lines() {
    let text = kernel("setp.ne.u32 %p2, %r2, %r2;\n@%p2 bra L1;\nmov.b32 %r9, 1;\nL1:");
    let coverage = run((3, 1, 64), &text).expect("it is right");
    // Seven lines before the body, three of it, one of them a branch that is never taken, and the return; two
    // warps in each of three CTAs.
    assert_eq!(coverage.instructions, 6 * 11);
    assert_eq!((coverage.lines.len(), coverage.unreached.len()), (10, 2));
}

#[test]
fn the_end_of_the_body_returns() {
    let text = kernel("\tcp.async.ca.shared.global [%r3], [%rd1], 4, 4;").replace("\tret;\n", "");
    let kind = run((1, 1, 32), &text).expect_err("the copy is in flight").kind;
    assert_eq!(kind, FaultKind::ExitsWithCopiesInFlight);
}

#[test]
fn claimed_registers_must_have_been_released() {
    // The last of three warpgroups goes down to so many registers, the two others up.
    let run = |down: usize, up: usize| {
        let body = format!(
            "setp.ge.u32 %p6, %r2, 256;\n@%p6 bra L1;\nsetmaxnreg.inc.sync.aligned.u32 {up};\nbra L2;\nL1:\n\
             setmaxnreg.dec.sync.aligned.u32 {down};\nL2:"
        );
        run((1, 1, 384), &kernel(&body)).map(drop).map_err(|fault| fault.kind)
    };
    for (down, up) in [(88, 208), (40, 232), (24, 240), (160, 168), (168, 168)] {
        assert_eq!(run(down, up), Ok(()), "{down} and {up}");
    }
    // What is left of the 64 Ki registers after 168 for each of 384 threads cannot be claimed.
    for (down, up) in [(96, 208), (48, 232), (40, 240), (168, 176)] {
        let Err(FaultKind::Deadlock { waiting }) = run(down, up) else {
            panic!("{down} and {up}: not a deadlock")
        };
        assert!(waiting.contains(&format!("`setmaxnreg.inc.sync.aligned.u32 {up}`")), "{waiting}");
    }
}

#[test]
fn registers_at_launch_are_those_of_ptxas() {
    let starts_with = |threads: usize, ctas: usize| {
        let text = kernel("setmaxnreg.inc.sync.aligned.u32 24;")
            .replace(".maxntid 384", &format!(".maxntid {threads}"))
            .replace(".minnctapersm 1", &format!(".minnctapersm {ctas}"));
        match run((1, 1, 128), &text).expect_err("24 are fewer").kind {
            FaultKind::WrongDirection { has } => has,
            other => panic!("{other}"),
        }
    };
    let bounds = [(256, 1), (288, 1), (384, 1), (416, 1), (512, 1), (384, 2)];
    assert_eq!(bounds.map(|(threads, ctas)| starts_with(threads, ctas)), [256, 168, 168, 128, 128, 80]);
}

#[test]
fn a_warpgroup_has_four_warps() {
    let run = |threads: u32| run((1, 1, threads), &kernel("wgmma.commit_group.sync.aligned;"));
    assert!(run(128).is_ok() && run(256).is_ok());
    for (threads, warps) in [(64, 2), (96, 3), (160, 1)] {
        let kind = run(threads).expect_err("there are too few").kind;
        assert_eq!(kind, FaultKind::IncompleteWarpgroup { warps });
    }
}

/// Instructions with placeholders for registers and numbers.
const INSTRUCTIONS: [&str; 30] = [
    "add.u32 %rA, %rB, N",
    "mad.lo.u32 %rA, %rB, N, %r1",
    "mul.hi.u32 %rA, %rB, N",
    "shl.b32 %rA, %rB, N",
    "div.u32 %rA, N, %rB",
    "mad.wide.u32 %rd2, %rA, N, %rd1",
    "mov.b64 %rd3, {%rA, N}",
    "setp.lt.u32 %p2, %rA, %rB",
    "@%p2 mov.b32 {%h1, %h2}, %rA",
    "cvt.rn.satfinite.e4m3x2.f32 %h3, %f1, %f2",
    "@%p2 ld.shared.b32 %rA, [%rB+N]",
    "@%p2 st.shared.b16 [%r3+N], %rA",
    "@%p2 st.global.b32 [%rd2+N], %rA",
    "atom.shared.max.u32 %rA, [%rB+N], %r2",
    "mapa.shared::cluster.u32 %rA, %r1, %rB",
    "@%p1 mbarrier.init.shared::cta.b64 [%rB], 3",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%rB], N",
    "mbarrier.test_wait.parity.shared::cta.b64 %p2, [%rB], N",
    "cp.async.ca.shared.global [%rA], [%rd2], 4, %rB",
    "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%rA]",
    "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%rA+N], {%rB, %rA, %r2, %r1}",
    "wgmma.fence.sync.aligned",
    "@%p2 wgmma.commit_group.sync.aligned",
    "setmaxnreg.dec.sync.aligned.u32 72",
    "@%p3 setmaxnreg.inc.sync.aligned.u32 80",
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd3, %rd3, %p2, 1, 1",
    "@%p2 bra END",
    "@!%p2 bra BEGIN",
    "bar.sync 0",
    "cp.async.bulk.commit_group",
];

fn instruction() -> impl Strategy<Value = String> {
    let number = prop_oneof![Just(0u32), 0..2048u32, any::<u32>()];
    (0..INSTRUCTIONS.len(), 1..9u8, 1..9u8, number).prop_map(|(index, a, b, number)| {
        let with = |text: &str, place: &str, value: String| text.replace(place, &value);
        let text = with(INSTRUCTIONS[index], "%rA", format!("%r{a}"));
        with(&with(&text, "%rB", format!("%r{b}")), "N]", format!("{number}]"))
            .replace(", N", &format!(", {number}"))
    })
}

proptest! {
    #[test]
    fn any_program_ends(lines in prop::collection::vec(instruction(), 1..30)) {
        let body: String = lines.iter().map(|line| format!("{line};\n")).collect();
        let kernel = kernel(&format!("\tsetp.lt.u32 %p2, %r2, 16;\nBEGIN:\n{body}END:"));
        let bounds = [".maxntid 384, 1, 1\n.minnctapersm 1", ".maxntid 256, 1, 1\n.minnctapersm 3"];
        let kernel = kernel.replace(bounds[0], bounds[1]);
        for threads in [64, 128] {
            let _ = run((2, 2, threads), &kernel);
        }
    }
}
