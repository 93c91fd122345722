//! HLO text of real compiles.

mod common;

use common::{cases, load};
use octile_dump::hlo::{KernelBody, Module};

fn squeeze(text: &str) -> String {
    text.split_whitespace().collect()
}

#[test]
fn printing_what_was_parsed_loses_nothing() {
    for (case, file) in cases().iter().map(|case| (case.as_str(), "optimized.hlo.txt")).chain([
        (".", "transformer-step-cpu.hlo.txt"),
        (".", "transformer-step-tpu7x.hlo.txt"),
        (".", "transformer-step-unoptimized.hlo.txt"),
    ]) {
        let text = load(case, file);
        let module = Module::parse(&text);
        assert_eq!(module.damage(), [], "{case} {file}");
        let printed = module.print();
        assert!(squeeze(&printed) == squeeze(&text), "{case} {file}");
        assert_eq!(Module::parse(&printed).instructions().count(), module.instructions().count());
        let shapes = module.instructions().filter(|i| module.shape(i).is_none());
        assert_eq!(shapes.count(), 0, "{case} {file}");
    }
}

#[test]
fn instructions_have_their_parts() {
    let text = load("512-qb128-aligned-v3-operands-prefetched-tpu7x", "optimized.hlo.txt");
    let module = Module::parse(&text);
    assert_eq!(module.computations().filter(|c| c.entry).count(), 1);
    let start = module.instructions().find(|i| module.name(i) == "copy-start").unwrap();
    assert_eq!(module.str(start.opcode), "copy-start");
    let spaces = match module.shape(start).unwrap() {
        octile_dump::hlo::Shape::Tuple(parts) => parts.iter().map(|p| p.memory_space()).collect::<Vec<_>>(),
        _ => panic!("a copy-start gives a tuple"),
    };
    assert_eq!(spaces, [1, 0, 2]);
    assert_eq!(module.place(start.span).line, 37);
    let root = module.instructions().find(|i| i.root).unwrap();
    assert_eq!(
        module.attribute(root, "metadata"),
        Some("{op_name=\"jit(f)/v3/pallas_call\" stack_frame_id=3}")
    );
    assert_eq!(root.operands.as_ref().unwrap().len(), 4);
}

#[test]
fn kernel_calls_are_decoded() {
    for case in cases() {
        let text = load(&case, "optimized.hlo.txt");
        let calls = Module::parse(&text).kernel_calls();
        assert_eq!(calls.len(), 1, "{case}");
        let call = &calls[0];
        assert_eq!(call.operands.len(), 4, "{case}");
        assert!(call.operands.iter().all(|o| o.shape.is_some()), "{case}");
        let Some(KernelBody::Bytecode { producer, bytes }) = &call.body else {
            panic!("{case}: {:?}", call.body)
        };
        assert_eq!(producer, "MLIR23.0.0git", "{case}");
        assert!(*bytes > 3000, "{case}");
        // The compiler states the limit for tpu7x only.
        assert_eq!(call.vmem_limit.is_some(), case.ends_with("tpu7x"), "{case}");
        assert!(call.vmem_used > Some(100_000) && call.vmem_used < Some(32 << 20), "{case}");
        let in_vmem = call.operands.iter().filter(|o| o.shape.as_ref().unwrap().memory_space() == 1).count();
        let expected = if case.contains("prefetched") {
            4
        } else if case.contains("-strip-") {
            2
        } else {
            0
        };
        assert_eq!(in_vmem, expected, "{case}");
    }
}

