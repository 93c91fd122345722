//! `octile quantize`, `convert` and `dequantize`, including kills, bad paths and full disks.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

use octile_harness::requirement::Requirement;
use tempfile::TempDir;

fn octile(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(arguments).current_dir(folder).output().expect("octile starts")
}

fn said(output: &Output) -> String {
    String::from_utf8([&output.stdout[..], &output.stderr[..]].concat()).unwrap()
}

/// Requires success; returns the output.
fn passes(arguments: &[&str], folder: &Path) -> String {
    let output = octile(arguments, folder);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", said(&output));
    said(&output)
}

/// Requires an error in one sentence and an unchanged folder; returns the error.
fn refuses(arguments: &[&str], folder: &Path) -> String {
    let before = entries(folder);
    let output = octile(arguments, folder);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert_eq!(entries(folder), before, "{said}");
    said
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Makes a folder `in` of shards with one bf16 weight of `rows x 1024` each.
fn model(shards: usize, rows: usize) -> TempDir {
    let place = TempDir::new().unwrap();
    let input = place.path().join("in");
    fs::create_dir(&input).unwrap();
    let mut weight_map = BTreeMap::new();
    for at in 0..shards {
        let name = format!("model.layers.{at}.mlp.up_proj.weight");
        let bytes = rows * 1024 * 2;
        let header = format!(
            r#"{{"__metadata__":{{"format":"pt"}},"{name}":{{"dtype":"BF16","shape":[{rows},1024],"data_offsets":[0,{bytes}]}}}}"#
        );
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.as_bytes());
        let mut state = at as u32 + 1;
        file.extend((0..rows * 1024).flat_map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            // Between 2^-9 and 2^-2, both signs.
            ((state >> 16 & 0x807f | (118 + (state >> 8 & 7)) << 7) as u16).to_le_bytes()
        }));
        let shard = format!("model-{:05}-of-{shards:05}.safetensors", at + 1);
        fs::write(input.join(&shard), file).unwrap();
        weight_map.insert(name, shard);
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": weight_map});
    fs::write(input.join("model.safetensors.index.json"), index.to_string()).unwrap();
    fs::write(input.join("config.json"), r#"{"model_type": "qwen3"}"#).unwrap();
    place
}

/// Checksums of all files of a folder.
fn contents(folder: &Path) -> BTreeMap<String, u32> {
    let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (name(&path), crc32fast::hash(&fs::read(&path).unwrap()))).collect()
}

#[test]
fn a_round_trip_reports_what_it_did() {
    let place = model(2, 256);
    let folder = place.path();
    let input = contents(&folder.join("in"));
    let dry = passes(&["quantize", "in", "-o", "out", "--dry-run"], folder);
    assert!(dry.contains("2 x model.layers.*.mlp.up_proj.weight [256, 1024]"), "{dry}");
    assert!(dry.contains("nothing was written"), "{dry}");
    assert_eq!(entries(folder), ["in"]);
    let text = passes(&["quantize", "in", "-o", "out"], folder);
    assert!(text.contains("Quantized 2 weights: 1.05 MB -> 524.42 kB"), "{text}");
    assert!(text.contains("tensor parallelism of 4 is impossible: N = 256"), "{text}");
    passes(&["convert", "out", "-o", "ct", "--format", "compressed-tensors"], folder);
    passes(&["convert", "ct", "-o", "back", "--format", "fp8"], folder);
    assert_eq!(contents(&folder.join("back")), contents(&folder.join("out")));
    let text = passes(&["dequantize", "back", "-o", "plain"], folder);
    assert!(text.contains("Dequantized 2 weights"), "{text}");
    let one = "in/model-00001-of-00002.safetensors";
    let text = passes(&["quantize", one, "-o", "one.safetensors", "--scales", "ue8m0"], folder);
    assert!(
        text.contains("add this to the model's config.json") && text.contains("\"scale_fmt\": \"ue8m0\""),
        "{text}"
    );
    assert_eq!(contents(&folder.join("in")), input, "the input is never changed");
    assert_eq!(entries(folder), ["back", "ct", "in", "one.safetensors", "out", "plain"]);
}

