//! `octile simulate` on GPU kernels of `octile inspect`, unchanged and deliberately broken.

#[path = "common/gpu_tools.rs"]
mod gpu_tools;

use std::fs;

use gpu_tools::octile;
use octile_cli::command::seal::sealed;
use tempfile::TempDir;

/// A folder with matmul and quantization kernels.
fn inspected() -> TempDir {
    let place = TempDir::new().unwrap();
    let shape = ["--shape", "300x392x1500:128", "--x", "bf16", "--x-scales", "token", "--out", "bf16"];
    let arguments =
        [&["inspect", "--target", "sm_90a", "--strategy", "all", "-o", "gpu"], &shape[..]].concat();
    let (code, said) = octile(&arguments, place.path());
    assert_eq!(code, 0, "{said}");
    place
}

const STRIP: &str = "gpu/v4_whole_k_strip/kernel.ptx";

#[test]
fn unchanged_kernels_pass() {
    let place = inspected();
    for version in ["v1_auto_double_buffer", "v2_manual_async_dma", "v3_smem_scales", "v4_whole_k_strip"] {
        let (code, said) = octile(&["simulate", &format!("gpu/{version}/kernel.ptx")], place.path());
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("result    PASS") && said.contains("verdict   PASS"), "{said}");
    }
    let (code, said) = octile(&["simulate", STRIP, "--json"], place.path());
    let report: serde_json::Value = serde_json::from_str(&said).expect("JSON was asked for");
    assert_eq!(code, 0);
    assert_eq!((&report["passed"], &report["orders"]), (&true.into(), &4.into()));
    assert!(report["instructions"].as_u64().unwrap() > 10_000);
}

#[test]
fn broken_kernels_fail_with_the_line() {
    let place = inspected();
    let without = |kernel: &str, start: &str| {
        let path = place.path().join(kernel);
        let sound = fs::read_to_string(&path).unwrap();
        let mut lines: Vec<&str> = sound.lines().collect();
        // Warp barriers matter where results pass through shared memory.
        let from = if start == "bar.warp.sync" { "stmatrix" } else { "" };
        let from = lines.iter().position(|line| line.contains(from)).expect("the kernel has it");
        let at = lines[from..].iter().position(|line| line.trim().starts_with(start));
        lines.remove(from + at.expect("the kernel has it"));
        fs::write(&path, lines.join("\n")).unwrap();
        let (code, said) = octile(&["simulate", kernel], place.path());
        fs::write(&path, &sound).unwrap();
        assert_eq!(code, 1, "{said}");
        assert!(said.contains("STOPPED at line ") && said.contains("\n  > "), "{said}");
        said
    };
    assert!(without(STRIP, "wgmma.wait_group").contains("which is in flight"));
    assert!(without(STRIP, "bar.warp.sync").contains("neither happens before the other"));
    assert!(without(STRIP, "mbarrier.arrive.shared::cta").contains("deadlock: every thread waits"));
    assert!(
        without("gpu/v1_auto_double_buffer/kernel.ptx", "fence.proxy.async")
            .contains("without a `fence.proxy.async`")
    );

    let kernel = place.path().join(STRIP);
    let sound = fs::read_to_string(&kernel).unwrap();
    fs::write(&kernel, sound.replacen("mul.rn.f32", "add.rn.f32", 4)).unwrap();
    let (code, said) = octile(&["simulate", STRIP], place.path());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("result    FAIL") && said.contains("findings  none"), "{said}");
}

/// Over a long K, slightly wrong scales stay within the error bound; exact operands reveal them.
#[test]
fn slightly_wrong_scales_fail() {
    let place = TempDir::new().unwrap();
    let arguments = ["inspect", "--target", "sm_90a", "--strategy", "smem", "-o", "gpu"];
    let shape = ["--shape", "128x128x8192:512", "--x", "fp8", "--x-scales", "token", "--out", "f32"];
    let (code, said) = octile(&[&arguments[..], &shape].concat(), place.path());
    assert_eq!(code, 0, "{said}");
    let name = "gpu/v3_smem_scales/kernel.ptx";
    let (code, said) = octile(&["simulate", name], place.path());
    assert!(code == 0 && said.contains("exact     PASS"), "{said}");
    let kernel = place.path().join(name);
    let changed: Vec<String> = fs::read_to_string(&kernel)
        .unwrap()
        .lines()
        .map(|line| match line.trim().strip_prefix("ld.shared.f32 ").and_then(|rest| rest.split_once(',')) {
            // 1 + 2^-12
            Some((register, _)) => format!("{line}\n\tmul.rn.f32 {register}, {register}, 0f3F800800;"),
            None => line.to_owned(),
        })
        .collect();
    fs::write(&kernel, changed.join("\n")).unwrap();
    let (code, said) = octile(&["simulate", name], place.path());
    assert!(code == 1 && said.contains("result    PASS") && said.contains("exact     FAIL"), "{said}");
}

