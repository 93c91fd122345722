//! The copy engine and the tensor cores: what may happen while they work, and what may not.

use octile_ptx::simulate::{
    DeviceMemory, Fault, FaultKind, KernelArgument, Launch, LaunchConfig, Program, TensorMap,
};

/// Orders of events to try.
const SEEDS: std::ops::Range<u64> = 0..20;

/// A kernel with a matrix of 8 rows x 128 bytes, which starts with the number 7, and two barriers for one arrival each.
fn kernel(body: &str) -> String {
    let preparation = "add.u32 %r10, %r1, 15360;\nadd.u32 %r11, %r1, 15368;\nadd.u32 %r12, %r1, 1024;\nmov.b32 %r20, 0;\n\
         mov.b64 %rd2, map;\n@%p1 mbarrier.init.shared::cta.b64 [%r10], 1;\n@%p1 mbarrier.init.shared::cta.b64 [%r11], 1;\n\
         @%p1 fence.mbarrier_init.release.cluster;\nbar.sync 0;";
    crate::kernel(&format!("{preparation}\n{body}"))
        .replace(".param .u64 out\n", ".param .u64 out,\n\t.param .align 64 .b8 map[128]\n")
}

/// The first words of `out` and of the matrix after the run.
fn run(seed: u64, kernel: &str) -> Result<(u32, u32), Fault> {
    let program = Program::parse(kernel).unwrap_or_else(|error| panic!("{error}"));
    let mut global = DeviceMemory::default();
    let mut matrix = vec![0; 1024];
    matrix[0] = 7;
    let (out, address) = (global.allocate(vec![0; 256]), global.allocate(matrix));
    let map = TensorMap { address, element: 1, size: (128, 8), stride: 128, boxes: (128, 8) };
    let launch = Launch {
        program: &program,
        config: LaunchConfig { grid: (1, 1), threads: 128, shared_bytes: 16 << 10, cluster: 1 },
        resident_clusters: 1,
        arguments: vec![KernelArgument::Pointer(out), KernelArgument::TensorMap(map)],
        max_instructions: 1 << 20,
        seed,
    };
    launch.run(&mut global)?;
    let word = |at: u64| {
        let bytes = global.read(at).expect("it was allocated");
        u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    Ok((word(out), word(address)))
}

/// Runs a body in every order, which must be right in each.
fn right(body: &str) -> (u32, u32) {
    let results: Vec<_> = SEEDS.map(|seed| run(seed, &kernel(body))).collect();
    assert!(results.iter().all(|result| *result == results[0]), "{results:?}");
    results[0].clone().unwrap_or_else(|fault| panic!("{fault}"))
}

/// Runs a body in every order, which must be wrong in each.
fn wrong(body: &str, is_expected: impl Fn(&FaultKind) -> bool) {
    for seed in SEEDS {
        let kind = run(seed, &kernel(body)).expect_err("the program is wrong").kind;
        assert!(is_expected(&kind), "{kind}");
    }
}

fn is_race(kind: &FaultKind) -> bool {
    matches!(kind, FaultKind::Race { .. })
}

const EXPECT: [&str; 2] = [
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r10], 1024;",
    "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r11], 1024;",
];
const LOAD: [&str; 2] = [
    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd2, {%r20, %r20}], [%r10];",
    "@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r12], [%rd2, {%r20, %r20}], [%r11];",
];
const WAIT: [&str; 2] = [
    "L1:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r10], 0;\n@!%p4 bra L1;",
    "L2:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [%r11], 0;\n@!%p4 bra L2;",
];
/// The first word of shared memory becomes the result.
const HAND_ON: &str = "ld.shared.b32 %r9, [%r1+0];\n@%p1 st.global.b32 [%rd1+0], %r9;";

#[test]
fn a_tile_has_landed_when_its_own_barrier_says_so() {
    let start = format!("{}\n{}\n{}\n{}", EXPECT[0], EXPECT[1], LOAD[0], LOAD[1]);
    let body = |first: &str, second: &str| format!("{start}\n{first}\n{HAND_ON}\n{second}");
    assert_eq!(right(&body(WAIT[0], WAIT[1])).0, 7);
    wrong(&body(WAIT[1], WAIT[0]), is_race);
}