#[test]
fn a_text_body_comes_back_as_text() {
    let call = |config: &str| {
        let text = format!(
            "ENTRY %main () -> f32[1] {{\n  ROOT %k.1 = f32[1]{{0}} custom-call(), custom_call_target=\"tpu_custom_call\", \
             backend_config={config}\n}}\n"
        );
        Module::parse(&text).kernel_calls().remove(0).body
    };
    // `module {}` in base64, as a configuration and as a string that holds one.
    let text = Some(KernelBody::Text("module {}".to_owned()));
    assert_eq!(call(r#"{"custom_call_config":{"body":"bW9kdWxlIHt9"}}"#), text);
    assert_eq!(call(r#""{\"custom_call_config\":{\"body\":\"bW9kdWxlIHt9\"}}""#), text);
    assert!(matches!(call(r#"{"custom_call_config":{"body":"!"}}"#), Some(KernelBody::Unreadable { .. })));
    assert_eq!(call("{}"), None);
}

#[test]
fn damage_is_reported_with_its_place_and_kept() {
    let text =
        "HloModule m\n\nENTRY %main () -> f32[1] {\n  %a = f32[1]{0} parameter(0)\n  what is this\n}\n";
    let module = Module::parse(text);
    assert_eq!(module.damage().len(), 1);
    assert_eq!(module.damage()[0].to_string(), "5:3: an instruction is expected here");
    assert_eq!(squeeze(&module.print()), squeeze(text));
    let cut = Module::parse(&text[..70]);
    assert_eq!(cut.damage().last().unwrap().what, "the file ends inside a computation");
    assert_eq!(Module::parse("").damage()[0].what, "there is no computation in this file");
    let foreign = Module::parse("Schedule analysis:\n\ttotal\n");
    assert_eq!(foreign.damage()[0].to_string(), "1:1: this is not a line of an HLO module");
}

#[test]
fn hand_written_instructions_are_read() {
    let text = "\
%x_x2_vmem = f8e4m3fn[2,512,512]{2,1,0} scratch, memory_space=1  # VMEM
%async-copy-start.1 = (f8e4m3fn[512,512]{1,0}, u32[], ...) async-copy-start(
  f8e4m3fn[2048,2048]{1,0} %x_hbm,
  ...
), memory_space=1
";
    let module = Module::parse(text);
    assert_eq!(module.damage(), []);
    let [scratch, start] = module.instructions().collect::<Vec<_>>()[..] else { panic!() };
    assert_eq!((module.str(scratch.opcode), scratch.operands.as_ref()), ("scratch", None));
    assert_eq!(module.attribute(scratch, "memory_space"), Some("1"));
    assert_eq!(module.attribute(start, "memory_space"), Some("1"));
    assert_eq!(module.operand_name(start.operands.as_ref().unwrap()[0]), "x_hbm");
    assert_eq!(squeeze(&module.print()), squeeze(text));
}

/// A sound kernel in a program that multiplies outside of it.
#[test]
fn products_outside_the_kernel_count() {
    use octile_dump::{
        checks::{CheckId, Verdict, check},
        facts::{Facts, Source},
    };
    let case = "512-qb128-aligned-v3-tpu7x";
    let (hlo, listing) = (load(case, "optimized.hlo.txt"), load(case, common::PACKED));
    let verdicts = |hlo: &str| {
        let sources = [("optimized.hlo.txt", hlo), (common::PACKED, listing.as_str())];
        let sources = sources.map(|(name, text)| Source { name, bytes: text.as_bytes() });
        let findings = check(&Facts::gather(&sources), None);
        [CheckId::NativeFp8, CheckId::NoF32Matmul]
            .map(|id| findings.iter().find(|f| f.check == id).unwrap().verdict)
    };
    assert_eq!(verdicts(&hlo), [Verdict::Pass, Verdict::Pass]);
    let entry = hlo.find("ENTRY ").unwrap();
    let body = entry + hlo[entry..].find("{\n").unwrap() + 2;
    let in_entry = |lines: &str| format!("{}{lines}{}", &hlo[..body], &hlo[body..]);
    let called = |lines: &str| {
        format!("{}%fused (param_0: f32[8,8]) -> f32[8,8] {{\n{lines}}}\n\n{}", &hlo[..entry], &hlo[entry..])
    };
    let dot = |element: &str| {
        format!(
            "  %param_0 = {element}[8,8]{{1,0}} parameter(0)\n  ROOT %d = f32[8,8]{{1,0}} dot(%param_0, %param_0), \
             lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        )
    };
    let (fail, pass) = (Verdict::Fail, Verdict::Pass);
    assert_eq!(verdicts(&in_entry(&dot("f32").replace("ROOT ", ""))), [fail, fail]);
    assert_eq!(verdicts(&called(&dot("f32"))), [fail, fail]);
    assert_eq!(verdicts(&called(&dot("bf16"))), [fail, pass]);
    assert_eq!(verdicts(&called(&dot("f8e4m3fn"))), [pass, pass]);
    let convolution = dot("f32").replace(" dot(", " convolution(");
    assert_eq!(verdicts(&called(&convolution)), [fail, fail]);
    let library = dot("f32")
        .replace(" dot(", " custom-call(")
        .replace("lhs_", "custom_call_target=\"__cublas$gemm\", lhs_");
    assert_eq!(verdicts(&called(&library)), [fail, fail]);
    // The operand is the one of its own computation, whatever else has its name.
    let shadowed = called(&dot("f32")).replacen(
        "%fused",
        &format!(
            "%other (param_0: f8e4m3fn[8,8]) -> f32[8,8] {{\n{}}}\n\n%fused",
            dot("f8e4m3fn").replace(" %d", " %e")
        ),
        1,
    );
    assert_eq!(verdicts(&shadowed), [fail, fail]);
    // An operand that is nowhere may be of any type.
    assert_ne!(
        verdicts(&called(&dot("f32").replace("dot(%param_0, %param_0)", "dot(%gone, %gone)"))),
        [pass, pass]
    );
}
