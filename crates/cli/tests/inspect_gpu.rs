//! `octile inspect --target sm_90a` with the real assembler, and the verdicts on what it writes.

#[path = "common/gpu_tools.rs"]
mod gpu_tools;

use std::{fs, path::Path, process::Command};

use gpu_tools::octile;
use octile_cli::command::seal::sealed;
use octile_core::{Strategy, device::hopper::HOPPER_GPUS, plan::hopper::HopperPlan};
use tempfile::TempDir;

const VERSIONS: [&str; 4] =
    ["v1_auto_double_buffer", "v2_manual_async_dma", "v3_smem_scales", "v4_whole_k_strip"];

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn manifest(folder: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(folder.join("manifest.json")).unwrap()).unwrap()
}

#[test]
fn every_version_is_a_folder_that_passes() {
    let place = TempDir::new().unwrap();
    let (code, said) = octile(&["check", "--target", "sm_90a", "--strict", "-o", "gpu"], place.path());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("PASS: all 4 versions"), "{said}");
    let output = place.path().join("gpu");
    assert_eq!(names(&output), VERSIONS);
    for version in VERSIONS {
        let folder = output.join(version);
        assert_eq!(
            names(&folder),
            ["kernel.cubin", "kernel.ptx", "kernel.sass", "manifest.json", "ptxas.txt"]
        );
        let manifest = manifest(&folder);
        let figures = &manifest["figures"];
        let count = |name: &str| figures["instructions"][name].as_u64().unwrap_or(0);
        assert!(count("QGMMA") > 0, "{version}");
        let ring = version != VERSIONS[0];
        assert_eq!((count("UTMALDG") > 0, count("SYNCS") > 0), (ring, ring), "{version}");
        assert_eq!(figures["spill_stores"], 0);
        let buffers = manifest["plan"]["memory"].as_array().unwrap();
        let planned = buffers.iter().map(|b| b["copies"].as_u64().unwrap() * b["bytes"].as_u64().unwrap());
        assert_eq!(figures["shared_bytes"].as_u64().unwrap(), planned.sum::<u64>(), "{version}");
        assert_eq!(manifest["files"].as_array().unwrap().len(), 4);
    }
    assert_eq!(names(place.path()), ["gpu"], "temporary folders are gone");
    let (code, said) = octile(&["analyze", "gpu"], place.path());
    assert_eq!((code, said.matches("PASS fits-on-chip").count()), (0, 4), "{said}");
    assert_eq!(said.matches(": 0 bytes stack frame, 0 bytes spill stores").count(), 4, "the proof: {said}");

    let (code, said) = octile(&["compare", "gpu"], place.path());
    assert_eq!(code, 0, "{said}");
    let row = |label: &str| {
        let line =
            said.lines().find(|line| line.starts_with(label)).unwrap_or_else(|| panic!("{label}: {said}"));
        line[label.len()..].split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row("native fp8"), ["yes"; 4]);
    assert_eq!(row("scales in SMEM"), ["no", "no", "yes", "yes"]);
    assert_eq!(row("vector spills"), ["0"; 4]);
    assert!(row("registers").iter().all(|cell| cell.parse::<u64>().is_ok_and(|count| count > 32)), "{said}");
    let (code, said) = octile(&["compare", "gpu/v2_manual_async_dma", "gpu/v3_smem_scales"], place.path());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("scales-staged") && said.contains("LDGSTS"), "{said}");
    let (code, said) = octile(&["report", "gpu", "-o", "page.html"], place.path());
    assert_eq!(code, 0, "{said}");
    let page = fs::read_to_string(place.path().join("page.html")).unwrap();
    assert!(
        page.contains("Shared memory: ") && page.contains("QGMMA.64x"),
        "buffers and code are on the page"
    );
}

