//! The current folder is untrusted: nothing in it runs, and its files cannot send control characters to the
//! terminal.

#![cfg(unix)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// Runs the program in a folder, on a machine without tools and without a network.
fn octile(arguments: &[&str], folder: &Path, variables: &[(&str, &str)]) -> Output {
    let home = TempDir::new().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(arguments).current_dir(folder).env("HOME", home.path()).env("PIP_NO_INDEX", "1");
    for name in
        ["VIRTUAL_ENV", "XDG_CACHE_HOME", "OCTILE_TOOLS", "OCTILE_PTXAS", "OCTILE_NVDISASM", "PIP_FIND_LINKS"]
    {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied()).output().expect("octile starts")
}

fn refusal(output: &Output) -> String {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.trim_end().lines().count() == 1 && !said.contains("panicked"), "{said}");
    said
}

/// Writes a program that leaves a mark when it runs.
fn trap(folder: &Path, name: &str) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\necho {name} >> {}\n", folder.join("ran").display())).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// As [`trap`], for something that Python would import.
fn trap_module(folder: &Path, name: &str) {
    let mark = format!("open({:?}, 'a').write({name:?})\n", folder.join("ran"));
    fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
    fs::write(folder.join(name), mark).unwrap();
}

fn require_nothing_ran(folder: &Path) {
    let ran = fs::read_to_string(folder.join("ran"));
    assert!(ran.is_err(), "this ran: {}", ran.unwrap());
}

#[test]
fn no_python_module_of_the_current_folder_is_imported() {
    let place = TempDir::new().unwrap();
    for module in
        ["pip.py", "pip/__init__.py", "pip/__main__.py", "zipfile.py", "site.py", "sitecustomize.py", "os.py"]
    {
        trap_module(place.path(), module);
    }
    for group in ["gpu", "tpu"] {
        for path in [".", place.path().to_str().unwrap()] {
            let said = refusal(&octile(&["tools", "install", group], place.path(), &[("PYTHONPATH", path)]));
            assert!(said.starts_with("octile: cannot download "), "{said}");
            require_nothing_ran(place.path());
        }
    }
}

#[test]
fn no_program_of_the_current_folder_runs() {
    let place = TempDir::new().unwrap();
    for name in ["ptxas", "nvdisasm", "python3", "pip"] {
        trap(place.path(), name);
        trap(place.path(), &format!("bin/{name}"));
    }
    let site = ".venv/lib/python3.12/site-packages/nvidia/cu13/bin";
    for name in ["ptxas", "nvdisasm"] {
        trap(place.path(), &format!("{site}/{name}"));
    }
    let system = std::env::var("PATH").unwrap();
    for path in [format!(":{system}"), format!(".:bin:{system}"), ".:bin:".to_owned()] {
        let variables = [("PATH", path.as_str()), ("VIRTUAL_ENV", ".venv"), ("OCTILE_TOOLS", "tools")];
        let inspect = ["inspect", "--target", "sm_90a", "--shape", "64x64x128:128"];
        let output = octile(&inspect, place.path(), &variables);
        if output.status.code() != Some(0) {
            // PATH may contain a ptxas.
            let said = refusal(&output);
            assert!(said.contains(" not found: run `octile tools install gpu`"), "{said}");
        }
        require_nothing_ran(place.path());
        refusal(&octile(&["tools", "install", "gpu"], place.path(), &variables[..1]));
        require_nothing_ran(place.path());
        octile(&["tools"], place.path(), &variables);
        require_nothing_ran(place.path());
    }
    let said = refusal(&octile(&["tools", "install", "gpu"], place.path(), &[("OCTILE_TOOLS", "tools")]));
    assert!(said.contains("set OCTILE_TOOLS to an absolute path"), "{said}");
    // A file that the user names is trusted.
    let named = [("OCTILE_PTXAS", "./ptxas"), ("OCTILE_NVDISASM", "nvdisasm")];
    octile(&["inspect", "--target", "sm_90a", "--shape", "64x64x128:128"], place.path(), &named);
    assert_eq!(fs::read_to_string(place.path().join("ran")).unwrap(), "ptxas\n");
}

