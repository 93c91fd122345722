//! Folders that do not contain exactly the dumps of one kernel get no verdict.

#[path = "common/corpus.rs"]
mod corpus;
#[path = "common/manifests.rs"]
mod manifests;

use std::{
    fs,
    path::{Path, PathBuf},
};

use corpus::{outcome, transformer, unpack};
use manifests::{file, gpu_plan, problem, seal, tpu_plan, write_manifest};
use octile_core::{ActivationKind, FloatKind};
use serde_json::Value;
use tempfile::TempDir;

const DMA: &str = "512-qb128-aligned-v2-tpu7x";
const SMEM: &str = "512-qb128-aligned-v3-tpu7x";
const PACKED: &str = "packed-bundles-post-ra.txt";

/// A GPU kernel that passes every check.
const PTX: &str = "\
.version 8.0
.target sm_90a
.address_size 64

.visible .entry octile_smem_128x128_f32()
.maxntid 384, 1, 1
{
    .reg .f32 %f<4>;
    .reg .b64 %rd<4>;
    cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%rd1], [%rd2, {0, 0}], [%rd3];
    wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e4m3 {%f0, %f1, %f2, %f3}, %rd1, %rd2, 1, 1, 1;
    ret;
}
";

/// Every command that reads folders of dumps.
const COMMANDS: [&str; 4] = ["verify", "analyze", "compare", "report"];

/// Every command fails with one sentence, and no page is written.
fn refused(place: &Path, input: &str, sentence: &str) {
    for command in COMMANDS {
        let (code, said) = outcome(&[command, input], place);
        assert!(code == 2 && said.contains(sentence), "{command} {input}: {code} {said}");
        assert_eq!(said.trim().lines().count(), 1, "{command} {input}: {said}");
        assert!(!place.join("report.html").exists());
    }
}

/// Verifies a version.
fn verify(place: &Path, input: &str) -> (i32, String) {
    outcome(&["verify", input], place)
}

/// A recorded version with a manifest, in `smem`.
fn inspected() -> (TempDir, PathBuf, Value) {
    let place = TempDir::new().unwrap();
    let folder = place.path().join("smem");
    fs::rename(unpack(SMEM, place.path()), &folder).unwrap();
    let manifest = write_manifest(&folder, "smem");
    let (code, said) = verify(place.path(), "smem");
    assert!(code == 0 && said.contains(", from the manifest;"), "the version passes as it is: {said}");
    (place, folder, manifest)
}

#[test]
fn a_stray_dump_of_another_target_is_refused() {
    // Without a manifest.
    let place = TempDir::new().unwrap();
    let folder = unpack(DMA, place.path());
    for (name, text) in [("extra.ptx", PTX), ("a.txt", PTX)] {
        fs::write(folder.join(name), text).unwrap();
        refused(place.path(), DMA, &format!("{DMA} mixes kernels: "));
        refused(place.path(), ".", name);
        fs::remove_file(folder.join(name)).unwrap();
    }
    let (code, said) = outcome(&["verify", DMA, "--strategy", "smem"], place.path());
    assert!(code == 1 && said.contains("FAIL scales-staged"), "{said}");

    // With a manifest, whatever --strategy says.
    let (place, folder, _) = inspected();
    fs::write(folder.join("extra.ptx"), PTX).unwrap();
    let sentence =
        "smem/extra.ptx is a compiler dump that smem/manifest.json does not list: move it out of that folder";
    refused(place.path(), "smem", sentence);
    let (code, said) = outcome(&["verify", "smem", "--strategy", "smem"], place.path());
    assert!(code == 2 && said.contains(sentence), "{said}");
}