#[test]
fn tiles_into_the_same_place_race() {
    let second = LOAD[1].replace("[%r12]", "[%r1]");
    let body = |between: &str, last: &str| {
        format!(
            "{}\n{}\n{}\n{between}\n{second}\n{last}\n{}\n{HAND_ON}",
            EXPECT[0], EXPECT[1], LOAD[0], WAIT[1]
        )
    };
    assert_eq!(right(&body(WAIT[0], "")).0, 7);
    wrong(&body("", WAIT[0]), is_race);
}

#[test]
fn no_block_leaves_before_its_tiles_have_landed() {
    let body = format!("{}\n{}", EXPECT[0], LOAD[0]);
    let faults = SEEDS.filter_map(|seed| run(seed, &kernel(&body)).err());
    assert!(faults.map(|fault| fault.kind).any(|kind| kind == FaultKind::ExitsWithCopiesInFlight));
}

#[test]
fn the_copy_engine_sees_barriers_after_a_fence() {
    let text = kernel(&format!("{}\n{}\n{}\n{HAND_ON}", EXPECT[0], LOAD[0], WAIT[0]));
    let fence = "@%p1 fence.mbarrier_init.release.cluster;\n";
    assert!(run(1, &text).is_ok() && text.contains(fence));
    let kind = run(1, &text.replace(fence, "")).expect_err("there is no fence").kind;
    assert_eq!(kind, FaultKind::BarrierNotFenced { offset: 15360 });
}

#[test]
fn stores_go_out_after_a_fence_and_in_groups() {
    const FENCE: &str = "fence.proxy.async.shared::cta;";
    const MEET: &str = "bar.sync 0;";
    const STORE: &str =
        "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r20, %r20}], [%r1];";
    const COMMIT: &str = "@%p1 cp.async.bulk.commit_group;";
    const READ: &str = "@%p1 cp.async.bulk.wait_group.read 0;";
    let write = "mad.lo.u32 %r13, %r2, 16, %r1;\nst.shared.v4.b32 [%r13+0], {9, 9, 9, 9};";
    let body = |lines: &[&str]| format!("{write}\n{}", lines.join("\n"));
    assert_eq!(right(&body(&[FENCE, MEET, STORE, COMMIT, READ])).1, 9);
    let not_fenced = |kind: &FaultKind| matches!(kind, FaultKind::NotFenced { .. });
    wrong(&body(&[MEET, STORE, COMMIT, READ]), not_fenced);
    wrong(&body(&[MEET, FENCE, STORE, COMMIT, READ]), not_fenced);
    wrong(&body(&[MEET, STORE, FENCE, COMMIT, READ]), not_fenced);
    wrong(&body(&["@%p1 fence.proxy.async.shared::cta;", MEET, STORE, COMMIT, READ]), not_fenced);
    let leaves = |kind: &FaultKind| *kind == FaultKind::ExitsWithCopiesInFlight;
    wrong(&body(&[FENCE, MEET, STORE, READ]), leaves);
    wrong(&body(&[FENCE, MEET, COMMIT, STORE, READ]), leaves);
    let no_end = kernel(&body(&[FENCE, MEET, STORE, COMMIT])).replace("\tret;\n", "");
    assert_eq!(run(1, &no_end).expect_err("it does not wait").kind, FaultKind::ExitsWithCopiesInFlight);
    // Another thread's wait is none.
    wrong(&body(&[FENCE, MEET, STORE, COMMIT, &READ.replace("@%p1", "@!%p1")]), leaves);
    let again = "@%p1 st.shared.b32 [%r1+0], 5;";
    assert_eq!(right(&body(&[FENCE, MEET, STORE, COMMIT, READ, again])).1, 9);
    wrong(&body(&[FENCE, MEET, STORE, COMMIT, again, READ]), is_race);
}

/// Zeros where four warps have their rows of A, and B after them: descriptors of both in `%rd3` and `%rd4`.
const OPERANDS: &str = "mad.lo.u32 %r13, %r2, 16, %r1;\n\
    st.shared.v4.b32 [%r13+0], {0, 0, 0, 0};\nst.shared.v4.b32 [%r13+2048], {0, 0, 0, 0};\n\
    st.shared.v4.b32 [%r13+4096], {0, 0, 0, 0};\nst.shared.v4.b32 [%r13+6144], {0, 0, 0, 0};\n\
    st.shared.v4.b32 [%r13+8192], {0, 0, 0, 0};\nshr.u32 %r14, %r1, 4;\nadd.u32 %r15, %r14, 512;\n\
    mov.b64 %rd3, {%r14, 1073741888};\nmov.b64 %rd4, {%r15, 1073741888};\nsetp.eq.u32 %p5, 0, 1;\n\
    mov.f32 %f1, 0f3F800000;\nfence.proxy.async.shared::cta;\nbar.sync 0;";
