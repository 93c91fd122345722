//! Text that is not a kernel gets a sentence, and nothing makes the reader panic.

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
        (
            "ld.param.u32 %r1, [m]",
            "ld.param.u32 %r9, [m]",
            "`%r9` is not a declared register of up to 32 bits",
        ),
        ("ld.param.u32 %r1, [m]", "tanh.approx.f32 %f1, %f2", "not known to the simulator"),
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r1", "an operand is missing"),
        ("bra L1", "bra L7", "there is no label `L7`"),
        ("@!%p1", "@!%p7", "`%p7` is not a declared predicate"),
        ("m64n8k32", "m64n16k32", "16 columns need 8 registers, not 4"),
        ("%p1, 1, 1", "%p1, -1, 1", "the sign of operand 0 is not 1"),
        (
            "%r<5>",
            "%r<4000000000>",
            "4000000000 registers of a kind are too many: the simulator takes up to 4096",
        ),
        ("%r<5>", "%r<99999999999999999999999>", "registers of a kind are too many"),
        ("%r<5>", "%r<-5>", "this declaration of registers cannot be read"),
        ("ld.param.u32 %r1, [m]", "ld.param.u32 %r1, [m], %r2", "`%r2` is one operand too many"),
        ("ld.param.u32 %r1, [m]", "bar.sync 0, %r1", "`%r1` is not a 32-bit number"),
        ("ld.param.u32 %r1, [m]", "bar.sync 0, 40", "40 threads are not 1 to 32 whole warps"),
        ("ld.param.u32 %r1, [m]", "bar.warp.sync 15", "not all lanes take part"),
        ("ld.param.u32 %r1, [m]", "shfl.sync.bfly.b32 %r1, %r2, 1, 15, -1", "not those of a whole warp"),
        ("ld.param.u32 %r1, [m]", "elect.sync %r1|%p1, -1", "the index of the elected lane is not known"),
        ("ld.param.u32 %r1, [m]", "elect.sync _|%p1, 15", "not all lanes take part"),
        ("ld.param.u32 %r1, [m]", "ld.shared.v2.b32 {%r1}, [%r2]", "it takes 2 registers, not 1"),
        ("ld.param.u32 %r1, [m]", "ld.global.acquire.b32 %r1, [%rd1]", "`.acquire` is not known"),
        ("ld.param.u32 %r1, [m]", "mbarrier.init.shared::cta.b64 [%r1], 0", "does not count 0 arrivals"),
        (
            "ld.param.u32 %r1, [m]",
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r1], {%r1, %r1, %r1, %r1, %r1}",
            "four matrices come in four registers",
        ),
        (
            "ld.param.u32 %r1, [m]",
            "cp.async.ca.shared.global [%r1], [%rd1], 4294967295, %r1",
            "it cannot copy 4294967295 bytes",
        ),
        (
            "ld.param.u32 %r1, [m]",
            "setmaxnreg.inc.sync.aligned.u32 20",
            "a thread cannot have 20 registers, but a multiple of 8 from 24 to 256",
        ),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.inc.sync.aligned.u32 100", "cannot have 100 registers"),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.dec.sync.aligned.u32 264", "cannot have 264 registers"),
        ("ld.param.u32 %r1, [m]", "setmaxnreg.dec.sync.aligned.u32 40", "the assembler ignores it"),
        (".maxntid", ".minnctapersm 0\n.maxntid", "the number of blocks cannot be read"),
        ("L1:", "L1:\nL1:", "there is a second label `L1`"),
        (".maxntid", ".maxnreg 3\n.maxntid", "`.maxnreg 3` is neither an instruction nor a declaration"),
        ("[%rd1, {%r2, %r3}]", "[%rd1, %r2]", "the place of a tile is a column and a row"),
    ] {
        let said = refusal(&KERNEL.replacen(from, to, 1));
        assert!(said.starts_with("line ") && said.contains(sentence), "{said}");
    }
    assert_eq!(refusal(""), "line 1 of the PTX: there is no entry point");
}

#[test]
fn what_the_assembler_would_refuse_around_the_code() {
    for (from, to, sentence) in [
        ("\tret;\n}\n", "", "the text ends inside of the kernel: it is cut off"),
        ("8.3", "8.3\n.target sm_80", "the target is sm_80, not sm_90a"),
        ("[128],", "[128]", "a comma is missing before this parameter"),
        (".u32 m", ".u32 m,", "a parameter is missing behind the last comma"),
        (".u32 m", ".u3 m", "this parameter is not known to the simulator"),
        (".align 64", ".aign 64", "this parameter is not known to the simulator"),
        ("128, 1, 1", "128, 0, 1", "not 1 to 1024 along one dimension"),
        (".b64 %rd<4>", ".b7 %rd<4>", "this declaration of registers cannot be read"),
        ("{\n\t.reg .b32", "\tret;\n{\n\t.reg .b32", "`ret;` is outside of the kernel"),
        ("k(", "k", "this is no entry point"),
    ] {
        let said = refusal(&KERNEL.replacen(from, to, 1));
        assert!(said.starts_with("line ") && said.contains(sentence), "{said}");
    }
}

#[test]
fn what_would_fill_the_memory_is_refused() {
    let with = |from: &str, to: String| refusal(&KERNEL.replacen(from, &to, 1));
    let said = with("\tret;\n", "\tret;\n".repeat((1 << 18) + 1));
    assert!(said.contains("the kernel has more than 262144 instructions"), "{said}");
    let said = with("L1:", format!("{}:", "L".repeat(5000)));
    assert!(said.contains("it has 5001 bytes, and the simulator takes up to 4096"), "{said}");
    let said = with("\t.param .u32 m", "\t.param .u32 m,\n".repeat(2000));
    assert!(said.contains("a kernel has at most 1024 parameters"), "{said}");
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = Program::parse(&text);
    }

    #[test]
    fn damaged_kernels_are_read_or_refused(at in 0..KERNEL.len(), cut in 0..40usize, put in "[%@{}\\[\\],;.a-z0-9 \n]{0,12}") {
        let mut text = KERNEL.to_owned();
        text.replace_range(at..(at + cut).min(KERNEL.len()), &put);
        let _ = Program::parse(&text);
    }
}
