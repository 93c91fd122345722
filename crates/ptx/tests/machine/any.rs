//! Whatever a program does that can be read: it ends, or with a fault.

use proptest::prelude::*;

use crate::{kernel, launch_within};

/// Instructions with places for registers and numbers.
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
        let kernel = kernel(&format!("\tsetp.lt.u32 %p2, %r2, 16;\nBEGIN:\n{body}END:")).replace(".maxntid", ".minnctapersm 3\n.maxntid");
        for threads in [64, 128] {
            let _ = launch_within(1 << 14, 5, (1, 2, threads), &kernel);
        }
    }
}
