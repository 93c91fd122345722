//! Signals: temporary files are removed, child processes end, and finished measurements are printed.

#![cfg(unix)]

#[path = "common/mod.rs"]
mod tpu_compiler;

use std::{
    fs,
    io::Read,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// Signals and their exit codes.
const SIGNALS: [(&str, i32); 3] = [("INT", 130), ("TERM", 143), ("HUP", 129)];

fn start(arguments: &[&str], folder: &Path, variables: &[(&str, &Path)]) -> Child {
    // Background jobs inherit ignored signals; coreutils' `env` resets them.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT,TERM,HUP", env!("CARGO_BIN_EXE_octile")]);
    command.args(arguments).current_dir(folder).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("octile starts")
}

fn send(signal: &str, process: u32) {
    let sent = Command::new("kill").args([format!("-{signal}"), process.to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Waits for a condition.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "it took too long until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn finish(child: Child) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn is_running(process: &str) -> bool {
    fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// A tool that writes its process ids and hangs.
fn stuck_tool(folder: &Path) -> (PathBuf, PathBuf) {
    let (tool, processes) = (folder.join("stuck"), folder.join("processes"));
    let script = format!(
        "#!/bin/sh\nsleep 600 &\necho $$ $! > {0}.part\nmv {0}.part {0}\nwait\n",
        processes.display()
    );
    fs::write(&tool, script).unwrap();
    fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
    (tool, processes)
}

/// Starts `inspect` with an assembler that hangs; returns it and the ids of the assembler's processes.
fn inspect_stuck(place: &Path, tools: &Path) -> (Child, Vec<String>) {
    let (tool, processes) = stuck_tool(tools);
    let arguments = ["inspect", "--target", "sm_90a", "--shape", "64x64x128:128", "-o", "out"];
    let variables = [("OCTILE_PTXAS", tool.as_path()), ("OCTILE_NVDISASM", &tool)];
    let child = start(&arguments, place, &variables);
    until("the assembler runs", || processes.exists());
    assert!(names(place).iter().any(|name| name.starts_with(".octile-inspect-")), "{:?}", names(place));
    let processes = fs::read_to_string(processes).unwrap();
    (child, processes.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn a_compiler_ends_with_the_command_and_nothing_is_left() {
    for (signal, code) in SIGNALS {
        let (place, tools) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let (child, processes) = inspect_stuck(place.path(), tools.path());
        assert_eq!(processes.len(), 2);
        send(signal, child.id());
        let (ended, stdout, stderr) = finish(child);
        assert_eq!((ended, stdout.as_str()), (Some(code), ""), "{stderr}");
        assert_eq!(stderr, format!("octile: interrupted by SIG{signal}\n"));
        assert_eq!(names(place.path()), [] as [&str; 0]);
        until("the assembler has ended", || !processes.iter().any(|process| is_running(process)));
    }
}

/// Child processes of a process.
#[cfg(target_os = "linux")]
fn children_of(parent: u32) -> Vec<String> {
    let is_child = |process: &String| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|fields| fields.split(' ').nth(1)) == Some(&parent.to_string())
    };
    names(Path::new("/proc")).into_iter().filter(is_child).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn the_tpu_compiler_ends_and_its_dumps_are_removed() {
    let libtpu = tpu_compiler::libtpu();
    for (signal, code) in SIGNALS {
        let (place, temporary) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let arguments =
            ["inspect", "--libtpu", libtpu.to_str().unwrap(), "--shape", "512x512x512:128", "-o", "out"];
        let child = start(&arguments, place.path(), &[("TMPDIR", temporary.path())]);
        let mut compilers = Vec::new();
        until("the compiler runs", || {
            compilers = children_of(child.id());
            !compilers.is_empty()
                && names(temporary.path()).iter().any(|name| name.starts_with("octile-dump-"))
        });
        send(signal, child.id());
        let (ended, _, stderr) = finish(child);
        assert_eq!((ended, stderr), (Some(code), format!("octile: interrupted by SIG{signal}\n")));
        assert_eq!([names(place.path()), names(temporary.path())].concat(), [] as [&str; 0]);
        until("the compiler has ended", || !compilers.iter().any(|process| is_running(process)));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_compiler_ends_even_if_the_command_is_killed() {
    let (place, tools) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (mut child, processes) = inspect_stuck(place.path(), tools.path());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the assembler has ended", || !is_running(&processes[0]));
    // The grandchild is reparented, and cannot be reached.
    send("KILL", processes[1].parse().unwrap());
}

#[test]
fn a_signal_that_comes_twice_is_one_request() {
    let (place, tools) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (child, _) = inspect_stuck(place.path(), tools.path());
    for _ in 0..5 {
        send("TERM", child.id());
    }
    let (code, ..) = finish(child);
    assert_eq!((code, names(place.path())), (Some(143), Vec::new()));
}

#[test]
fn finished_timings_are_printed() {
    let place = TempDir::new().unwrap();
    let shapes = ["--shape", "16x128x128:128", "--shape", "2048x2048x2048:128"];
    let effort = ["--iterations", "2000", "--warmup", "0", "--threads", "1", "--json=timings.json"];
    let arguments = [&["bench", "--strategy", "auto"], &effort[..], &shapes].concat();
    for (signal, code) in SIGNALS {
        // The first shape takes a moment, the second one many minutes.
        let is_printed = [3, 12, 60].into_iter().any(|seconds| {
            let child = start(&arguments, place.path(), &[]);
            until("there is a draft", || !names(place.path()).is_empty());
            thread::sleep(Duration::from_secs(seconds));
            send(signal, child.id());
            let (ended, stdout, stderr) = finish(child);
            assert_eq!(ended, Some(code), "{stdout}{stderr}");
            assert_eq!(stderr, format!("octile: interrupted by SIG{signal}\n"));
            assert_eq!(names(place.path()), [] as [&str; 0]);
            stdout.contains("Configuration: Custom (16x128x128:128")
                && stdout.contains("Interrupted: timed 1 of 2 shapes, and no file was written.")
        });
        assert!(is_printed, "SIG{signal}");
    }
}

/// `nohup` and background jobs of shells ignore signals.
#[test]
fn ignored_signals_stay_ignored() {
    let place = TempDir::new().unwrap();
    let script = "trap '' HUP; exec \"$0\" bench --quick --threads 1 --shape 512x512x2048:128 --strategy auto --json=t.json";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_octile")]).current_dir(place.path());
    let child = shell.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until("there is a draft", || !names(place.path()).is_empty());
    send("HUP", child.id());
    let (code, stdout, stderr) = finish(child);
    assert_eq!((code, names(place.path())), (Some(0), vec!["t.json".to_owned()]), "{stdout}{stderr}");
}

/// A closed pipe is not an error.
#[test]
fn a_closed_pipe_is_no_panic() {
    let place = TempDir::new().unwrap();
    for arguments in [&["tools"][..], &["--help"], &["tools", "--help"], &["test", "--shape", "5x5x5:128"]] {
        let mut child = start(arguments, place.path(), &[]);
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert!(status.code().is_some() && !said.contains("panicked"), "{arguments:?}: {status}, {said}");
    }
}
