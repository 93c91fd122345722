//! `octile analyze`, `verify` and `compare` on recorded dumps, whole and damaged.

#[path = "common/corpus.rs"]
mod corpus;

use std::{fs, path::Path};

use corpus::{cases, outcome, transformer, unpack};
use tempfile::TempDir;

const SMEM: &str = "512-qb128-aligned-v3-tpu7x";
const PACKED: &str = "packed-bundles-post-ra.txt";

fn edit(folder: &Path, file: &str, change: impl FnOnce(String) -> String) {
    let path = folder.join(file);
    let before = fs::read_to_string(&path).unwrap();
    let after = change(before.clone());
    assert_ne!(before, after, "the damage to {file} changes nothing");
    fs::write(path, after).unwrap();
}

/// Removes every file but the named one.
fn keep_only(folder: &Path, file: &str) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.file_name().unwrap() != file {
            fs::remove_file(path).unwrap();
        }
    }
}

#[test]
fn every_recorded_case_gets_its_verdict() {
    let place = TempDir::new().unwrap();
    let mut verdicts = String::new();
    for case in cases() {
        unpack(&case, place.path());
        let (code, said) = outcome(&["verify", &case, "--strict"], place.path());
        assert_eq!(code == 0, said.contains("PASS: 1 version"), "{said}");
        verdicts.push_str(&format!("exit {code}\n{said}\n"));
    }
    insta::assert_snapshot!(verdicts);
}

#[test]
fn a_folder_of_versions_is_judged_version_by_version() {
    let place = TempDir::new().unwrap();
    for case in [SMEM, "512-qb128-aligned-v2-operands-prefetched-tpu7x"] {
        unpack(case, place.path());
    }
    fs::write(place.path().join("notes.html"), "not a dump, and beside the versions").unwrap();
    let (code, said) = outcome(&["verify", "."], place.path());
    assert_eq!(code, 1);
    assert!(said.contains("FAIL: 1 of 2 versions fails"), "{said}");
    assert!(said.contains("FAIL operands-in-hbm"), "{said}");
}

#[test]
fn facts_and_checklist() {
    let place = TempDir::new().unwrap();
    unpack(SMEM, place.path());
    let (code, said) = outcome(&["analyze", SMEM], place.path());
    assert_eq!(code, 0);
    insta::assert_snapshot!(said);
    let (code, said) = outcome(&["analyze", SMEM, "--json"], place.path());
    assert_eq!(code, 0);
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(value["schema"], "octile-analyze/1");
    assert_eq!(value["versions"][0]["promise"]["strategy"], "smem");
    assert_eq!(value["versions"][0]["promise"]["chip"], "tpu7x");
    assert_eq!(value["versions"][0]["findings"].as_array().unwrap().len(), 10);
    assert!(value["versions"][0]["facts"]["cycles"]["issued"].as_u64().unwrap() > 1000);
}

#[test]
fn verdicts_as_json() {
    let place = TempDir::new().unwrap();
    unpack(SMEM, place.path());
    let (code, said) = outcome(&["verify", SMEM, "--json"], place.path());
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (value["schema"].as_str(), value["passed"].as_bool()),
        (Some("octile-verify/1"), Some(code == 0))
    );
    assert_eq!(value["versions"][0]["passed"], value["passed"]);
    assert!(value["versions"][0]["refuted"].is_array());
}