/// Without a manifest, only the shapes of the operands tell two sizes of a kernel apart.
#[test]
fn dumps_of_two_shapes_are_refused() {
    let place = TempDir::new().unwrap();
    let pairs = [
        ("512-qb128-aligned-v2-tpu7x", "2048-qb512-aligned-v2-tpu7x"),
        ("2048-qb512-aligned-v1-tpu7x", "512-qb128-aligned-v2-tpu7x"),
    ];
    for (one, other) in pairs {
        let (one, other) = (unpack(one, place.path()), unpack(other, place.path()));
        for (from, to, name) in [(&one, &other, "there"), (&other, &one, "back")] {
            let mixed = place.path().join(name);
            fs::create_dir(&mixed).unwrap();
            fs::copy(from.join("mosaic.mlir"), mixed.join("mosaic.mlir")).unwrap();
            fs::copy(to.join(PACKED), mixed.join(PACKED)).unwrap();
            refused(place.path(), name, &format!("{name} mixes kernels: operand "));
            fs::remove_dir_all(&mixed).unwrap();
        }
        for folder in [one, other] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[test]
fn a_good_listing_does_not_hide_a_bad_one() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    let good = fs::read_to_string(folder.join(PACKED)).unwrap();
    let bad = good.replace("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.f32");
    fs::write(folder.join(PACKED), &bad).unwrap();
    let (code, said) = verify(place.path(), SMEM);
    assert!(code == 1 && said.contains("FAIL no-f32-matmul"), "{said}");
    for name in ["aaa.txt", "zzz.txt"] {
        fs::write(folder.join(name), &good).unwrap();
        refused(place.path(), SMEM, "each define a kernel; use one folder per kernel");
        fs::remove_file(folder.join(name)).unwrap();
    }
    // A listing of another level with other arithmetic is of another kernel.
    fs::write(folder.join(PACKED), &good).unwrap();
    let last = fs::read_to_string(folder.join("final_bundles.txt")).unwrap();
    fs::write(folder.join("final_bundles.txt"), last.replace("vmatmul.mubr.f8e4m3fn", "vmatmul.mubr.f32"))
        .unwrap();
    let (code, said) = verify(place.path(), SMEM);
    assert!(
        code == 1
            && said.contains("final_bundles.txt both multiply, and their instructions are not the same"),
        "{said}"
    );
}

/// The same for every kind of file that describes a kernel.
#[test]
fn two_descriptions_of_a_kernel_are_refused() {
    let place = TempDir::new().unwrap();
    let (folder, other) = (unpack(SMEM, place.path()), unpack(DMA, place.path()));
    for file in [PACKED, "final_bundles.txt", "mosaic.mlir", "optimized.hlo.txt"] {
        fs::copy(other.join(file), folder.join("extra")).unwrap();
        refused(place.path(), SMEM, "mixes kernels: extra and ");
    }
    // An identical copy is allowed, and so is a program without a kernel.
    for content in [fs::read(folder.join(PACKED)).unwrap(), transformer().into_bytes()] {
        fs::write(folder.join("extra"), content).unwrap();
        let (code, said) = verify(place.path(), SMEM);
        assert!(code != 2 && !said.contains("define a kernel"), "{said}");
    }
    let gpu = place.path().join("gpu");
    fs::create_dir(&gpu).unwrap();
    fs::write(gpu.join("a.ptx"), PTX).unwrap();
    fs::write(gpu.join("b.ptx"), PTX.replace("e4m3", "bf16")).unwrap();
    refused(
        place.path(),
        "gpu",
        "gpu mixes kernels: a.ptx and b.ptx each define a kernel; use one folder per kernel",
    );
    // Two kernels in one file.
    let (_, second) = PTX.split_once(".address_size 64\n").unwrap();
    fs::write(place.path().join("both.ptx"), format!("{PTX}{}", second.replace("octile_", "other_")))
        .unwrap();
    let (code, said) = verify(place.path(), "both.ptx");
    assert!(code == 1 && said.contains("both.ptx defines 2 kernels: put each into its own file"), "{said}");
    // Each file alone is accepted.
    let (code, said) = verify(place.path(), "gpu/b.ptx");
    assert!(code == 1 && said.contains("FAIL native-fp8"), "{said}");
}

#[test]
fn unlisted_dumps_are_refused_and_other_files_are_not_read() {
    let (place, folder, _) = inspected();
    let other = unpack(DMA, place.path());
    for dump in [PACKED, "mosaic.mlir", "optimized.hlo.txt", "schedule-analysis.txt"] {
        fs::copy(other.join(dump), folder.join("notes.html")).unwrap();
        refused(
            place.path(),
            "smem",
            "smem/notes.html is a compiler dump that smem/manifest.json does not list",
        );
    }
    fs::remove_file(folder.join("notes.html")).unwrap();
    // Files that users write there.
    for (arguments, name) in [
        (&["report", "smem", "-o", "smem/report.html"][..], "report.html"),
        (&["verify", "smem", "--junit", "smem/verdicts.xml"], "verdicts.xml"),
    ] {
        let (code, said) = outcome(arguments, place.path());
        assert!(code == 0 && folder.join(name).is_file(), "{said}");
    }
    let (_, facts) = outcome(&["analyze", "smem", "--json"], place.path());
    fs::write(folder.join("facts.json"), facts).unwrap();
    let (_, said) = outcome(&["analyze", "smem"], place.path());
    fs::write(folder.join("analysis.txt"), said).unwrap();
    fs::write(folder.join("notes.md"), "# Monday\n\nx = f(y), then `%a = f32[2] add(...)`.\n").unwrap();
    fs::write(folder.join("plot.py"), "import sys\nx = max(1, 2)\nprint(x)\n").unwrap();
    fs::write(folder.join("packed.txt.gz"), b"\x1f\x8b\x08\0\0\0\0\0").unwrap();
    fs::write(folder.join("empty"), "").unwrap();
    fs::write(folder.join(".hidden.ptx"), PTX).unwrap();
    let (code, said) = verify(place.path(), "smem");
    assert_eq!(code, 0, "{said}");
    fs::create_dir(folder.join("raw")).unwrap();
    fs::copy(other.join(PACKED), folder.join("raw").join(PACKED)).unwrap();
    refused(
        place.path(),
        "smem",
        "raw/packed-bundles-post-ra.txt is a compiler dump that smem/manifest.json",
    );
}

/// HLO beside a version's folder must be a copy of the one in it.
#[test]
fn hlo_beside_a_folder_is_that_of_the_folder() {
    let (place, folder, _) = inspected();
    let output = place.path().join("output");
    fs::create_dir(&output).unwrap();
    fs::rename(folder, output.join("smem")).unwrap();
    fs::copy(output.join("smem/optimized.hlo.txt"), output.join("smem_hlo.txt")).unwrap();
    let (code, said) = verify(place.path(), "output");
    assert_eq!(code, 0, "{said}");
    fs::write(output.join("smem_hlo.txt"), transformer()).unwrap();
    refused(
        place.path(),
        "output",
        "output/smem_hlo.txt differs from the HLO that output/smem/manifest.json lists",
    );
}

/// HLO files named after versions are one version each; reports beside them are ignored.
#[test]
fn programs_by_version_are_judged_one_by_one() {
    let place = TempDir::new().unwrap();
    let output = place.path().join("output");
    fs::create_dir(&output).unwrap();
    for (case, version) in [(DMA, "v2_dma"), (SMEM, "v3_smem")] {
        let folder = unpack(case, place.path());
        fs::copy(folder.join("optimized.hlo.txt"), output.join(format!("{version}_hlo.txt"))).unwrap();
    }
    for _ in 0..2 {
        let (code, said) = outcome(&["report", "output", "-o", "output/report.html"], place.path());
        assert_eq!(code, 0, "{said}");
        let (code, said) = verify(place.path(), "output");
        assert!(code == 0 && said.contains("PASS: all 2 versions"), "{said}");
    }
}

/// Dumps beside version folders would be ignored, so they are rejected.
#[test]
fn dumps_beside_folders_of_dumps_are_refused() {
    let place = TempDir::new().unwrap();
    let folder = unpack(SMEM, place.path());
    let inner = unpack(SMEM, &folder);
    let bad = fs::read_to_string(folder.join(PACKED)).unwrap().replace("f8e4m3fn.", "f32.");
    fs::write(folder.join(PACKED), bad).unwrap();
    refused(
        place.path(),
        SMEM,
        "is a compiler dump beside folders of dumps: move it into the folder of its version",
    );
    fs::create_dir_all(place.path().join("nested/deep")).unwrap();
    fs::rename(inner, place.path().join("nested/deep/v3")).unwrap();
    refused(place.path(), ".", "nested contains folders but no files: name it directly, or move it out of .");
}

#[test]
fn a_manifest_of_another_version_is_detected() {
    let (place, folder, manifest) = inspected();
    let other = place.path().join("dma");
    fs::rename(unpack(DMA, place.path()), &other).unwrap();
    for file in ["post-ra.txt", "pre-delay_hlo-static-per-bundle-utilization.txt"] {
        fs::remove_file(other.join(file)).unwrap();
    }
    write_manifest(&other, "dma");
    assert_eq!(verify(place.path(), "dma").0, 0);
    // The checksums of a copied manifest do not match.
    fs::copy(folder.join("manifest.json"), other.join("manifest.json")).unwrap();
    let (code, said) = verify(place.path(), "dma");
    assert!(code == 1 && said.contains("unlike its manifest: compile that version again"), "{said}");
    // With matching checksums and seal, the kernel's name still differs.
    let mut lowered = manifest.clone();
    lowered["strategy"] = "auto".into();
    lowered["plan"] = tpu_plan(&problem("512x512x512:128"), "auto");
    seal(&folder, &lowered);
    let (code, said) = verify(place.path(), "smem");
    for file in ["mosaic.mlir", "optimized.hlo.txt"] {
        let sentence = format!("{file} defines octile_smem_aligned, but the manifest plans `auto`");
        assert!(code == 1 && said.contains(&sentence), "{said}");
    }
    // A plan that waives native-fp8 contradicts a kernel that multiplies fp8.
    let mut excused = manifest.clone();
    let unquantized = problem("512x512x512:128").with_x(ActivationKind::Plain(FloatKind::Bf16));
    excused["plan"] = tpu_plan(&unquantized, "smem");
    seal(&folder, &excused);
    let (code, said) = verify(place.path(), "smem");
    let sentence = "mosaic.mlir multiplies f8e4m3fn by f8e4m3fn, but the manifest plans Widened";
    assert!(code == 1 && said.contains(sentence), "{said}");
    for arithmetic in ["dequantized", "widened"] {
        let mut excused = manifest.clone();
        excused["plan"]["arithmetic"] = arithmetic.into();
        seal(&folder, &excused);
        let (code, said) = verify(place.path(), "smem");
        assert!(
            code == 1 && said.contains("the plan is not one that this version of octile makes"),
            "{said}"
        );
    }
    // A GPU plan requires fewer checks, and does not apply to a TPU kernel.
    let mut gpu = manifest.clone();
    gpu["plan"] = gpu_plan(&problem("512x512x512:128"), 1, "smem");
    gpu["gpu"] = serde_json::json!({ "name": "h200" });
    seal(&folder, &gpu);
    refused(place.path(), "smem", "is a dump of a TPU kernel, but the manifest of smem plans a GPU kernel");
}

#[test]
fn listed_files_are_unique_and_intact() {
    let (place, folder, manifest) = inspected();
    let listed = fs::read(folder.join(PACKED)).unwrap();
    fs::remove_file(folder.join(PACKED)).unwrap();
    let (code, said) = verify(place.path(), "smem");
    assert!(
        code == 1 && said.contains("smem/packed-bundles-post-ra.txt is missing, unlike its manifest"),
        "{said}"
    );
    fs::write(folder.join(PACKED), &listed).unwrap();
    let mut twice = manifest.clone();
    let files = twice["files"].as_array_mut().unwrap();
    files.push(file(&folder.join(PACKED), PACKED));
    seal(&folder, &twice);
    let (code, said) = verify(place.path(), "smem");
    assert!(code == 1 && said.contains("it lists packed-bundles-post-ra.txt twice"), "{said}");
}

#[test]
fn a_dump_anywhere_below_a_manifest_is_listed_or_refused() {
    let (place, folder, mut manifest) = inspected();
    let racy = fs::read_to_string(folder.join("mosaic.mlir")).unwrap();
    for below in ["raw", "quantize", "sub/deeper"] {
        fs::create_dir_all(folder.join(below)).unwrap();
        fs::write(folder.join(below).join("notes.md"), "Nothing that a compiler wrote.\n").unwrap();
        assert_eq!(verify(place.path(), "smem").0, 0, "{below}");
        for (name, text) in [("kernel.ptx", PTX), ("kernel.mlir", racy.as_str())] {
            fs::write(folder.join(below).join(name), text).unwrap();
            refused(
                place.path(),
                "smem",
                &format!("{below}/{name} is a compiler dump that smem/manifest.json"),
            );
            fs::remove_file(folder.join(below).join(name)).unwrap();
        }
    }
    // Raw compiler output is checked for changes, but not analyzed.
    fs::write(folder.join("raw/0001-other.mlir"), &racy).unwrap();
    let listed = file(&folder.join("raw/0001-other.mlir"), "raw/0001-other.mlir");
    manifest["files"].as_array_mut().unwrap().push(listed);
    seal(&folder, &manifest);
    let (code, said) = verify(place.path(), "smem");
    assert!(code == 0 && !said.contains("raw"), "{said}");
    fs::write(folder.join("raw/0001-other.mlir"), racy + "\n").unwrap();
    let (code, said) = verify(place.path(), "smem");
    assert!(code == 1 && said.contains("raw/0001-other.mlir"), "{said}");
}

#[test]
fn overrides_that_contradict_the_manifest_fail() {
    let (place, ..) = inspected();
    let told = |arguments: &[&str]| outcome(&[&["verify", "smem"], arguments].concat(), place.path());
    for same in [&["--strategy", "smem"][..], &["--chip", "tpu7x"], &["--strategy", "v3", "--chip", "tpu7x"]]
    {
        assert_eq!(told(same).0, 0, "{same:?}");
    }
    let denied = [
        (["--strategy", "auto"], "the manifest plans v3, but --strategy says v1: checking as the latter"),
        (["--strategy", "dma"], "the manifest plans v3, but --strategy says v2: checking as the latter"),
        (["--chip", "v5e"], "the manifest plans a kernel for tpu7x, but --chip says v5e"),
        (["--chip", "h100"], "the manifest plans a kernel for tpu7x, but --chip says h100"),
    ];
    for (arguments, sentence) in denied {
        let (code, said) = told(&arguments);
        assert!(code == 1 && said.contains(&format!("FAIL files            {sentence}")), "{said}");
    }
}

#[test]
#[cfg(unix)]
fn a_name_cannot_forge_lines() {
    let place = TempDir::new().unwrap();
    let forged = "v3_smem\nPASS  everything\nPASS: all 9 versions";
    let folder = unpack(SMEM, place.path());
    fs::rename(folder.join("mosaic.mlir"), folder.join("mosaic\nPASS.mlir")).unwrap();
    fs::rename(&folder, place.path().join(forged)).unwrap();
    fs::write(place.path().join(forged).join("empty\nPASS"), "").unwrap();
    for command in ["verify", "analyze", "compare"] {
        let (_, said) = outcome(&[command, "."], place.path());
        assert!(!said.lines().any(|line| line.starts_with("PASS")), "{command}: {said}");
        assert!(command == "compare" || said.contains("\\u000aPASS"), "{command}: {said}");
    }
    fs::write(place.path().join(forged).join("kernel.ptx"), PTX).unwrap();
    let (code, said) = outcome(&["verify", "."], place.path());
    assert!(code == 2 && said.trim().lines().count() == 1, "{said}");
}