const FENCE: &str = "wgmma.fence.sync.aligned;";
const MULTIPLY: &str =
    "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd3, %rd4, %p5, 1, 1;";
const COMMIT: &str = "wgmma.commit_group.sync.aligned;";
const FINISH: &str = "wgmma.wait_group.sync.aligned 0;";
const RESULT: &str = "@%p1 st.global.f32 [%rd1+0], %f1;";

fn product(lines: &[&str]) -> String {
    format!("{OPERANDS}\n{}", lines.join("\n"))
}

#[test]
fn products_are_there_when_they_were_waited_for() {
    assert_eq!(right(&product(&[FENCE, MULTIPLY, COMMIT, FINISH, RESULT])).0, 0);
    let is_too_soon = |kind: &FaultKind| matches!(kind, FaultKind::AccumulatorInFlight { .. });
    wrong(&product(&[FENCE, MULTIPLY, COMMIT, RESULT, FINISH]), is_too_soon);
    let leaves = |kind: &FaultKind| matches!(kind, FaultKind::ExitsWithWgmmaInFlight { .. });
    // Warps that have no result leave.
    wrong(&product(&[FENCE, MULTIPLY, FINISH, RESULT]), |kind| is_too_soon(kind) || leaves(kind));
    wrong(&product(&[FENCE, MULTIPLY, "mov.f32 %f1, 0f40000000;", COMMIT, FINISH]), is_too_soon);
    wrong(&product(&[MULTIPLY, COMMIT, FINISH, RESULT]), |kind| *kind == FaultKind::WgmmaNotFenced);
    wrong(&product(&[FENCE, MULTIPLY, COMMIT]), leaves);
    // The second one adds to what the first one gave.
    let and_add = "setp.eq.u32 %p5, 0, 0;";
    assert_eq!(right(&product(&[FENCE, MULTIPLY, and_add, MULTIPLY, COMMIT, FINISH, RESULT])).0, 0);
    let adds = "setp.eq.u32 %p5, 0, 0;";
    wrong(&product(&[adds, FENCE, MULTIPLY, COMMIT, FINISH, RESULT]), |kind| {
        *kind == FaultKind::UninitializedRegister
    });
    let sums = ["%f1", "%f2", "%f3", "%f4"].map(|sum| format!("mov.f32 {sum}, 0f40000000;\n")).concat();
    let adds = &(sums + adds);
    let two = 2f32.to_bits();
    assert_eq!(right(&product(&[adds, FENCE, MULTIPLY, COMMIT, FINISH, RESULT])).0, two);
}

#[test]
fn operands_stay_until_products_were_waited_for() {
    let write = "@%p1 st.shared.b32 [%r1+0], 0;";
    assert_eq!(right(&product(&[FENCE, MULTIPLY, COMMIT, FINISH, "bar.sync 0;", write])).0, 0);
    wrong(&product(&[FENCE, MULTIPLY, COMMIT, write, FINISH]), is_race);
    // One group is still under way.
    let next = &MULTIPLY.replace("%f1, %f2, %f3, %f4", "%f5, %f6, %f7, %f8");
    let first_alone = FINISH.replace(" 0;", " 1;");
    wrong(&product(&[FENCE, MULTIPLY, COMMIT, next, COMMIT, &first_alone, write, FINISH]), is_race);
}

#[test]
fn operands_are_what_the_tensor_cores_understand() {
    let differ = format!("{OPERANDS}\nadd.u32 %r14, %r14, %r2;\nmov.b64 %rd3, {{%r14, 1073741888}};");
    wrong(&format!("{differ}\n{FENCE}\n{MULTIPLY}"), |kind| *kind == FaultKind::LaneOperandsDiffer);
    // One warp takes the first rows of A for B.
    let differ = format!("{OPERANDS}\nsetp.eq.u32 %p6, %r4, 1;\n@%p6 mov.b64 %rd4, %rd3;");
    let waited_for = [&differ[..], FENCE, MULTIPLY, COMMIT, FINISH].join("\n");
    wrong(&waited_for, |kind| *kind == FaultKind::WarpOperandsDiffer);
    let shifted = OPERANDS.replace("1073741888", "1073872960");
    wrong(&format!("{shifted}\n{FENCE}\n{MULTIPLY}"), |kind| {
        matches!(kind, FaultKind::UnsupportedDescriptor { .. })
    });
}
