//! The program from the outside: what it prints, writes and rejects.

use std::{
    path::Path,
    process::{Command, Output},
};

fn octile(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_octile")).args(arguments).output().expect("octile starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("reports are UTF-8")
}

/// The error of a command that must fail with exit code 2.
fn refusal(arguments: &[&str]) -> String {
    let output = octile(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a report");
    String::from_utf8(output.stderr).expect("errors are UTF-8")
}

#[test]
fn test_checks_every_strategy_and_writes_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("checks.json");
    let json_option = format!("--json={}", json.display());
    let output = octile(&["test", "--shape", "70x130x300:128", "--seed", "5", &json_option]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = stdout(&output);
    for version in ["v1", "v2", "v3", "v4"] {
        assert!(text.contains(&format!("{version}: PASS\n  Passed: 1/1")), "{text}");
    }
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(record["schema"], "octile-test/1");
    let suite = &record["suites"][0];
    assert_eq!((&suite["seed"], &suite["machine"]["backend"]), (&5.into(), &"cpu".into()));
    let checks = &suite["checks"];
    assert_eq!(checks.as_array().unwrap().len(), 4);
    assert_eq!(checks[3]["strategy"], "strip");
    assert_eq!((&checks[0]["m"], &checks[0]["x"]), (&70.into(), &"fp8 (token scales)".into()));
    assert!(checks[0]["worst_of_bound"].as_f64().unwrap() <= 1.0);
}

/// `--json` alone replaces the report, `--quiet` suppresses it, and colors appear only where asked for.
#[test]
fn json_quiet_and_color_apply_to_standard_output() {
    let shape = ["test", "--shape", "5x5x5:128"];
    let run = |more: &[&str]| octile(&[&shape[..], more].concat());
    for more in [&["--json"][..], &["--json=-"], &["--json", "--quiet"]] {
        let document: serde_json::Value = serde_json::from_str(&stdout(&run(more))).unwrap();
        assert_eq!(document["schema"], "octile-test/1");
    }
    let quiet = run(&["--quiet"]);
    assert_eq!((quiet.status.code(), quiet.stdout.len(), quiet.stderr.len()), (Some(0), 0, 0));
    let plain = stdout(&run(&[]));
    assert!(!plain.contains('\u{1b}') && plain == stdout(&run(&["--color", "never"])), "{plain}");
    let colored = stdout(&run(&["--color=always"]));
    assert!(colored.contains("\u{1b}[32m") && colored.contains("PASS"), "{colored:?}");
}

#[test]
fn completions_and_man_page_name_the_commands() {
    for arguments in [&["completions", "bash"][..], &["completions", "zsh"], &["man"], &["man", "bench"]] {
        let text = stdout(&octile(arguments));
        assert!(
            text.contains("octile")
                && text.contains(if arguments.contains(&"bench") { "budget" } else { "simulate" }),
            "{arguments:?}: {text}"
        );
    }
    assert!(refusal(&["man", "dos"]).contains("octile has no command 'dos'"));
    assert!(refusal(&["completions", "dos"]).contains("invalid value 'dos'"));
}

#[test]
fn bench_times_what_passed_and_writes_every_field() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("timings.json");
    let path = format!("--json={}", json.display());
    let shape = ["--shape", "64x128x256:128", "--iterations", "4", "--warmup", "1", "--threads", "1"];
    let output = octile(&[&["bench", "--strategy", "v4", "--strategy", "auto", &path], &shape[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(stdout(&output).contains("RECOMMENDATION"));
    assert!(!stdout(&output).contains(" 0.000 ms"), "{}", stdout(&output));
    let record: serde_json::Value = serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap();
    assert_eq!(record["schema"], "octile-bench/1");
    let document = ["date", "version", "machine", "peak_tflops", "peak_read_gbytes_per_s", "seed", "warmup"];
    let machine = ["backend", "cpu_model", "isa", "threads"];
    let problem = ["strategy", "m", "n", "k", "quant_block", "x", "out"];
    let times = ["samples_ms", "mean_ms", "min_ms", "max_ms", "std_ms", "median_ms"];
    let rates = ["tflops_mean", "tflops_best", "tflops_median", "gbytes_per_s"];
    let roof = ["roof_tflops", "limiter", "percent_of_roof"];
    let timing = &record["timings"][0];
    for (object, keys) in [
        (&record, &document[..]),
        (&record["machine"], &machine),
        (timing, &problem),
        (timing, &times),
        (timing, &rates),
        (timing, &roof),
    ] {
        for key in keys {
            assert!(!object[key].is_null(), "{key} is missing");
        }
    }
    assert_eq!(timing["samples_ms"].as_array().unwrap().len(), 4);
}

/// Writes a record with these times of `auto` on one shape.
fn write_record(path: &Path, samples_ms: &[f64]) {
    let record = serde_json::json!({
        "schema": "octile-bench/1", "date": "2026-01-01T00:00:00Z", "version": "0.1.0",
        "machine": { "backend": "cpu", "cpu_model": "p", "isa": "avx2", "threads": 1 },
        "timings": [{
            "strategy": "auto", "m": 16, "n": 128, "k": 128, "quant_block": 128,
            "x": "fp8 (token scales)", "out": "f32", "samples_ms": samples_ms
        }]
    });
    std::fs::write(path, record.to_string()).unwrap();
}

#[test]
fn a_slower_run_than_the_baseline_fails() {
    let folder = tempfile::tempdir().unwrap();
    let baseline = folder.path().join("baseline.json");
    let run = |more: &[&str]| {
        let path = baseline.to_str().unwrap();
        let shape = ["bench", "--shape", "16x128x128:128", "--strategy", "auto", "--threads", "1"];
        octile(&[&shape[..], &["--baseline", path], more].concat())
    };
    let gate = ["--iterations", "9", "--fail-if-slower", "5%"];
    for (ms, code, said) in [(1e-9, 1, "FAIL: auto on 16x128x128:128"), (1e9, 0, "")] {
        write_record(&baseline, &[ms; 8]);
        let output = run(&gate);
        assert!(output.status.code() == Some(code), "{output:?}");
        assert!(String::from_utf8_lossy(&output.stderr).starts_with(said), "{output:?}");
        assert!(stdout(&output).contains("95 % interval"), "{output:?}");
        assert_eq!(run(&["--quick"]).status.code(), Some(0), "without a limit nothing fails");
    }
    let output = run(&["--iterations", "3", "--fail-if-slower", "5"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("8 and 3 runs"), "{said}");
    std::fs::write(&baseline, "{}").unwrap();
    let said = String::from_utf8(run(&gate).stderr).unwrap();
    assert!(said.contains("baseline.json: not a benchmark record: its schema is missing"), "{said}");
    assert!(refusal(&["bench", "--fail-if-slower", "5"]).contains("--baseline"));
    assert!(refusal(&["bench", "--baseline", "b", "--fail-if-slower=-1%"]).contains("such as 5%"));
}

#[test]
fn two_records_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (before, after, dump) = (path("before.json"), path("after.json"), path("kernel.ptx"));
    write_record(Path::new(&before), &[1.0; 10]);
    write_record(Path::new(&after), &[1.5; 10]);
    std::fs::write(&dump, ".version 8.0\n").unwrap();
    let text = stdout(&octile(&["compare", &before, &after]));
    assert!(text.contains("1.500 .. 1.500  slower"), "{text}");
    let json = stdout(&octile(&["compare", &before, &after, "--json"]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["schema"], &json["pairs"][0]["change"]),
        (&"octile-bench-comparison/1".into(), &"slower".into())
    );
    let mixed = "give two benchmark records, or dumps only";
    assert!(refusal(&["compare", &before, &dump]).contains(mixed));
    assert!(refusal(&["compare", &before, &after, &after]).contains(mixed));
    let overwrite = format!("--json={before}");
    assert!(refusal(&["compare", &before, &after, &overwrite]).contains("uses that file"));
    write_record(Path::new(&after), &[-1.0]);
    assert!(refusal(&["compare", &before, &after]).contains("has a time of -1.0 ms"));
    write_record(Path::new(&after), &[1e308]);
    assert!(refusal(&["compare", &before, &after]).contains("has a time of 1e308 ms"));
    let record = std::fs::read_to_string(&before).unwrap();
    let (row, _) = record.split_once("\"timings\":[").unwrap().1.split_once("],\"version\"").unwrap();
    std::fs::write(&after, record.replace(row, &format!("{row},{row}"))).unwrap();
    assert!(refusal(&["compare", &before, &after]).contains("auto on 16x128x128:128"), "a row twice");
    std::fs::write(&after, "{").unwrap();
    assert!(refusal(&["compare", &before, &after]).contains("after.json: not a benchmark record: EOF"));
}

/// Two runs say nothing about the variance.
#[test]
fn bench_recommends_nothing_by_two_runs() {
    let shape = ["--shape", "16x128x128:128", "--iterations", "2", "--warmup", "0", "--threads", "1"];
    let text = stdout(&octile(&[&["bench"], &shape[..]].concat()));
    let (_, advice) = text.split_once("RECOMMENDATION").expect("two strategies were timed");
    let careful = advice.contains("too few runs to show a difference") || advice.contains("is the simplest");
    assert!(careful && !advice.contains("significant"), "{advice}");
}

#[test]
fn bad_requests_get_a_sentence_and_exit_code_2() {
    for (arguments, sentence) in [
        (&["test", "--shape", "5x5"][..], "shape '5x5' is not of the form MxNxK:QB"),
        (&["test", "--shape", "5x5x5:100"], "quantization block 100 is not supported: use 128, 256 or 512"),
        (&["bench", "--shape", "0x5x5:128"], "M, N and K must be at least 1"),
        (&["test", "--strategy", "v9"], "expected auto, dma, smem or strip"),
        (&["test", "--isa", "sse9"], "unknown instruction set 'sse9'"),
        (&["test", "--threads", "0", "--shape", "1x1x1:128"], "thread"),
        (&["test", "--threads", "100000", "--shape", "1x1x1:128"], "--threads"),
        (&["test", "--shape", "1000000x1000000x128:128"], "use a smaller shape"),
        (&["run-module", "--plugin", "p", "--shape", "100000x100000x100000:128"], "use a smaller shape"),
        (&["run-module", "--plugin", "p", "--shape", "1x99999999999999x1:128"], "use a smaller shape"),
        (
            &["run-module", "--plugin", "p", "--shape", "1x1x18446744073709551615:128"],
            "is too large to address",
        ),
        (&["bench", "--shape", "100000x100000x100000:128"], "use a smaller shape"),
        (&["simulate", "k.ptx", "--max-operations", "0"], "0 is not in 1.."),
        (&["test", "--shape", "1x1x1:128", "--json=/dev/null"], "is not a regular file"),
        (&["bench", "--iterations", "0"], "0 is not in 1.."),
        (&["test", "--shape", "1x1x1:128", "--json=no/such/folder/x.json"], "no/such/folder"),
        (
            &["test", "--shape", "1x99999999999999999999x1:128"],
            "in shape '1x99999999999999999999x1:128' is too large",
        ),
        (&["test", "--mode", "large"], "--mode has no effect here and only applies to --backend tpu-sim"),
        (&["bench", "--backend", "tpu-sim", "--isa", "avx2"], "--isa has no effect here"),
        (&["test", "--backend", "tpu-sim", "--threads", "2"], "only applies to --backend cpu"),
        (&["test", "--x", "bf16-plain", "--x-scales", "token"], "--x-scales has no effect here"),
        (&["inspect", "--x", "bf16-plain", "--x-scales", "token"], "--x-scales has no effect here"),
        (&["test", "--promote", "64"], "--promote has no effect here and only applies to --backend gpu"),
        (
            &["test", "--for-racecheck"],
            "--for-racecheck has no effect here and only applies to --backend gpu",
        ),
        (&["bench", "--backend", "gpu", "--promote", "100"], "'--promote <K>': expected 32, 64, 128"),
        (&["test", "--backend", "gpu", "--promote", "0"], "expected 32, 64, 128, 256 or 512"),
        (&["test", "--backend", "gpu", "--promote", "abc"], "expected 32, 64, 128, 256 or 512"),
        (&["simulate", "k", "--tensors", "t", "--races", "--no-races"], "cannot be used with"),
        (&["run-module", "m", "--plugin", "p", "--tensors", "t", "--seed", "2"], "cannot be used with"),
        (&["run-module", "m", "--plugin", "p"], "<--shape <MxNxK:QB>|--tensors <FILE>>"),
        (&["run-module", "--plugin", "p", "--tensors", "t"], "<MODULE>"),
        (&["run-module", "--plugin", "p", "--shape", "1x1x1:128", "--tolerance", "1"], "--expect"),
        (&["verify", ".", "--junit", "no/such/folder/x.xml"], "folder no/such/folder does not exist"),
        (&["inspect", "--promote", "64"], "--promote is for GPU kernels only: leave it out, or name a GPU"),
        (&["check", "--chip", "v6e", "--for-racecheck"], "--for-racecheck is for GPU kernels only: leave it"),
        (&["inspect", "--target", "sm_90a", "--promote", "100"], "'--promote <K>': expected 32, 64, 128"),
        (&["inspect", "--target", "sm_80"], "use one of tpu7x, v6e, v5e, v5p, v4, sm_90a, h100, h200"),
        (&["verify", "--chip", "a100"], "unknown chip: use one of tpu7x, v6e, "),
        (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
    ] {
        let said = refusal(arguments);
        assert!(said.contains(sentence), "{arguments:?} said: {said}");
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// Standard output that is full: a non-blocking socket that is never read.
#[cfg(unix)]
fn full() -> (std::os::unix::net::UnixStream, std::os::unix::net::UnixStream) {
    use std::io::Write;
    let (mut near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    near.set_nonblocking(true).unwrap();
    while near.write(&[b' '; 4096]).is_ok() {}
    while near.write(b" ").is_ok() {}
    (near, far)
}

#[cfg(unix)]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let run = |stdout: std::os::unix::net::UnixStream| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
        let stdout = std::os::fd::OwnedFd::from(stdout);
        command.args(["test", "--shape", "5x5x5:128"]).stdout(stdout).stderr(std::process::Stdio::piped());
        command.output().expect("octile starts")
    };
    let (near, _far) = full();
    let output = run(near);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("octile: cannot write to standard output: "), "{said}");
    // A closed pipe is not an error.
    let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
    drop(far);
    let output = run(near);
    assert_eq!((output.status.code(), output.stderr.len()), (Some(0), 0), "{output:?}");
}

#[test]
fn no_output_replaces_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let kernel = "module { func.func @k(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) { return } }";
    let hlo = "HloModule m\n\nENTRY %main (x: f32[2]) -> f32[2] {\n  ROOT %x = f32[2]{0} parameter(0)\n}\n";
    for (name, content) in [("k.mlir", kernel), ("m_hlo.txt", hlo)] {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let data = [0u8; 8 * 128 * 4];
    let view = safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![8, 128], &data).unwrap();
    std::fs::write(path("t"), safetensors::serialize([("x", view)], None).unwrap()).unwrap();
    let (k, t, hlo) = (path("k.mlir"), path("t"), path("m_hlo.txt"));
    let new = path("new");
    for arguments in [
        ["simulate", &k, "--tensors", &t, "--trace", &k].as_slice(),
        &["simulate", &k, "--tensors", &t, "--svg", &t],
        &["simulate", &k, "--tensors", &t, "--svg", &new, "--trace", &new],
        &["report", &hlo, "-o", &hlo],
        &["verify", &hlo, "--junit", &hlo],
        &["verify", &hlo, &format!("--json={hlo}")],
        &["simulate", &k, "--tensors", &t, "--junit", &t],
    ] {
        let before: Vec<_> = [&k, &t, &hlo].map(|file| std::fs::read(file).unwrap()).into();
        let said = refusal(arguments);
        assert!(said.contains("uses that file for something else"), "{arguments:?}: {said}");
        let after: Vec<_> = [&k, &t, &hlo].map(|file| std::fs::read(file).unwrap()).into();
        assert!(before == after && !Path::new(&new).exists(), "{arguments:?} wrote something");
    }
}

/// Text after the options must fit 80 columns; the options are wrapped to the terminal.
#[test]
fn help_fits_a_terminal() {
    for command in ["simulate", "run-module", "inspect", "compare", "verify", "analyze", "report", "check"] {
        let text = stdout(&octile(&[command, "--help"]));
        let (_, after) = text.split_once("Print help").unwrap_or_else(|| panic!("{command}: {text}"));
        assert!(after.contains("Examples:"), "{command}: {after}");
        for line in after.lines() {
            assert!(line.len() <= 80, "{command}: {line}");
        }
    }
}

#[test]
fn devices_names_every_target() {
    let text = stdout(&octile(&["devices"]));
    for target in ["cpu", "tpu", "gpu", "portable", "avx512bf16"] {
        assert!(text.contains(target), "{text}");
    }
}