/// A livelock is detected only by the number of instructions.
#[test]
fn an_endless_loop_is_stopped() {
    let place = inspected();
    let kernel = place.path().join(STRIP);
    let sound = fs::read_to_string(&kernel).unwrap();
    let start = sound.rfind("\t.reg").and_then(|at| Some(at + sound[at..].find('\n')? + 1)).unwrap();
    let (before, after) = sound.split_at(start);
    fs::write(&kernel, format!("{before}AGAIN:\n\tbar.sync 0;\n\tbra AGAIN;\n{after}")).unwrap();
    for (more, sentence) in
        [(&[][..], "stopped after "), (&["--max-operations", "100000"], "stopped after 100000 instructions")]
    {
        let (code, said) = octile(&[&["simulate", STRIP], more].concat(), place.path());
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(sentence) && said.contains("verdict   FAIL"), "{said}");
    }
    fs::write(&kernel, &sound).unwrap();
    let (code, said) = octile(&["simulate", STRIP, "--max-operations", "1000"], place.path());
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("stopped after 1000 instructions"), "{said}");
}

#[test]
fn unsupported_inputs_fail_with_one_sentence() {
    let place = inspected();
    let refusal = |arguments: &[&str], sentence: &str| {
        let (code, said) = octile(arguments, place.path());
        assert_eq!(code, 2, "{said}");
        assert!(said.contains(sentence) && said.trim().lines().count() == 1, "{said}");
    };
    refusal(
        &["simulate", STRIP, "--tensors", "t"],
        "--tensors has no effect here and only applies to a Mosaic kernel",
    );
    refusal(&["simulate", STRIP, "--chip", "v4"], "--chip has no effect here");
    refusal(&["simulate", "gpu/none.ptx"], "cannot read gpu/none.ptx");
    refusal(&["simulate", "gpu/v4_whole_k_strip"], "is a folder: name kernel.ptx in it");
    let large = ["--shape", "9000000x9000000x9000000:128", "--strategy", "strip", "-o", "large"];
    let (code, said) = octile(&[&["inspect", "--target", "sm_90a"], &large[..]].concat(), place.path());
    assert_eq!(code, 0, "{said}");
    refusal(&["simulate", "large/v4_whole_k_strip/kernel.ptx"], "GiB of memory, this machine has");
    refusal(
        &["simulate", "gpu/v4_whole_k_strip/quantize/kernel.ptx"],
        "simulate the kernel.ptx one folder up, which runs both",
    );
    refusal(&["simulate", "gpu/v4_whole_k_strip/manifest.json"], "manifest.json is JSON, not a kernel");

    let manifest = place.path().join("gpu/v4_whole_k_strip/manifest.json");
    let written = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, written.replace("\"stages\":", "\"other\":")).unwrap();
    refusal(&["simulate", STRIP], "manifest.json was changed since `octile inspect` wrote it");
    let mut other: serde_json::Value = serde_json::from_str(&written).unwrap();
    other["plan"]["stages"] = 1.into();
    other.as_object_mut().unwrap().remove("sha256");
    fs::write(&manifest, serde_json::to_string_pretty(&other).unwrap()).unwrap();
    refusal(&["simulate", STRIP], "manifest.json has no seal (key `sha256`)");
    fs::write(&manifest, sealed(&other).unwrap()).unwrap();
    refusal(&["simulate", STRIP], "the plan is not one that this version of octile makes");
    other["plan"] = serde_json::json!({});
    fs::write(&manifest, sealed(&other).unwrap()).unwrap();
    refusal(&["simulate", STRIP], "missing field `problem`");
    fs::write(&manifest, &written[..written.len() / 2]).unwrap();
    refusal(
        &["simulate", STRIP],
        "manifest.json: compile that version again with `octile inspect`: it is cut off",
    );
    fs::remove_file(&manifest).unwrap();
    refusal(&["simulate", STRIP], "manifest.json does not exist: simulate kernel.ptx in its folder");

    fs::write(&manifest, &written).unwrap();
    let kernel = place.path().join(STRIP);
    let text = fs::read_to_string(&kernel).unwrap();
    fs::write(&kernel, text.replacen("fma.rn.f32", "fma.rz.f32", 1)).unwrap();
    refusal(&["simulate", STRIP], "the simulator does not support");
    fs::write(&kernel, text.replacen("%r<", "%r<4000000000> //", 1).replacen("> //", ">; //", 1)).unwrap();
    refusal(&["simulate", STRIP], "at most 4096 registers of a kind");
    fs::write(&kernel, text.replacen(".entry octile_", ".entry other_", 1)).unwrap();
    refusal(&["simulate", STRIP], "but the manifest expects");
    fs::write(&kernel, &text[..text.len() - 8]).unwrap();
    refusal(&["simulate", STRIP], "it is truncated");
    fs::write(&kernel, " \n").unwrap();
    refusal(&["simulate", STRIP], "kernel.ptx is empty");
    fs::write(&kernel, b"\xff\xfe").unwrap();
    refusal(&["simulate", STRIP], "kernel.ptx is not text");
    fs::write(&kernel, text.replacen(".maxntid ", ".maxntid 1, 1, 1 //", 1)).unwrap();
    refusal(&["simulate", STRIP], "the kernel takes at most 1 threads per CTA");
    fs::write(&kernel, text.replacen("\t.param .u64 w", "\t//", 1)).unwrap();
    refusal(&["simulate", STRIP], "parameter");
}
