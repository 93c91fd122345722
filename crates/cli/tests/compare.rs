//! `octile compare`: differences between two dumps, part by part.

#[path = "common/corpus.rs"]
mod corpus;
#[path = "common/manifests.rs"]
mod manifests;

use std::fs;

use corpus::{outcome, unpack};
use tempfile::TempDir;

const DMA: &str = "512-qb128-aligned-v2-tpu7x";
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";

/// A GPU kernel with one MMA.
const PTX: &str = "\
.version 8.0
.target sm_90a
.address_size 64

.visible .entry octile_dma_64x8_f32()
{
    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1;
    ret;
}
";

fn json(arguments: &[&str], place: &TempDir) -> serde_json::Value {
    let (code, said) = outcome(&[&["compare", "--json"], arguments].concat(), place.path());
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&said).unwrap()
}

#[test]
fn two_dumps_are_compared_part_by_part() {
    let place = TempDir::new().unwrap();
    for case in [DMA, SMEM] {
        unpack(case, place.path());
    }
    let value = json(&[DMA, SMEM], &place);
    let parts = value["differences"][0]["parts"].as_array().unwrap();
    let moved = parts.iter().find(|part| part["role"] == "the buffer of the first scale").unwrap();
    assert_eq!(moved["shifts"][0]["aspect"], "space");
    assert_eq!(
        (&moved["shifts"][0]["before"], &moved["shifts"][0]["after"]),
        (&"VMEM".into(), &"SMEM".into())
    );
    assert_eq!(
        (&moved["before"]["file"], &moved["after"]["file"]),
        (&"mosaic.mlir".into(), &"mosaic.mlir".into())
    );
    let (_, text) = outcome(&["compare", DMA, SMEM], place.path());
    for line in [
        "  the buffer of the first scale moved VMEM -> SMEM\n".to_owned(),
        format!("      before {DMA}/mosaic.mlir:2:"),
        format!("      after  {SMEM}/mosaic.mlir:2:"),
        "  copies of the second scale go HBM -> SMEM, no longer HBM -> VMEM\n".to_owned(),
    ] {
        assert!(text.contains(&line), "{line} is not in {text}");
    }
    assert!(json(&[DMA, DMA], &place)["differences"][0]["parts"].as_array().unwrap().is_empty());
}

#[test]
fn two_folders_of_versions_are_compared_by_name() {
    let place = TempDir::new().unwrap();
    for (folder, name) in [("before", "v2"), ("before", "v3"), ("after", "v2"), ("after", "v3")] {
        let parent = place.path().join(folder);
        fs::create_dir_all(&parent).unwrap();
        // v2 after is v3 before.
        let case = if (folder, name) == ("before", "v2") { DMA } else { SMEM };
        fs::rename(unpack(case, &parent), parent.join(name)).unwrap();
    }
    let value = json(&["before", "after"], &place);
    let differences = value["differences"].as_array().unwrap();
    let sides = |at: usize| (differences[at]["before"].as_str(), differences[at]["after"].as_str());
    assert_eq!(
        [sides(0), sides(1)],
        [(Some("before/v2"), Some("after/v2")), (Some("before/v3"), Some("after/v3"))]
    );
    let parts = |at: usize| differences[at]["parts"].as_array().unwrap().len();
    assert!(parts(0) > 4 && parts(1) == 0, "{} {}", parts(0), parts(1));
    let (_, text) = outcome(&["compare", "before", "after"], place.path());
    assert!(
        text.contains("before/v2 -> after/v2") && text.contains("No part of the structure differs"),
        "{text}"
    );
}

/// A GPU kernel and an unrelated text are not reported as equal to a TPU dump, and their unknown traffic is
/// not zero.
#[test]
fn what_has_nothing_in_common_is_not_called_the_same() {
    let place = TempDir::new().unwrap();
    unpack(DMA, place.path());
    fs::write(place.path().join("kernel.ptx"), PTX).unwrap();
    fs::write(place.path().join("notes.txt"), "what I did on Monday\n").unwrap();
    for (other, name, code) in [("kernel.ptx", "kernel", 0), ("notes.txt", "notes", 1)] {
        let (exit, text) = outcome(&["compare", DMA, other], place.path());
        assert_eq!(exit, code, "{text}");
        assert!(text.contains("\nNothing is comparable: "), "{text}");
        assert!(!text.contains("are the same") && !text.contains("No part"), "{text}");
        let traffic = text.lines().find(|line| line.starts_with("HBM traffic")).unwrap();
        assert!(traffic.ends_with(" ?") && !traffic.contains(" 0 B"), "{traffic}");
        let (_, value) = outcome(&["compare", "--json", DMA, other], place.path());
        let value: serde_json::Value = serde_json::from_str(&value).unwrap();
        assert!(value["columns"][0]["hbm_bytes"].as_u64() > Some(0), "{value}");
        assert!(value["columns"][1]["hbm_bytes"].is_null(), "{value}");
        outcome(&["report", DMA, other], place.path());
        let page = fs::read_to_string(place.path().join("report.html")).unwrap();
        assert!(page.contains(&format!("{DMA} to {name}: nothing is comparable")));
    }
}