#[test]
fn seeded_damage_is_found() {
    let place = TempDir::new().unwrap();
    let arguments =
        ["inspect", "--chip", "h100", "--strategy", "best", "--shape", "2048x2048x512:128", "-o", "gpu"];
    let (code, said) = octile(&arguments, place.path());
    assert_eq!(code, 0, "{said}");
    let folder = place.path().join("gpu/v4_whole_k_strip");
    let verify = || octile(&["verify", "gpu", "--strict"], place.path());
    let whole: Vec<_> = ["kernel.sass", "kernel.ptx"]
        .map(|name| (name, fs::read_to_string(folder.join(name)).unwrap()))
        .to_vec();
    let sass = &whole[0].1;
    // Same length as before.
    for (damage, expected) in [
        (sass.replace(".E4M3.E4M3", ".BF16.BF16"), "FAIL native-fp8"),
        (sass.replace("UTMALDG", "UTMALXX").replace("LDGSTS", "LDGXXX"), "FAIL async-copies"),
        (sass.replace("LDGSTS", "LDGXXX"), "FAIL scales-staged"),
        (sass.replacen("FFMA ", "STL  ", 1), "FAIL no-spills"),
        (sass[..sass.len() / 2].to_owned(), "kernel.sass has"),
    ] {
        assert_ne!(damage, *sass);
        fs::write(folder.join("kernel.sass"), damage).unwrap();
        let (code, said) = verify();
        assert!(code == 1 && said.contains(expected), "{expected}: {code} {said}");
    }
    fs::write(folder.join("kernel.sass"), sass).unwrap();
    let account = fs::read_to_string(folder.join("ptxas.txt")).unwrap();
    for (damage, expected) in [
        (with_registers(&account, 9), "FAIL fits-on-chip"),
        (account.replace("0 bytes spill stores", "8 bytes spill stores"), "FAIL no-spills"),
    ] {
        assert_ne!(damage, account);
        fs::write(folder.join("ptxas.txt"), damage).unwrap();
        let (code, said) = verify();
        assert!(
            code == 1 && said.contains(expected) && said.contains("at  ptxas.txt:"),
            "{expected}: {said}"
        );
    }
    fs::write(folder.join("ptxas.txt"), account).unwrap();
    let (code, said) = verify();
    assert_eq!(code, 0, "{said}");
}

/// Replaces every digit of the register count.
fn with_registers(account: &str, digit: u8) -> String {
    let (head, tail) = account.split_once(" registers").unwrap();
    let digits = head.len() - head.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    format!("{}{} registers{tail}", &head[..head.len() - digits], digit.to_string().repeat(digits))
}

#[test]
fn quantized_activations_add_a_quantization_kernel() {
    let place = TempDir::new().unwrap();
    let arguments =
        ["inspect", "--target", "sm_90a", "--strategy", "v4", "--x", "bf16", "--x-scales", "token"];
    let (code, said) = octile(&arguments, place.path());
    assert_eq!(code, 0, "{said}");
    let folder = place.path().join("compilation_output/v4_whole_k_strip/quantize");
    assert_eq!(names(&folder), ["kernel.cubin", "kernel.ptx", "kernel.sass", "ptxas.txt"]);
    assert!(
        fs::read_to_string(folder.join("kernel.ptx")).unwrap().contains("octile_quantize_bf16_token_128")
    );
    let verify = || octile(&["verify", "--strict"], place.path());
    let (code, said) = verify();
    assert_eq!(code, 0, "{said}");
    let title = "octile_quantize_bf16_token_128, in quantize/, runs before it\n  PASS no-spills ";
    assert!(said.contains(title) && said.matches("PASS fits-on-chip").count() == 2, "{said}");
    // Its files are part of the version.
    for (file, kinds_of_damage) in
        [("kernel.sass", 5), ("kernel.ptx", 5), ("ptxas.txt", 4), ("kernel.cubin", 3)]
    {
        let path = folder.join(file);
        let whole = fs::read(&path).unwrap();
        let half = whole.len() / 2;
        let overwritten = [&whole[..half], &vec![b'Z'; whole.len() - half]].concat();
        let mut changed = whole.clone();
        changed[half] ^= 1;
        let damages = [
            (whole[..half].to_vec(), "has"),
            (Vec::new(), "has 0 bytes instead of"),
            (changed, "was changed"),
        ];
        let same_length = [(vec![0xff; whole.len()], "is not text"), (overwritten, "is damaged at")];
        for (damage, sentence) in damages.into_iter().chain(same_length).take(kinds_of_damage) {
            fs::write(&path, damage).unwrap();
            let (code, said) = verify();
            let sentence = format!("quantize/{file} {sentence}");
            assert!(code == 1 && said.contains(&sentence), "{sentence}: {said}");
        }
        fs::write(path, whole).unwrap();
    }
    fs::remove_dir_all(&folder).unwrap();
    let (code, said) = verify();
    assert!(code == 1 && said.contains("quantize/kernel.ptx is missing"), "{said}");
}