#[test]
fn versions_side_by_side_and_the_difference_of_two() {
    let place = TempDir::new().unwrap();
    for case in ["512-qb128-aligned-v2-tpu7x", SMEM] {
        unpack(case, place.path());
    }
    let (code, said) = outcome(&["compare", "512-qb128-aligned-v2-tpu7x", SMEM], place.path());
    assert_eq!(code, 0, "{said}");
    insta::assert_snapshot!(said);
    let (code, said) = outcome(&["compare", ".", "--json=table.json"], place.path());
    assert!(code == 0 && said.contains("Versions side by side"), "a file leaves the report: {said}");
    let written = fs::read_to_string(place.path().join("table.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&written).unwrap();
    assert_eq!(value["schema"], "octile-dump-comparison/1");
    assert_eq!(value["columns"][1]["scales_staged"], "pass");
    assert_eq!(value["differences"][0]["checks"][0]["check"], "scales-staged");
}

/// Verifies the case after damage to its files.
fn damaged(damage: impl FnOnce(&Path)) -> (i32, String) {
    let place = TempDir::new().unwrap();
    damage(&unpack(SMEM, place.path()));
    outcome(&["verify", SMEM], place.path())
}

/// Removes the first instruction of a kind.
fn without(text: &str, instruction: &str) -> String {
    let at = text.find(instruction).unwrap();
    let start = text[..at].rfind('%').unwrap();
    let end = start + text[start..].find(['}', ';']).unwrap();
    format!("{}{}", &text[..start], &text[end..])
}

#[test]
fn seeded_damage_is_found() {
    let (code, said) = damaged(|_| ());
    assert_eq!(code, 0, "the undamaged case passes: {said}");
    type Damage = fn(String) -> String;
    let cases: [(&str, &str, Damage); 8] = [
        ("mosaic.mlir", "FAIL copies-balanced", |text| {
            let kept = text.lines().filter(|line| !line.contains("tpu.wait_dma2"));
            kept.map(|line| format!("{line}\n")).collect()
        }),
        ("mosaic.mlir", "FAIL no-f32-matmul", |text| text.replace("f8E4M3FN", "f32")),
        ("mosaic.mlir", "FAIL double-buffered", |text| {
            text.replace("memref<2x128x128xf8", "memref<1x128x128xf8")
        }),
        ("mosaic.mlir", "FAIL scales-staged", |text| {
            text.replace("memory_space<smem>", "memory_space<vmem>")
        }),
        (PACKED, "FAIL copies-balanced", |text| without(&text, " = dma.done.wait ")),
        (PACKED, "FAIL no-f32-matmul", |text| text.replacen("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.f32", 1)),
        (PACKED, "FAIL double-buffered", |text| {
            let mut places = text.split("scalar_lea.vmem [#allocation2], %");
            let first = places.next().unwrap_or_default().to_owned();
            places.fold(first, |text, place| {
                let after = place.find([' ', '\n']).unwrap();
                format!("{text}scalar_lea.vmem [#allocation2], 0{}", &place[after..])
            })
        }),
        (PACKED, "FAIL scales-staged", |text| text.replace("dma.hbm_to_smem", "dma.hbm_to_vmem")),
    ];
    for (file, verdict, damage) in cases {
        let (code, said) = damaged(|folder| {
            // Mosaic text counts only if there is no listing.
            if file == "mosaic.mlir" {
                keep_only(folder, file);
            }
            edit(folder, file, damage);
        });
        assert!(code == 1 && said.contains(verdict), "{file}, {verdict}: {said}");
    }
}

/// No TPU strategy requires that nothing is spilled, so spills are a note.
#[test]
fn spills_are_a_note() {
    let (code, said) = damaged(|folder| {
        edit(folder, PACKED, |text| {
            let store = " %0 = vst [vmem:[#allocation99_spill] sm:$0xff] /*vst_source=*/%v1_v0  ;; ";
            text.replacen("0x1f5   : > {", &format!("0x1f5   : > {{{store}"), 1)
        });
    });
    let sentence =
        "note no-spills        1 stores and reloads of spilled vector registers, executed 64 times";
    assert!(code == 0 && said.contains(sentence), "{said}");
    assert!(said.contains("packed-bundles-post-ra.txt:535"), "{said}");
}

const FILES: [&str; 6] = [
    PACKED,
    "final_bundles.txt",
    "final_hlo-static-per-bundle-utilization.txt",
    "schedule-analysis.txt",
    "optimized.hlo.txt",
    "mosaic.mlir",
];

/// Truncation is detected in every kind of file, even at the end of a line.
#[test]
fn truncated_files_fail() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    let alone = place.path().join("alone").join(SMEM);
    fs::create_dir_all(&alone).unwrap();
    for file in FILES {
        let whole = fs::read_to_string(folder.join(file)).unwrap();
        let lines: Vec<_> = whole.trim_end().split_inclusive('\n').collect();
        let shares = [3, 5, 8, 12, 15, 50, 90].map(|percent| lines.len() * percent / 100);
        for kept in [1, 6, lines.len() - 1].into_iter().chain(shares) {
            let cut = lines[..kept.clamp(1, lines.len() - 1)].concat();
            for (folder, whose) in [(&folder, "in its folder"), (&alone, "alone")] {
                fs::write(folder.join(file), &cut).unwrap();
                let (code, said) = outcome(&["verify", "."], folder);
                assert!(code == 1 && said.contains("FAIL files"), "{file} {whose}, {kept} lines: {said}");
            }
        }
        fs::write(folder.join(file), whole).unwrap();
        fs::remove_file(alone.join(file)).unwrap();
    }
    let (code, said) = outcome(&["verify", "."], &folder);
    assert_eq!(code, 0, "all that was wrong is the cut: {said}");
}

#[test]
fn files_that_are_not_dumps_fail() {
    let never_passes = |file: &str, content: &[u8], trouble: &str| {
        let (code, said) = damaged(|folder| fs::write(folder.join(file), content).unwrap());
        let sentence = format!("FAIL files            {file} is {trouble}");
        assert!(code == 1 && said.contains(&sentence), "{file}: {said}");
        // The same without other files.
        let (code, said) = damaged(|folder| {
            keep_only(folder, file);
            fs::write(folder.join(file), content).unwrap();
        });
        assert!(code == 1 && said.contains("FAIL files"), "{file} alone: {said}");
        // No checks are printed for files that are not dumps.
        let is_dump = trouble == "damaged at";
        assert_eq!(said.contains("native-fp8"), is_dump, "{file} alone: {said}");
    };
    let whole = TempDir::new().unwrap();
    let whole = unpack(SMEM, whole.path());
    for file in FILES {
        let text = fs::read_to_string(whole.join(file)).unwrap();
        never_passes(file, b"", "empty");
        never_passes(file, b"\x7fELF\0\xff\xfe", "not text");
        never_passes(file, b"Dear diary,", "not a known kind of dump");
        never_passes(file, &text.as_bytes()[..text.len() / 2], "damaged at");
    }

    let place = TempDir::new().unwrap();
    fs::write(place.path().join("v2_manual_async_dma_hlo.txt"), transformer()).unwrap();
    for strict in [&["verify", "."][..], &["verify", ".", "--strict"]] {
        let (code, said) = outcome(strict, place.path());
        assert!(code == 1 && said.contains("no kernel in"), "{said}");
    }
}

#[test]
fn nothing_to_verify_is_an_error() {
    let place = TempDir::new().unwrap();
    fs::create_dir(place.path().join("empty")).unwrap();
    for (arguments, sentence) in [
        (&["verify"][..], "compilation_output does not exist"),
        (&["verify", "empty"], "no dumps in empty: write some with `octile inspect -o DIR`"),
        (&["analyze", "no-such-file"], "no-such-file does not exist"),
        (&["compare", "."], "no dumps in ."),
        (&["report"], "compilation_output does not exist"),
        (&["verify", "empty", "--chip", "v9"], "unknown chip: use one of"),
    ] {
        let (code, said) = outcome(arguments, place.path());
        assert!(code == 2 && said.contains(sentence), "{arguments:?}: {code} {said}");
    }
}

#[test]
fn a_damaged_manifest_fails_only_its_version() {
    let place = TempDir::new().unwrap();
    unpack(SMEM, place.path());
    let damaged = unpack("512-qb128-aligned-v2-tpu7x", place.path());
    let alone = place.path().join("manifest-alone");
    fs::create_dir(&alone).unwrap();
    for folder in [&damaged, &alone] {
        fs::write(folder.join("manifest.json"), "{\"plan\": {").unwrap();
    }
    let (code, said) = outcome(&["verify", "."], place.path());
    assert_eq!(code, 1, "{said}");
    for folder in [&damaged, &alone] {
        let name = folder.file_name().unwrap().to_str().unwrap();
        let sentence =
            format!("cannot read ./{name}/manifest.json: compile that version again with `octile inspect`");
        assert!(said.contains(&sentence), "{said}");
        assert!(said.contains(&format!("FAIL  {name}")), "{said}");
    }
    assert!(said.contains(&format!("PASS  {SMEM}")) && said.contains("FAIL: 2 of 3 versions fail"), "{said}");
    // The checks follow from its name instead.
    assert!(said.contains("PASS double-buffered"), "{said}");
    for command in ["analyze", "compare", "report"] {
        let (code, said) = outcome(&[command, "."], place.path());
        assert!(code != 2 && !said.contains("octile: "), "{command}: {code} {said}");
    }
}

/// native-fp8 is waived only if the kernel's own Mosaic text multiplies bf16, not by its name or its listing.
#[test]
fn a_name_does_not_waive_native_fp8() {
    let place = TempDir::new().unwrap();
    let verify = |version: &str| outcome(&["verify", version], place.path());
    let strip = unpack("2048-qb128-bf16-strip-tpu7x", place.path());
    let renamed = place.path().join("v4_whole_k_strip");
    fs::rename(&strip, &renamed).unwrap();
    let (code, said) = verify("v4_whole_k_strip");
    assert!(code == 0 && said.contains("native-fp8       not required"), "{said}");
    fs::remove_file(renamed.join("mosaic.mlir")).unwrap();
    let (code, said) = verify("v4_whole_k_strip");
    assert!(code == 1 && said.contains("FAIL native-fp8"), "{said}");

    // A chip without fp8 support emulates it; a kernel that multiplies bf16 still fails.
    const EMULATED: &str = "512-qb128-aligned-v2-v6e";
    let emulated = unpack(EMULATED, place.path());
    let (code, said) = verify(EMULATED);
    assert!(code == 0 && said.contains("native-fp8       not required"), "{said}");
    edit(&emulated, PACKED, |text| text.replace("vmatmul.mubr.msk.f8e4m3b11.bf16", "vmatmul.mubr.msk.bf16"));
    let (code, said) = verify(EMULATED);
    assert!(code == 1 && said.contains("FAIL native-fp8"), "{said}");

    let widened = unpack(SMEM, place.path());
    edit(&widened, PACKED, |text| text.replace("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.bf16"));
    fs::rename(&widened, place.path().join("v3-bf16-tpu7x")).unwrap();
    let (code, said) = verify("v3-bf16-tpu7x");
    assert!(code == 1 && said.contains("FAIL native-fp8"), "{said}");
}

#[test]
fn one_hlo_file_passes_unless_strict() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    fs::rename(folder.join("optimized.hlo.txt"), place.path().join("v3_smem_scales_hlo.txt")).unwrap();
    fs::remove_dir_all(folder).unwrap();
    let (code, said) = outcome(&["verify", "."], place.path());
    assert!(code == 0 && said.contains("not observable in these files"), "{said}");
    let (code, said) = outcome(&["verify", ".", "--strict"], place.path());
    assert!(code == 1 && said.contains("FAIL: 1 version fails"), "{said}");
}

#[test]
fn junit_has_the_same_verdicts() {
    let place = TempDir::new().unwrap();
    unpack(SMEM, place.path());
    let failing = unpack("512-qb128-aligned-v2-operands-prefetched-tpu7x", place.path());
    fs::write(failing.join("a & b <c>.txt"), "").unwrap();
    let (code, _) = outcome(&["verify", ".", "--junit", "verdicts.xml"], place.path());
    assert_eq!(code, 1);
    let text = fs::read_to_string(place.path().join("verdicts.xml")).unwrap();
    let document = quick_junit::Report::deserialize_from_str(&text).expect("the file is well-formed");
    let suites: Vec<_> = document.test_suites.iter().map(|suite| (suite.tests, suite.failures)).collect();
    assert_eq!(suites, [(9, 4), (10, 0)], "{text}");
}
