//! Text that cannot be parsed, verified or simulated is refused with a message, and nothing panics.

use octile_ptx::simulate::{ParameterKind, Program};
use proptest::prelude::*;

const KERNEL: &str = "\
.version 8.3
.visible .entry k(
\t.param .align 64 .b8 map_a[128],
\t.param .u32 m
)
.maxntid 128, 1, 1
{
\t.reg .b32 %r<5>;
\t.reg .b64 %rd<4>;
\t.reg .f32 %f<65>;
\t.reg .pred %p<3>;
\tld.param.u32 %r1, [m];
\tmov.b64 %rd1, map_a;
\tsetp.ne.u32 %p1, 0, 0;
L1:
\t@!%p1 bra L1;
\tcp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];
\twgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1;
\tret;
}
";

fn refusal(text: &str) -> String {
    Program::parse(text).expect_err("it cannot be read").to_string()
}

#[test]
fn a_kernel_is_read() {
    let program = Program::parse(KERNEL).expect("it can be read");
    assert_eq!((program.entry.as_str(), program.max_threads), ("k", 128));
    assert_eq!(
        program.parameters,
        [("map_a".into(), ParameterKind::TensorMap), ("m".into(), ParameterKind::Number)]
    );
}

#[test]
fn refusals_name_the_line() {
    for (from, to, sentence) in [
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r1, [q]", "there is no parameter `q`"),
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r9, [m]", "register `%r9` is not declared"),
        (
            "ld.param.u32 %r1, [m]",
            "tanh.approx.f32 %f1, %f2",
            "the simulator does not support this instruction",
        ),
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r1", "an operand is missing"),
        ("bra L1", "bra L7", "label `L7` is not defined"),
        ("@!%p1", "@!%p7", "register `%p7` is not declared"),
        ("m64n8k32", "m64n16k32", "16 columns need 8 registers, not 4"),
        ("%p1, 1, 1", "%p1, -1, 1", "use 1 for scale 0"),
        ("%r<5>", "%r<4000000000>", "the simulator takes at most 4096 registers of a kind"),
        ("%r<5>", "%r<99999999999999999999999>", "at most 4096 registers of a kind"),
        ("%r<5>", "%r<-5>", "does not support the declaration `.reg .b32 %r<-5>`"),
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r1, [m], %r2", "`%r2` is one operand too many"),
        ("ld.param.u32 %r1, [m]", "bar.sync 0, %r1", "`%r1` is not a 32-bit number"),
        ("ld.param.u32 %r1, [m]", "bar.sync 0, 40", "1 to 32 whole warps, not 40 threads"),
        ("ld.param.u32 %r1, [m]", "bar.warp.sync 15", "use mask -1"),
        ("ld.param.u32 %r1, [m]", "shfl.sync.bfly.b32 %r1, %r2, 1, 15, -1", "use clamp 31"),
        ("ld.param.u32 %r1, [m]", "elect.sync %r1|%p1, -1", "does not give the index of the elected lane"),
        ("ld.param.u32 %r1, [m]", "elect.sync _|%p1, 15", "use mask -1"),
        ("ld.param.u32 %r1, [m]", "ld.shared.v2.b32 {%r1}, [%r2]", "2 registers are needed, not 1"),
        ("ld.param.u32 %r1, [m]", "ld.global.acquire.b32 %r1, [%rd1]", "does not support `.acquire`"),
        (
            "ld.param.u32 %r1, [m]",
            "mbarrier.init.shared::cta.b64 [%r1], 0",
            "0 arrivals: an mbarrier counts 1 to 1048575",
        ),
        (
            "ld.param.u32 %r1, [m]",
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r1, %r1, %r1, %r1, %r1}",
            "it takes four registers",
        ),
        (
            "ld.param.u32 %r1, [m]",
            "cp.async.ca.shared.global [%r1], [%rd1], 4294967295, %r1",
            "cannot copy 4294967295 bytes",
        ),
        (
            "ld.param.u32 %r1, [m]",
            "setmaxnreg.inc.sync.aligned.u32 20",
            "20 registers per thread: use a multiple of 8 from 24 to 256",
        ),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.inc.sync.aligned.u32 100", "100 registers per thread"),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.dec.sync.aligned.u32 264", "264 registers per thread"),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.dec.sync.aligned.u32 40", "the assembler ignores it"),
        (".maxntid", ".minnctapersm 0\n.maxntid", "`.minnctapersm 0`: an SM has at least one CTA"),
        ("L1:", "L1:\nL1:", "label `L1` is declared twice"),
        (".maxntid", ".maxnreg 3\n.maxntid", "does not support the directive `.maxnreg 3`"),
        ("[%rd1, {%r2, %r3}]", "[%rd1, %r2]", "a tile is `[map, {column, row}]`"),
    ] {
        let said = refusal(&KERNEL.replacen(from, to, 1));
        assert!(said.starts_with("PTX line ") && said.contains(sentence), "{said}");
    }
    let said = refusal(&KERNEL.replacen("bra L1", &format!("bra L{}", "1".repeat(5000)), 1));
    assert!(said.ends_with("111` is not defined") && said.len() < 200, "{said}");
    assert_eq!(refusal(""), "PTX line 1: there is no entry point");
}

#[test]
fn declarations_that_are_refused() {
    for (from, to, sentence) in [
        ("\tret;\n}\n", "", "the file ends inside a function: it is truncated"),
        ("8.3", "8.3\n.target sm_80", "the target is sm_80; only sm_90a is simulated"),
        ("[128],", "[128]", "separated by commas"),
        (".u32 m", ".u32 m,", "a parameter is missing before or after a comma"),
        (".u32 m", ".u3 m", "does not support the parameter"),
        (".align 64", ".aign 64", "does not support the parameter"),
        ("128, 1, 1", "128, 0, 1", "a CTA has 1 to 1024 threads in one dimension"),
        (".b64 %rd<4>", ".b7 %rd<4>", "does not support the declaration `.reg .b7 %rd<4>`"),
        ("{\n\t.reg .b32", "\tret;\n{\n\t.reg .b32", "this instruction is outside a function"),
        ("k(", "k", "does not support the directive `.param`"),
    ] {
        let said = refusal(&KERNEL.replacen(from, to, 1));
        assert!(said.starts_with("PTX line ") && said.contains(sentence), "{said}");
    }
}

#[test]
fn limits_are_enforced() {
    let with = |from: &str, to: String| refusal(&KERNEL.replacen(from, &to, 1));
    let said = with("\tret;\n", "\tret;\n".repeat((1 << 18) + 1));
    assert!(said.contains("the kernel has more than 262144 instructions"), "{said}");
    let said = with("[m]", format!("[m]{}", ", 1".repeat(2000)));
    assert!(said.contains("the instruction has 6021 bytes, more than 4096"), "{said}");
    let parameters: Vec<String> = (0..2000).map(|index| format!("\t.param .u32 m{index}")).collect();
    let said = with("\t.param .u32 m", parameters.join(",\n"));
    assert!(said.contains("the kernel has more than 1024 parameters"), "{said}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = Program::parse(&text);
    }

    #[test]
    fn damaged_kernels_are_read_or_refused(
        at in 0..KERNEL.len(),
        cut in 0..40usize,
        put in "[%@{}\\[\\],;.a-z0-9 \n]{0,12}",
    ) {
        let mut text = KERNEL.to_owned();
        text.replace_range(at..(at + cut).min(KERNEL.len()), &put);
        let _ = Program::parse(&text);
    }
}