#[test]
fn a_killed_run_is_resumed_to_the_same_bytes() {
    let place = model(24, 4096);
    let folder = place.path();
    passes(&["quantize", "in", "-o", "whole"], folder);
    let whole = contents(&folder.join("whole"));
    let journal = folder.join(".out.octile-work/finished");
    for attempt in 0..20 {
        let mut child = Command::new(env!("CARGO_BIN_EXE_octile"))
            .args(["quantize", "in", "-o", "out", "--threads", "1"])
            .current_dir(folder)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let start = Instant::now();
        // Each run gets a little longer, until one finishes.
        let enough = || fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > attempt);
        while !enough() && start.elapsed() < Duration::from_secs(60) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_micros(200));
        }
        child.kill().unwrap();
        if child.wait().unwrap().success() {
            break;
        }
        assert!(!folder.join("out").exists(), "an output that is not whole is not there");
    }
    if folder.join("out").exists() {
        fs::remove_dir_all(folder.join("out")).unwrap();
        panic!("no run was killed before it ended: the test shows nothing");
    }
    let text = passes(&["quantize", "in", "-o", "out"], folder);
    assert!(text.contains(" from the interrupted run"), "{text}");
    assert_eq!(contents(&folder.join("out")), whole);
    assert_eq!(entries(folder), ["in", "out", "whole"]);
}

#[test]
fn bad_places_are_refused_in_one_sentence() {
    let place = model(1, 128);
    let folder = place.path();
    for (arguments, part) in [
        (&["quantize", "none", "-o", "out"][..], "cannot read none"),
        (&["quantize", "in", "-o", "in"], "it is the input"),
        (&["quantize", "in", "-o", "in/out"], "it is inside the input"),
        (&["quantize", "in", "-o", "no/out"], "there is no folder no"),
        (&["quantize", "in", "-o", "/"], "name a new folder"),
        (&["quantize", "in", "-o", "out", "--only", "x*"], "--only 'x*' matches no tensor"),
        (&["dequantize", "in", "-o", "out"], "nothing to do"),
        (&["convert", "in", "-o", "out", "--format", "fp8"], "nothing to do"),
        (&["quantize", "in", "-o", "out", "--dry-run", "--only", "["], "is not a glob"),
    ] {
        let said = refuses(arguments, folder);
        assert!(said.contains(part), "{said}\nlacks {part}");
    }
    if Path::new("/proc/self").is_dir() {
        let said = refuses(&["quantize", "in", "-o", "/proc/out"], folder);
        assert!(said.contains("cannot write /proc/out"), "{said}");
    }
}

/// Runs a script in which `$OCTILE` is the program.
#[cfg(unix)]
fn shell(script: &str, folder: &Path, shell: &[&str]) -> Output {
    let mut command = Command::new(shell[0]);
    command.args(&shell[1..]).arg(script).current_dir(folder).env("OCTILE", env!("CARGO_BIN_EXE_octile"));
    command.output().expect("a shell starts")
}

#[cfg(unix)]
#[test]
fn a_write_that_fails_leaves_nothing_behind() {
    let place = model(3, 4096);
    let folder = place.path();
    // Files may not grow beyond a megabyte; without the trap the signal would kill the process.
    let output = shell("trap '' XFSZ; ulimit -f 1000; $OCTILE quantize in -o out", folder, &["bash", "-c"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    let said = said(&output);
    // Shards are written in parallel; any of them may fail first.
    assert!(said.contains("cannot write model-0000"), "{said}");
    assert!(said.trim_end().ends_with("-of-00003.safetensors: File too large (os error 27)"), "{said}");
    assert_eq!(entries(folder), ["in"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_detected_before_writing() {
    let place = model(3, 4096);
    let folder = place.path();
    fs::create_dir(folder.join("small")).unwrap();
    let script = "mount -t tmpfs -o size=2m tmpfs small || exit 77; $OCTILE quantize in -o small/out; \
                  code=$?; ls -A small; exit $code";
    let output = shell(script, folder, &["unshare", "-rm", "sh", "-c"]);
    let said = said(&output);
    if output.status.code() == Some(77) || said.contains("unshare:") {
        Requirement::Mount.report_absent("a_full_disk_is_detected_before_writing", said.trim());
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("small/out needs 12") && said.contains("are free: make room"), "{said}");
    assert_eq!(said.trim_end().lines().count(), 1, "nothing is left behind: {said}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_output_is_refused() {
    let place = model(1, 128);
    let folder = place.path();
    fs::create_dir(folder.join("fixed")).unwrap();
    let script = "mount -t tmpfs -o size=2m,ro tmpfs fixed || exit 77; $OCTILE quantize in -o fixed/out";
    let output = shell(script, folder, &["unshare", "-rm", "sh", "-c"]);
    let said = said(&output);
    if output.status.code() == Some(77) || said.contains("unshare:") {
        Requirement::Mount.report_absent("a_read_only_output_is_refused", said.trim());
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write fixed/out: Read-only file system"), "{said}");
}