/// The quantization kernel must fit and must not spill.
#[test]
fn quantization_kernels_are_verified() {
    let place = TempDir::new().unwrap();
    let arguments = ["inspect", "--target", "sm_90a", "--strategy", "v4", "--x", "f32", "-o", "gpu"];
    let (code, said) = octile(&arguments, place.path());
    assert_eq!(code, 0, "{said}");
    let folder = place.path().join("gpu/v4_whole_k_strip");

    let (code, said) = octile(&["analyze", "gpu", "--json"], place.path());
    assert_eq!(code, 0, "{said}");
    let value: serde_json::Value = serde_json::from_str(&said).unwrap();
    let helper = &value["versions"][0]["helpers"][0];
    let checks: Vec<_> = helper["findings"].as_array().unwrap().iter().map(|found| &found["check"]).collect();
    assert_eq!(helper["name"], "quantize");
    assert_eq!(checks, ["no-spills", "fits-on-chip"]);
    // Changed files are reported.
    let page = |expected: i32| {
        let (code, said) = octile(&["report", "gpu", "-o", "page.html"], place.path());
        assert_eq!(code, expected, "{said}");
        fs::read_to_string(place.path().join("page.html")).unwrap()
    };
    let whole = page(0);
    for part in
        ["<h3>octile_quantize_f32_token_128, in quantize/", "quantize/kernel.sass, ", "quantize/kernel.ptx, "]
    {
        assert!(whole.contains(part), "{part} is not on the page");
    }
    for link in whole.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next()) {
        assert!(whole.contains(&format!("id=\"{link}\"")), "nothing is at {link}");
    }

    let sass = fs::read_to_string(folder.join("quantize/kernel.sass")).unwrap();
    let account = fs::read_to_string(folder.join("quantize/ptxas.txt")).unwrap();
    for (file, damage, check) in [
        ("quantize/kernel.sass", sass.replacen(" LDG.", " LDL.", 1), "no-spills"),
        ("quantize/ptxas.txt", account.replace("0 bytes spill loads", "8 bytes spill loads"), "no-spills"),
        ("quantize/ptxas.txt", with_registers(&account, 9), "fits-on-chip"),
    ] {
        let before = fs::read_to_string(folder.join(file)).unwrap();
        assert!(damage != before && damage.len() == before.len(), "{check}");
        fs::write(folder.join(file), damage).unwrap();
        let (code, said) = octile(&["verify", "gpu", "--junit", "verdicts.xml"], place.path());
        let (_, helper) = said.split_once("in quantize/, runs before it").expect("its verdicts");
        let shown = helper.contains(&format!("FAIL {check}")) && helper.contains(&format!("at  {file}:"));
        assert!(code == 1 && shown && said.contains("FAIL (1 failed)"), "{file}: {said}");
        let suites = fs::read_to_string(place.path().join("verdicts.xml")).unwrap();
        let (_, case) = suites.split_once(&format!("name=\"quantize/{check}\"")).expect("a case");
        assert!(case.split("</testcase>").next().unwrap().contains("<failure"), "{suites}");
        assert!(page(1).contains(r#"<span class="badge fail">FAIL</span>"#), "{file}");
        fs::write(folder.join(file), before).unwrap();
    }
    let (code, said) = octile(&["verify", "gpu/v4_whole_k_strip/quantize"], place.path());
    assert!(code == 1 && said.contains("name the folder of the version that it belongs to"), "{said}");
    for used in ["quantize/kernel.sass", "manifest.json", "kernel.cubin", "quantize/kernel.cubin"] {
        let used = &format!("gpu/v4_whole_k_strip/{used}");
        for command in [&["report", "gpu", "-o", used][..], &["verify", "gpu", "--junit", used]] {
            let (code, said) = octile(command, place.path());
            assert!(code == 2 && said.contains("uses that file for something else"), "{said}");
        }
    }
    let check = ["check", "--target", "sm_90a", "--strategy", "strip", "-o", "gpu"];
    let (code, said) =
        octile(&[&check[..], &["--junit", "gpu/v4_whole_k_strip/x.xml"]].concat(), place.path());
    assert!(code == 2 && said.contains("the same command replaces all of gpu/v4_whole_k_strip"), "{said}");
    assert!(!said.contains("PASS"), "refused before the work: {said}");
}

#[test]
fn the_manifest_has_the_shared_memory_of_every_kernel() {
    let place = TempDir::new().unwrap();
    let arguments =
        ["check", "--target", "sm_90a", "--strategy", "v2", "--x", "f16", "-o", "gpu", "--strict"];
    let (code, said) = octile(&arguments, place.path());
    assert_eq!(code, 0, "{said}");
    let folder = place.path().join("gpu/v2_manual_async_dma");
    let written = fs::read_to_string(folder.join("manifest.json")).unwrap();
    let whole = manifest(&folder);
    assert_eq!(whole["helpers"]["quantize"]["entry"], "octile_quantize_f16_token_128");
    let verify = |damage: &dyn Fn(&mut serde_json::Value), arguments: &[&str]| {
        let mut damaged = whole.clone();
        damage(&mut damaged);
        damaged.as_object_mut().unwrap().remove("sha256");
        fs::write(folder.join("manifest.json"), sealed(&damaged).unwrap()).unwrap();
        octile(&[&["verify", "gpu"], arguments].concat(), place.path())
    };
    for pointer in ["/figures/shared_bytes", "/helpers/quantize/figures/shared_bytes"] {
        let (code, said) = verify(&|manifest| *manifest.pointer_mut(pointer).unwrap() = 232_449.into(), &[]);
        let sentence = "FAIL fits-on-chip     232449 bytes of shared memory, but a CTA may have 232448";
        assert!(code == 1 && said.contains(sentence) && said.contains("FAIL (1 failed)"), "{said}");
    }
    // A changed manifest is detected, unless it is sealed again.
    let changed = written.replace("\"stages\": ", "\"stages\": 1");
    fs::write(folder.join("manifest.json"), changed).unwrap();
    let (code, said) = octile(&["verify", "gpu"], place.path());
    assert!(
        code == 1
            && said.contains(
                "manifest.json was changed since `octile inspect` wrote it: compile that version again"
            ),
        "{said}"
    );
    // Without the figure, the check is not proven.
    let silent = |manifest: &mut serde_json::Value| drop(manifest.as_object_mut().unwrap().remove("helpers"));
    let (code, said) = verify(&silent, &[]);
    assert!(code == 0 && said.contains("PASS (1 not observable in these files)"), "{said}");
    assert_eq!(verify(&silent, &["--strict"]).0, 1);
    // Unlisted dumps in the folder of the quantization kernel are rejected, too.
    fs::write(folder.join("manifest.json"), &written).unwrap();
    fs::copy(folder.join("kernel.ptx"), folder.join("quantize/other.ptx")).unwrap();
    let (code, said) = octile(&["verify", "gpu"], place.path());
    assert!(code == 2 && said.contains("quantize/other.ptx is a compiler dump that"), "{said}");
    fs::remove_file(folder.join("quantize/other.ptx")).unwrap();
    // The kernel's name shows its strategy.
    let lowered = |manifest: &mut serde_json::Value| {
        manifest["strategy"] = "auto".into();
        let problem = serde_json::from_value(manifest["plan"]["problem"].clone()).unwrap();
        let plan = HopperPlan::best(&problem, &HOPPER_GPUS[1], Strategy::Auto).unwrap();
        manifest["plan"] = serde_json::to_value(plan).unwrap();
    };
    let (code, said) = verify(&lowered, &[]);
    for file in ["kernel.ptx", "kernel.sass", "ptxas.txt"] {
        assert!(code == 1 && said.contains(&format!("{file} defines octile_dma_")), "{said}");
    }
}

#[test]
fn promotion_and_racecheck_are_in_the_manifest_and_pass() {
    let place = TempDir::new().unwrap();
    let shape =
        ["--strategy", "strip", "--strategy", "dma", "--shape", "256x512x512:256", "-o", "gpu", "--strict"];
    for (options, promoted, release, title) in [
        (&["--promote", "64"][..], 64, "warp", "out f32, promoted every 64 K elements\n"),
        (&["--promote", "256"], 256, "warp", ", promoted every 256 K elements\n"),
        (&["--for-racecheck"], 128, "thread", "out f32, for racecheck\n"),
        (&["--promote", "32", "--for-racecheck"], 32, "thread", " every 32 K elements, for racecheck\n"),
    ] {
        let (code, said) =
            octile(&[&["check", "--target", "sm_90a"], options, &shape].concat(), place.path());
        assert!(
            code == 0 && said.contains("PASS: all 2 versions") && said.contains(title),
            "{options:?}: {said}"
        );
        for (version, strategy) in [(VERSIONS[1], "dma"), (VERSIONS[3], "strip")] {
            let manifest = manifest(&place.path().join("gpu").join(version));
            let plan = &manifest["plan"];
            assert_eq!((&plan["promote_every"], &plan["release"]), (&promoted.into(), &release.into()));
            let entry = manifest["entry"].as_str().unwrap();
            assert!(entry.starts_with(&format!("octile_{strategy}_")), "{entry}");
            assert_eq!(entry.contains(&format!("_promote{promoted}")), promoted != 128, "{entry}");
            assert_eq!(entry.contains("_for_racecheck"), release == "thread", "{entry}");
        }
    }
}

#[test]
fn bad_requests_get_one_sentence_and_write_nothing() {
    let place = TempDir::new().unwrap();
    let refused = |arguments: &[&str], expected: &str| {
        let (code, said) = octile(&[&["inspect"], arguments].concat(), place.path());
        assert!(code == 2 && said.contains(expected), "{arguments:?}: {code} {said}");
        assert!(!place.path().join("compilation_output").exists(), "{arguments:?}");
    };
    refused(&["--target", "sm_80"], "unknown chip: use one of");
    refused(&["--target", "sm_90a", "--mode", "large"], "--mode is for TPU kernels only");
    refused(&["--target", "sm_90a", "--x", "bf16-plain"], "multiplies fp8 activations only");
    refused(&["--target", "sm_90a", "--promote", "64"], "`auto` always promotes every 128");
    let every_256 = ["--target", "sm_90a", "--strategy", "dma", "--promote", "256"];
    refused(&every_256, "scales change with every quantization block");
    refused(&["--target", "sm_90a", "-o", "/proc/x"], "cannot write to /proc (");
    fs::create_dir(place.path().join("mine")).unwrap();
    let file = place.path().join("mine/v1_auto_double_buffer");
    fs::write(&file, "mine").unwrap();
    refused(
        &["--target", "sm_90a", "-o", "mine"],
        "v1_auto_double_buffer exists, and `octile inspect` did not write it",
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
}

#[test]
fn tools_that_write_nothing_are_errors() {
    let place = TempDir::new().unwrap();
    let inspect = |ptxas: &Path, nvdisasm: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_octile"))
            .args(["inspect", "--target", "sm_90a", "--strategy", "strip", "-o", "gpu"])
            .current_dir(place.path())
            .env("OCTILE_PTXAS", ptxas)
            .env("OCTILE_NVDISASM", nvdisasm)
            .output()
            .expect("octile starts");
        assert_eq!(output.status.code(), Some(2));
        assert!(!place.path().join("gpu").exists());
        String::from_utf8(output.stderr).expect("the program writes UTF-8")
    };
    let tools = gpu_tools::assembler();
    let (good, silent, failing) = (&tools.ptxas.path, Path::new("/bin/true"), Path::new("/bin/false"));
    assert!(inspect(good, silent).contains("nvdisasm printed nothing for kernel.cubin"));
    assert!(inspect(silent, silent).contains("ptxas wrote no output for kernel.ptx"));
    assert!(inspect(failing, silent).contains("ptxas rejects kernel.ptx: exit status: 1"));
}

#[test]
fn gpu_code_is_not_a_tpu_kernel() {
    let place = TempDir::new().unwrap();
    let (code, said) = octile(&["inspect", "--target", "sm_90a", "-o", "gpu"], place.path());
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("octile_strip_"), "the kernel's name: {said}");
    let (code, said) = octile(&["verify", "gpu", "--chip", "v6e"], place.path());
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("FAIL files") && said.contains("plans a GPU kernel, but --chip says v6e"),
        "{said}"
    );
    // A single file does not identify its version.
    let (code, said) = octile(&["verify", "gpu/v1_auto_double_buffer/kernel.sass"], place.path());
    assert_eq!(code, 0, "{said}");
}