#[test]
fn a_single_file_is_compared_with_a_folder() {
    let place = TempDir::new().unwrap();
    let folder = unpack(DMA, place.path());
    fs::copy(folder.join("mosaic.mlir"), place.path().join("other.mlir")).unwrap();
    let (code, text) = outcome(&["compare", DMA, "other.mlir"], place.path());
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("No part of the structure differs"), "{text}");
    assert!(text.contains("not compared: only the first dump has a scheduled LLO listing"), "{text}");
}

/// The title of a version, as `verify` prints it.
fn title(arguments: &[&str], place: &TempDir) -> String {
    let (_, said) = outcome(&[&["verify"], arguments].concat(), place.path());
    said.lines().nth(4).unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn the_gpu_of_a_dump_is_told_or_read_from_its_manifest() {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("v2");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("kernel.ptx"), PTX).unwrap();
    assert!(title(&["v2"], &place).ends_with(", from the name; an NVIDIA GPU"));
    assert!(title(&["v2", "--chip", "sm_90a"], &place).ends_with("; sm_90a (H200)"));
    let manifest = serde_json::json!({
        "schema": "octile-manifest/2", "date": "2026-01-01T00:00:00Z", "version": "0.1.0", "strategy": "dma", "title": "", "compiler": {},
        "gpu": { "name": "h100" },
        "plan": manifests::gpu_plan(&manifests::problem("1x128x128:128"), 0, "dma"),
        "figures": { "code_bytes": 16 },
        "files": manifests::files(&folder)
    });
    let mut absurd = manifest.clone();
    absurd["figures"]["shared_bytes"] = u64::MAX.into();
    manifests::seal(&folder, &absurd);
    for command in ["verify", "analyze", "compare", "report"] {
        assert_ne!(outcome(&[command, "v2"], place.path()).0, 2, "{command}");
    }
    manifests::seal(&folder, &manifest);
    // Fewer checks apply to GPU kernels; naming a GPU for a TPU kernel skips none.
    unpack(DMA, place.path());
    let required = |arguments: &[&str]| {
        let (_, said) = outcome(&[&["verify", DMA], arguments].concat(), place.path());
        let warned = said.contains("ignoring --chip h200: these are not GPU dumps");
        (said.lines().filter(|line| line.starts_with("  PASS ")).count(), warned)
    };
    let (proven, warned) = required(&[]);
    assert!(proven > 6 && !warned);
    assert_eq!(required(&["--chip", "sm_90a"]), (proven, true));
    assert!(
        title(&["v2"], &place)
            .ends_with(", from the manifest; sm_90a (H100); 1x128x128:128, x fp8 (block scales), out f32")
    );
}

#[test]
fn a_damaged_manifest_is_described_in_plain_words() {
    let place = TempDir::new().unwrap();
    unpack(DMA, place.path());
    let no_seal = "has no seal (key `sha256`): it was changed, or written by an earlier version of octile";
    for (content, says) in [
        (
            "{\"plan\": {",
            "cannot read 512-qb128-aligned-v2-tpu7x/manifest.json: compile that version again with",
        ),
        ("{\"plan\": {", "`octile inspect`: it is cut off\n"),
        ("what I did on Monday", "`octile inspect`: it is not JSON\n"),
        ("{\"plan\": {}, \"plan\": {}}", "`octile inspect`: duplicate key `plan` at line 1 column 24\n"),
        ("[1, 2, 3]", no_seal),
        ("{\"plan\": {}, \"figures\": {\"code_bytes\": 1}, \"files\": []}", no_seal),
        (
            "{\"plan\": {}, \"crc32\": 1}",
            "was written by an earlier version of octile: run `octile inspect` again\n",
        ),
    ] {
        fs::write(place.path().join(DMA).join("manifest.json"), content).unwrap();
        let (code, said) = outcome(&["compare", DMA], place.path());
        assert!(code == 1 && said.contains(says), "{said}");
    }
}