/// Terminal control characters in every encoding.
const STEERING: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}31m\u{202e}\u{2066}\r\u{8}";

fn require_harmless(text: &[u8], what: &str) {
    let text = String::from_utf8(text.to_vec()).expect("the program writes UTF-8");
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t' || ('\u{202a}'..='\u{2069}').contains(&c);
    assert!(!text.contains(steers), "{what}: {text:?}");
}

#[test]
fn control_characters_of_files_are_escaped() {
    let place = TempDir::new().unwrap();
    let write = |name: &str, text: String| fs::write(place.path().join(name), text).unwrap();
    let hlo = format!(
        "HloModule m{STEERING}\n\nENTRY %main{STEERING} (x: f32[2]) -> f32[2] {{\n  \
         %c{STEERING} = f32[2]{{0}} custom-call(%x), custom_call_target=\"{STEERING}\"\n  \
         ROOT %x{STEERING} = f32[2]{{0}} parameter(0)\n}}\n"
    );
    fs::create_dir(place.path().join("dump")).unwrap();
    write("dump/m_hlo.txt", hlo);
    write(
        &format!("dump/{STEERING}.ptx"),
        format!(".version {STEERING}\n.visible .entry k{STEERING}(\n)\n{{\n\tret;\n}}\n"),
    );
    write("dump/kernel.sass", format!("Function : {STEERING}\n /*0000*/ MOV R1{STEERING}, c[0x0][0x28] ;\n"));
    write(
        "kernel.mlir",
        format!("module {{ func.func @k{STEERING}(%x: memref<8x128xf32>) {{ \"{STEERING}\"() return }} }}"),
    );
    write("kernel.ptx", format!("{STEERING}\n"));
    write(&format!("{STEERING}.mlir"), "none".to_owned());
    let name = format!("{STEERING}.mlir");
    let option = format!("--{STEERING}");
    for arguments in [
        &["analyze", "dump"][..],
        &["analyze", "dump", "--json"],
        &["compare", "dump"],
        &["compare", "dump", "--json"],
        &["verify", "dump"],
        &["report", "dump", "-o", "report.html"],
        &["simulate", "kernel.mlir"],
        &["simulate", "kernel.ptx"],
        &["simulate", &name],
        &["verify", &name],
        &["verify", &option],
        &["test", &format!("--json={STEERING}/x")],
    ] {
        let output = octile(arguments, place.path(), &[]);
        assert!(output.status.code().is_some(), "{arguments:?}");
        require_harmless(&output.stdout, &format!("{arguments:?}"));
        require_harmless(&output.stderr, &format!("{arguments:?}"));
    }
    if let Ok(page) = fs::read(place.path().join("report.html")) {
        require_harmless(&page, "report.html");
    }
}

#[test]
fn a_private_record_stays_private() {
    let place = TempDir::new().unwrap();
    let record = place.path().join("checks.json");
    fs::write(&record, "").unwrap();
    fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    let output = octile(&["test", "--shape", "5x5x5:128", "--json=checks.json"], place.path(), &[]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(fs::read_to_string(&record).unwrap().starts_with('{'));
    assert_eq!(record.metadata().unwrap().permissions().mode() & 0o7777, 0o600);
}

/// A record must not replace the file that the report is redirected to.
#[test]
fn a_record_does_not_replace_the_report() {
    let place = TempDir::new().unwrap();
    let report = fs::File::create(place.path().join("report.txt")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_octile"));
    command.args(["test", "--shape", "5x5x5:128", "--json=/dev/stdout"]).stdout(report);
    let said = refusal(&command.output().unwrap());
    assert!(said.contains("cannot write /dev/stdout: the report goes there"), "{said}");
}
